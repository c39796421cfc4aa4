//! The `script.toml` of a program, with its declarations for scripts.
//!
//! It holds the facts that the runner cannot know: the observable variables behind fields of TCP_INFO, and
//! the params that correspond to sysctls.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::system::System;
use crate::script::python::{self, Node};

/// A program's `script.toml`.
#[derive(Clone, Debug, Default)]
pub struct Table {
    file: File,
    info: BTreeMap<String, Node>,
    /// The names in these expressions.
    observed: BTreeSet<String>,
}

/// A `script.toml` could not be parsed.
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
    /// The meanings of sysctls, by name.
    sysctl: BTreeMap<String, Rule>,
    /// The params that socket options report if they were not set, by name.
    options: BTreeMap<String, ParamReport>,
    /// Params that all scripts assume.
    scripts: BTreeMap<String, u64>,
    /// Params that scripts written for Linux assume.
    linux: BTreeMap<String, u64>,
    /// Params that scripts written for FreeBSD assume.
    freebsd: BTreeMap<String, u64>,
    /// The commands that replace a missing set-up script, by its name.
    setup: BTreeMap<String, String>,
    /// Fast Open cookies that scripts written for Linux know in advance, and the program's cookies for them,
    /// in hexadecimal.
    cookies: BTreeMap<String, String>,
}

/// The meaning of a sysctl.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Rule {
    /// The param that it sets.
    pub(crate) param: Option<String>,
    /// The two params that a key of 128 bits sets. It is written as four words in hexadecimal.
    pub(crate) key: Option<[String; 2]>,
    /// Several params at once, each with its value for every value of the sysctl.
    pub(crate) sets: BTreeMap<String, BTreeMap<String, u64>>,
    /// Params set by single bits of the value.
    pub(crate) bits: BTreeMap<String, Bit>,
    /// A limit that is not a param: `send_buffer`, or `keepalive_idle` (nanoseconds).
    pub(crate) limit: Option<String>,
    /// The index of the value that counts, from 0, if there are several.
    pub(crate) field: usize,
    /// The factor of the value, such as the nanoseconds of its unit.
    pub(crate) scale: Option<u64>,
    /// Replacements of values, by name or number.
    pub(crate) values: BTreeMap<String, u64>,
    /// The values that match the program's behaviour; others are noted.
    pub(crate) like: Vec<String>,
}

/// The meaning of a bit.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bit {
    /// The bit, or several bits that must all be set.
    mask: u64,
    /// The param's value if they are set; otherwise it is 0.
    value: u64,
}

/// The report of a param by an option.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ParamReport {
    pub(crate) param: String,
    /// The size of the option's unit in units of the param, such as the nanoseconds in a second.
    #[serde(default = "one")]
    pub(crate) unit: u64,
}

fn one() -> u64 {
    1
}

impl Bit {
    /// Returns the param's value for a value of the sysctl.
    pub(crate) fn apply(self, value: u64) -> u64 {
        if value & self.mask == self.mask {
            self.value
        } else {
            0
        }
    }
}

impl Table {
    /// Parses a `script.toml`.
    ///
    /// # Errors
    /// Fails if it is not TOML, has an unknown key, or has an invalid expression.
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

    /// Returns the expression of a field of TCP_INFO.
    pub(crate) fn info(&self, field: &str) -> Option<&Node> {
        self.info.get(field)
    }

    /// Returns the observable variables from which TCP_INFO is computed.
    pub(crate) fn observed(&self) -> &BTreeSet<String> {
        &self.observed
    }

    /// Returns a constant.
    pub(crate) fn constant(&self, name: &str) -> Option<i64> {
        self.file.constants.get(name).copied()
    }

    /// Returns the meaning of a sysctl.
    pub(crate) fn sysctl(&self, name: &str) -> Option<&Rule> {
        self.file.sysctl.get(name)
    }

    /// Returns the params that options report.
    pub(crate) fn options(&self) -> &BTreeMap<String, ParamReport> {
        &self.file.options
    }

    /// Returns the params that all scripts assume.
    pub(crate) fn scripts(&self) -> &BTreeMap<String, u64> {
        &self.file.scripts
    }

    /// Returns the params that scripts written for a system assume.
    pub(crate) fn system(&self, system: System) -> &BTreeMap<String, u64> {
        match system {
            System::Linux => &self.file.linux,
            System::FreeBsd => &self.file.freebsd,
        }
    }

    /// Returns the program's cookies by the cookies in scripts.
    pub(crate) fn cookies(&self) -> &BTreeMap<String, String> {
        &self.file.cookies
    }

    /// Returns the commands that replace a set-up script of this file name.
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
