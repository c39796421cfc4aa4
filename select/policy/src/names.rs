//! Names of properties, interned, so that rankings compare numbers.
//!
//! Names are case-insensitive, as NEAT's are. Known names have the first keys, so that the few with a meaning
//! of their own are constants.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::limits::{self, Limit};
use crate::socket;

/// The interned name of a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(u32);

impl Key {
    /// Returns the bit of this key in a set of keys. Several keys may share a bit.
    pub(crate) fn bit(self) -> u64 {
        1 << (self.0 & 63)
    }
}

/// Keys with a meaning of their own.
pub mod keys {
    use super::Key;

    /// The transport. A candidate has exactly one.
    pub const TRANSPORT: Key = Key(0);
    /// The name of a node, which a `match` of the CIB may refer to as `uid`.
    pub const UID: Key = Key(1);
    /// The address and the interface of this end, as `ADDRESS@INTERFACE`.
    pub const LOCAL_ENDPOINT: Key = Key(2);
    /// The address of this end.
    pub const LOCAL_IP: Key = Key(3);
    /// The name of the interface.
    pub const INTERFACE: Key = Key(4);
    /// The type of a request. With `pre-resolve`, the request is returned unchanged.
    pub const REQUEST_TYPE: Key = Key(5);
    /// A name that is left out of results, as `uid` is.
    pub const DEFAULT_PROFILE: Key = Key(6);
}

/// Names with a meaning for NEAT, for its shipped documents, or for Hawser. The first ones are those of
/// [`keys`].
pub(crate) const KNOWN: &[&str] = &[
    "transport",
    "uid",
    "local_endpoint",
    "local_ip",
    "interface",
    "__request_type",
    "default_profile",
    // The namespace of NEAT.
    "transport_type",
    "transport_ordered",
    "low_latency",
    "capacity_profile",
    "high_availability",
    "high_availabity",
    "dscp_value",
    "ip_version",
    "local_ips",
    "local_port",
    "local_interface",
    "remote_ip",
    "remote_name",
    "remote_port",
    "domain_name",
    "port",
    "interfaces",
    "interface_wired",
    "interface_wireless",
    "is_wired",
    "is_wired_interface",
    "low_latency_interface",
    "seamless_handover",
    "stream_count",
    "flow_size_bytes",
    "flow_time_ms",
    "flow_group",
    "flow_priority",
    "elephant",
    "multihoming",
    "security",
    "application_name",
    "mtu",
    "rtt",
    "capacity",
    "__cached",
    "__he_delay",
    "__he_candidate_success",
    // RFC 9622's selection properties, in this spelling, and Hawser's own.
    "reliability",
    "preserve_message_boundaries",
    "multistreaming",
    "multipath",
    "zero_rtt",
    "peer_speaks",
    "metered",
    "loss",
    "remote_endpoint",
];

/// The table of names and their keys.
#[derive(Clone, Debug)]
pub struct NameTable {
    keys: BTreeMap<Arc<str>, Key>,
    texts: Vec<Arc<str>>,
}

impl Default for NameTable {
    fn default() -> Self {
        let mut names = Self { keys: BTreeMap::new(), texts: Vec::new() };
        for name in KNOWN {
            names.insert((*name).into());
        }
        names
    }
}

impl NameTable {
    /// Returns the key of a name, which is added if it is unknown. Socket options are converted to their
    /// numbers.
    ///
    /// # Errors
    /// There are too many names.
    pub fn intern(&mut self, name: &str) -> Result<Key, Limit> {
        let name = normal(name);
        if let Some(key) = self.keys.get(name.as_str()) {
            return Ok(*key);
        }
        if self.texts.len() >= limits::NAMES {
            return Err(Limit::new("names of properties", limits::NAMES, name));
        }
        Ok(self.insert(name.into()))
    }

    /// Returns the key of a known name.
    pub fn find(&self, name: &str) -> Option<Key> {
        self.keys.get(normal(name).as_str()).copied()
    }

    /// Returns the name of a key, or `?` for a key of another table.
    pub fn text(&self, key: Key) -> &str {
        self.texts.get(key.0 as usize).map_or("?", |text| text)
    }

    fn insert(&mut self, name: Arc<str>) -> Key {
        let key = Key(self.texts.len() as u32);
        self.texts.push(name.clone());
        self.keys.insert(name, key);
        key
    }
}

/// Normalizes a name: lower case, and socket options by number.
fn normal(name: &str) -> String {
    socket::number(name).unwrap_or_else(|| name.to_ascii_lowercase())
}

/// Returns the known name that this one is probably meant to be.
pub(crate) fn nearest(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    let far = if name.len() >= 8 { 2 } else { 1 };
    let near = KNOWN
        .iter()
        .map(|known| (strsim::damerau_levenshtein(&name, known), *known));
    let near = near.filter(|(distance, known)| *distance <= far && name.len().min(known.len()) >= 6);
    near.min().map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_constants_match_their_names() {
        let names = NameTable::default();
        let named = [
            (keys::TRANSPORT, "transport"),
            (keys::UID, "uid"),
            (keys::LOCAL_ENDPOINT, "local_endpoint"),
            (keys::LOCAL_IP, "local_ip"),
            (keys::INTERFACE, "interface"),
            (keys::REQUEST_TYPE, "__request_type"),
            (keys::DEFAULT_PROFILE, "default_profile"),
        ];
        for (key, name) in named {
            assert_eq!((names.text(key), names.find(name)), (name, Some(key)));
        }
    }

    #[test]
    fn names_ignore_case_and_spelling_variants() {
        let mut names = NameTable::default();
        assert_eq!(names.intern("MTU"), names.intern("mtu"));
        assert_eq!(names.intern("SO/IPPROTO_TCP/TCP_NODELAY"), names.intern("so/6/1"));
    }

    #[test]
    fn misspelt_names_are_suggested_and_other_words_are_not() {
        assert_eq!(nearest("trasport"), Some("transport"));
        assert_eq!(nearest("Flow_size_byte"), Some("flow_size_bytes"));
        for word in ["rto", "quality", "mtu2", "latency", "x"] {
            assert_eq!(nearest(word), None, "{word}");
        }
    }

    #[test]
    fn the_number_of_names_is_limited() {
        let mut names = NameTable::default();
        let limit = (0..)
            .find_map(|n| names.intern(&format!("own/{n}")).err())
            .expect("a limit");
        assert_eq!(limit.limit, limits::NAMES);
    }
}
