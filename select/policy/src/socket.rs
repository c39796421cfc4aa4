//! Socket options as properties: `SO/SOL_SOCKET/SO_KEEPALIVE` becomes `so/1/9`.
//!
//! Numbers are Linux's (asm-generic). An option with a wrong level gets its correct one: NEAT ships
//! `SO/SOL_SOCKET/TCP_NODELAY`, whose literal numbers would be SO_DEBUG.

const LEVELS: &[(&str, u32)] = &[
    ("SOL_SOCKET", 1),
    ("IPPROTO_IP", 0),
    ("SOL_IP", 0),
    ("IPPROTO_IPV6", 41),
    ("IPPROTO_TCP", 6),
    ("SOL_TCP", 6),
    ("IPPROTO_UDP", 17),
    ("SOL_UDP", 17),
    ("IPPROTO_SCTP", 132),
    ("IPPROTO_UDPLITE", 136),
];

const OPTIONS: &[(&str, u32, u32)] = &[
    ("SO_DEBUG", 1, 1),
    ("SO_REUSEADDR", 1, 2),
    ("SO_DONTROUTE", 1, 5),
    ("SO_BROADCAST", 1, 6),
    ("SO_SNDBUF", 1, 7),
    ("SO_RCVBUF", 1, 8),
    ("SO_KEEPALIVE", 1, 9),
    ("SO_OOBINLINE", 1, 10),
    ("SO_PRIORITY", 1, 12),
    ("SO_LINGER", 1, 13),
    ("SO_REUSEPORT", 1, 15),
    ("SO_RCVLOWAT", 1, 18),
    ("SO_SNDLOWAT", 1, 19),
    ("SO_RCVTIMEO", 1, 20),
    ("SO_SNDTIMEO", 1, 21),
    ("SO_BINDTODEVICE", 1, 25),
    ("SO_MARK", 1, 36),
    ("SO_BUSY_POLL", 1, 46),
    ("SO_MAX_PACING_RATE", 1, 47),
    ("SO_INCOMING_CPU", 1, 49),
    ("SO_TXTIME", 1, 61),
    ("IP_TOS", 0, 1),
    ("IP_TTL", 0, 2),
    ("IP_OPTIONS", 0, 4),
    ("IP_MTU_DISCOVER", 0, 10),
    ("IP_RECVERR", 0, 11),
    ("IP_TRANSPARENT", 0, 19),
    ("IP_BIND_ADDRESS_NO_PORT", 0, 24),
    ("IP_LOCAL_PORT_RANGE", 0, 51),
    ("IPV6_UNICAST_HOPS", 41, 16),
    ("IPV6_MTU_DISCOVER", 41, 23),
    ("IPV6_MTU", 41, 24),
    ("IPV6_RECVERR", 41, 25),
    ("IPV6_V6ONLY", 41, 26),
    ("IPV6_TCLASS", 41, 67),
    ("IPV6_DONTFRAG", 41, 62),
    ("TCP_NODELAY", 6, 1),
    ("TCP_MAXSEG", 6, 2),
    ("TCP_CORK", 6, 3),
    ("TCP_KEEPIDLE", 6, 4),
    ("TCP_KEEPINTVL", 6, 5),
    ("TCP_KEEPCNT", 6, 6),
    ("TCP_SYNCNT", 6, 7),
    ("TCP_LINGER2", 6, 8),
    ("TCP_DEFER_ACCEPT", 6, 9),
    ("TCP_WINDOW_CLAMP", 6, 10),
    ("TCP_QUICKACK", 6, 12),
    ("TCP_CONGESTION", 6, 13),
    ("TCP_USER_TIMEOUT", 6, 18),
    ("TCP_FASTOPEN", 6, 23),
    ("TCP_NOTSENT_LOWAT", 6, 25),
    ("TCP_FASTOPEN_CONNECT", 6, 30),
    ("UDP_CORK", 17, 1),
    ("UDP_SEGMENT", 17, 103),
    ("UDP_GRO", 17, 104),
    ("UDPLITE_SEND_CSCOV", 136, 10),
    ("UDPLITE_RECV_CSCOV", 136, 11),
    ("SCTP_RTOINFO", 132, 0),
    ("SCTP_INITMSG", 132, 2),
    ("SCTP_NODELAY", 132, 3),
    ("SCTP_AUTOCLOSE", 132, 4),
    ("SCTP_PRIMARY_ADDR", 132, 6),
    ("SCTP_MAXSEG", 132, 13),
];

/// The form of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameForm {
    /// The name is not a socket option.
    Other,
    /// `SO/LEVEL/NAME`, which has a number.
    Option,
    /// `SO/LEVEL/NAME` with an unknown level or option.
    Unknown,
    /// The name begins like an option, but does not have three parts.
    Malformed,
}

/// Returns the form of `name`.
pub(crate) fn form(name: &str) -> NameForm {
    let Some(parts) = parts(name) else {
        return NameForm::Other;
    };
    match (parts, number(name)) {
        ([_, _, ..], Some(_)) => NameForm::Option,
        ([level, option], None) if !level.is_empty() && !option.is_empty() => NameForm::Unknown,
        _ => NameForm::Malformed,
    }
}

/// Returns whether `name` is a socket option by numbers, as [`number`] makes it.
pub(crate) fn is_numbered(name: &str) -> bool {
    name.strip_prefix("so/").is_some_and(|rest| {
        rest.split_once('/')
            .is_some_and(|(level, option)| parse(level).is_some() && parse(option).is_some())
    })
}

/// Returns whether `name` is a socket option without a number, which cannot be set.
pub(crate) fn is_unknown(name: &str) -> bool {
    name.starts_with("so/") && !is_numbered(name)
}

/// Returns `so/LEVEL/OPTION` by numbers, or `None` if the name is not a known socket option.
pub(crate) fn number(name: &str) -> Option<String> {
    let [level, option] = parts(name)?;
    let known = OPTIONS
        .iter()
        .find(|(known, ..)| known.eq_ignore_ascii_case(option));
    let named_level = || LEVELS.iter().find(|(known, _)| known.eq_ignore_ascii_case(level));
    let (level, option) = match (
        parse(level).or_else(|| Some(named_level()?.1)),
        parse(option),
        known,
    ) {
        (Some(level), Some(option), _) => (level, option),
        (Some(_), None, Some((_, own, option))) => (*own, *option),
        _ => return None,
    };
    Some(format!("so/{level}/{option}"))
}

/// Returns the name, for people, of a socket option that a property names by numbers: `so/6/1` is
/// `TCP_NODELAY`.
pub fn name(numbered: &str) -> Option<&'static str> {
    let [level, option] = parts(numbered)?;
    let (level, option) = (parse(level)?, parse(option)?);
    OPTIONS
        .iter()
        .find(|(_, of, number)| (*of, *number) == (level, option))
        .map(|(name, ..)| *name)
}

/// Returns level and option of a name that begins with `SO/`, or empty ones if it does not have three parts.
fn parts(name: &str) -> Option<[&str; 2]> {
    let rest = name
        .get(..3)
        .filter(|start| start.eq_ignore_ascii_case("so/"))
        .map(|_| &name[3..])?;
    let mut parts = rest.split('/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(level), Some(option), None) => Some([level, option]),
        _ => Some(["", ""]),
    }
}

fn parse(number: &str) -> Option<u32> {
    number
        .bytes()
        .all(|digit| digit.is_ascii_digit())
        .then(|| number.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_the_numbers_of_linux() {
        let rows = [
            ("SO/IPPROTO_IP/IP_TOS", Some("so/0/1")),
            ("so/ipproto_tcp/tcp_nodelay", Some("so/6/1")),
            ("SO/SOL_SOCKET/SO_KEEPALIVE", Some("so/1/9")),
            ("SO/6/13", Some("so/6/13")),
            ("SO/IPPROTO_TCP/26", Some("so/6/26")),
            // NEAT's wrong level, and the option of another kernel.
            ("SO/SOL_SOCKET/TCP_NODELAY", Some("so/6/1")),
            ("SO/SOL_SOCKET/SO_MPTCP_ENABLED", None),
            ("SO/1", None),
            ("SO/1/2/3", None),
            ("sol/1/2", None),
            ("SO/1/99999999999", None),
        ];
        for (name, expected) in rows {
            assert_eq!(number(name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn the_form_of_an_option_name_is_recognised() {
        let rows = [
            ("transport", NameForm::Other),
            ("s", NameForm::Other),
            ("SO/IPPROTO_IP/IP_TOS", NameForm::Option),
            ("SO/SOL_SOCKET/SO_MPTCP_ENABLED", NameForm::Unknown),
            ("SO/1", NameForm::Malformed),
            ("SO//1", NameForm::Malformed),
            ("SO/1/2/3", NameForm::Malformed),
        ];
        for (name, expected) in rows {
            assert_eq!(form(name), expected, "{name}");
        }
        assert_eq!(name("so/6/1"), Some("TCP_NODELAY"));
    }
}
