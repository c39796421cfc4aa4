//! The kinds of candidates that there are, a file each.
//!
//! [`parse`] makes one from a word, for commands and configurations; another transport adds its
//! word here, and nothing above changes.

mod tcp;
mod wish;

use std::sync::Arc;

use super::way::Kind;

pub use tcp::Tcp;
pub use wish::{Wish, wished};

/// The words that [`parse`] understands.
pub const WORDS: &[&str] = &["tcp", "mptcp"];

/// A word that names no kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no way to connect; write TRANSPORT[:INTERFACE], where the transport is one of {words}", words = WORDS.join(", "))]
pub struct UnknownKind(String);

/// The kind that `TRANSPORT[:INTERFACE]` names, in this class: 0 is the best.
///
/// # Errors
/// No such transport, or an interface that can have no such name.
pub fn parse(text: &str, priority: u16) -> Result<Arc<dyn Kind>, UnknownKind> {
    let unknown = || UnknownKind(text.chars().take(100).collect());
    let (transport, interface) = match text.split_once(':') {
        None => (text, None),
        Some((transport, interface)) => (transport, Some(interface)),
    };
    // IFNAMSIZ, and what the kernel refuses in a name.
    let is_name =
        |name: &str| (1..16).contains(&name.len()) && !name.contains(|c: char| c == '/' || c.is_whitespace());
    if interface.is_some_and(|name| !is_name(name)) {
        return Err(unknown());
    }
    let is_multipath = match transport {
        "tcp" => false,
        "mptcp" => true,
        _ => return Err(unknown()),
    };
    Ok(Arc::new(Tcp { is_multipath, interface: interface.map(str::to_owned), priority }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::Service;

    fn describe(kind: &dyn Kind, address: &str, service: Option<&Service>) -> Vec<String> {
        let ways = kind.to_address(address.parse().expect("an address"), service);
        ways.into_iter().map(|way| way.description.to_string()).collect()
    }

    #[test]
    fn words_name_kinds() {
        let kind = parse("mptcp:wlan0", 3).expect("a kind");
        assert_eq!(describe(&*kind, "[2001:db8::1]:443", None), ["mptcp to [2001:db8::1]:443 over wlan0"]);
        let kind = parse("tcp", 0).expect("a kind");
        assert_eq!(describe(&*kind, "192.0.2.1:80", None), ["tcp to 192.0.2.1:80"]);
        for wrong in ["", "TCP", "udp", "tcp:", "tcp:a/b", "tcp:abcdefghijklmnop", "tcp:a b"] {
            assert!(parse(wrong, 0).is_err(), "{wrong}");
        }
    }
}
