//! Scopes: the flows to which a subscription applies.

use std::net::IpAddr;
use std::str::FromStr;

use crate::flow::{ATTRIBUTES, FlowInfo, SourceFlow};
use crate::pattern::Pattern;

/// The flows to which a subscription applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// All flows.
    #[default]
    All,
    /// This flow only.
    One(SourceFlow),
    /// Flows that match a rule.
    Rule(Rule),
}

impl Scope {
    /// Returns whether a flow is in the scope.
    #[must_use]
    pub fn holds(&self, flow: SourceFlow, info: &FlowInfo) -> bool {
        match self {
            Scope::All => true,
            Scope::One(one) => *one == flow,
            Scope::Rule(rule) => rule.holds(info),
        }
    }
}

/// A conjunction of conditions: `kind=conn remote=10.0.0.0/8 remote.port=443 label=wlan*`.
///
/// A flow is judged once, at its first event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    text: String,
    kind: Option<Pattern>,
    label: Option<Pattern>,
    local: EndpointFilter,
    remote: EndpointFilter,
    /// The patterns that attributes must match, by the attribute's name.
    attributes: Vec<(&'static str, Pattern)>,
}

/// Conditions on one end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct EndpointFilter {
    network: Option<(IpAddr, u8)>,
    port: Option<u16>,
}

/// A text could not be parsed as a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a condition: expected kind=PATTERN, label=PATTERN, local=ADDRESS[/BITS], local.port=PORT, \
     remote=ADDRESS[/BITS], remote.port=PORT, namespace=NUMBER, interface=NUMBER, pid=NUMBER, \
     command=PATTERN or cgroup=PATTERN"
)]
pub struct RuleError(pub String);

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Rule, RuleError> {
        let mut rule = Rule { text: text.to_owned(), ..Rule::default() };
        for condition in text.split_whitespace() {
            let wrong = || RuleError(condition.to_owned());
            let (key, value) = condition.split_once('=').ok_or_else(wrong)?;
            match key {
                "kind" => rule.kind = Some(value.into()),
                "label" => rule.label = Some(value.into()),
                "local" => rule.local.network = Some(network(value).ok_or_else(wrong)?),
                "remote" => rule.remote.network = Some(network(value).ok_or_else(wrong)?),
                "local.port" => rule.local.port = Some(value.parse().map_err(|_| wrong())?),
                "remote.port" => rule.remote.port = Some(value.parse().map_err(|_| wrong())?),
                _ => {
                    let name = ATTRIBUTES
                        .into_iter()
                        .find(|name| *name == key)
                        .ok_or_else(wrong)?;
                    rule.attributes.push((name, value.into()));
                }
            }
        }
        Ok(rule)
    }
}

impl Rule {
    /// Returns the text of the rule.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether a flow matches the rule.
    #[must_use]
    pub fn holds(&self, flow: &FlowInfo) -> bool {
        let like = |pattern: &Option<Pattern>, text: &str| pattern.as_ref().is_none_or(|p| p.matches(text));
        let has = |(name, pattern): &(&str, Pattern)| {
            flow.attributes
                .iter()
                .any(|(of, value)| of == name && pattern.matches(value))
        };
        self.attributes.iter().all(has)
            && like(&self.kind, &flow.kind)
            && like(&self.label, &flow.label)
            && self.local.holds(flow.local)
            && self.remote.holds(flow.remote)
    }
}

impl EndpointFilter {
    fn holds(&self, at: Option<std::net::SocketAddr>) -> bool {
        if self.network.is_none() && self.port.is_none() {
            return true;
        }
        let Some(at) = at else { return false };
        self.port.is_none_or(|port| port == at.port())
            && self
                .network
                .is_none_or(|(net, bits)| is_within(at.ip().to_canonical(), net, bits))
    }
}

fn network(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse().ok()?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let width = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(width);
    (bits <= width).then_some((address, bits))
}

fn is_within(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let same = |a: u128, b: u128, width: u32| {
        let rest = width - u32::from(bits);
        rest >= 128 || a >> rest == b >> rest
    };
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => same(u32::from(a).into(), u32::from(b).into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => same(a.into(), b.into(), 128),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(local: &str, remote: &str) -> FlowInfo {
        FlowInfo {
            kind: "conn".into(),
            local: local.parse().ok(),
            remote: remote.parse().ok(),
            label: "wlan0".into(),
            attributes: vec![("pid", "42".into()), ("command", "curl".into())],
        }
    }

    #[test]
    fn every_condition_has_to_hold() {
        let it = flow("10.0.0.1:4000", "192.0.2.7:443");
        for (text, want) in [
            ("", true),
            ("kind=conn", true),
            ("kind=listener", false),
            ("remote.port=443", true),
            ("remote.port=80", false),
            ("remote=192.0.2.0/24 local.port=4000", true),
            ("remote=192.0.2.0/24 local.port=4001", false),
            ("remote=192.0.2.8", false),
            ("local=0.0.0.0/0", true),
            ("local=::/0", false),
            ("label=wlan*", true),
            ("command=cu* pid=42", true),
            ("command=cu* pid=4", false),
            ("cgroup=*", false),
        ] {
            assert_eq!(text.parse::<Rule>().expect("a rule").holds(&it), want, "{text}");
        }
        let nowhere = flow("", "");
        assert!(!"remote=::/0".parse::<Rule>().expect("a rule").holds(&nowhere));
    }

    #[test]
    fn an_ipv4_mapped_address_matches_ipv4_rules() {
        let it = flow("[::ffff:10.0.0.1]:1", "[::1]:2");
        assert!(
            "local=10.0.0.0/8 remote=::1"
                .parse::<Rule>()
                .expect("a rule")
                .holds(&it)
        );
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "port=1",
            "remote",
            "remote=1.2.3.4/33",
            "remote.port=65536",
            "local=here",
        ] {
            assert_eq!(text.parse::<Rule>(), Err(RuleError(text.into())));
        }
    }
}
