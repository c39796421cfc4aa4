//! Checks that serde cannot make: names without a definition, addresses used twice, numbers out of range.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{
    Connection, DataSize, FlowHosts, FlowSpec, HostSelector, HostSpec, LinkSpec, Opening, Pairs, Rules,
    Scenario, ScenarioError, ScheduledChange, SwitchSpec, TimeSpan,
};
use crate::scenario::paths::Graph;
use crate::traffic::{KINDS, Traffic};
use hawser_documents::there_are;

/// The maximum number of hosts in a scenario. Each host is a stack with its own buffers, about 150 KB before
/// it sends any data.
const HOSTS_MAX: usize = 1000;
/// The maximum number of switches in a scenario.
const SWITCHES_MAX: usize = 1000;
/// The maximum number of links in a scenario.
const LINKS_MAX: usize = 10_000;
/// The maximum number of changes in a scenario.
const CHANGES_MAX: usize = 100_000;
/// The maximum number of connections in a scenario.
const FLOWS_MAX: u64 = 10_000;
/// The maximum number of exchanges and messages in a scenario.
const EXCHANGES_MAX: u64 = 10_000_000;
/// The minimum number of bytes to which a packet is trimmed: an IPv4 header with all options.
const TRIM_MIN: u64 = 60;
/// The maximum duration of a scenario: one year.
const DURATION_MAX: TimeSpan = TimeSpan(365 * 24 * 60 * 60_000_000_000);
/// The first port that is assigned.
pub(super) const FIRST_PORT: u16 = 7001;

type Checked = Result<(), ScenarioError>;

/// A scenario, with the numbers of its hosts and switches by name. The numbers follow the order of the
/// tables.
struct Nodes<'a> {
    scenario: &'a Scenario,
    numbers: BTreeMap<&'a str, usize>,
}

impl Nodes<'_> {
    fn number(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }

    fn host(&self, name: &str) -> Option<usize> {
        self.number(name)
            .filter(|number| *number < self.scenario.host.len())
    }
}

pub(super) fn check(scenario: &Scenario) -> Checked {
    if scenario.duration.0 == 0 {
        return Err(ScenarioError::new("duration", "the time must be above 0"));
    }
    if [scenario.duration, scenario.linger, scenario.forget]
        .iter()
        .any(|span| *span > DURATION_MAX)
    {
        return Err(ScenarioError::new("duration", "longer than a year"));
    }
    if scenario.program.is_empty() {
        return Err(ScenarioError::new("program", "the scenario names no program").with_hint(PROGRAM_HINT));
    }
    if scenario.host.is_empty() {
        let error = ScenarioError::new("host", "the scenario has no hosts");
        return Err(error.with_hint("`[[host]]` tables, or a `[topology]`"));
    }
    let sizes = [
        ("host", scenario.host.len(), HOSTS_MAX),
        ("switch", scenario.switch.len(), SWITCHES_MAX),
        ("link", scenario.link.len(), LINKS_MAX),
        ("at", scenario.at.len(), CHANGES_MAX),
    ];
    if let Some((key, len, max)) = sizes.into_iter().find(|(_, len, max)| len > max) {
        return Err(ScenarioError::new(
            key,
            format!("{len} of them are more than the limit of {max}"),
        ));
    }
    check_hosts(&scenario.host)?;
    check_switches(scenario)?;
    let nodes = &Nodes { scenario, numbers: scenario.node_numbers() };
    check_links(nodes)?;
    check_changes(nodes)?;
    scenario.check_headroom()?;
    check_flows(nodes)
}

const PROGRAM_HINT: &str = "the path of a .mtp or .so file, or the name of a built-in program";

fn check_hosts(hosts: &[HostSpec]) -> Checked {
    let mut names = BTreeSet::new();
    let mut owners = BTreeMap::new();
    for (i, host) in hosts.iter().enumerate() {
        let at = |key: &str| format!("host[{i}].{key}");
        if host.name.is_empty() || !names.insert(&host.name) {
            return Err(ScenarioError::new(
                at("name"),
                "every host needs a name of its own",
            ));
        }
        if !(68..=65_535).contains(&host.mtu) {
            let message = format!("an MTU of {} bytes is not between 68 and 65535", host.mtu);
            return Err(ScenarioError::new(at("mtu"), message));
        }
        check_priorities(host.priorities, at("priorities"))?;
        if host.device_queue == Some(DataSize(0)) {
            let error =
                ScenarioError::new(at("device_queue"), "a device without room for a byte cannot send");
            return Err(error.with_hint("device_queue = \"3kB\": two packets of 1500 bytes"));
        }
        for (address, _) in host.parsed_addresses(i)? {
            if let Some(owner) = owners.insert(address, &host.name) {
                let message = format!("{address} is already an address of `{owner}`");
                return Err(ScenarioError::new(at("addresses"), message));
            }
        }
    }
    Ok(())
}

/// Checks that the names of hosts and switches are unique.
fn check_switches(scenario: &Scenario) -> Checked {
    let (hosts, mut names) = (scenario.host_numbers(), BTreeSet::new());
    for (i, switch) in scenario.switch.iter().enumerate() {
        let at = format!("switch[{i}].name");
        if hosts.contains_key(switch.name.as_str()) {
            return Err(ScenarioError::new(
                at,
                format!("`{}` is already a host", switch.name),
            ));
        }
        if switch.name.is_empty() || !names.insert(&switch.name) {
            return Err(ScenarioError::new(at, "every switch needs a name of its own"));
        }
        check_ports_of(switch, &format!("switch[{i}]"))?;
        switch.check_pfc(&format!("switch[{i}]"))?;
        switch.check_marking(&format!("switch[{i}]"))?;
    }
    Ok(())
}

fn check_priorities(priorities: u8, path: String) -> Checked {
    if (1..=8).contains(&priorities) {
        return Ok(());
    }
    let message = format!("{priorities} is not a valid number of priorities");
    Err(ScenarioError::new(path, message).with_hint("1 to 8: the precedence of an IP header has three bits"))
}

/// Checks that the settings of a switch's ports are consistent.
fn check_ports_of(switch: &SwitchSpec, path: &str) -> Checked {
    check_priorities(switch.priorities, format!("{path}.priorities"))?;
    if switch.buffer == Some(DataSize(0)) {
        let message = "a buffer without room for a byte forwards no packet";
        return Err(ScenarioError::new(format!("{path}.buffer"), message));
    }
    if switch.shared && switch.buffer.is_none() {
        let error = ScenarioError::new(
            format!("{path}.shared"),
            "no `buffer` is given that ports could share",
        );
        return Err(error.with_hint("buffer = \"1MiB\""));
    }
    let Some(DataSize(to)) = switch.trim_to else {
        if switch.return_to_sender {
            let error = ScenarioError::new(
                format!("{path}.return_to_sender"),
                "trimmed packets return without their data",
            );
            return Err(error.with_hint("trim_to = 64"));
        }
        return Ok(());
    };
    let path = format!("{path}.trim_to");
    if to < TRIM_MIN {
        let message = format!("a packet of {to} bytes may have no room for its IP header");
        return Err(ScenarioError::new(path, message).with_hint(format!("at least {TRIM_MIN} bytes")));
    }
    if switch.priorities < 2 {
        let error = ScenarioError::new(
            path,
            "trimmed packets need several priorities and wait with the highest",
        );
        return Err(error.with_hint("priorities = 2, or more"));
    }
    Ok(())
}

fn check_links(nodes: &Nodes<'_>) -> Checked {
    let (scenario, mut names) = (nodes.scenario, BTreeSet::new());
    for (i, link) in scenario.link.iter().enumerate() {
        for (end, name) in link.between.iter().enumerate() {
            known_node(nodes, name, format!("link[{i}].between[{end}]"))?;
        }
        if link.between[0] == link.between[1] {
            let message = "a link needs two different ends";
            return Err(ScenarioError::new(format!("link[{i}].between"), message));
        }
        if !names.insert(link.label()) {
            let message = format!("the link `{}` already exists", link.label());
            return Err(ScenarioError::new(format!("link[{i}]"), message).with_hint("give it a `name`"));
        }
        check_rules(&link.both, &format!("link[{i}].both"))?;
        check_rules(&link.forward, &format!("link[{i}].forward"))?;
        check_rules(&link.backward, &format!("link[{i}].backward"))?;
        scenario.check_paused(link, &format!("link[{i}]"))?;
        scenario.check_nat(link, &format!("link[{i}]"))?;
    }
    Ok(())
}

fn check_rules(rules: &Rules, path: &str) -> Checked {
    if rules.burst.is_some_and(|burst| !(1.0..=1e9).contains(&burst)) {
        let message = "the mean length of a burst is a number of frames, at least 1";
        return Err(ScenarioError::new(format!("{path}.burst"), message));
    }
    if rules.queue_packets == Some(0) {
        let message = "a queue without room for a frame forwards no packet";
        return Err(ScenarioError::new(format!("{path}.queue_packets"), message));
    }
    if rules.drop.iter().flatten().any(|number| *number == 0) {
        let message = "frames are counted from 1";
        return Err(ScenarioError::new(format!("{path}.drop"), message));
    }
    Ok(())
}

fn check_changes(nodes: &Nodes<'_>) -> Checked {
    let scenario = nodes.scenario;
    let labels: Vec<String> = scenario.link.iter().map(LinkSpec::label).collect();
    let known: BTreeSet<&String> = labels.iter().collect();
    for (i, at) in scenario.at.iter().enumerate() {
        if at.time > scenario.duration {
            let message = format!("{} is after the end, {}", at.time, scenario.duration);
            return Err(ScenarioError::new(format!("at[{i}].time"), message));
        }
        if let Some(node) = at.node() {
            check_fall(nodes, at, node, i)?;
            continue;
        }
        if !known.contains(&at.link) {
            let error = ScenarioError::new(format!("at[{i}].link"), format!("unknown link `{}`", at.link));
            return Err(error.with_hint(there_are("links", &at.link, labels.iter().map(String::as_str))));
        }
        check_rules(&at.both, &format!("at[{i}].both"))?;
        check_rules(&at.forward, &format!("at[{i}].forward"))?;
        check_rules(&at.backward, &format!("at[{i}].backward"))?;
        let nothing = [&at.both, &at.forward, &at.backward]
            .iter()
            .all(|rules| **rules == Rules::default());
        if nothing && at.state.is_none() {
            let error = ScenarioError::new(format!("at[{i}]"), "this entry changes nothing");
            return Err(error.with_hint("give `state = \"down\"`, or rules: `both = { loss = 0.1 }`"));
        }
    }
    Ok(())
}

/// Checks a change by which a host or a switch goes down or comes up again: it has neither a link's name nor
/// rules.
fn check_fall(nodes: &Nodes<'_>, at: &ScheduledChange, node: &str, i: usize) -> Checked {
    let rules = [&at.both, &at.forward, &at.backward];
    let is_more = at.host.is_some() && at.switch.is_some() || !at.link.is_empty();
    if at.host.is_some() {
        known_host(nodes, node, format!("at[{i}].host"))?;
    } else {
        known_switch(nodes, node, format!("at[{i}].switch"))?;
    }
    if is_more || rules.iter().any(|rules| **rules != Rules::default()) {
        let message = "a change concerns a link with its rules, a host, or a switch";
        return Err(ScenarioError::new(format!("at[{i}]"), message));
    }
    if at.state.is_none() {
        let error = ScenarioError::new(format!("at[{i}]"), "this entry changes nothing");
        return Err(error.with_hint("give `state = \"down\"` or `state = \"up\"`"));
    }
    Ok(())
}

fn check_flows(nodes: &Nodes<'_>) -> Checked {
    let scenario = nodes.scenario;
    let total = scenario
        .flow
        .iter()
        .try_fold(0u64, |sum, flow| sum.checked_add(flow.connections()?));
    if total.is_none_or(|total| total > FLOWS_MAX) {
        return Err(ScenarioError::new(
            "flow",
            format!("more than {FLOWS_MAX} connections"),
        ));
    }
    let exchanges = scenario.flow.iter().try_fold(0u64, |sum, flow| {
        let largest = flow.traffic().map_or(0, Traffic::exchanges);
        sum.checked_add(largest.checked_mul(flow.connections()?)?)
    });
    if exchanges.is_none_or(|exchanges| exchanges > EXCHANGES_MAX) {
        let message = format!("more than {EXCHANGES_MAX} exchanges and messages");
        return Err(ScenarioError::new("flow", message));
    }
    let graph = Graph::from_scenario(scenario);
    for (i, flow) in scenario.flow.iter().enumerate() {
        check_flow(nodes, flow, &graph, &format!("flow[{i}]"))?;
    }
    check_ports(scenario)
}

/// Returns a caller and a server of a flow that no path joins, or a host that would connect to itself.
fn without_path(nodes: &Nodes<'_>, flow: &FlowSpec, graph: &Graph) -> Option<[usize; 2]> {
    let (from, to) = (flow.from.names(), flow.to.names());
    let number = |name: &String| nodes.number(name).unwrap_or(0);
    if graph.joins_all(from.iter().chain(to).map(number)) {
        let servers: BTreeSet<&String> = to.iter().collect();
        let own = match flow.pairs {
            Pairs::All => from.iter().find(|name| servers.contains(name)),
            Pairs::Others => None,
            Pairs::InOrder => from
                .iter()
                .zip(to)
                .find(|(from, to)| from == to)
                .map(|(from, _)| from),
        };
        return own.map(|name| [number(name); 2]);
    }
    let mut pairs = flow.pairs().map(|(from, to)| [number(from), number(to)]);
    pairs.find(|[from, to]| from == to || !graph.reaches(*from, *to))
}

fn check_flow(nodes: &Nodes<'_>, flow: &FlowSpec, graph: &Graph, path: &str) -> Checked {
    let scenario = nodes.scenario;
    known_hosts(nodes, &flow.from, &format!("{path}.from"))?;
    known_hosts(nodes, &flow.to, &format!("{path}.to"))?;
    let lengths = [&flow.from, &flow.to].map(|hosts| hosts.names().len());
    if flow.pairs == Pairs::InOrder && lengths[0] != lengths[1] {
        let message = format!("{} hosts do not pair off with {}", lengths[0], lengths[1]);
        return Err(ScenarioError::new(format!("{path}.pairs"), message));
    }
    if flow.pairs().next().is_none() {
        let error = ScenarioError::new(path, "no host connects to another one");
        return Err(error.with_hint("a flow needs two different ends"));
    }
    if let Some([from, to]) = without_path(nodes, flow, graph) {
        let names = [from, to].map(|number| &scenario.host[number].name);
        let error = ScenarioError::new(path, format!("no path from `{}` to `{}`", names[0], names[1]));
        let hint = if from == to {
            "a flow needs two different ends"
        } else {
            "only links and switches form a path; hosts do not forward packets"
        };
        return Err(error.with_hint(hint));
    }
    if flow.count == 0 {
        return Err(ScenarioError::new(format!("{path}.count"), "at least one flow"));
    }
    if flow.at > scenario.duration {
        let message = format!("{} is after the end, {}", flow.at, scenario.duration);
        return Err(ScenarioError::new(format!("{path}.at"), message));
    }
    if flow.read_rate.is_some_and(|rate| rate.0 < 8) {
        return Err(ScenarioError::new(format!("{path}.read_rate"), "at least 8bit/s"));
    }
    if flow.again > 0 && flow.open == Opening::Both {
        let error = ScenarioError::new(format!("{path}.again"), "both ends of this flow connect at once");
        return Err(error.with_hint("only a flow that a client opens is opened again"));
    }
    if flow.again > 0 && flow.open == Opening::Nobody {
        let message = "this flow has no listener and cannot be opened again";
        return Err(ScenarioError::new(format!("{path}.again"), message));
    }
    if flow.client_port == Some(0) {
        return Err(ScenarioError::new(
            format!("{path}.client_port"),
            "port 0 is not a port",
        ));
    }
    if !matches!(flow.family, None | Some(4 | 6)) {
        return Err(ScenarioError::new(
            format!("{path}.family"),
            "the family must be 4 or 6",
        ));
    }
    check_application(flow, path)?;
    scenario.check_outside(flow, path)?;
    flow.kinds()
        .try_for_each(|(_, kind)| kind.check(scenario, flow, path))
}

fn check_application(flow: &FlowSpec, path: &str) -> Checked {
    if flow.kinds().count() != 1 {
        let kinds = KINDS.join("`, `");
        let error = ScenarioError::new(path, format!("a flow has exactly one of `{kinds}`"));
        return Err(error.with_hint("bulk = { bytes = \"1MiB\" }"));
    }
    Ok(())
}

/// Checks the address and port of each endpoint of calls and of each server. A port of several connections
/// has one listener; flows that share it must name it and have the same settings for it.
fn check_ports(scenario: &Scenario) -> Checked {
    let (mut first, mut pairs) = (BTreeMap::new(), BTreeSet::new());
    for (flow, ends) in scenario.ends()?.iter().enumerate() {
        match ends {
            FlowHosts::Connections(connections) => {
                for connection in connections {
                    check_client_port(scenario, connection, &mut pairs)?;
                    let before = *first.entry(connection.server).or_insert(flow);
                    check_server_port(scenario, connection, before)?;
                }
            }
            FlowHosts::Calls(calling) => {
                for (host, address) in calling.callers.iter().chain(&calling.servers) {
                    check_not_zero(flow, *address)?;
                    if *first.entry(*address).or_insert(flow) != flow {
                        return Err(taken(scenario, flow, (*host, *address), CALLS_HINT));
                    }
                }
            }
        }
    }
    Ok(())
}

const CALLS_HINT: &str = "calls have a port of their own";

fn check_not_zero(flow: usize, server: SocketAddr) -> Checked {
    match server.port() {
        0 => Err(ScenarioError::new(
            format!("flow[{flow}].port"),
            "port 0 is not a port",
        )),
        _ => Ok(()),
    }
}

/// Returns the error that another flow has a host's port.
fn taken(
    scenario: &Scenario,
    flow: usize,
    (host, address): (usize, SocketAddr),
    hint: &str,
) -> ScenarioError {
    let (name, port) = (&scenario.host[host].name, address.port());
    let message = format!("port {port} of `{name}` is already in use");
    ScenarioError::new(format!("flow[{flow}].port"), message).with_hint(hint)
}

fn check_client_port(
    scenario: &Scenario,
    connection: &Connection,
    pairs: &mut BTreeSet<[SocketAddr; 2]>,
) -> Checked {
    let Connection { client, server, .. } = *connection;
    if client.port() > 0 && !pairs.insert([client, server]) {
        let path = format!("flow[{}].client_port", connection.flow);
        let message = format!("a connection from {client} to {server} already exists");
        return Err(ScenarioError::new(path, message));
    }
    let client = &scenario.host[connection.hosts[0]].name;
    if connection.sharing > 1 && scenario.is_inside(client) {
        let message = format!(
            "`{client}` is behind a translator, but flows that share a port are told apart by their addresses"
        );
        return Err(ScenarioError::new(
            format!("flow[{}].port", connection.flow),
            message,
        ));
    }
    Ok(())
}

/// Checks a server's port; `before` is the first flow with the same port.
fn check_server_port(scenario: &Scenario, connection: &Connection, before: usize) -> Checked {
    let number = connection.flow;
    check_not_zero(number, connection.server)?;
    let (flow, other) = (&scenario.flow[number], &scenario.flow[before]);
    let server = (connection.hosts[1], connection.server);
    let taken = |hint: &str| Err(taken(scenario, number, server, hint));
    if connection.sharing > 1 && flow.open == Opening::Both {
        return taken("a flow that both ends open has a port of its own");
    }
    if before != number && other.calls.is_some() {
        return taken(CALLS_HINT);
    }
    if before != number && (flow.port.is_none() || other.port.is_none()) {
        return taken("flows share a port where each of them names it");
    }
    if connection.sharing > 1 && flow.receive_buffer != other.receive_buffer {
        let (name, port) = (&scenario.host[server.0].name, server.1.port());
        let path = format!("flow[{number}].receive_buffer");
        let message =
            format!("it differs from that of flow[{before}], with which it shares port {port} of `{name}`");
        return Err(ScenarioError::new(path, message).with_hint("a listener has one receive buffer"));
    }
    Ok(())
}

/// Checks that the hosts exist and differ.
fn known_hosts(nodes: &Nodes<'_>, hosts: &HostSelector, path: &str) -> Checked {
    let names = hosts.names();
    if let [name] = names {
        return known_host(nodes, name, path.to_owned()).map(|_| ());
    }
    let mut numbers = BTreeSet::new();
    for (i, name) in names.iter().enumerate() {
        let path = format!("{path}[{i}]");
        let number = known_host(nodes, name, path.clone())?;
        if !numbers.insert(number) {
            let message = format!("`{name}` is already in the list");
            return Err(ScenarioError::new(path, message));
        }
    }
    Ok(())
}

/// Returns a host's number.
fn known_host(nodes: &Nodes<'_>, name: &str, path: String) -> Result<usize, ScenarioError> {
    if let Some(number) = nodes.host(name) {
        return Ok(number);
    }
    let names = nodes.scenario.host.iter().map(|host| host.name.as_str());
    let error = ScenarioError::new(path, format!("unknown host `{name}`"));
    if nodes.number(name).is_some() {
        return Err(error.with_hint(format!("`{name}` is a switch")));
    }
    Err(error.with_hint(there_are("hosts", name, names)))
}

fn known_switch(nodes: &Nodes<'_>, name: &str, path: String) -> Checked {
    let names = nodes.scenario.switch.iter().map(|switch| switch.name.as_str());
    if names.clone().any(|known| known == name) {
        return Ok(());
    }
    let error = ScenarioError::new(path, format!("unknown switch `{name}`"));
    if nodes.host(name).is_some() {
        return Err(error.with_hint(format!("`{name}` is a host")));
    }
    Err(error.with_hint(there_are("switches", name, names)))
}

/// Checks that an end of a link exists.
fn known_node(nodes: &Nodes<'_>, name: &str, path: String) -> Checked {
    if nodes.number(name).is_some() {
        return Ok(());
    }
    let hosts = nodes.scenario.host.iter().map(|host| host.name.as_str());
    if nodes.scenario.switch.is_empty() {
        let error = ScenarioError::new(path, format!("unknown host `{name}`"));
        return Err(error.with_hint(there_are("hosts", name, hosts)));
    }
    let switches = nodes.scenario.switch.iter().map(|switch| switch.name.as_str());
    let error = ScenarioError::new(path, format!("unknown host or switch `{name}`"));
    Err(error.with_hint(there_are("hosts and switches", name, hosts.chain(switches))))
}

impl HostSpec {
    /// Returns its addresses with prefix lengths, or the default addresses of the host with this number.
    ///
    /// # Errors
    /// Returns an error if an address is invalid.
    pub fn parsed_addresses(&self, number: usize) -> Result<Vec<(IpAddr, u8)>, ScenarioError> {
        if self.addresses.is_empty() {
            let n = number as u32 + 1;
            let v4 = Ipv4Addr::from(0x0a00_0000 | n);
            let v6 = Ipv6Addr::from(0xfd00u128 << 112 | u128::from(n));
            return Ok(vec![(v4.into(), 16), (v6.into(), 64)]);
        }
        let parse = |(i, text): (usize, &String)| {
            parse_address(text).ok_or_else(|| {
                let path = format!("host[{number}].addresses[{i}]");
                let error = ScenarioError::new(path, format!("`{text}` is not an address"));
                error.with_hint("an address and a prefix length, such as 10.0.0.1/24 or fd00::1/64")
            })
        };
        self.addresses.iter().enumerate().map(parse).collect()
    }
}

fn parse_address(text: &str) -> Option<(IpAddr, u8)> {
    let (address, prefix) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let prefix: u8 = prefix.parse().ok()?;
    let max_prefix = if address.is_ipv4() { 32 } else { 128 };
    (prefix <= max_prefix && !address.is_unspecified() && !address.is_multicast())
        .then_some((address, prefix))
}

impl Scenario {
    /// Returns the server's ports of each flow, or `None` if the ports run out.
    #[must_use]
    pub fn ports(&self) -> Vec<Option<std::ops::RangeInclusive<u16>>> {
        let mut next = Some(FIRST_PORT);
        let range = |flow: &FlowSpec| {
            let first = flow.port.or(next)?;
            let count = if flow.one_port { 1 } else { flow.count };
            let last = u16::try_from(u64::from(first) + count.saturating_sub(1)).ok()?;
            if flow.port.is_none() {
                next = last.checked_add(1);
            }
            Some(first..=last)
        };
        self.flow.iter().map(range).collect()
    }
}
