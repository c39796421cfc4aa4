//! The settings that a script makes before it begins: option lines and set-up commands.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use super::shell::{CommandEffect, ReadFile, effects};
use super::table::{Rule, Table};
use crate::script::syntax::tree::{Action, Setting};
use crate::script::syntax::{Script, ScriptPosition};

/// The IP version of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
    /// IPv4 packets below IPv6 sockets.
    Mapped,
}

/// The settings of a script.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// The stack's address.
    pub(crate) local: IpAddr,
    /// The peer's address.
    pub(crate) remote: IpAddr,
    pub(crate) mtu: u32,
    /// The amount by which an event may be earlier or later than written.
    pub(crate) tolerance: Duration,
    /// The tick of the stack's timestamps. If set, timestamps are compared.
    pub(crate) tick: Option<Duration>,
    /// True if super-segments do not stand for their parts.
    pub(crate) strict_segments: bool,
    /// The size of the packets from which a long inbound packet was merged, in bytes; 0 means the stack's own
    /// MSS.
    pub(crate) merged: u16,
    /// The program's params, as raw values.
    pub(crate) params: BTreeMap<String, u64>,
    /// The default values of the params.
    pub(crate) defaults: BTreeMap<String, u64>,
    /// The maximum number of bytes held for sending, for each connection.
    pub(crate) send_buffer: Option<u64>,
    /// The idle time until SO_KEEPALIVE sends a probe, unless TCP_KEEPIDLE sets another.
    pub(crate) keepalive_idle: Duration,
    /// Ports for which a command asks whether a socket listens there.
    pub(crate) listeners_asked_for: Vec<u16>,
    /// States for which a command asks the number of sockets, with the digits of the answer.
    pub(crate) counts_asked_for: Vec<(&'static str, String)>,
    /// States whose connections a command ends.
    pub(crate) dropped: Vec<&'static str>,
    /// Settings that were read and have no effect.
    pub(crate) notes: Vec<String>,
}

/// The default tolerance.
const TOLERANCE: Duration = Duration::from_millis(4);
/// The default idle time until keepalive: two hours (RFC 9293, 3.8.4).
const KEEPALIVE_IDLE: Duration = Duration::from_secs(7_200);

/// A script has a setting with which it cannot run.
#[derive(Clone, Debug)]
pub(crate) enum BadSetting {
    /// The setting is invalid: its place and the reason.
    Wrong(ScriptPosition, String),
    /// The runner does not support the setting: its place and text.
    Beyond(ScriptPosition, String),
}

/// A command's outcome decides whether the script passes, and cannot be determined here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the command `{command}`, which asks the machine")]
pub(crate) struct AsksMachine {
    command: String,
}

impl Config {
    /// Parses a script's options and the commands before its first packet or call.
    pub(crate) fn read(
        script: &Script,
        version: IpVersion,
        folder: &Path,
        table: &Table,
        file: ReadFile<'_>,
    ) -> Result<Config, BadSetting> {
        let stated = script
            .options
            .iter()
            .find(|o| o.name == "ip_version")
            .map(ip_version)
            .transpose()?;
        let mut config = Config::defaults(stated.unwrap_or(version));
        if stated.is_some() {
            // A script for only one version has the usual MTU of devices, unless it sets another.
            config.mtu = 1500;
        }
        script
            .options
            .iter()
            .try_for_each(|setting| config.option(setting))?;
        if config.local.is_ipv4() != config.remote.is_ipv4() {
            let place = script
                .options
                .first()
                .map(|setting| setting.place)
                .unwrap_or_default();
            return Err(BadSetting::Wrong(
                place,
                "local and remote address differ in their family".into(),
            ));
        }
        let early = script.events.iter().map_while(|event| match &event.action {
            Action::Command(command) => Some(command),
            _ => None,
        });
        for command in script.init.iter().chain(early) {
            config
                .command(&command.text, folder, table, file)
                .map_err(|what| BadSetting::Beyond(command.place, what.to_string()))?;
            // No socket exists before the first call.
            let many = config
                .counts_asked_for
                .drain(..)
                .any(|(_, digits)| !"0".contains(&digits));
            config.dropped.clear();
            if !config.listeners_asked_for.is_empty() || many {
                let message = "no socket exists before the first call".to_owned();
                return Err(BadSetting::Wrong(command.place, message));
            }
        }
        Ok(config)
    }

    /// Applies the settings of a command.
    pub(crate) fn command(
        &mut self,
        text: &str,
        folder: &Path,
        table: &Table,
        file: ReadFile<'_>,
    ) -> Result<(), AsksMachine> {
        effects(text, folder, table, file)
            .into_iter()
            .try_for_each(|effect| self.apply(effect, table))
    }

    /// Returns the raw value of a param of the program.
    pub(crate) fn param(&self, name: &str) -> Option<u64> {
        self.params.get(name).or_else(|| self.defaults.get(name)).copied()
    }

    fn defaults(version: IpVersion) -> Config {
        let (local, remote): (IpAddr, IpAddr) = match version {
            IpVersion::V4 | IpVersion::Mapped => ([192, 168, 0, 1].into(), [192, 0, 2, 1].into()),
            IpVersion::V6 => (
                [0xfd3d, 0x0a0b, 0x17d6, 0, 0, 0, 0, 1].into(),
                [0xfd3d, 0xfa7b, 0xd17d, 0, 0, 0, 0, 1].into(),
            ),
        };
        Config {
            local,
            remote,
            // Gives an MSS of 1460 in both families, as scripts expect.
            mtu: if version == IpVersion::V6 { 1520 } else { 1500 },
            tolerance: TOLERANCE,
            tick: None,
            strict_segments: false,
            merged: 0,
            params: BTreeMap::new(),
            defaults: BTreeMap::new(),
            send_buffer: None,
            keepalive_idle: KEEPALIVE_IDLE,
            listeners_asked_for: Vec::new(),
            counts_asked_for: Vec::new(),
            dropped: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn option(&mut self, setting: &Setting) -> Result<(), BadSetting> {
        let value = setting.value.as_deref().unwrap_or("");
        let bad = || {
            BadSetting::Wrong(
                setting.place,
                format!("`{value}` is not a value for --{}", setting.name),
            )
        };
        let number = |max: u64| value.parse::<u64>().ok().filter(|v| *v <= max).ok_or_else(bad);
        let address = || {
            value
                .split('/')
                .next()
                .unwrap_or("")
                .parse::<IpAddr>()
                .map_err(|_| bad())
        };
        match setting.name.as_str() {
            "tolerance_usecs" => self.tolerance = Duration::from_micros(number(1_000_000_000)?),
            "tcp_ts_tick_usecs" => self.tick = Some(Duration::from_micros(number(1_000_000_000)?.max(1))),
            "mtu" => self.mtu = number(65_535)? as u32,
            "mss" => self.merged = number(65_535)? as u16,
            "strict_segments" => self.strict_segments = true,
            "local_ip" => self.local = address()?,
            "remote_ip" => self.remote = address()?,
            "ip_version" | "define" | "D" | "gateway_ip" | "netmask_ip" | "connect_port" | "bind_port" => {}
            "udp_encapsulation" if value != "none" => {
                return Err(BadSetting::Beyond(
                    setting.place,
                    format!("encapsulated packets ({value} in UDP)"),
                ));
            }
            name => self.notes.push(format!("the option --{name} has no effect")),
        }
        Ok(())
    }

    fn apply(&mut self, effect: CommandEffect, table: &Table) -> Result<(), AsksMachine> {
        match effect {
            CommandEffect::Beyond(command) => return Err(AsksMachine { command }),
            CommandEffect::Listens(port) => self.listeners_asked_for.push(port),
            CommandEffect::Counts(state, digits) => self.counts_asked_for.push((state, digits)),
            CommandEffect::Drops(state) => self.dropped.push(state),
            CommandEffect::Mtu(mtu) => self.mtu = mtu,
            CommandEffect::Note(command) => self.notes.push(format!("`{command}` has no effect")),
            CommandEffect::Sysctl(name, value) => match table.sysctl(&name) {
                Some(rule) => self.sysctl(rule, &name, &value),
                None => self.notes.push(format!("{name}={value} has no effect")),
            },
        }
        Ok(())
    }

    fn sysctl(&mut self, rule: &Rule, name: &str, text: &str) {
        let note = format!("{name}={text} has no effect");
        let field = text.split_whitespace().nth(rule.field).unwrap_or("");
        let value = rule.values.get(field).copied().or_else(|| number(field));
        let scaled = value.and_then(|value| value.checked_mul(rule.scale.unwrap_or(1)));
        let sets = rule
            .sets
            .iter()
            .filter_map(|(param, values)| Some((param, values.get(field)?)));
        self.params
            .extend(sets.map(|(param, value)| (param.clone(), *value)));
        if rule.sets.values().any(|values| values.contains_key(field)) {
            return;
        }
        if let (false, Some(value)) = (rule.bits.is_empty(), number(field)) {
            self.params.extend(
                rule.bits
                    .iter()
                    .map(|(param, bit)| (param.clone(), bit.apply(value))),
            );
            return;
        }
        if let (Some(key), Some(words)) = (&rule.key, key_words(text)) {
            self.params.extend(key.iter().cloned().zip(words));
            return;
        }
        match (scaled, &rule.param, rule.limit.as_deref()) {
            (Some(value), Some(param), _) => {
                self.params.insert(param.clone(), value);
            }
            (Some(value), None, Some("send_buffer")) => self.send_buffer = Some(value),
            (Some(value), None, Some("keepalive_idle")) => self.keepalive_idle = Duration::from_nanos(value),
            _ if rule.like.iter().any(|like| like == text || like == "*") => {}
            _ => self.notes.push(note),
        }
    }
}

fn ip_version(setting: &Setting) -> Result<IpVersion, BadSetting> {
    match setting.value.as_deref() {
        Some("ipv4") => Ok(IpVersion::V4),
        Some("ipv6") => Ok(IpVersion::V6),
        Some("ipv4-mapped-ipv6") => Ok(IpVersion::Mapped),
        _ => {
            let message = "--ip_version is ipv4, ipv6 or ipv4-mapped-ipv6".to_owned();
            Err(BadSetting::Wrong(setting.place, message))
        }
    }
}

/// Parses a key `a0a1a2a3-…` of four words into two numbers, with the first words in their lower halves.
fn key_words(text: &str) -> Option<[u64; 2]> {
    let words: Option<Vec<u64>> = text
        .split('-')
        .map(|word| u32::from_str_radix(word, 16).ok().map(u64::from))
        .collect();
    match words?.as_slice() {
        [a, b, c, d] => Some([b << 32 | a, d << 32 | c]),
        _ => None,
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}
