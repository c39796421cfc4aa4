//! Checks that serde cannot express: unknown names, numbers out of range, and requirements that a link cannot
//! meet.

use std::collections::BTreeSet;

use hawser_documents::there_are;

use super::{HostSpec, LinkForwarding, LinkSpec, Rules, Spec, SpecError};

/// The largest number of hosts, and of links.
const MAX_ITEMS: usize = 64;
/// The largest number of bytes of an interface's name.
const INTERFACE_NAME: usize = 15;
/// The permitted packet sizes of a link: from IPv4's minimum to jumbo frames.
const MTUS: std::ops::RangeInclusive<u32> = 68..=9000;

type Checked = Result<(), SpecError>;

/// Checks hosts, links and the timeline. Addresses and names are checked with a plan.
pub(crate) fn check(spec: &Spec) -> Checked {
    check_hosts(&spec.host)?;
    check_links(spec)?;
    check_changes(spec)
}

fn check_hosts(hosts: &[HostSpec]) -> Checked {
    if hosts.is_empty() || hosts.len() > MAX_ITEMS {
        return Err(SpecError::new(
            "host",
            format!("a lab has 1 to {MAX_ITEMS} hosts"),
        ));
    }
    let mut names = BTreeSet::new();
    for (i, host) in hosts.iter().enumerate() {
        let at = format!("host[{i}].name");
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        if host.name.is_empty() || host.name.len() > 63 || !host.name.chars().all(is_name) {
            let error = SpecError::new(at, format!("`{}` cannot be a host's name", host.name));
            return Err(error.with_hint("letters, digits, hyphens and dots, at most 63"));
        }
        if !names.insert(&host.name) {
            return Err(SpecError::new(
                at,
                format!("the host `{}` already exists", host.name),
            ));
        }
    }
    Ok(())
}

fn check_links(spec: &Spec) -> Checked {
    if spec.link.len() > MAX_ITEMS {
        return Err(SpecError::new(
            "link",
            format!("a lab has at most {MAX_ITEMS} links"),
        ));
    }
    let mut names = BTreeSet::new();
    for (i, link) in spec.link.iter().enumerate() {
        for (end, name) in link.between.iter().enumerate() {
            known_host(spec, name, format!("link[{i}].between[{end}]"))?;
        }
        if link.between[0] == link.between[1] {
            return Err(SpecError::new(
                format!("link[{i}].between"),
                "a link needs two different hosts",
            ));
        }
        if !names.insert(link.label()) {
            let message = format!("the link `{}` already exists", link.label());
            return Err(SpecError::new(format!("link[{i}]"), message).with_hint("give it a `name`"));
        }
        check_link(spec, link, i)?;
    }
    Ok(())
}

fn check_link(spec: &Spec, link: &LinkSpec, i: usize) -> Checked {
    let at = |key: &str| format!("link[{i}].{key}");
    if link.mtu.is_some_and(|mtu| !MTUS.contains(&mtu)) {
        let message = format!("an MTU is between {} and {} bytes", MTUS.start(), MTUS.end());
        return Err(SpecError::new(at("mtu"), message));
    }
    for (end, name) in link.interfaces.iter().flatten().enumerate() {
        let is_name = |c: char| c.is_ascii_graphic() && c != '/' && c != ':';
        if name.is_empty()
            || name.len() > INTERFACE_NAME
            || !name.chars().all(is_name)
            || ["lo", ".", ".."].contains(&name.as_str())
        {
            let error = SpecError::new(
                at(&format!("interfaces[{end}]")),
                format!("`{name}` cannot be an interface's name"),
            );
            return Err(error.with_hint(format!("1 to {INTERFACE_NAME} letters and digits, not `lo`")));
        }
    }
    for (key, rules) in [
        ("both", &link.both),
        ("forward", &link.forward),
        ("backward", &link.backward),
    ] {
        check_rules(rules, &at(key))?;
    }
    if link.through == LinkForwarding::Kernel && !spec.suits_the_kernel(link) {
        let error = SpecError::new(at("through"), "the kernel supports only rate and queue");
        return Err(error.with_hint("remove `through`, or write \"cell\""));
    }
    if let Some(nat) = &link.nat {
        if !link.between.contains(&nat.inside) {
            let error = SpecError::new(
                at("nat.inside"),
                format!("`{}` is not an end of this link", nat.inside),
            );
            return Err(error.with_hint(there_are(
                "hosts",
                &nat.inside,
                link.between.iter().map(String::as_str),
            )));
        }
        if nat.ports.is_some_and(|[first, last]| first == 0 || first > last) {
            return Err(SpecError::new(
                at("nat.ports"),
                "the first port must be below the last, and not 0",
            ));
        }
    }
    Ok(())
}

fn check_rules(rules: &Rules, path: &str) -> Checked {
    let wrong = |key: &str, message: &str| Err(SpecError::new(format!("{path}.{key}"), message));
    if rules.burst.is_some_and(|burst| !(1.0..=1e9).contains(&burst)) {
        return wrong(
            "burst",
            "the mean length of a burst is a number of frames, at least 1",
        );
    }
    if rules.queue_packets == Some(0) {
        return wrong(
            "queue_packets",
            "a queue without room for a frame forwards no packet",
        );
    }
    if rules.drop.iter().flatten().any(|number| *number == 0) {
        return wrong("drop", "frames are counted from 1");
    }
    if rules.trace.is_some() && rules.rate.is_some() {
        return wrong("trace", "a trace replaces a rate: give one of the two");
    }
    Ok(())
}

fn check_changes(spec: &Spec) -> Checked {
    let labels: Vec<String> = spec.link.iter().map(LinkSpec::label).collect();
    for (i, change) in spec.at.iter().enumerate() {
        let Some(link) = spec.link.iter().find(|link| link.label() == change.link) else {
            let error = SpecError::new(format!("at[{i}].link"), format!("unknown link `{}`", change.link));
            return Err(error.with_hint(there_are(
                "links",
                &change.link,
                labels.iter().map(String::as_str),
            )));
        };
        for (key, rules) in [
            ("both", &change.both),
            ("forward", &change.forward),
            ("backward", &change.backward),
        ] {
            check_rules(rules, &format!("at[{i}].{key}"))?;
        }
        let nothing = [&change.both, &change.forward, &change.backward]
            .iter()
            .all(|r| **r == Rules::default());
        if nothing && change.state.is_none() && !change.rebind {
            let error = SpecError::new(format!("at[{i}]"), "this entry changes nothing");
            return Err(error.with_hint("give `state = \"down\"`, or rules: `both = { silent = true }`"));
        }
        if change.rebind && link.nat.is_none() {
            let message = format!("the link `{}` has no translator", change.link);
            return Err(SpecError::new(format!("at[{i}].rebind"), message)
                .with_hint("give the link `nat = { inside = \"HOST\" }`"));
        }
    }
    Ok(())
}

/// Returns the index of a host.
pub(crate) fn known_host(spec: &Spec, name: &str, path: String) -> Result<usize, SpecError> {
    spec.host
        .iter()
        .position(|host| host.name == name)
        .ok_or_else(|| {
            let names = spec.host.iter().map(|host| host.name.as_str());
            SpecError::new(path, format!("unknown host `{name}`")).with_hint(there_are("hosts", name, names))
        })
}

impl Spec {
    /// Returns whether the kernel alone can carry this link, with all changes to it.
    pub(crate) fn suits_the_kernel(&self, link: &LinkSpec) -> bool {
        let changes = self.at.iter().filter(|at| at.link == link.label());
        let rules = changes
            .clone()
            .flat_map(|at| [&at.both, &at.forward, &at.backward]);
        link.nat.is_none()
            && link.state.is_none()
            && changes.clone().all(|at| at.state.is_none())
            && rules
                .chain([&link.both, &link.forward, &link.backward])
                .all(Rules::suit_the_kernel)
    }
}
