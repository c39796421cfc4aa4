//! Names of properties, interned: what ranks compares numbers.
//!
//! Names are case-insensitive, as NEAT's are. Those that are known have the first keys, so that the
//! few with a meaning of their own are constants.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::limits::{self, Limit};
use crate::socket;

/// A property's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(u32);

impl Key {
    /// A bit of a set of keys that may take others for it.
    pub(crate) fn bit(self) -> u64 {
        1 << (self.0 & 63)
    }
}

/// Keys with a meaning of their own.
pub mod keys {
    use super::Key;

    /// The transport; a candidate has one.
    pub const TRANSPORT: Key = Key(0);
    /// Stands for a node's `uid` in a `match` of the CIB.
    pub const UID: Key = Key(1);
    /// Address and interface of this end, `ADDRESS@INTERFACE`.
    pub const LOCAL_ENDPOINT: Key = Key(2);
    /// The address of this end.
    pub const LOCAL_IP: Key = Key(3);
    /// The interface.
    pub const INTERFACE: Key = Key(4);
    /// `pre-resolve`: the request comes back as it is.
    pub const REQUEST_TYPE: Key = Key(5);
    /// Left out of what is given back, as `uid` is.
    pub const DEFAULT_PROFILE: Key = Key(6);
}

/// Names that mean something to NEAT, to what it ships, or to Hawser. The first are those of [`keys`].
pub(crate) const KNOWN: &[&str] = &[
    "transport",
    "uid",
    "local_endpoint",
    "local_ip",
    "interface",
    "__request_type",
    "default_profile",
    // NEAT's namespace.
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
    // RFC 9622's selection properties, in this manner of spelling, and Hawser's.
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

/// Where names and keys meet.
#[derive(Clone, Debug)]
pub struct Names {
    keys: BTreeMap<Arc<str>, Key>,
    texts: Vec<Arc<str>>,
}

impl Default for Names {
    fn default() -> Self {
        let mut names = Self { keys: BTreeMap::new(), texts: Vec::new() };
        for name in KNOWN {
            names.insert((*name).into());
        }
        names
    }
}

impl Names {
    /// The key of a name, which is new now if it was unknown. Socket options become their numbers.
    ///
    /// # Errors
    /// There are too many.
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

    /// The key of a name that is known.
    pub fn find(&self, name: &str) -> Option<Key> {
        self.keys.get(normal(name).as_str()).copied()
    }

    /// The name of a key; of another table's, `?`.
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

/// Lower case, and socket options by number.
fn normal(name: &str) -> String {
    socket::number(name).unwrap_or_else(|| name.to_ascii_lowercase())
}

/// The known name that this one is probably meant to be.
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
    fn constants_are_their_names() {
        let names = Names::default();
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
    fn names_are_known_in_any_case_and_spelling() {
        let mut names = Names::default();
        assert_eq!(names.intern("MTU"), names.intern("mtu"));
        assert_eq!(names.intern("SO/IPPROTO_TCP/TCP_NODELAY"), names.intern("so/6/1"));
    }

    #[test]
    fn slips_are_noticed_and_other_words_are_not() {
        assert_eq!(nearest("trasport"), Some("transport"));
        assert_eq!(nearest("Flow_size_byte"), Some("flow_size_bytes"));
        for word in ["rto", "quality", "mtu2", "latency", "x"] {
            assert_eq!(nearest(word), None, "{word}");
        }
    }

    #[test]
    fn names_are_not_without_end() {
        let mut names = Names::default();
        let limit = (0..)
            .find_map(|n| names.intern(&format!("own/{n}")).err())
            .expect("a limit");
        assert_eq!(limit.limit, limits::NAMES);
    }
}
