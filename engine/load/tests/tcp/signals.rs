//! TCP's signals: each is emitted in the situation that its RFC describes, and only there.

use std::fmt::Write as _;
use std::sync::Arc;

use hawser_time::Instant;
use parking_lot::Mutex;
use hawser_engine::{EventTap, Stack, TapEvent};
use hawser_ir::Module;
use hawser_ir::abi::{RecordKind, SignalRec};

use crate::bench::{Bench, Connection, MS, NEWRENO, SECOND, module};
use crate::segment::Segment;
use crate::testbed::{SHORT, Testbed};

/// A signal: its name, and its fields' names and values.
type Signal = (String, Vec<(String, u64)>);

/// All signals of a stack.
#[derive(Clone, Default)]
struct Received(Arc<Mutex<Vec<Signal>>>);

impl Received {
    /// Subscribes to all signals of a stack.
    fn from_stack(stack: &mut Stack) -> Received {
        let received = Received::default();
        let signals = received.clone();
        let tap: EventTap = Box::new(move |event| signals_of(event, &mut signals.0.lock()));
        stack.want_signals(u64::MAX);
        stack.set_event_tap(Some(tap));
        received
    }

    /// Returns the signals received since the last call.
    fn all(&self) -> Vec<Signal> {
        std::mem::take(&mut *self.0.lock())
    }

    /// Returns the signals as text, without those of states and samples. `at` counts from `base` on.
    fn text(&self, base: u64) -> Vec<String> {
        let beside = ["state_changed", "round_trip", "segment_lost"];
        let kept = self.all().into_iter().filter(|(name, _)| !beside.contains(&name.as_str()));
        kept.map(|(mut text, fields)| {
            for (name, value) in fields {
                let value = if name == "at" { value.wrapping_sub(base) } else { value };
                let _ = write!(text, " {name}={value}");
            }
            text
        })
        .collect()
    }
}

fn signals_of(event: &TapEvent<'_>, into: &mut Vec<Signal>) {
    let module: &Module = module();
    for record in event.records.iter().filter(|record| record.kind == RecordKind::Signal) {
        let (name, body) = &module.signals[record.fixed::<SignalRec>().signal as usize];
        let bytes = record.tail::<SignalRec>();
        let fields = module.structure(*body).fields.iter().map(|field| {
            let bits = field.ty.width().expect("signals carry scalars").0;
            let size = usize::from(bits).div_ceil(8).next_power_of_two();
            let mut word = [0; 8];
            word[..size].copy_from_slice(&bytes[field.offset as usize..][..size]);
            (field.name.clone(), u64::from_le_bytes(word))
        });
        into.push((name.clone(), fields.collect()));
    }
}

/// Returns a connection over 100 ms with segments of 1000 bytes and a known window, and its signals from now
/// on.
fn observed(params: &[&str], sack: bool) -> (Connection, Received, u64) {
    let mut bench = Bench::new(params);
    let received = Received::from_stack(&mut bench.stack);
    let mut c = Connection::agreed_on(bench, false, |syn| Segment { sack_permitted: sack, ..syn });
    c.acknowledge(0); // its window, which a SYN cannot scale
    let base = c.bench.observe(c.handle, "iss") + 1;
    (c, received, base)
}

#[test]
fn the_handshake_is_signalled_with_its_round_trip() {
    let (_, received, base) = observed(&[], true);
    assert_eq!(received.text(base), ["established rtt=100000000"]);
}

/// RFC 9293, 3.10.7.4: sent data and acknowledged data are signalled; a pure window update is not.
#[test]
fn data_and_its_acknowledgement_are_signalled() {
    let (mut c, received, base) = observed(&[], true);
    received.all();
    c.bench.send(c.handle, 3000);
    assert_eq!(received.text(base), ["sent at=0 bytes=3000"]);
    c.bench.advance(50 * MS);
    c.acknowledge(1000);
    assert_eq!(received.text(base), ["acked bytes=1000 rtt=50000000 flight=3000"]);
    c.acknowledge(2000);
    assert_eq!(received.text(base), ["acked bytes=2000 rtt=50000000 flight=2000"]);
    c.window -= 1;
    c.acknowledge(0);
    assert_eq!(received.text(base), Vec::<String>::new());
}

/// RFC 5681, 2 and 3.2; RFC 6582, 3.2: the third duplicate begins a recovery, and the ACK of all outstanding
/// data ends it.
#[test]
fn duplicates_a_recovery_and_its_end_are_signalled() {
    let (mut c, received, base) = observed(&[NEWRENO], false);
    c.bench.send(c.handle, 10_000);
    received.all();
    c.acknowledge(0);
    c.acknowledge(0);
    assert_eq!(received.text(base), ["duplicate_ack count=1", "duplicate_ack count=2"]);
    c.acknowledge(0);
    let begun = ["duplicate_ack count=3", "recovery_began flight=10000", "retransmitted at=0 bytes=1000"];
    assert_eq!(received.text(base), begun);
    c.acknowledge(0);
    assert_eq!(received.text(base), ["duplicate_ack count=4"]);
    c.bench.advance(50 * MS);
    c.acknowledge(10_000);
    assert_eq!(received.text(base), ["acked bytes=10000 rtt=50000000 flight=10000", "recovery_ended"]);
    assert_eq!(c.bench.observe(c.handle, "cc.cwnd"), c.bench.observe(c.handle, "cc.ssthresh"));
}

/// RFC 6675, 5: the same with SACK, where a duplicate is an ACK with blocks.
#[test]
fn recovery_with_sack_is_signalled() {
    let (mut c, received, base) = observed(&["PROBES=false"], true);
    c.bench.send(c.handle, 10_000);
    received.all();
    for (count, end) in [(1, 2000), (2, 3000)] {
        c.sacks(&[(1000, end)]);
        assert_eq!(received.text(base), [format!("duplicate_ack count={count}")]);
    }
    c.sacks(&[(1000, 4000)]);
    let begun = ["duplicate_ack count=3", "recovery_began flight=10000", "retransmitted at=0 bytes=1000"];
    assert_eq!(received.text(base), begun);
    c.acknowledge(10_000);
    let last = received.text(base);
    assert_eq!(
        (last[0].starts_with("acked bytes=10000"), &last[1..]),
        (true, &["recovery_ended".to_owned()][..])
    );
    c.bench.send(c.handle, 1000);
    c.acknowledge(1000);
    c.bench.send(c.handle, 4000);
    received.all();
    c.sacks(&[(1000, 2000)]);
    assert_eq!(received.text(base)[0], "duplicate_ack count=1", "they are counted in a row");
}

/// RFC 6298, 5.4–5.6, RFC 5681, 3.1: timeouts, then slow start up to ssthresh, which is reached once.
#[test]
fn timeouts_and_the_end_of_slow_start_are_signalled() {
    let (mut c, received, base) = observed(&[NEWRENO, "PROBES=false"], false);
    c.bench.send(c.handle, 100_000);
    assert_eq!(received.text(base), ["established rtt=100000000", "sent at=0 bytes=10000"]);
    c.bench.advance(1100 * MS);
    assert_eq!(received.text(base), ["timeout again=0", "retransmitted at=0 bytes=1000"]);
    c.bench.advance(2100 * MS);
    assert_eq!(received.text(base), ["timeout again=1", "retransmitted at=0 bytes=1000"]);
    let ssthresh = c.bench.observe(c.handle, "cc.ssthresh");
    assert_eq!(ssthresh, 5000);
    let mut reached = Vec::new();
    for _ in 0..30 {
        c.acknowledge(1000);
        for text in received.text(base) {
            if text == "avoidance_began" {
                reached.push(c.bench.observe(c.handle, "cc.cwnd"));
            }
        }
    }
    assert_eq!(reached, [ssthresh], "once, when the window is there");
}

/// RFC 3522, 3.2; RFC 4015, 3: a spurious recovery ends as soon as it is detected.
#[test]
fn a_spurious_recovery_ends_when_detected() {
    let mut bench = Bench::new(&[NEWRENO, "PROBES=false"]);
    let received = Received::from_stack(&mut bench.stack);
    let mut c = Connection::agreed_on(bench, true, |syn| Segment { sack_permitted: true, ..syn });
    c.bench.send(c.handle, 100_000);
    let original = c.bench.sent()[9].timestamps.expect("timestamps").0;
    c.bench.advance(100 * MS);
    let echo = |c: &mut Connection, len: u32, held: bool| {
        c.host = c.host.wrapping_add(len);
        let blocks = [(c.host.wrapping_add(1000), c.host.wrapping_add(5000))];
        let ack = Segment { timestamps: Some((7, original)), ..c.segment() };
        c.bench.inject(&if held { ack.sack(&blocks) } else { ack });
    };
    received.all();
    echo(&mut c, 0, true);
    assert!(received.text(0).iter().any(|text| text.starts_with("recovery_began")));
    echo(&mut c, 5000, false);
    let names: Vec<String> = received.all().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names.iter().filter(|name| *name == "recovery_ended").count(), 1, "{names:?}");
}

/// RFC 9293, 3.6, 3.10.5, 3.10.7.4, 3.8.3: every way in which a connection ends gives one signal.
#[test]
fn the_end_is_signalled_once() {
    type End = fn(&mut Connection);
    let finish: End = |c| {
        let fin = c.segment().fin();
        c.next = c.next.wrapping_add(1);
        c.bench.inject(&fin);
    };
    let ends: [(&str, End); 6] = [
        ("active close, TIME-WAIT", |c| {
            c.bench.close(c.handle);
            c.acknowledge(1);
            let fin = c.segment().fin();
            c.bench.inject(&fin);
            c.bench.advance(200 * SECOND);
        }),
        ("passive close", |c| {
            let fin = c.segment().fin();
            c.next = c.next.wrapping_add(1);
            c.bench.inject(&fin);
            c.bench.close(c.handle);
            c.acknowledge(1);
        }),
        ("a reset", |c| {
            let reset = Segment { ack: None, ..c.segment().rst() };
            c.bench.inject(&reset);
        }),
        ("an abort", |c| {
            c.bench.stack.abort(Instant::from_nanos(c.bench.now), c.handle);
            c.bench.settle();
        }),
        ("silence", |c| {
            c.bench.send(c.handle, 1000);
            c.bench.advance(1000 * SECOND);
        }),
        ("released in FIN-WAIT-2", |c| {
            c.bench.close(c.handle);
            c.acknowledge(1);
            c.bench.stack.release(c.handle);
            c.bench.settle();
            c.bench.advance(200 * SECOND);
        }),
    ];
    for (name, end) in ends {
        let (mut c, received, _) = observed(&[], true);
        received.all();
        end(&mut c);
        let reported = received.all().into_iter().filter(|(signal, _)| signal == "closed").count();
        assert_eq!((reported, c.bench.stack.contexts()), (1, 0), "{name}");
    }
    let (mut c, received, _) = observed(&[], true);
    finish(&mut c);
    assert!(received.all().iter().all(|(signal, _)| signal != "closed"), "half of it is not the end");
}

/// Lets one client send `len` bytes over a lossy link. Returns the time of their arrival and the client's
/// signals.
fn lossy(len: usize, listening: bool) -> (u64, Vec<Signal>, u64) {
    let mut stage = Testbed::over(crate::testbed::Link { lost: 20, ..SHORT }, &["MIN_RTO=200ms"]);
    let received = if listening { Received::from_stack(&mut stage.stacks[1]) } else { Received::default() };
    stage.listen(80);
    let client = stage.connect(80);
    stage.run(500 * MS, |_| {});
    let server = *stage.accepted().last().expect("accepted");
    let (mut offered, mut read, mut ended) = (0, 0, 0);
    let (data, mut room) = (vec![7; len], [0; 65_536]);
    stage.run(60 * SECOND, |stage| {
        let now = stage.now;
        offered += stage.stacks[1].send(Instant::from_nanos(now), client, &data[offered..]).expect("open");
        while let n @ 1.. = stage.stacks[0].recv(Instant::from_nanos(now), server, &mut room).expect("open") {
            read += n;
            ended = now;
        }
    });
    assert_eq!(read, len);
    assert_eq!(stage.stacks[1].counters().signals > 0, listening);
    let retransmissions = stage.stacks[1].observe(client, "retransmissions").expect("observable");
    (ended, received.all(), retransmissions)
}

/// The signals of a whole transfer with losses add up, and a subscriber has no influence on the transfer.
#[test]
fn signalled_counts_add_up() {
    let len = 2_000_000;
    let (ended, reported, retransmissions) = lossy(len, true);
    assert_eq!((ended, retransmissions), {
        let (ended, _, count) = lossy(len, false);
        (ended, count)
    });
    let count = |name: &str| reported.iter().filter(|(signal, _)| signal == name).count() as u64;
    let sum = |name: &str, field: &str| -> u64 {
        let of = reported.iter().filter(|(signal, _)| signal == name).flat_map(|(_, fields)| fields);
        of.filter(|(name, _)| name == field).map(|(_, value)| value).sum()
    };
    assert_eq!(sum("sent", "bytes"), len as u64);
    assert_eq!(sum("acked", "bytes"), len as u64);
    assert_eq!((count("retransmitted"), retransmissions > 10), (retransmissions, true));
    assert_eq!(count("established"), 1);
    let mut open = false;
    for (name, _) in &reported {
        match name.as_str() {
            "recovery_began" => assert!(!std::mem::replace(&mut open, true)),
            "recovery_ended" => assert!(std::mem::replace(&mut open, false)),
            "timeout" => open = false,
            _ => {}
        }
    }
    assert!(count("recovery_began") > 3);
}
