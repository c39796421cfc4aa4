//! Properties of the topologies as stated in the papers, counted in the graphs.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::*;
use crate::scenario::FlowHosts;
use crate::scenario::paths::Graph;
use crate::scenario::tests::by_line;

/// Returns a scenario with this topology, and a flow from the first host to the second.
fn with(topology: &str) -> String {
    format!(
        "program = 'x'\n[topology]\n{topology}\n[[flow]]\nfrom = 'h0'\nto = 'h1'\nbulk = {{ bytes = 1 }}\n"
    )
}

fn built(topology: &str) -> Scenario {
    Scenario::parse(&with(topology)).unwrap_or_else(|error| panic!("{error}"))
}

/// Counts the pairs of hosts by their distance in links and by the number of shortest paths between them, for
/// each direction.
fn pairs(scenario: &Scenario) -> BTreeMap<(usize, u64), usize> {
    let graph = Graph::from_scenario(scenario);
    let mut neighbours = vec![Vec::new(); scenario.host.len() + scenario.switch.len()];
    for link in &scenario.link {
        let [one, other] = [0, 1].map(|end| scenario.node_number(&link.between[end]).expect("a node"));
        neighbours[one].push(other);
        neighbours[other].push(one);
    }
    let mut pairs = BTreeMap::new();
    for to in 0..scenario.host.len() {
        let towards = graph.towards(to);
        let mut order: Vec<usize> = (0..neighbours.len()).collect();
        order.sort_by_key(|node| towards.distance[*node]);
        let mut paths = vec![0u64; neighbours.len()];
        paths[to] = 1;
        for node in order.into_iter().filter(|node| *node != to) {
            let next = towards.ports[node]
                .iter()
                .map(|port| paths[neighbours[node][*port]]);
            paths[node] = next.sum();
        }
        for from in (0..scenario.host.len()).filter(|from| *from != to) {
            let far = towards.distance[from].expect("a path");
            *pairs.entry((far, paths[from])).or_default() += 1;
        }
    }
    pairs
}

/// Returns the number of links at each node.
fn degrees(scenario: &Scenario) -> BTreeMap<&str, usize> {
    let mut degrees = BTreeMap::new();
    let ends = scenario.link.iter().flat_map(|link| &link.between);
    ends.for_each(|end| *degrees.entry(end.as_str()).or_default() += 1);
    degrees
}

#[test]
fn a_dumbbell_has_one_link_in_the_middle() {
    let scenario = built(
        "kind = 'dumbbell'\nhosts = 3\nhost_link = { rate = '1Gbit/s' }\ncore_link = { rate = '10Mbit/s' }",
    );
    assert_eq!(
        (scenario.host.len(), scenario.switch.len(), scenario.link.len()),
        (6, 2, 7)
    );
    // Each host has two others on its side, and three on the other side.
    assert_eq!(
        pairs(&scenario),
        BTreeMap::from([((2, 1), 6 * 2), ((3, 1), 6 * 3)])
    );
    let core = scenario
        .link
        .iter()
        .find(|link| link.label() == "left-right")
        .expect("the core");
    assert_eq!(core.both.rate.map(|rate| rate.0), Some(10_000_000));
    let host = scenario
        .link
        .iter()
        .find(|link| link.label() == "h5-right")
        .expect("the last host");
    assert_eq!(host.both.rate.map(|rate| rate.0), Some(1_000_000_000));
}

#[test]
fn hosts_of_different_leaves_have_a_path_over_each_spine() {
    let scenario = built("kind = 'leaf-spine'\nleaves = 9\nspines = 4\nhosts = 16");
    assert_eq!(
        (scenario.host.len(), scenario.switch.len(), scenario.link.len()),
        (144, 13, 144 + 36)
    );
    assert_eq!(
        pairs(&scenario),
        BTreeMap::from([((2, 1), 144 * 15), ((4, 4), 144 * 128)])
    );
    assert_eq!(scenario.link[16].label(), "h16-leaf1");
}

/// Al-Fares, Loukissas and Vahdat (SIGCOMM 2008), 3.1: k³/4 hosts, 5k²/4 switches of k ports, and (k/2)²
/// shortest paths between hosts of different pods.
#[test]
fn a_fat_tree_has_the_counts_of_its_paper() {
    for ports in [2, 4, 6] {
        let scenario = built(&format!(
            "kind = 'fat-tree'\nports = {ports}\nswitch = {{ priorities = 4 }}\nhost = {{ mtu = 9000 }}"
        ));
        let half = ports / 2;
        let hosts = ports * ports * ports / 4;
        assert_eq!(
            (scenario.host.len(), scenario.switch.len()),
            (hosts, 5 * ports * ports / 4)
        );
        let degrees = degrees(&scenario);
        assert!(
            scenario
                .switch
                .iter()
                .all(|switch| degrees[switch.name.as_str()] == ports && switch.priorities == 4)
        );
        assert!(
            scenario
                .host
                .iter()
                .all(|host| degrees[host.name.as_str()] == 1 && host.mtu == 9000)
        );
        let half64 = half as u64;
        let mut expected = BTreeMap::new();
        // Hosts at the same edge switch; in the same pod; in other pods.
        let groups = [
            ((2, 1), half - 1),
            ((4, half64), half * half - half),
            ((6, half64 * half64), hosts - half * half),
        ];
        expected.extend(
            groups
                .into_iter()
                .filter(|(_, others)| *others > 0)
                .map(|(kind, others)| (kind, others * hosts)),
        );
        assert_eq!(pairs(&scenario), expected, "{ports} ports");
    }
}

#[test]
fn tables_beside_a_topology_are_written_without_it() {
    let text =
        with("kind = 'dumbbell'\nhosts = 1") + "[[host]]\nname = 'x'\n[[link]]\nbetween = ['x', 'right']\n";
    let scenario = Scenario::parse(&text).expect("a scenario");
    let names: Vec<&str> = scenario.host.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(names, ["h0", "h1", "x"]);
    assert_eq!(scenario.topology, None);
    let written = scenario.to_toml().expect("text");
    assert_eq!(Scenario::parse(&written).expect("the same"), scenario);
}

#[test]
fn invalid_topologies_are_rejected_with_reason_and_place() {
    let cases = [
        (
            "kind = 'leaf-spine'\nspines = 2\nhosts = 2",
            "line 2: `topology.leaves`: a leaf-spine needs a number of `leaves`",
        ),
        (
            "kind = 'dumbbell'\nhosts = 2\nspines = 1",
            "line 5: `topology.spines`: a dumbbell has no number of `spines`\n  hint: it has hosts",
        ),
        (
            "kind = 'fat-tree'\nports = 5",
            "line 4: `topology.ports`: 5 is odd",
        ),
        (
            "kind = 'fat-tree'\nports = 0",
            "`topology.ports`: 0 is not between 1 and 1000",
        ),
        (
            "kind = 'fat-tree'\nports = 1000",
            "`topology`: 250000000 hosts are more than the limit of 1000",
        ),
        (
            "kind = 'leaf-spine'\nleaves = 600\nspines = 600\nhosts = 1",
            "`topology`: 1200 switches are more than the limit of 1000",
        ),
        (
            "kind = 'leaf-spine'\nleaves = 500\nspines = 500\nhosts = 1",
            "250500 of them are more than the limit of 10000",
        ),
        ("kind = 'ring'", "line 3: `topology.kind`: unknown value `ring`"),
        (
            "kind = 'dumbbell'\nhosts = 1\nhost = { name = 'x' }",
            "`topology.host.name`: the topology gives each host",
        ),
        (
            "kind = 'dumbbell'\nhosts = 1\nswitch = { priorities = 9 }",
            "line 5: `topology.switch.priorities`: 9 is not a valid number of priorities",
        ),
        (
            "kind = 'dumbbell'\nhosts = 1\n[topology.switch]\nbuffer = '1MB'\npfc_xon = 5",
            "line 7: `topology.switch.pfc_xon`: `pfc_xoff` is missing",
        ),
        (
            "kind = 'dumbbell'\nhosts = 1\n[topology.host]\nbuffer = '1MB'\nmtu = 5",
            "line 7: `topology.host.mtu`: an MTU of 5 bytes",
        ),
        (
            "kind = 'dumbbell'\nhosts = 1\nhost_link = { loss = 0.1 }\ncore_link = { queue_packets = 0 }",
            "line 6: `topology.core_link.queue_packets`: a queue without room",
        ),
        (
            "kind = 'dumbbell'\nhosts = 1\nhost_link = { burst = 0 }",
            "line 5: `topology.host_link.burst`: the mean length",
        ),
        (
            "kind = 'dumbbell'\nhosts = 1\nswitch = { pfc_xoff = 1, pfc_headroom = 1 }",
            "line 2: `topology.host_link`: `left` pauses its senders",
        ),
        (
            "kind = 'dumbbell'\nhosts = 1\n[[host]]\nname = 'x'\n[[host]]\nname = 'y'\nmtu = 5",
            "line 9: `host[1].mtu`: an MTU of 5 bytes",
        ),
        (
            "kind = 'dumbbell'\nhosts = 1\n[[switch]]\nname = 's'\npriorities = 9",
            "line 7: `switch[0].priorities`: 9 is not a valid number",
        ),
        (
            "kind = 'dumbbell'\nhosts = 1\n[[link]]\nbetween = ['h0', 'h7']",
            "line 6: `link[0].between[1]`: unknown host or switch `h7`",
        ),
    ];
    for (topology, expected) in cases {
        let error = by_line(&Scenario::parse(&with(topology)).expect_err(topology));
        assert!(error.contains(expected), "{error}\nand not\n{expected}");
    }
    let none = Scenario::parse("program = 'x'\nflow = []")
        .expect_err("no host")
        .to_string();
    assert!(
        none.contains("`host`: the scenario has no hosts\n  hint: `[[host]]` tables, or a `[topology]`"),
        "{none}"
    );
}

#[test]
fn a_range_of_hosts_expands_to_all_of_them() {
    let flow = |from: &str| {
        let text = format!(
            "program = 'x'\ntopology = {{ kind = 'leaf-spine', leaves = 2, spines = 1, hosts = 6 }}\n\
             [[flow]]\nfrom = {from}\nto = 'h11'\nbulk = {{ bytes = 1 }}\n"
        );
        Scenario::parse(&text).map(|scenario| scenario.flow[0].from.names().to_vec())
    };
    assert_eq!(flow("'h[8-10]'").expect("a range"), ["h8", "h9", "h10"]);
    assert_eq!(
        flow("['h[0-1]', 'h5', 'h[7-7]']").expect("a list"),
        ["h0", "h1", "h5", "h7"]
    );
    for bad in ["h[3-1]", "h[3]", "h[a-b]", "h[]", "h[0-]", "h[0-+1]"] {
        let error = by_line(&flow(&format!("'{bad}'")).expect_err(bad));
        assert!(
            error.contains("is not a range of hosts: write a range like h[0-15]"),
            "{error}"
        );
    }
    for large in [
        "h[0-1000]",
        "h[0-999999999999]",
        "h[0-99999999999999999999]",
        "h[4294967296-4294967297]",
    ] {
        let error = by_line(&flow(&format!("'{large}'")).expect_err(large));
        let expected = format!(
            "line 4: `flow[0].from`: `{large}` is more than the limit: a range has at most 1000 hosts, of numbers up to \
             4294967295"
        );
        assert_eq!(error, expected);
    }
    assert!(
        flow("'h[0-12]'")
            .expect_err("no such host")
            .to_string()
            .contains("unknown host `h12`")
    );
}

#[test]
fn hosts_pair_off_as_the_flow_says() {
    let pairs = |rest: &str| {
        let text = format!(
            "program = 'x'\ntopology = {{ kind = 'leaf-spine', leaves = 2, spines = 1, hosts = 3 }}\n\
             [[flow]]\nbulk = {{ bytes = 1 }}\n{rest}\n"
        );
        let scenario = Scenario::parse(&text)?;
        let flow = &scenario.flow[0];
        let pairs: Vec<String> = flow.pairs().map(|(from, to)| format!("{from} {to}")).collect();
        assert_eq!(flow.connections(), Some(pairs.len() as u64));
        let [FlowHosts::Connections(connections)] = &scenario.ends()?[..] else {
            panic!("a flow of connections");
        };
        assert_eq!(connections.len(), pairs.len());
        let calls = text.replace("bulk = { bytes = 1 }", "calls = { size = 1 }");
        let calls = Scenario::parse(&calls)?;
        let [FlowHosts::Calls(calling)] = &calls.ends()?[..] else {
            panic!("a flow of calls");
        };
        let name = |(host, _): (usize, SocketAddr)| &calls.host[host].name;
        let called = calling.pairs().map(|(caller, server)| {
            format!(
                "{} {}",
                name(calling.callers[caller]),
                name(calling.servers[server])
            )
        });
        assert_eq!(called.collect::<Vec<_>>(), pairs);
        Ok::<_, ScenarioError>(pairs)
    };
    let all = pairs("from = 'h[0-1]'\nto = ['h2', 'h3']").expect("all");
    assert_eq!(all, ["h0 h2", "h0 h3", "h1 h2", "h1 h3"]);
    let others = pairs("from = 'h[0-2]'\nto = ['h1', 'h0', 'h2']\npairs = 'others'").expect("all to all");
    assert_eq!(others, ["h0 h1", "h0 h2", "h1 h0", "h1 h2", "h2 h1", "h2 h0"]);
    let shifted =
        pairs("from = 'h[0-2]'\nto = ['h4', 'h5', 'h3']\npairs = 'in-order'").expect("a permutation");
    assert_eq!(shifted, ["h0 h4", "h1 h5", "h2 h3"]);
    let error = |rest: &str| by_line(&pairs(rest).expect_err(rest));
    let unequal = error("from = 'h[0-2]'\nto = 'h[3-4]'\npairs = 'in-order'");
    assert!(
        unequal.contains("`flow[0].pairs`: 3 hosts do not pair off with 2"),
        "{unequal}"
    );
    let own = error("from = 'h[0-2]'\nto = ['h3', 'h1', 'h4']\npairs = 'in-order'");
    assert!(
        own.contains("no path from `h1` to `h1`\n  hint: a flow needs two different ends"),
        "{own}"
    );
    let alone = error("from = 'h1'\nto = 'h1'\npairs = 'others'");
    assert!(alone.contains("no host connects to another one"), "{alone}");
}
