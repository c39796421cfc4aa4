//! A session over three kinds of carriers at once, one of which is cut. TCP written in MTP and the kernel's
//! TCP use TLS's handshake, and QUIC uses its own, which is the connection's. All three are connections of
//! the program `tcp`.

#![allow(clippy::disallowed_methods)] // the capture is shared with the test

use std::cell::RefCell;
use std::io::Write;
use std::rc::Rc;
use std::time::Duration;

use hawser_session_machine::scheduler::by_name;
use hawser_session_machine::sim::{Fault, SessionWorld, Side, SimLink, SimReport, Transfer, WorldConfig};
use hawser_sim::rng::Rng;

/// The number of round trips until each carrier can be used: TCP with TLS 1.3, twice, and QUIC (RFC 9001, 4).
const HANDSHAKES: [u32; 3] = [2, 2, 1];

/// Creates three links, transfers in both directions, and a permanent cut of one link at a random time.
fn mix(seed: u64) -> WorldConfig {
    let mut rng = Rng::new(seed, "mix");
    let ms = Duration::from_millis;
    let links = HANDSHAKES.map(|_| {
        let link = SimLink::new(rng.between(2, 60) as f64, ms(rng.between(2, 120)));
        let queue = link.queue * rng.between(1, 4) / 2;
        SimLink {
            queue,
            loss: rng.below(10_000) as u32 * u32::from(rng.chance(0.5)),
            ..link
        }
    });
    let mut transfers: Vec<Transfer> = (0..rng.between(2, 4))
        .map(|_| Transfer {
            from: if rng.chance(0.5) {
                Side::Client
            } else {
                Side::Server
            },
            bytes: rng.between(1, 512 << 10),
            at: ms(rng.below(500)),
            read_rate: 0,
        })
        .collect();
    (transfers[0].from, transfers[1].from) = (Side::Client, Side::Server);
    let cut = if rng.chance(0.5) {
        Fault::Silent
    } else {
        Fault::Down
    };
    let faults = vec![(ms(rng.below(1_500)), rng.below(3) as usize, cut)];
    WorldConfig {
        handshakes: HANDSHAKES.to_vec(),
        faults,
        transfers,
        seed,
        ..WorldConfig::new(links.to_vec())
    }
}

#[test]
fn three_kinds_of_carriers_lose_no_bytes_when_one_is_cut() {
    let bad: Vec<String> = (0..500)
        .filter_map(|seed| {
            let report = mix(seed).run("ecf");
            let closed = report.closed_at.is_some();
            (!report.done || !closed).then(|| {
                let config = mix(seed);
                format!(
                    "seed {seed}: {:?} {:?} of {config:?}",
                    report.faults, report.finished
                )
            })
        })
        .collect();
    assert!(bad.is_empty(), "{} runs:\n{}", bad.len(), bad.join("\n"));
}

#[test]
fn the_mix_of_one_seed_has_one_trace() {
    let traces: Vec<u64> = (0..20).map(|seed| mix(seed).run("ecf").trace).collect();
    assert_eq!(
        traces,
        (0..20).map(|seed| mix(seed).run("ecf").trace).collect::<Vec<_>>()
    );
    let mut distinct = traces.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), traces.len(), "each seed has its own");
}

/// A capture that the test reads afterwards.
#[derive(Clone, Default)]
struct Captured(Rc<RefCell<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// One capture holds the packets of all carriers of a session, in the order of one clock. Capturing does not
/// change the run.
#[test]
fn a_session_is_captured_completely() {
    let captured = Captured::default();
    let mut world = SessionWorld::new(mix(1), || by_name("ecf").expect("a scheduler"));
    world
        .capture(Box::new(captured.clone()))
        .expect("memory takes it");
    let report: SimReport = world.run();
    assert_eq!(report.trace, mix(1).run("ecf").trace);
    let bytes = captured.0.borrow();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    assert_eq!(
        (word(0), word(20)),
        (0xa1b2_3c4d, 101),
        "pcap with nanoseconds, packets of IP"
    );
    let (mut at, mut last, mut syns) = (24, (0, 0), [0; 3]);
    while at < bytes.len() {
        let (time, length) = ((word(at), word(at + 4)), word(at + 8) as usize);
        assert!(time >= last, "{time:?} after {last:?}");
        last = time;
        // The addresses are 10.LINK.0.1 and 10.LINK.0.2. Of the flags (RFC 9293, 3.1), only SYN is set.
        let packet = &bytes[at + 16..at + 16 + length];
        if packet[33] == 2 {
            syns[usize::from(packet[17])] += 1;
        }
        at += 16 + length;
    }
    assert!(
        syns.iter().all(|count| *count > 0),
        "a connection on each link: {syns:?}"
    );
}
