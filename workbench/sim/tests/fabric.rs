//! Ports of switches at which packets meet, and the choice among several paths.

#![allow(clippy::disallowed_methods)] // Tests read the repository; the crate itself does not.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use hawser_engine::program::Program;
use hawser_load::Engine;
use hawser_load::programs::resolve_with_on;
use hawser_sim::report::{LinkReport, Report};
use hawser_sim::world::FrameFate;
use hawser_sim::{Options, ResolveError, Scenario, run};

/// The bytes of a datagram's headers: the example's and IPv4's.
pub(crate) const HEADERS: u64 = 12 + 20;

fn resolve(name: &str, settings: &[String]) -> Result<Arc<dyn Program>, ResolveError> {
    Ok(resolve_with_on(Some(Engine::Interp), name, settings)?)
}

/// Returns the example of datagrams, whose packets have a class of their own. It is written only once,
/// because tests run in parallel.
pub(crate) fn datagrams() -> PathBuf {
    static WRITTEN: OnceLock<PathBuf> = OnceLock::new();
    WRITTEN.get_or_init(write_datagrams).clone()
}

fn write_datagrams() -> PathBuf {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/datagrams.mtp");
    let text = std::fs::read_to_string(example).expect("the example");
    let changes = [
        (
            "const uint64 LONGEST",
            "param uint8 CLASS = 0;\nconst uint64 LONGEST",
        ),
        (
            "    address(ip, c.ends);\n",
            "    address(ip, c.ends);\n    ip.dscp = CLASS;\n",
        ),
    ];
    let text = changes.iter().fold(text, |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    });
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("classes.mtp");
    std::fs::write(&path, text).expect("a file");
    path
}

fn go_with(text: &str, options: Options<'_>) -> Report {
    let scenario = Scenario::parse(text).unwrap_or_else(|error| panic!("{error} in\n{text}"));
    run(&scenario, &resolve, options).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn go(text: &str) -> Report {
    go_with(text, Options::default())
}

pub(crate) fn link<'a>(report: &'a Report, from: &str, to: &str) -> &'a LinkReport {
    let mut links = report.links.iter();
    links
        .find(|link| link.from == from && link.to == to)
        .unwrap_or_else(|| panic!("no link {from} -> {to}"))
}

/// Two hosts at a switch with a narrow line to a third one. The first sends without pause, the second
/// occasionally.
fn two_classes(switch: &str) -> Report {
    go(&format!(
        "program = '{}'\nduration = '1min'\n\
         host = [{{ name = 'a' }}, {{ name = 'b', params = {{ CLASS = 56 }} }}, {{ name = 'c' }}]\n\
         switch = [{{ name = 's', {switch} }}]\n\
         link = [{{ between = ['a', 's'] }}, {{ between = ['b', 's'] }},\n\
         {{ between = ['s', 'c'], both = {{ rate = '8Mbit/s', delay = '1ms' }} }}]\n\
         flow = [{{ from = 'a', to = 'c', one_way = true, messages = {{ count = 500, size = 1000, delivery = 'datagrams' }} }},\n\
         {{ from = 'b', to = 'c', one_way = true, at = '50ms', \
         messages = {{ count = 20, size = 100, interval = '10ms', delivery = 'datagrams' }} }}]\n",
        datagrams().display()
    ))
}

/// At 8 Mbit/s a byte takes a microsecond. A datagram of 132 bytes waits only for the packet on the line.
#[test]
fn a_high_priority_packet_waits_only_for_the_one_being_sent() {
    let report = two_classes("priorities = 8");
    assert!(report.ok, "{report}");
    let times = report.flows[1].times.as_ref().expect("times");
    let (own, other) = (100 + HEADERS, 1000 + HEADERS);
    let (lowest, highest) = ((own + 1000) as f64 / 1e6, (own + other + 1000) as f64 / 1e6);
    assert!(
        times.min >= lowest - 1e-9 && times.max <= highest + 1e-9,
        "{times:?} of {lowest} to {highest}"
    );
    assert_eq!(times.count, 20);
    // The priority never leaves the line idle.
    let all = (500 * other + 20 * own + 1000) as f64 / 1e6;
    let last = report
        .flows
        .iter()
        .filter_map(|flow| flow.forward.seconds)
        .fold(0.0, f64::max);
    assert!((last - all).abs() < 1e-6, "{last} of {all}");

    let behind = two_classes("priorities = 1");
    let times = behind.flows[1].times.as_ref().expect("times");
    assert!(times.min > 100.0 * highest, "behind what came before: {times:?}");
}

/// A program with a queue of ranks, where a packet's rank is its length. `device` sets the bytes that the
/// host's device accepts ahead of the line.
fn ranked(device: &str) -> Report {
    let text = std::fs::read_to_string(datagrams()).expect("the program");
    let changes = [
        (
            "emit pkt_gen(ip, d);",
            "emit pkt_gen(ip, d, queue nic.ranked, rank ev.len);",
        ),
        (
            "dispatch datagrams",
            "sched nic = PRIO(1) { ranked: RANK };\n\ndispatch datagrams",
        ),
        (
            "register_ep_chains(datagrams);",
            "register_ep_chains(datagrams);\n    register_pkt_sched(nic);",
        ),
    ];
    let text = changes.iter().fold(text, |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    });
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ranked.mtp");
    std::fs::write(&path, text).expect("a file");
    go(&format!(
        "program = '{}'\nduration = '1min'\n\
         host = [{{ name = 'a', {device} }}, {{ name = 'b' }}]\n\
         link = [{{ between = ['a', 'b'], both = {{ rate = '8Mbit/s', delay = '1ms' }} }}]\n\
         flow = [{{ from = 'a', to = 'b', one_way = true, messages = {{ count = 500, size = 1000, delivery = 'datagrams' }} }},\n\
         {{ from = 'a', to = 'b', one_way = true, at = '50ms', \
         messages = {{ count = 20, size = 100, interval = '10ms', delivery = 'datagrams' }} }}]\n",
        path.display()
    ))
}

/// A short packet waits for the packets that the device has accepted, but for no other packet that the host
/// has yet to send.
#[test]
fn a_rank_decides_until_the_device_takes_a_packet() {
    let (own, other) = (100 + HEADERS, 1000 + HEADERS);
    for ahead in [1, 2, 5] {
        // The device accepts another packet as long as it holds less than this.
        let report = ranked(&format!("device_queue = {}", ahead * other));
        assert!(report.ok, "{report}");
        // With a short packet the device still holds less than the limit, so another long one follows.
        let deepest = link(&report, "a", "b").queue.expect("a queue").max_bytes;
        assert_eq!(deepest, ahead * other + own);
        let times = report.flows[1].times.as_ref().expect("times");
        let (lowest, highest) = (
            (own + 1000) as f64 / 1e6,
            (own + ahead * other + 1000) as f64 / 1e6,
        );
        assert!(
            times.min >= lowest - 1e-9 && times.max <= highest + 1e-9,
            "{times:?} of {lowest} to {highest}"
        );
        // The rank never leaves the line idle.
        let all = (500 * other + 20 * own + 1000) as f64 / 1e6;
        let seconds = report.flows.iter().filter_map(|flow| flow.forward.seconds);
        let last = seconds.fold(0.0, f64::max);
        assert!((last - all).abs() < 1e-6, "{last} of {all}");
    }
    let all_at_once = ranked("");
    let times = all_at_once.flows[1].times.as_ref().expect("times");
    assert!(times.max > 0.4, "behind what came before: {times:?}");
}

/// A burst of 100 packets at one instant, of which the port has memory for 20.
fn burst(switch: &str, hosts: u64) -> Report {
    let mut text = format!(
        "program = '{}'\nduration = '1min'\nswitch = [{{ name = 's', {switch} }}]\nhost = [{{ name = 'a' }}, {{ name = 'b' }}",
        datagrams().display()
    );
    (2..hosts).for_each(|host| write!(text, ", {{ name = 'x{host}' }}").expect("text"));
    text += "]\nlink = [{ between = ['a', 's'] }";
    let names = (2..hosts).map(|host| format!("x{host}"));
    let receivers: Vec<String> = std::iter::once("b".to_owned()).chain(names).collect();
    for name in &receivers {
        write!(
            text,
            ",\n{{ between = ['s', '{name}'], both = {{ rate = '8Mbit/s', delay = '1ms' }} }}"
        )
        .expect("text");
    }
    write!(
        text,
        "]\nflow = [{{ from = 'a', to = {receivers:?}, one_way = true, \
         messages = {{ count = 100, size = 1000, delivery = 'datagrams' }} }}]\n"
    )
    .expect("text");
    go(&text)
}

#[test]
fn a_port_has_as_much_memory_as_its_switch_gives_it() {
    let packet = 1000 + HEADERS;
    let own = burst(&format!("buffer = {}", 20 * packet), 4);
    for to in ["b", "x2", "x3"] {
        let port = link(&own, "s", to);
        assert_eq!((port.delivered, port.dropped["queue"]), (20, 80), "{port:?}");
        let queue = port.queue.expect("a line");
        assert_eq!((queue.max_packets, queue.max_bytes), (20, 20 * packet));
    }
    let shared = burst(&format!("shared = true, buffer = {}", 20 * packet), 4);
    let delivered: u64 = ["b", "x2", "x3"]
        .iter()
        .map(|to| link(&shared, "s", to).delivered)
        .sum();
    assert_eq!(delivered, 20, "{shared}");
}

/// A burst of 100 packets leaves one packet after another, and the recorded depth matches at each time.
#[test]
fn recorded_depths_follow_a_draining_queue() {
    let (packet, name) = (1000 + HEADERS, datagrams().display().to_string());
    let text = format!(
        "program = '{name}'\nduration = '1min'\nqueue_depths = true\nhost = [{{ name = 'a' }}, {{ name = 'b' }}]\n\
         switch = [{{ name = 's' }}]\n\
         link = [{{ between = ['a', 's'] }}, {{ between = ['s', 'b'], both = {{ rate = '8Mbit/s' }} }}]\n\
         flow = [{{ from = 'a', to = 'b', at = '10ms', one_way = true, \
         messages = {{ count = 100, size = 1000, delivery = 'datagrams' }} }}]\n"
    );
    let report = go(&text);
    let depths = link(&report, "s", "b").queue_depths.as_ref().expect("asked for");
    let width = depths.width().as_secs_f64();
    let spans: Vec<_> = depths.spans().collect();
    assert!((256..=512).contains(&spans.len()), "{}", spans.len());
    // At 8 Mbit/s a byte takes a microsecond.
    let at = |seconds: f64| match ((seconds - 0.01) / (packet as f64 / 1e6)).floor() {
        left if left < 0.0 => 0.0,
        left => (100.0 - left.min(100.0)) * packet as f64,
    };
    let (mut deepest, mut sum) = (0, 0.0);
    for (from, max, mean) in spans {
        let (begins, ends) = (from.as_secs_f64(), from.as_secs_f64() + width);
        // The queue is deepest at the start of each span, except in the span of the burst.
        let expected = if begins < 0.01 && ends > 0.01 {
            at(0.01)
        } else {
            at(begins)
        };
        assert!(
            (max as f64 - expected).abs() < 1e-3,
            "{max} of {expected} at {begins}"
        );
        assert!(
            mean <= expected && (mean >= at(ends) || begins < 0.01),
            "{mean} of {expected}"
        );
        (deepest, sum) = (max.max(deepest), sum + mean * width);
    }
    assert_eq!(deepest, 100 * packet);
    // The area below the staircase: 100 + 99 + … + 1 packets, each for the time of one.
    let area = 5050.0 * packet as f64 * packet as f64 / 1e6;
    assert!((sum - area).abs() < 1e-6 * area, "{sum} of {area}");
    // Only the line from the switch is deep; lines without a rate have no queue.
    assert!(link(&report, "a", "s").queue_depths.is_none());
    let unasked = go(&text.replace("queue_depths = true", ""));
    assert!(unasked.links.iter().all(|link| link.queue_depths.is_none()));
    assert_eq!(unasked.trace_hash, report.trace_hash);
}

/// The network loses no packet: a packet that finds no room arrives as a header. The host's stack counts it
/// as truncated.
#[test]
fn a_packet_without_room_arrives_as_a_header() {
    let packet = 1000 + HEADERS;
    let report = burst(
        &format!("priorities = 2, trim_to = 64, buffer = {}", 20 * packet),
        2,
    );
    let port = link(&report, "s", "b");
    assert_eq!(
        (port.sent, port.delivered, port.trimmed),
        (100, 100, 80),
        "{port:?}"
    );
    assert_eq!(port.delivered_bytes, 20 * packet + 80 * 64);
    assert_eq!(
        report.hosts[1].counters["interface_truncated"], 80,
        "{:?}",
        report.hosts
    );
    let messages = report.flows[0].forward.messages.expect("messages");
    assert_eq!((messages.sent, messages.received), (100, 20));
}

/// A packet that does not fit even as a header returns to its sender, whose stack counts it. No packet is
/// lost.
#[test]
fn a_packet_without_room_for_its_header_goes_back() {
    let ports = format!(
        "priorities = 2, trim_to = 64, return_to_sender = true, buffer = {}",
        1000 + HEADERS
    );
    let report = burst(&ports, 2);
    let port = link(&report, "s", "b");
    assert_eq!(port.sent, port.delivered + port.returned, "{port:?}");
    assert!(port.returned > 10 && port.trimmed > port.returned, "{port:?}");
    assert_eq!(report.hosts[0].counters["interface_truncated"], port.returned);
}

/// Two leaves with hosts, and spines: each leaf has a link to each spine.
fn leaf_spine(spines: usize, switch: &str, rate: &str) -> String {
    let (mut hosts, mut switches, mut links) = (Vec::new(), Vec::new(), Vec::new());
    for leaf in 0..2 {
        switches.push(format!("{{ name = 'leaf{leaf}'{switch} }}"));
        for host in 0..4 {
            let name = format!("h{}", 4 * leaf + host);
            links.push(format!(
                "{{ between = ['{name}', 'leaf{leaf}'], both = {{ {rate}delay = '1us' }} }}"
            ));
            hosts.push(format!("{{ name = '{name}' }}"));
        }
        (0..spines).for_each(|spine| {
            links.push(format!(
                "{{ between = ['leaf{leaf}', 'spine{spine}'], both = {{ {rate}delay = '1us' }} }}"
            ));
        });
    }
    (0..spines).for_each(|spine| switches.push(format!("{{ name = 'spine{spine}'{switch} }}")));
    let [hosts, switches, links] = [hosts, switches, links].map(|all| all.join(",\n"));
    format!("duration = '1min'\nhost = [{hosts}]\nswitch = [{switches}]\nlink = [{links}]\n")
}

/// The number of packets of each flow over each spine. Flows are identified by the hosts' addresses and the
/// ports.
type Paths = BTreeMap<(u8, u8, [u8; 4]), BTreeMap<usize, u64>>;

fn paths(text: &str, seed: u64) -> (Paths, Report) {
    let scenario = Scenario::parse(text).unwrap_or_else(|error| panic!("{error} in\n{text}"));
    let spine_of = |name: &str| name.strip_prefix("spine").and_then(|number| number.parse().ok());
    // Pipe 2 · i is that of link i from its first end to its second.
    let spines: Vec<Option<usize>> = scenario
        .link
        .iter()
        .flat_map(|link| [spine_of(&link.between[1]), None])
        .collect();
    let seen = Rc::new(RefCell::new(Paths::new()));
    let into = Rc::clone(&seen);
    let options = Options {
        seed: Some(seed),
        packets: Some(Box::new(move |sight| {
            let spine = sight.pipe.and_then(|pipe| spines[pipe]);
            if let (FrameFate::Forwarded, Some(spine)) = (sight.fate, spine) {
                let head = &sight.frame.head;
                let ports = head[20..24].try_into().expect("four bytes");
                let flow = (head[15], head[19], ports);
                *into
                    .borrow_mut()
                    .entry(flow)
                    .or_default()
                    .entry(spine)
                    .or_default() += 1;
            }
        })),
        ..Options::default()
    };
    let report = run(&scenario, &resolve, options).expect("it runs");
    (seen.take(), report)
}

const CROSSING: &str = "[[flow]]\nfrom = ['h0', 'h1', 'h2', 'h3']\nto = ['h4', 'h5', 'h6', 'h7']\ncount = 4\nbulk = { bytes = '20kB' }\n";

#[test]
fn a_flow_keeps_to_one_path_and_flows_use_all_of_them() {
    let text = format!(
        "program = 'tcp'\n{}{CROSSING}",
        leaf_spine(4, "", "rate = '1Gbit/s', ")
    );
    let (seen, report) = paths(&text, 1);
    assert!(report.ok, "{report}");
    // Flows of both directions that cross a spine.
    assert_eq!(seen.len(), 2 * 64);
    let mut of_spine = [0u64; 4];
    for (flow, spines) in &seen {
        assert_eq!(spines.len(), 1, "{flow:?}: {spines:?}");
        spines.keys().for_each(|spine| of_spine[*spine] += 1);
    }
    // 128 flows on four paths: within five standard deviations of 32.
    let deviation = (128.0f64 * 0.25 * 0.75).sqrt();
    assert!(
        of_spine
            .iter()
            .all(|count| (*count as f64 - 32.0).abs() < 5.0 * deviation),
        "{of_spine:?}"
    );
    let choice = |seed| paths(&text, seed).0;
    assert_eq!(choice(1), seen);
    assert_ne!(choice(2), seen, "another seed, other paths");
}

#[test]
fn sprayed_packets_of_one_flow_use_all_paths() {
    let flow = "[[flow]]\nfrom = 'h0'\nto = 'h5'\nbulk = { bytes = '2MB' }\n";
    for (spray, spread) in [
        ("round-robin", 1.0),
        ("random", 5.0 * (1400.0f64 * 0.25 * 0.75).sqrt()),
    ] {
        let switch = format!(", spray = '{spray}'");
        let text = format!(
            "program = 'tcp'\n{}{flow}",
            leaf_spine(4, &switch, "rate = '10Gbit/s', ")
        );
        let (seen, report) = paths(&text, 1);
        assert!(report.ok, "{report}");
        let (_, spines) = seen
            .iter()
            .max_by_key(|(_, spines)| spines.values().sum::<u64>())
            .expect("a flow");
        let total: u64 = spines.values().sum();
        assert!(total >= 2_000_000 / 1448, "{total}");
        assert_eq!(spines.len(), 4, "{spray}: {spines:?}");
        let mean = total as f64 / 4.0;
        let even = spines
            .values()
            .all(|count| (*count as f64 - mean).abs() <= spread);
        assert!(even, "{spray}: {spines:?}");
    }
}

/// The first switch of each path has the same choice. The hash of a flow's packets at one switch does not
/// determine the choice at another.
#[test]
fn consecutive_switches_choose_paths_independently() {
    // a - s - (t0, t1) - u - (v0, v1) - w - b: among the flows on either first path, some take each of the
    // second paths.
    let names = ["s", "t0", "t1", "u", "v0", "v1", "w"]
        .map(|name| format!("{{ name = '{name}' }}"))
        .join(", ");
    let pairs = [
        ("a", "s"),
        ("s", "t0"),
        ("s", "t1"),
        ("t0", "u"),
        ("t1", "u"),
        ("u", "v0"),
        ("u", "v1"),
        ("v0", "w"),
        ("v1", "w"),
        ("w", "b"),
    ];
    let links = pairs
        .map(|(one, other)| format!("{{ between = ['{one}', '{other}'], both = {{ delay = '1us' }} }}"))
        .join(", ");
    let text = format!(
        "program = 'tcp'\nhost = [{{ name = 'a' }}, {{ name = 'b' }}]\nswitch = [{names}]\nlink = [{links}]\n\
         flow = [{{ from = 'a', to = 'b', count = 40, bulk = {{ bytes = 1000 }} }}]\n"
    );
    let taken = Rc::new(RefCell::new(BTreeMap::<[u8; 4], BTreeSet<usize>>::new()));
    let into = Rc::clone(&taken);
    let options = Options {
        packets: Some(Box::new(move |sight| {
            // Pipes 2 and 4 lead from s, 10 and 12 from u.
            if let (FrameFate::Forwarded, Some(pipe @ (2 | 4 | 10 | 12))) = (sight.fate, sight.pipe) {
                let ports = sight.frame.head[20..24].try_into().expect("four bytes");
                into.borrow_mut().entry(ports).or_default().insert(pipe);
            }
        })),
        ..Options::default()
    };
    assert!(go_with(&text, options).ok);
    let taken = taken.borrow();
    let kinds: BTreeSet<Vec<usize>> = taken
        .values()
        .map(|pipes| pipes.iter().copied().collect())
        .collect();
    assert_eq!(kinds, [[2, 10], [2, 12], [4, 10], [4, 12]].map(Vec::from).into());
}

/// Al-Fares et al.: with a path for each host of a pod, a permutation between pods has its full rate if
/// packets are spread. Sixteen bulk transfers at 1 Gbit/s take little longer than one.
#[test]
fn a_fat_tree_carries_a_permutation() {
    let go = |flow: &str| {
        go(&format!(
            "program = 'tcp'\nduration = '1min'\n[topology]\nkind = 'fat-tree'\nports = 4\n\
             host_link = {{ rate = '1Gbit/s', delay = '5us' }}\ncore_link = {{ rate = '1Gbit/s', delay = '5us' }}\n\
             [[flow]]\n{flow}\nbulk = {{ bytes = '1MB' }}\n"
        ))
    };
    let shifted: Vec<String> = (0..16).map(|host| format!("h{}", (host + 4) % 16)).collect();
    let all = go(&format!("from = 'h[0-15]'\nto = {shifted:?}\npairs = 'in-order'"));
    assert!(all.ok && all.flows.len() == 16, "{all}");
    // All packets that leave the edge reach the core: no flow stays within its pod.
    let up = |from: &str, to: &str| -> u64 {
        let links = all.links.iter();
        let between = links.filter(|link| link.from.starts_with(from) && link.to.starts_with(to));
        between.map(|link| link.delivered).sum()
    };
    let (hosts, edge, core) = (
        up("h", "edge"),
        up("edge", "aggregation"),
        up("aggregation", "core"),
    );
    assert!(
        hosts == edge && edge == core && hosts > 16 * 690,
        "{hosts} {edge} {core}"
    );
    let aggregation = up("core", "aggregation");
    assert_eq!((aggregation, up("edge", "h")), (hosts, hosts));
}

/// All data from many senders to one host leaves by one line: the last byte arrives when that line has
/// carried everything.
#[test]
fn an_incast_takes_as_long_as_the_receivers_line() {
    let report = go(&format!(
        "program = '{}'\nduration = '1min'\n[topology]\nkind = 'leaf-spine'\nleaves = 3\nspines = 2\nhosts = 8\n\
         host_link = {{ rate = '1Gbit/s', delay = '1us' }}\ncore_link = {{ rate = '4Gbit/s', delay = '1us' }}\n\
         [[flow]]\nfrom = 'h[8-23]'\nto = 'h0'\none_way = true\n\
         messages = {{ count = 20, size = 968, delivery = 'datagrams' }}\n",
        datagrams().display()
    ));
    assert!(report.ok && report.flows.len() == 16, "{report}");
    let last = report
        .flows
        .iter()
        .filter_map(|flow| flow.times.as_ref())
        .map(|times| times.max)
        .fold(0.0, f64::max);
    // Packets of 1,000 bytes take 8 us at 1 Gbit/s and 2 us at 4 Gbit/s. The first one crosses four lines,
    // with 1 us of delay on each.
    let first = 8.0 + 2.0 + 2.0 + 8.0 + 4.0;
    let expected = (first + 8.0 * (16.0 * 20.0 - 1.0)) / 1e6;
    assert!((last - expected).abs() < 1e-9, "{last} of {expected}");
    let port = link(&report, "leaf0", "h0");
    assert_eq!(port.delivered, 320);
}
