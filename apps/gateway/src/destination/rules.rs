//! The rules of allowed destinations, as an operator writes them.
//!
//! ```text
//! example.com:443            this name, this port
//! *.example.com:*            the names below it (not itself), every port
//! 192.0.2.0/24:80-90         these addresses, whatever name led there; these ports
//! [2001:db8::/32]:443        the same of IPv6
//! public                     every address that is not special; `public:443`: at this port
//! ```

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

use hawser::session::relay::Host;

use super::special::Block;

/// The maximum number of rules of one list.
const MAX_RULES: usize = 10_000;

/// The allowed destinations; none by default.
#[derive(Clone, Debug, Default)]
pub struct AllowList {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    what: DestinationPattern,
    ports: RangeInclusive<u16>,
}

#[derive(Clone, Debug)]
enum DestinationPattern {
    Public,
    Name(String),
    /// Names with this ending, which includes the leading dot.
    Below(String),
    Addresses(Block),
}

/// A rule is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{rule:?} is not a rule: {why}")]
pub struct AllowError {
    pub rule: String,
    /// The reason as text.
    pub why: String,
}

impl AllowList {
    /// Parses one rule from each item.
    ///
    /// # Errors
    /// Fails at the first invalid rule.
    pub fn parse<'a>(rules: impl IntoIterator<Item = &'a str>) -> Result<AllowList, AllowError> {
        let rules: Vec<Rule> = rules.into_iter().map(str::parse).collect::<Result<_, _>>()?;
        match rules.len() > MAX_RULES {
            true => Err(AllowError {
                rule: "…".into(),
                why: format!("there are more than {MAX_RULES} rules"),
            }),
            false => Ok(AllowList { rules }),
        }
    }

    /// Parses the text of a file with a rule on each line. Empty lines, and comments after `#`, are skipped.
    ///
    /// # Errors
    /// Fails at the first invalid rule.
    pub fn parse_file(text: &str) -> Result<AllowList, AllowError> {
        let rules = text
            .lines()
            .map(|line| line.split('#').next().unwrap_or_default().trim());
        AllowList::parse(rules.filter(|rule| !rule.is_empty()))
    }

    /// Adds the rules of another list.
    #[must_use]
    pub fn and(mut self, other: AllowList) -> AllowList {
        self.rules.extend(other.rules);
        self
    }

    #[cfg(test)]
    pub(super) fn rules_len(&self) -> usize {
        self.rules.len()
    }

    /// Returns whether no destination is allowed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns whether `host` would be allowed for some address. If not, its name is not even resolved.
    #[must_use]
    pub fn may_allow(&self, host: &Host, port: u16) -> bool {
        self.at(port).any(|rule| match (&rule.what, host) {
            (DestinationPattern::Public | DestinationPattern::Addresses(_), _) => true,
            (DestinationPattern::Name(_) | DestinationPattern::Below(_), Host::Address(_)) => false,
            (DestinationPattern::Name(own), Host::Name(name)) => own == name,
            (DestinationPattern::Below(end), Host::Name(name)) => name.ends_with(end),
        })
    }

    /// Returns whether a rule allows `host` at an ordinary `address`.
    pub(super) fn allows(&self, host: &Host, address: IpAddr, port: u16) -> bool {
        self.at(port).any(|rule| match (&rule.what, host) {
            (DestinationPattern::Public, _) => true,
            (DestinationPattern::Addresses(block), _) => block.contains(address),
            (DestinationPattern::Name(_) | DestinationPattern::Below(_), Host::Address(_)) => false,
            (DestinationPattern::Name(own), Host::Name(name)) => own == name,
            (DestinationPattern::Below(end), Host::Name(name)) => name.ends_with(end),
        })
    }

    /// Returns whether a rule within `block` names this address.
    pub(super) fn names_address(&self, address: IpAddr, port: u16, block: Block) -> bool {
        self.at(port).any(|rule| match &rule.what {
            DestinationPattern::Addresses(own) => own.contains(address) && own.is_within(block),
            DestinationPattern::Public | DestinationPattern::Name(_) | DestinationPattern::Below(_) => false,
        })
    }

    fn at(&self, port: u16) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(move |rule| rule.ports.contains(&port))
    }
}

impl FromStr for Rule {
    type Err = AllowError;

    fn from_str(text: &str) -> Result<Rule, AllowError> {
        let bad = |why: &dyn fmt::Display| AllowError { rule: text.to_owned(), why: why.to_string() };
        if text == "public" {
            return Ok(Rule { what: DestinationPattern::Public, ports: 1..=u16::MAX });
        }
        let (what, ports) = text
            .rsplit_once(':')
            .filter(|(what, _)| !what.contains(':') || (what.starts_with('[') && what.ends_with(']')))
            .ok_or_else(|| {
                bad(
                    &"a colon precedes the ports, for example `example.com:443`, `*.example.com:*`, \
                      `192.0.2.0/24:80-90`, `[2001:db8::/32]:443`",
                )
            })?;
        let ports = ports_of(ports)
            .ok_or_else(|| bad(&"ports are `*`, a number from 1, or a range such as `80-90`"))?;
        let bare = what
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .unwrap_or(what);
        if let Some((address, length)) = bare.split_once('/') {
            let address = address
                .parse()
                .map_err(|_| bad(&"the text before `/` is not an address"))?;
            let block = length.parse().ok().and_then(|length| Block::new(address, length));
            let block = block.ok_or_else(|| bad(&"a prefix has at most 32 bits (IPv4) or 128 (IPv6)"))?;
            return Ok(Rule { what: DestinationPattern::Addresses(block), ports });
        }
        let (is_below, name) = what.strip_prefix("*.").map_or((false, what), |name| (true, name));
        let what = match Host::parse(name).map_err(|error| bad(&error))? {
            Host::Address(_) if is_below => return Err(bad(&"an address has no subdomains")),
            Host::Address(address) => DestinationPattern::Addresses(Block::only(address)),
            Host::Name(name) if is_below => DestinationPattern::Below(format!(".{name}")),
            Host::Name(name) if name == "public" => DestinationPattern::Public,
            Host::Name(name) => DestinationPattern::Name(name),
        };
        Ok(Rule { what, ports })
    }
}

fn ports_of(text: &str) -> Option<RangeInclusive<u16>> {
    if text == "*" {
        return Some(1..=u16::MAX);
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
    (first > 0 && first <= last).then_some(first..=last)
}
