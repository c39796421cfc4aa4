//! The meaning of a text as a host: an address, this host, an invalid name, or a name to ask for.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hickory_resolver::proto::ProtoError;
use hickory_resolver::proto::rr::Name;
use hickory_resolver::proto::rr::domain::Label;

/// The meaning of a text as a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostTarget {
    /// An address; IPv6 may be in brackets.
    Address(IpAddr),
    /// This host: `localhost`, and names under it (RFC 6761, 6.3).
    ThisHost,
    /// A name that never exists: names under `invalid` (RFC 6761, 6.4).
    Nothing,
    /// A name to ask for, in lower case and ASCII; with a trailing dot the search list is not used.
    Name(String),
}

/// A text is not a valid host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a host: {why}")]
pub struct BadName {
    /// The rejected text.
    pub text: String,
    /// The fault of the text.
    pub why: String,
}

impl HostTarget {
    /// Parses a text.
    ///
    /// # Errors
    /// When it is neither an address nor a name: empty, too long, or with a zone or an escape. A name with a
    /// number as its last label is also refused. Old resolvers take it for an address, and new ones do not
    /// (RFC 1123, 2.1).
    pub fn parse(text: &str) -> Result<HostTarget, BadName> {
        let bad = |why: &str| BadName { text: text.chars().take(300).collect(), why: why.to_owned() };
        let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if let Ok(address) = inner.unwrap_or(text).parse::<IpAddr>() {
            return match inner.is_some() && address.is_ipv4() {
                true => Err(bad("only IPv6 addresses are written in brackets")),
                false => Ok(HostTarget::Address(address)),
            };
        }
        if text.contains('%') {
            return Err(bad(
                "zones of addresses are not supported; bind to the interface instead",
            ));
        }
        if text.contains([':', '[', ']']) {
            return Err(bad("it is not a valid IPv6 address"));
        }
        let name = in_ascii(text).map_err(|why| bad(&why))?;
        as_dns(&name).map_err(|error| bad(&error.to_string()))?;
        let last = name.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
        Ok(match last {
            "localhost" => HostTarget::ThisHost,
            "invalid" => HostTarget::Nothing,
            _ if is_number(last) => {
                return Err(bad("its last label is a number, but it is not an IPv4 \
                 address"));
            }
            _ => HostTarget::Name(name),
        })
    }

    /// The addresses of this host.
    pub(crate) const LOOPBACK: [IpAddr; 2] =
        [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
}

/// Converts a name to ASCII and lower case. Old hosts have names with `_` or a leading `-`, and answer to
/// them: RFC 2181, 11, leaves the form of labels to their users.
fn in_ascii(text: &str) -> Result<String, String> {
    let (inner, dot) = match text.strip_suffix('.') {
        Some(inner) => (inner, "."),
        None => (text, ""),
    };
    let labels: Result<Vec<String>, String> = inner.split('.').map(label_in_ascii).collect();
    Ok(labels?.join(".") + dot)
}

fn label_in_ascii(label: &str) -> Result<String, String> {
    let is_common = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if label.is_empty() {
        return Err("it has an empty label".to_owned());
    }
    if !label.is_ascii() {
        let made = Label::from_utf8(label).map_err(|_| {
            "it has a label that cannot be written in ASCII (RFC \
             5891)"
        })?;
        // Letters of other scripts may stand for any ASCII character (RFC 5895, 2).
        return label_in_ascii(&made.to_ascii());
    }
    match label.chars().find(|&c| !is_common(c)) {
        Some(other) => Err(format!("a host name cannot contain the character {other:?}")),
        None => Ok(label.to_ascii_lowercase()),
    }
}

/// Converts a name to the form of DNS queries; with a trailing dot the search list is not used.
pub(crate) fn as_dns(name: &str) -> Result<Name, ProtoError> {
    let labels = name.strip_suffix('.').unwrap_or(name).split('.');
    let labels: Result<Vec<Label>, _> = labels
        .map(|label| Label::from_raw_bytes(label.as_bytes()))
        .collect();
    let mut made = Name::from_labels(labels?)?;
    made.set_fqdn(name.ends_with('.'));
    Ok(made)
}

fn is_number(label: &str) -> bool {
    let digits = label.strip_prefix("0x").unwrap_or(label);
    let all = |is: fn(&char) -> bool| digits.chars().all(|c| is(&c));
    match digits.len() == label.len() {
        true => !digits.is_empty() && all(char::is_ascii_digit),
        false => all(char::is_ascii_hexdigit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> HostTarget {
        HostTarget::Name(text.to_owned())
    }

    #[test]
    fn addresses_and_names_are_parsed() {
        let cases = [
            ("192.0.2.1", HostTarget::Address(IpAddr::from([192, 0, 2, 1]))),
            ("::1", HostTarget::Address(Ipv6Addr::LOCALHOST.into())),
            ("[::1]", HostTarget::Address(Ipv6Addr::LOCALHOST.into())),
            ("localhost", HostTarget::ThisHost),
            ("LocalHost.", HostTarget::ThisHost),
            ("a.localhost", HostTarget::ThisHost),
            ("x.invalid", HostTarget::Nothing),
            ("WWW.Example.org", name("www.example.org")),
            ("www.example.org.", name("www.example.org.")),
            ("www", name("www")),
            ("_8443._https.example.org", name("_8443._https.example.org")),
            ("bücher.example", name("xn--bcher-kva.example")),
            ("my_host.Example.", name("my_host.example.")),
            ("-a.example", name("-a.example")),
            ("localhost.example", name("localhost.example")),
            ("0x.example", name("0x.example")),
        ];
        for (text, expected) in cases {
            assert_eq!(HostTarget::parse(text), Ok(expected), "{text}");
        }
    }

    /// Characters of other scripts may map to ASCII (RFC 5895, 2; UTS 46). The result has to be valid in a
    /// host's name, and is checked like one.
    #[test]
    fn names_are_checked_after_mapping_to_ascii() {
        for made in [
            "a/b", "a?b", "a#b", "a@b", "a:b", "a%b", "a\\b", "a b", "a*b", "a!b",
        ] {
            let [first, other, last] = *made.as_bytes() else {
                panic!("{made}")
            };
            // The block of full-width forms has ASCII from U+0021 on; the full-width space is U+3000.
            let wide = match other {
                b' ' => '\u{3000}',
                _ => char::from_u32(0xff00 + u32::from(other) - 0x20).expect("a character"),
            };
            let text = format!("{}{wide}{}.example", char::from(first), char::from(last));
            assert!(HostTarget::parse(&text).is_err(), "{text}");
        }
        // U+2100 is `a/c`, U+2048 `?!`, U+FE68 a small `\`, U+FF0E a dot, which would make two labels of one.
        for text in [
            "\u{2100}.example",
            "a\u{2048}.example",
            "a\u{fe68}b.example",
            "a\u{ff0e}b.example",
        ] {
            assert!(HostTarget::parse(text).is_err(), "{text}");
        }
        assert!(
            HostTarget::parse("２１３０７０６４３３").is_err(),
            "a number in full width"
        );
        assert_eq!(HostTarget::parse("ｌｏｃａｌｈｏｓｔ"), Ok(HostTarget::ThisHost));
        assert_eq!(HostTarget::parse("ＷＷＷ.example"), Ok(name("www.example")));
    }

    #[test]
    fn malformed_targets_are_rejected() {
        let long = format!("{}.example", "a".repeat(64));
        let longest = vec!["abcdefg"; 33].join(".");
        for text in [
            "",
            ".",
            "..",
            "a..b",
            "[192.0.2.1]",
            "[x]",
            "fe80::1%eth0",
            "1::2::3",
            "127.1",
            "0x7f000001",
            "2130706433",
            "1.2.3.4.5",
            "a.0x1f",
            "1.2.3.4.",
            "a\\.b",
            "a\u{1}.b",
            "a b.example",
            "a/b.example",
            "\u{2066}.example",
            &long,
            &longest,
        ] {
            let error = HostTarget::parse(text).expect_err(text);
            assert!(
                error
                    .to_string()
                    .starts_with(&format!("`{text}` is not a host: ")),
                "{error}"
            );
        }
    }
}
