//! The addresses of the ends of links.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::spec::{LinkSpec, Nat, Spec, SpecError};

use super::{LinkEnd, LinkPlan, Subnet};

/// Returns the addresses of a link's two ends.
pub(super) fn of_link(
    link: &LinkSpec,
    number: usize,
    inside: Option<usize>,
) -> Result<[Vec<Subnet>; 2], SpecError> {
    let Some(given) = &link.addresses else {
        return Ok([0, 1].map(|end| by_default(number, end, inside == Some(end))));
    };
    let mut addresses = [Vec::new(), Vec::new()];
    for (end, texts) in given.iter().enumerate() {
        for (i, text) in texts.iter().enumerate() {
            let subnet = parse(text).ok_or_else(|| {
                let at = format!("link[{number}].addresses[{end}][{i}]");
                SpecError::new(at, format!("`{text}` is not an address with a prefix length"))
                    .with_hint("for example \"10.1.0.1/24\" or \"fd01::1/64\"")
            })?;
            addresses[end].push(subnet);
        }
    }
    Ok(addresses)
}

fn by_default(link: usize, end: usize, is_private: bool) -> Vec<Subnet> {
    let (n, host) = (link as u8, end as u8 + 1);
    let v4 = if is_private {
        Ipv4Addr::new(192, 168, n, 2)
    } else {
        Ipv4Addr::new(10, 77, n, host)
    };
    let v6 = Ipv6Addr::new(0xfd77, 0, 0, u16::from(n), 0, 0, 0, u16::from(host));
    vec![(v4.into(), 24), (v6.into(), 64)]
}

fn parse(text: &str) -> Option<Subnet> {
    let (address, prefix) = text.split_once('/')?;
    let (address, prefix): (IpAddr, u8) = (address.parse().ok()?, prefix.parse().ok()?);
    (prefix <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, prefix))
}

/// Returns the inside router's address and the outside address of a translator.
pub(super) fn of_translator(
    nat: &Nat,
    ends: &[LinkEnd; 2],
    inside: usize,
    number: usize,
) -> Result<(Ipv4Addr, Ipv4Addr), SpecError> {
    let at = |key: &str| format!("link[{number}].{key}");
    let first_v4 = |end: usize| {
        ends[end].addresses.iter().find_map(|(ip, prefix)| match ip {
            IpAddr::V4(ip) => Some((*ip, *prefix)),
            IpAddr::V6(_) => None,
        })
    };
    let (Some(private), Some(public)) = (first_v4(inside), first_v4(1 - inside)) else {
        let message = "a translator needs an IPv4 address at both ends of its link";
        return Err(SpecError::new(at("addresses"), message));
    };
    if in_subnet(public.0.into(), (private.0.into(), private.1)) {
        let message = "the inside and outside of a translator must be different subnets";
        return Err(SpecError::new(at("addresses"), message));
    }
    let gateway = another_of(private)
        .ok_or_else(|| SpecError::new(at("addresses"), "the inside subnet has no room for a router"))?;
    let address = match nat.address {
        Some(IpAddr::V4(address)) => address,
        Some(IpAddr::V6(_)) => {
            return Err(SpecError::new(
                at("nat.address"),
                "the outside address must be an IPv4 address",
            ));
        }
        None => another_of(public).ok_or_else(|| {
            SpecError::new(
                at("addresses"),
                "the outside subnet has no room for the translator",
            )
        })?,
    };
    if !in_subnet(address.into(), (public.0.into(), public.1)) || address == public.0 {
        let message = format!(
            "{address} is not a free address of the outside subnet {}/{}",
            public.0, public.1
        );
        return Err(SpecError::new(at("nat.address"), message));
    }
    Ok((gateway, address))
}

/// Returns the first host address of a subnet that differs from this one.
fn another_of((address, prefix): (Ipv4Addr, u8)) -> Option<Ipv4Addr> {
    if prefix > 30 {
        return None;
    }
    let network = u32::from(address) & mask(prefix);
    [1, 2]
        .map(|host| Ipv4Addr::from(network + host))
        .into_iter()
        .find(|other| *other != address)
}

fn mask(prefix: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0)
}

/// Returns whether an address is on a subnet.
pub(super) fn in_subnet(address: IpAddr, (subnet, prefix): Subnet) -> bool {
    match (address, subnet) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (u32::from(a) ^ u32::from(b)) & mask(prefix) == 0,
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            (u128::from(a) ^ u128::from(b)) & mask == 0
        }
        _ => false,
    }
}

/// Checks that no address, and no interface of a host, is used twice.
pub(super) fn check(spec: &Spec, links: &[LinkPlan]) -> Result<(), SpecError> {
    let mut owners = BTreeMap::new();
    let mut interfaces = BTreeMap::new();
    for (i, link) in links.iter().enumerate() {
        for end in &link.ends {
            let host = &spec.host[end.host].name;
            if let Some(other) = interfaces.insert((end.host, &end.interface), &link.name) {
                let message = format!("`{host}` has an interface `{}` on `{other}`", end.interface);
                return Err(SpecError::new(format!("link[{i}].interfaces"), message));
            }
            for (address, _) in &end.addresses {
                if let Some(owner) = owners.insert(*address, host) {
                    let message = format!("{address} is already an address of `{owner}`");
                    return Err(SpecError::new(format!("link[{i}].addresses"), message));
                }
            }
        }
    }
    Ok(())
}

/// Returns the addresses at which other hosts reach a host: its own, and in place of private ones the
/// translator's.
pub(super) fn known_by(links: &[LinkPlan], host: usize) -> Vec<IpAddr> {
    let mut known = Vec::new();
    for link in links {
        for (i, end) in link.ends.iter().enumerate().filter(|(_, end)| end.host == host) {
            for (address, _) in &end.addresses {
                match link.nat {
                    Some(nat) if nat.inside == i && address.is_ipv4() => known.push(nat.address.into()),
                    _ => known.push(*address),
                }
            }
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subnets_contain_their_addresses() {
        let ip = |text: &str| text.parse().expect("an address");
        assert!(in_subnet(ip("10.1.2.3"), (ip("10.1.2.200"), 24)));
        assert!(!in_subnet(ip("10.1.3.3"), (ip("10.1.2.200"), 24)));
        assert!(in_subnet(ip("1.2.3.4"), (ip("9.9.9.9"), 0)));
        assert!(!in_subnet(ip("1.2.3.4"), (ip("fd01::1"), 0)));
        assert!(in_subnet(ip("fd01::7"), (ip("fd01::1"), 64)));
    }

    #[test]
    fn another_address_of_a_subnet_is_chosen() {
        let v4 = |text: &str| text.parse::<Ipv4Addr>().expect("an address");
        assert_eq!(another_of((v4("10.1.0.1"), 24)), Some(v4("10.1.0.2")));
        assert_eq!(another_of((v4("10.1.0.9"), 24)), Some(v4("10.1.0.1")));
        assert_eq!(another_of((v4("10.1.0.9"), 31)), None);
    }
}
