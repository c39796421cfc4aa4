//! Interfaces and their addresses: a root node for each usable interface, kept up to date by netlink.
//!
//! A node has one row for each address family. Several addresses are a set in the row, so that rows do not
//! multiply. A row must have every property that a request demands (docs/policy.md). A property that an
//! interface leaves open is therefore present without a value. Absent are the measured properties that other
//! nodes provide: `rtt`, `capacity`, `loss`, `metered`. If two nodes had the same property, that of the root
//! would take precedence.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use hawser_policy::{Expiry, Node, Properties, Property, Scalar, Value, keys};
use parking_lot::Mutex;

use super::base::{KnowledgeBase, now};
use super::event::{KnowledgeEvent, NodeOrigin, Trouble};
use hawser_policy::property_names::{fact, key, number, text, truth};
use hawser_session::document::LinkKind;
use hawser_session::network_identity;
use hawser_session::{Attachment, Network};

/// The maximum number of addresses of a family in a row; further ones are left out.
const MAX_ADDRESSES: usize = 16;

/// The properties that do not depend on the link, but on the transport, the peer or the application.
const OPEN: [&str; 21] = [
    "transport",
    "security",
    "remote_ip",
    "remote_name",
    "port",
    "reliability",
    "transport_ordered",
    "transport_type",
    "preserve_message_boundaries",
    "multistreaming",
    "multipath",
    "multihoming",
    "seamless_handover",
    "zero_rtt",
    "peer_speaks",
    "low_latency",
    "capacity_profile",
    "dscp_value",
    "application_name",
    "stream_count",
    "flow_size_bytes",
];

/// The present interfaces, for sources that have to map an address to its interface.
#[derive(Default)]
pub(super) struct Links(Mutex<Vec<Attachment>>);

impl Links {
    /// Returns the interface that has this address.
    pub(super) fn holder(&self, address: IpAddr) -> Option<String> {
        let links = self.0.lock();
        let address = address.to_canonical();
        let link = links.iter().find(|link| link.addresses.contains(&address))?;
        (link.interface.kind != LinkKind::Loopback).then(|| link.interface.name.clone())
    }

    /// Returns the interface that the system would use. A `connect` on a datagram socket queries the kernel's
    /// routes, and sends no packet.
    pub(super) fn towards(&self, remote: IpAddr) -> Option<String> {
        self.holder(
            network_identity::destination(remote.to_canonical())
                .source?
                .address,
        )
    }
}

/// The interfaces as last reported.
pub(super) struct InterfaceSource {
    base: Arc<KnowledgeBase>,
    links: Arc<Links>,
    reported: BTreeMap<Arc<str>, Node>,
}

impl InterfaceSource {
    pub(super) fn new(base: Arc<KnowledgeBase>, links: Arc<Links>) -> InterfaceSource {
        InterfaceSource { base, links, reported: BTreeMap::new() }
    }

    /// Reports the present interfaces, as far as they have changed. When an interface disappears, the
    /// knowledge learnt over it is removed. The same happens when it loses an address, because it is then
    /// attached elsewhere.
    pub(super) fn update(&mut self, attachments: Vec<Attachment>) {
        let wanted: BTreeMap<Arc<str>, Node> = attachments
            .iter()
            .filter_map(|attachment| node(attachment, is_wireless))
            .map(|node| (node.uid.clone(), node))
            .collect();
        *self.links.0.lock() = attachments;
        let now = now();
        let lost = self
            .reported
            .iter()
            .filter(|(uid, node)| wanted.get(*uid).is_none_or(|new| has_moved(node, new)));
        let lost: Vec<Arc<str>> = lost.map(|(uid, _)| uid.clone()).collect();
        for origin in [NodeOrigin::Race, NodeOrigin::Session] {
            let of_lost = |uid: &Arc<str>| {
                uid.split('/')
                    .nth(1)
                    .is_some_and(|name| lost.iter().any(|lost| lost.strip_prefix(PREFIX) == Some(name)))
            };
            let gone: Vec<Arc<str>> = self.base.names_of(origin).into_iter().filter(of_lost).collect();
            self.base.learn(origin, &gone, Vec::new(), now);
        }
        let gone: Vec<Arc<str>> = self
            .reported
            .keys()
            .filter(|uid| !wanted.contains_key(*uid))
            .cloned()
            .collect();
        let new: Vec<Node> = wanted
            .iter()
            .filter(|(uid, node)| self.reported.get(*uid) != Some(node))
            .map(|(_, node)| node.clone())
            .collect();
        self.base.learn(NodeOrigin::Interface, &gone, new, now);
        self.reported = wanted;
    }

    /// Follows changes of interfaces.
    pub(super) async fn follow(mut self, mut network: Network) {
        while network.next().await.is_some() {
            self.base.set_network(network_identity::name(&network));
            self.update(network.attachments());
        }
        let why = "the kernel reports no more changes".to_owned();
        self.base.publish(KnowledgeEvent::Trouble(Trouble::Network(why)));
    }
}

const PREFIX: &str = "interface/";

/// Returns whether an interface has lost an address.
fn has_moved(before: &Node, after: &Node) -> bool {
    let addresses = |node: &Node| -> Vec<Scalar> {
        let values = node
            .alternatives
            .iter()
            .filter_map(|one| one.find(keys::LOCAL_IP));
        values.flat_map(|property| members(&property.value)).collect()
    };
    let after = addresses(after);
    addresses(before).iter().any(|address| !after.contains(address))
}

fn members(value: &Value) -> Vec<Scalar> {
    match value {
        Value::One(one) => vec![one.clone()],
        Value::Set(members) => members.to_vec(),
        Value::Any | Value::Range(..) => Vec::new(),
    }
}

/// Makes the node of an interface; `None` if it is down, has no address, or is the loopback.
fn node(attachment: &Attachment, is_wireless: impl Fn(&str, u32) -> bool) -> Option<Node> {
    let interface = &attachment.interface;
    if !interface.is_up || interface.kind == LinkKind::Loopback {
        return None;
    }
    let families = [4u8, 6]
        .into_iter()
        .filter_map(|version| family(&attachment.addresses, version));
    let wired = match interface.kind {
        _ if is_wireless(&interface.name, interface.index) => Some(false),
        LinkKind::Wifi | LinkKind::Cellular => Some(false),
        LinkKind::Ethernet => Some(true),
        LinkKind::Loopback | LinkKind::Other => None,
    };
    let alternatives: Vec<Properties> = families
        .map(|(version, addresses)| {
            // The minimum MTU of every link of the family: RFC 791, RFC 8200 5.
            let min_mtu = if version == 4 { 68.0 } else { 1_280.0 };
            let mtu = attachment.mtu.map(f64::from).filter(|mtu| *mtu >= min_mtu);
            let wired = wired.map_or_else(|| Property::new(Value::Any), |wired| fact(truth(wired)));
            let open = OPEN.iter().map(|name| (key(name), Property::new(Value::Any)));
            let own = [
                (keys::INTERFACE, fact(text(&interface.name))),
                (keys::LOCAL_IP, fact(addresses)),
                (key("ip_version"), fact(number(version))),
                (key("interface_wired"), wired),
                (
                    key("mtu"),
                    Property::new(mtu.map_or(Value::Any, |mtu| Value::Range(min_mtu, mtu))),
                ),
            ];
            open.chain(own).collect()
        })
        .collect();
    (!alternatives.is_empty()).then(|| Node {
        uid: format!("{PREFIX}{}", interface.name).into(),
        root: true,
        link: false,
        priority: 0.0,
        expire: Expiry::Never,
        description: "".into(),
        matches: Arc::default(),
        alternatives: alternatives.into(),
    })
}

/// Returns the addresses of a family; link-local ones only if there are no others.
fn family(addresses: &[IpAddr], version: u8) -> Option<(u8, Value)> {
    let of_family = |address: &&IpAddr| (version == 4) == address.is_ipv4() && !address.is_loopback();
    let all: Vec<&IpAddr> = addresses.iter().filter(of_family).collect();
    let is_narrow = |address: &IpAddr| match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    let wide: Vec<&IpAddr> = all
        .iter()
        .copied()
        .filter(|address| !is_narrow(address))
        .collect();
    let chosen = if wide.is_empty() { all } else { wide };
    let texts = chosen
        .into_iter()
        .take(MAX_ADDRESSES)
        .map(|one| Scalar::Text(one.to_string().into()));
    Some((version, Value::from_members(texts.collect())?))
}

/// Returns whether the kernel reports the interface as wireless. The system's files may be those of another
/// network namespace, in which another interface has the name, so the number is compared.
fn is_wireless(name: &str, index: u32) -> bool {
    let folder = Path::new("/sys/class/net").join(name);
    let number = std::fs::read_to_string(folder.join("ifindex"));
    let is_ours = number.is_ok_and(|number| number.trim().parse() == Ok(index));
    is_ours
        && ["wireless", "phy80211"]
            .iter()
            .any(|part| folder.join(part).exists())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hawser_policy::document::node_json;
    use hawser_policy::{NameTable, limits};
    use hawser_session::document::Interface;

    fn attachment(name: &str, addresses: &[&str]) -> Attachment {
        let interface = Interface {
            name: name.into(),
            index: 7,
            is_up: true,
            kind: LinkKind::of_name(name),
        };
        let addresses = addresses
            .iter()
            .map(|text| text.parse().expect("an address"))
            .collect();
        Attachment { interface, mtu: Some(1_500), addresses }
    }

    fn written(attachment: &Attachment, is_wireless: bool) -> serde_json::Value {
        let node = node(attachment, |_, _| is_wireless).expect("it can be used");
        node_json(&node, &NameTable::default())
    }

    #[test]
    fn an_interface_is_a_root_with_a_row_for_each_family() {
        let eth0 = attachment("eth0", &["192.0.2.1", "192.0.2.2", "2001:db8::1", "fe80::1"]);
        let json = written(&eth0, false);
        assert_eq!(
            (&json["uid"], &json["root"], &json["expire"]),
            (&"interface/eth0".into(), &true.into(), &(-1).into())
        );
        let rows = json["properties"][0].as_array().expect("a choice of two");
        assert_eq!(rows.len(), 2);
        assert_eq!(
            rows[0]["local_ip"]["value"],
            serde_json::json!(["192.0.2.1", "192.0.2.2"])
        );
        assert_eq!(
            rows[1]["local_ip"]["value"], "2001:db8::1",
            "the link's own address is of no use"
        );
        assert_eq!(
            (&rows[0]["ip_version"]["value"], &rows[1]["ip_version"]["value"]),
            (&4.into(), &6.into())
        );
        for row in rows {
            assert_eq!(
                row["interface"],
                serde_json::json!({ "value": "eth0", "precedence": 2 })
            );
            assert_eq!(row["security"], serde_json::json!({}));
            assert_eq!(row["mtu"]["value"]["end"], 1_500);
            assert_eq!(row["interface_wired"]["value"], true);
            assert_eq!(row.get("rtt"), None, "sessions bring it");
        }
    }

    #[test]
    fn an_unusable_interface_yields_no_node() {
        let mut down = attachment("eth0", &["192.0.2.1"]);
        down.interface.is_up = false;
        let cases = [
            down,
            attachment("eth0", &[]),
            attachment("lo", &["127.0.0.1", "::1"]),
        ];
        for case in cases {
            assert_eq!(node(&case, |_, _| false), None, "{case:?}");
        }
    }

    #[test]
    fn wired_is_stated_if_known() {
        let of = |name, kernel| {
            written(&attachment(name, &["192.0.2.1"]), kernel)["properties"]["interface_wired"].clone()
        };
        assert_eq!(of("wlan0", false)["value"], false);
        assert_eq!(
            of("eth0", true)["value"],
            false,
            "the kernel knows better than the name"
        );
        assert_eq!(of("tun7", false), serde_json::json!({}), "nobody knows");
    }

    /// An interface makes two rows, however many addresses it has.
    #[test]
    fn an_interface_has_two_rows_for_any_number_of_addresses() {
        let many: Vec<String> = (1..=200)
            .flat_map(|n| [format!("10.0.0.{n}"), format!("2001:db8::{n:x}")])
            .collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let node = node(&attachment("eth0", &many), |_, _| false).expect("it can be used");
        assert_eq!(node.alternatives.len(), 2);
        assert!(
            node.alternatives
                .iter()
                .all(|row| members(&row.find(keys::LOCAL_IP).expect("some").value).len() <= limits::SET)
        );
    }

    #[test]
    fn losing_an_address_is_a_move_and_gaining_one_is_not() {
        let of = |addresses: &[&str]| node(&attachment("eth0", addresses), |_, _| false).expect("a node");
        assert!(!has_moved(&of(&["192.0.2.1"]), &of(&["192.0.2.1", "192.0.2.2"])));
        assert!(has_moved(&of(&["192.0.2.1", "192.0.2.2"]), &of(&["192.0.2.2"])));
    }
}
