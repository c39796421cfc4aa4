//! Switches: the simulator agrees with formulas for paths, shared lines and failures.

#![allow(clippy::disallowed_methods)] // Tests read the repository; the crate itself does not.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use hawser_engine::program::Program;
use hawser_load::Engine;
use hawser_load::programs::resolve_with_on;
use hawser_sim::report::{LinkReport, Report};
use hawser_sim::world::FrameFate;
use hawser_sim::{Options, ResolveError, Scenario, run};

fn resolve(name: &str, settings: &[String]) -> Result<Arc<dyn Program>, ResolveError> {
    Ok(resolve_with_on(Some(Engine::Interp), name, settings)?)
}

fn parse(text: &str) -> Scenario {
    Scenario::parse(text).unwrap_or_else(|error| panic!("{error} in\n{text}"))
}

fn go(text: &str) -> Report {
    run(&parse(text), &resolve, Options::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn example(name: &str) -> String {
    format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn link<'a>(report: &'a Report, from: &str, to: &str) -> &'a LinkReport {
    let mut links = report.links.iter();
    links
        .find(|link| link.from == from && link.to == to)
        .unwrap_or_else(|| panic!("no link {from} -> {to}"))
}

/// Four lines in a row: each receives the whole packet before it sends the first bit.
#[test]
fn a_packet_takes_serialisation_and_propagation_per_hop() {
    let stop_and_wait = example("stop-and-wait.mtp");
    for (family, bytes) in [(4, 1), (4, 1000), (6, 777)] {
        let scenario = parse(&format!(
            "program = '{stop_and_wait}'\nhost = [{{ name = 'a' }}, {{ name = 'b' }}]\n\
             switch = [{{ name = 's1' }}, {{ name = 's2' }}, {{ name = 's3' }}]\n\
             [[link]]\nbetween = ['a', 's1']\nboth = {{ rate = '10Mbit/s', delay = '1ms' }}\n\
             [[link]]\nbetween = ['s1', 's2']\nboth = {{ rate = '2Mbit/s', delay = '7ms' }}\n\
             [[link]]\nbetween = ['s3', 's2']\nboth = {{ rate = '8Mbit/s', delay = '300us' }}\n\
             [[link]]\nbetween = ['s3', 'b']\nboth = {{ rate = '1Gbit/s', delay = '5us' }}\n\
             [[flow]]\nfrom = 'a'\nto = 'b'\nfamily = {family}\nbulk = {{ bytes = {bytes} }}\n"
        ));
        // The first packet finds all lines idle.
        let seen = Rc::new(RefCell::new(Vec::new()));
        let into = Rc::clone(&seen);
        let options = Options {
            packets: Some(Box::new(move |sight| {
                if sight.frame.number == 1 {
                    into.borrow_mut()
                        .push((sight.at.as_nanos(), sight.fate, sight.frame.len() as u64));
                }
            })),
            ..Options::default()
        };
        let report = run(&scenario, &resolve, options).expect("it runs");
        assert!(report.ok, "{report}");
        let seen = seen.borrow();
        let (sent, _, size) = seen[0];
        assert!(size > bytes + 20, "{size}");
        let hops = [
            (10_000_000, 1_000_000),
            (2_000_000, 7_000_000),
            (8_000_000, 300_000),
            (1_000_000_000, 5000),
        ];
        let mut at = sent;
        let mut expected = vec![(at, FrameFate::Sent, size)];
        for (hop, (rate, delay)) in hops.into_iter().enumerate() {
            at += size * 8 * 1_000_000_000 / rate + delay;
            if hop + 1 == hops.len() {
                expected.push((at, FrameFate::Delivered, size));
            } else {
                expected.extend([(at, FrameFate::Arrived, size), (at, FrameFate::Forwarded, size)]);
            }
        }
        assert_eq!(*seen, expected);
    }
}

/// The example: two flows of TCP from two hosts share a line of 10 Mbit/s.
#[test]
fn two_flows_of_tcp_share_a_bottleneck() {
    let text = std::fs::read_to_string(example("scenarios/tcp-bottleneck.toml")).expect("the example");
    let report = go(&text);
    assert!(report.ok, "{report}");
    let (rate, packet, header) = (10e6, 1500.0, 20.0 + 20.0);
    let bytes: u64 = report.flows.iter().map(|flow| flow.forward.bytes).sum();
    let seconds = report.flows.iter().filter_map(|flow| flow.forward.seconds);
    let seconds = seconds.fold(0.0, f64::max);
    let goodput = bytes as f64 * 8.0 / seconds;
    let limit = rate * (packet - header) / packet;
    assert!(goodput <= limit, "{goodput} of {limit}");
    // Both flows together keep the line busy: neither waits long for a timeout.
    assert!(goodput > 0.85 * limit, "{goodput} of {limit}");
    // All traffic on the shared line comes from both hosts, and no earlier line is the bottleneck.
    let shared = link(&report, "s1", "s2");
    let before = ["a", "b"].map(|host| link(&report, host, "s1"));
    assert_eq!(shared.sent, before[0].delivered + before[1].delivered);
    assert!(before.iter().all(|link| link.dropped.is_empty()));
    assert!(
        shared.dropped.keys().eq(["queue"].iter()) || shared.marked > 0,
        "{shared:?}"
    );
    let forwarded: Vec<u64> = report.switches.iter().map(|switch| switch.forwarded).collect();
    let back = link(&report, "s2", "s1").delivered;
    assert_eq!(forwarded[0], shared.sent + back);
}

/// With a threshold in the shared queue packets are marked instead, and none is lost.
#[test]
fn a_shared_queue_marks_instead_of_dropping() {
    let run = |ecn: &str| {
        go(&format!(
            "program = 'tcp'\nparams = {{ OFFER_ECN = true }}\nhost = [{{ name = 'a' }}, {{ name = 'b' }}, {{ name = 'c' }}]\n\
             switch = [{{ name = 's' }}]\n\
             link = [{{ between = ['a', 's'], both = {{ rate = '100Mbit/s', delay = '1ms' }} }},\n\
             {{ between = ['b', 's'], both = {{ rate = '100Mbit/s', delay = '2ms' }} }},\n\
             {{ between = ['s', 'c'], both = {{ rate = '10Mbit/s', delay = '5ms', queue = '120kB'{ecn} }} }}]\n\
             flow = [{{ from = 'a', to = 'c', bulk = {{ bytes = '2MiB' }} }}, {{ from = 'b', to = 'c', bulk = {{ bytes = '2MiB' }} }}]\n"
        ))
    };
    let marked = run(", ecn = '30kB'");
    assert!(marked.ok, "{marked}");
    let shared = link(&marked, "s", "c");
    assert!(shared.marked > 0 && shared.dropped.is_empty(), "{shared:?}");
    let dropped = run("");
    assert!(dropped.ok, "{dropped}");
    let shared = link(&dropped, "s", "c");
    assert!(shared.marked == 0 && shared.dropped["queue"] > 0, "{shared:?}");
}

const FALLING: &str = "duration = '10min'\nhost = [{ name = 'a' }, { name = 'b' }]\nswitch = [{ name = 's' }]\n\
    link = [{ between = ['a', 's'], both = { rate = '10Mbit/s', delay = '5ms' } },\n\
    { between = ['s', 'b'], both = { rate = '1Mbit/s', delay = '5ms', queue = '64KiB' } }]\n\
    [[flow]]\nfrom = 'a'\nto = 'b'\nbulk = { bytes = '1MiB' }\n\
    [[at]]\ntime = '2s'\nswitch = 's'\nstate = 'down'\n[[at]]\ntime = '5s'\nswitch = 's'\nstate = 'up'\n";

/// Packets that wait in the switch are lost, and so are packets that arrive while it is down.
#[test]
fn a_switch_that_is_down_drops_all_packets() {
    for program in ["tcp", "selective-repeat"] {
        let arrivals = Rc::new(RefCell::new(Vec::new()));
        let into = Rc::clone(&arrivals);
        let options = Options {
            packets: Some(Box::new(move |sight| {
                if sight.fate == FrameFate::Delivered {
                    into.borrow_mut().push(sight.at.as_nanos() - 1_000_000_000);
                }
            })),
            ..Options::default()
        };
        let scenario = parse(&format!("program = '{program}'\n{FALLING}"));
        let report = run(&scenario, &resolve, options).expect("it runs");
        assert!(report.ok, "{program}: {report}");
        let switch = &report.switches[0];
        assert!(switch.dropped["down"] > 0, "{program}: {switch:?}");
        // At 1 Mbit/s the queue was not empty.
        assert!(
            link(&report, "s", "b").dropped["down"] > 1,
            "{program}: {:?}",
            report.links
        );
        // Packets that had left by then are in flight for at most 5 ms; later packets take at least 5 ms.
        let arrivals = arrivals.borrow();
        let meanwhile = |at: &&u64| (2_005_000_000..5_005_000_000).contains(*at);
        let silent = arrivals.iter().filter(|at| **at > 2_005_000_000).min();
        assert_eq!(
            arrivals.iter().filter(meanwhile).count(),
            0,
            "{program}: {silent:?}"
        );
        assert!(silent.is_some());
    }
}

/// Every packet that a host sends is delivered, lost by a rule, or dropped by a switch. The totals agree on
/// each link and for the network.
#[test]
fn every_sent_packet_is_delivered_or_dropped() {
    let lossy = "loss = 0.02, corrupt = 0.02, rate = '5Mbit/s', queue_packets = 8, delay = '1ms'";
    let text = format!(
        "program = 'tcp'\nduration = '5min'\nlinger = '4min'\n\
         host = [{{ name = 'a' }}, {{ name = 'b' }}, {{ name = 'c' }}, {{ name = 'd' }}]\n\
         switch = [{{ name = 's' }}, {{ name = 't' }}]\n\
         link = [{{ between = ['a', 's'], both = {{ {lossy} }} }}, {{ between = ['b', 's'], both = {{ {lossy} }} }},\n\
         {{ between = ['s', 't'], both = {{ {lossy} }} }}, {{ between = ['c', 't'], both = {{ {lossy} }} }},\n\
         {{ between = ['t', 'd'], both = {{ {lossy} }} }}]\n\
         flow = [{{ from = 'a', to = 'd', bulk = {{ bytes = '300kB' }} }}, {{ from = 'c', to = 'b', bulk = {{ bytes = '300kB' }} }},\n\
         {{ from = 'd', to = 'c', family = 6, bulk = {{ bytes = '100kB' }} }}]\n"
    );
    let mut dropped = 0;
    for seed in 1..6 {
        let counts = Rc::new(RefCell::new(BTreeMap::<&str, (u64, u64)>::new()));
        let into = Rc::clone(&counts);
        let options = Options {
            seed: Some(seed),
            packets: Some(Box::new(move |sight| {
                let fate = match sight.fate {
                    FrameFate::Sent => "sent",
                    FrameFate::Arrived => "arrived",
                    FrameFate::Forwarded => "forwarded",
                    FrameFate::Delivered => "delivered",
                    FrameFate::Lost(_) if sight.pipe.is_none() => "dropped",
                    FrameFate::Lost(_) => "lost",
                };
                let mut counts = into.borrow_mut();
                let (count, bytes) = counts.entry(fate).or_default();
                (*count, *bytes) = (*count + 1, *bytes + sight.frame.len() as u64);
            })),
            ..Options::default()
        };
        let report = run(&parse(&text), &resolve, options).expect("it runs");
        assert!(report.ok, "seed {seed}: {report}");
        let under_way: u64 = report.links.iter().map(|link| link.under_way as u64).sum();
        assert_eq!(under_way, 0, "seed {seed}");
        let counts = counts.borrow();
        let of = |fate: &str| counts.get(fate).copied().unwrap_or_default();
        let all = |fates: &[&str]| {
            let each = fates.iter().map(|fate| of(fate));
            each.fold((0, 0), |sum, (count, bytes)| (sum.0 + count, sum.1 + bytes))
        };
        assert_eq!(of("sent"), all(&["delivered", "lost", "dropped"]), "seed {seed}");
        assert_eq!(of("arrived"), all(&["forwarded", "dropped"]), "seed {seed}");
        for link in &report.links {
            let lost: u64 = link.dropped.values().sum();
            assert_eq!(link.sent, link.delivered + lost, "seed {seed}: {link:?}");
        }
        // Some corrupted bits are in addresses.
        let no_route: u64 = report
            .switches
            .iter()
            .filter_map(|switch| switch.dropped.get("no_route"))
            .sum();
        assert_eq!(no_route, of("dropped").0, "seed {seed}");
        assert!(of("lost").0 > 50, "seed {seed}: {counts:?}");
        dropped += no_route;
    }
    assert!(dropped > 0);
}

/// A capture contains each packet once, as its host sent it, regardless of the number of links that it
/// crosses.
#[test]
fn a_capture_has_each_packet_once() {
    let sent = Rc::new(RefCell::new(0u64));
    let into = Rc::clone(&sent);
    let file = Rc::new(RefCell::new(Vec::new()));
    struct Shared(Rc<RefCell<Vec<u8>>>);
    impl std::io::Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.borrow_mut().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let options = Options {
        pcap: Some(Box::new(Shared(Rc::clone(&file)))),
        packets: Some(Box::new(move |sight| {
            if sight.fate == FrameFate::Sent {
                *into.borrow_mut() += 16 + sight.frame.len() as u64;
            }
        })),
        ..Options::default()
    };
    let text = std::fs::read_to_string(example("scenarios/tcp-bottleneck.toml")).expect("the example");
    let report = run(&parse(&text), &resolve, options).expect("it runs");
    let hosts: u64 = report
        .links
        .iter()
        .filter(|link| ["a", "b", "c"].contains(&link.from.as_str()))
        .map(|link| link.sent_bytes + 16 * link.sent)
        .sum();
    assert_eq!(file.borrow().len() as u64, 24 + *sent.borrow());
    assert_eq!(hosts, *sent.borrow());
}

/// A packet that a host sends counts once, as in [`a_capture_has_each_packet_once`], regardless of the number
/// of switches that forward it.
#[test]
fn a_bound_of_bytes_counts_a_packet_once() {
    let run = |sent: u64| {
        go(&format!(
            "program = 'selective-repeat'\nbounds = {{ sent = {sent} }}\n\
             host = [{{ name = 'a' }}, {{ name = 'b' }}]\nswitch = [{{ name = 's' }}, {{ name = 't' }}]\n\
             link = [{{ between = ['a', 's'], both = {{ delay = '1ms' }} }},\n\
             {{ between = ['s', 't'], both = {{ delay = '1ms' }} }}, {{ between = ['t', 'b'], both = {{ delay = '1ms' }} }}]\n\
             flow = [{{ from = 'a', to = 'b', bulk = {{ bytes = 100000 }} }}]\n"
        ))
    };
    // Headers and acknowledgements add less than a fifth; counted on three links it would be 300,000 bytes.
    let report = run(120_000);
    assert!(report.ok, "{report}");
    // The payload alone exceeds a bound below its size.
    assert!(!run(100_000).ok);
}
