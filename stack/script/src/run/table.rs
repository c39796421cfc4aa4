//! The `script.toml` of a program, which declares what scripts need to know of it.
//!
//! It holds what the runner cannot know: which observable variables fields of TCP_INFO come from,
//! and which params sysctls stand for.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::system::System;
use crate::python::{self, Node};

/// A program's `script.toml`.
#[derive(Clone, Debug, Default)]
pub struct Table {
    file: File,
    info: BTreeMap<String, Node>,
    /// The names in these expressions.
    observed: BTreeSet<String>,
}

/// Why a `script.toml` cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TableError(String);

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    /// Fields of TCP_INFO, as expressions over observable variables and constants.
    info: BTreeMap<String, String>,
    /// Names that expressions and assertions may use.
    constants: BTreeMap<String, i64>,
    /// What sysctls stand for, by name.
    sysctl: BTreeMap<String, Rule>,
    /// The params that options of sockets show which nobody set, by name.
    options: BTreeMap<String, Shown>,
    /// Params that all scripts take for granted.
    scripts: BTreeMap<String, u64>,
    /// Params that scripts written for Linux take for granted.
    linux: BTreeMap<String, u64>,
    /// Params that scripts written for FreeBSD take for granted.
    freebsd: BTreeMap<String, u64>,
    /// Set-up scripts known by name: commands to take their place where the file is missing.
    setup: BTreeMap<String, String>,
    /// Fast Open cookies that scripts written for Linux know in advance, and those that the program
    /// gives in their place, in hexadecimal.
    cookies: BTreeMap<String, String>,
}

/// What a sysctl stands for.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Rule {
    /// The param that it sets.
    pub(crate) param: Option<String>,
    /// The two params that a key of 128 bits sets, written as four words in hexadecimal.
    pub(crate) key: Option<[String; 2]>,
    /// Several params at once: for each, what it becomes with each value.
    pub(crate) sets: BTreeMap<String, BTreeMap<String, u64>>,
    /// Params that single bits of the value set.
    pub(crate) bits: BTreeMap<String, Bit>,
    /// What it sets that is no param: `send_buffer`, or `keepalive_idle` (nanoseconds).
    pub(crate) limit: Option<String>,
    /// Which of several values counts, from 0.
    pub(crate) field: usize,
    /// What the value is multiplied with: nanoseconds, say, of its unit.
    pub(crate) scale: Option<u64>,
    /// Values by name or number that stand for others.
    pub(crate) values: BTreeMap<String, u64>,
    /// The values with which the program behaves as it does; others are noted.
    pub(crate) like: Vec<String>,
}

/// What a bit stands for.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bit {
    /// The bit, or several, all of which have to be set.
    mask: u64,
    /// What the param becomes then; otherwise 0.
    value: u64,
}

/// What an option shows of a param.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shown {
    pub(crate) param: String,
    /// How much of the param one of the option is: nanoseconds of a second, say.
    #[serde(default = "one")]
    pub(crate) unit: u64,
}

fn one() -> u64 {
    1
}

impl Bit {
    /// What the param becomes with a value of the sysctl.
    pub(crate) fn of(self, value: u64) -> u64 {
        if value & self.mask == self.mask {
            self.value
        } else {
            0
        }
    }
}

impl Table {
    /// Reads a `script.toml`.
    ///
    /// # Errors
    /// Where it is no TOML, has an unknown key, or an expression that cannot be read.
    pub fn parse(text: &str) -> Result<Table, TableError> {
        let file: File = hawser_documents::toml(text).map_err(|fault| TableError(fault.to_string()))?;
        let node = |(name, text): (&String, &String)| match python::expression(text) {
            Ok(node) => Ok((name.clone(), node)),
            Err(error) => Err(TableError(format!("info.{name}: {error}"))),
        };
        if let Some((name, _)) = file.options.iter().find(|(_, shown)| shown.unit == 0) {
            return Err(TableError(format!("options.{name}: a unit of 0")));
        }
        let info: BTreeMap<String, Node> = file.info.iter().map(node).collect::<Result<_, _>>()?;
        let mut observed = BTreeSet::new();
        info.values().for_each(|node| node.names(&mut observed));
        observed.retain(|name| !file.constants.contains_key(name));
        Ok(Table { file, info, observed })
    }

    /// How a field of TCP_INFO is computed.
    pub(crate) fn info(&self, field: &str) -> Option<&Node> {
        self.info.get(field)
    }

    /// The observable variables that TCP_INFO is made of.
    pub(crate) fn observed(&self) -> &BTreeSet<String> {
        &self.observed
    }

    /// A constant.
    pub(crate) fn constant(&self, name: &str) -> Option<i64> {
        self.file.constants.get(name).copied()
    }

    /// What a sysctl stands for.
    pub(crate) fn sysctl(&self, name: &str) -> Option<&Rule> {
        self.file.sysctl.get(name)
    }

    /// The params that options show.
    pub(crate) fn options(&self) -> &BTreeMap<String, Shown> {
        &self.file.options
    }

    /// Params that all scripts take for granted.
    pub(crate) fn scripts(&self) -> &BTreeMap<String, u64> {
        &self.file.scripts
    }

    /// Params that scripts written for a system take for granted.
    pub(crate) fn system(&self, system: System) -> &BTreeMap<String, u64> {
        match system {
            System::Linux => &self.file.linux,
            System::FreeBsd => &self.file.freebsd,
        }
    }

    /// The cookies that stand for others.
    pub(crate) fn cookies(&self) -> &BTreeMap<String, String> {
        &self.file.cookies
    }

    /// The commands that stand for a set-up script of this file name.
    pub(crate) fn setup(&self, name: &str) -> Option<&str> {
        self.file.setup.get(name).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_a_table_state_their_reason() {
        assert!(Table::parse("[info]\ntcpi_unacked = \"(snd_nxt - snd_una) // smss\"").is_ok());
        for (text, part) in [
            ("[info]\na = \"1 +\"", "info.a"),
            ("[inof]", "inof"),
            ("[sysctl.x]\nparm = \"A\"", "parm"),
        ] {
            let error = Table::parse(text).expect_err(text).to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
