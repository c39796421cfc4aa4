//! Frames in a batch have the same effects as one by one: parsing and looking up contexts ahead changes no
//! result. Frames that a late driver finds are processed before its timers.

use crate::common;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use common::cable::caps;
use common::script::*;
use common::{address, config, stack};
use hawser_engine::wire::{Caps, Csum, RxFrame, TxFrame, Wire};
use hawser_engine::{Stack, TapEvent};
use hawser_ir::abi::*;
use hawser_testing::internet_checksum;
use hawser_time::Instant;
use parking_lot::Mutex;

/// A wire with prepared frames, which keeps sent ones.
struct Tape {
    caps: Caps,
    waiting: VecDeque<Vec<u8>>,
    batch: Vec<Vec<u8>>,
    sent: Vec<Vec<u8>>,
}

impl Tape {
    fn new(waiting: VecDeque<Vec<u8>>) -> Tape {
        Tape { caps: caps(), waiting, batch: vec![], sent: vec![] }
    }
}

impl Wire for Tape {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, max: usize) -> io::Result<usize> {
        let count = max.min(self.waiting.len());
        self.batch.extend(self.waiting.drain(..count));
        Ok(count)
    }

    fn frame(&self, i: usize) -> RxFrame<'_> {
        RxFrame {
            head: &self.batch[i],
            tail: &[],
            csum: Csum::Complete,
            seg_size: 0,
            at: Instant::ORIGIN,
        }
    }

    fn release(&mut self) {
        self.batch.clear();
    }

    fn transmit(&mut self, frames: &[TxFrame]) -> io::Result<usize> {
        self.sent.extend(frames.iter().map(|frame| frame.head.clone()));
        Ok(frames.len())
    }
}

/// A bit of the flag by which a packet asks for an operation.
const END: u8 = 2;
const ADD_ID: u8 = 4;
const DROP_ID: u8 = 6;

/// A program whose contexts come and go, and gain and lose ids, as packets demand. Each packet is answered.
fn script() -> Script {
    let obey = |step: &mut Step<'_>| {
        step.words()[0] += 1;
        let alias = flow_id(step.ev.seq % 8, step.ev.seq % 4);
        match step.ev.flag as u8 {
            END => step.del_context(),
            ADD_ID => step.context_record(RecordKind::AddId, alias),
            DROP_ID => step.context_record(RecordKind::DropId, alias),
            _ => step.timer_start(0, 1_000_000_000),
        }
        let (count, seq) = (step.words()[0], step.ev.seq);
        step.answer(1, OTHER_PACKET, 0, count << 16 | seq & 0xffff);
        ChainOutcome::Done
    };
    let create = move |step: &mut Step<'_>| {
        if step.keyed.is_some() {
            return obey(step);
        }
        step.new_context(FLOW);
        step.answer(1, PACKET, 0, step.ev.seq);
        ChainOutcome::Done
    };
    let other = move |step: &mut Step<'_>| {
        if step.keyed.is_some() {
            obey(step)
        } else {
            ChainOutcome::Stop
        }
    };
    let listen = |step: &mut Step<'_>| {
        step.new_context(LISTENER);
        ChainOutcome::Done
    };
    Script::new()
        .on(LISTEN, listen)
        .on(PACKET, create)
        .on(OTHER_PACKET, other)
}

fn ip(protocol: u8, body: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x45, 0, 0, 20 + body.len() as u8, 0, 0, 0, 0, 64, protocol, 0, 0];
    frame.extend([10, 0, 0, 2, 10, 0, 0, 1]);
    let sum = internet_checksum(&[&frame]);
    frame[10..12].copy_from_slice(&sum);
    frame.extend(body);
    frame
}

/// Returns the program's packet from a peer's port to one of ours.
fn body(port: u16, peer: u16, event: u8, flag: u8, seq: u16) -> Vec<u8> {
    let [port, peer, seq] = [port, peer, seq].map(u16::to_be_bytes);
    [&peer[..], &port, &[event, flag, 0, 0, 0, 0], &seq, &[9; 20]].concat()
}

/// Returns frames drawn from a seed: of few connections, some of them damaged or of another protocol.
fn frames(seed: u64) -> VecDeque<Vec<u8>> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut below = |limit: u64| rng.u64(..limit);
    let mut frame = || {
        let [port, peer] = [below(8), below(4)].map(|port| port as u16);
        let event = if below(3) == 0 { PACKET } else { OTHER_PACKET } as u8;
        let flag = [0, 0, 0, END, ADD_ID, DROP_ID][below(6) as usize];
        let body = body(port, peer, event, flag, below(65_536) as u16);
        match below(20) {
            0 => ip(253, &body[..7]), // too short for its parser
            1 => ip(252, &body),      // of a protocol without a parser
            2 => ip(1, &[8; 12]),     // an ICMP message with a wrong checksum
            3 => body,                // not IP
            _ => ip(253, &body),
        }
    };
    (0..400).map(|_| frame()).collect()
}

/// Processes frames `batch` at a time, and returns all observable results: the tap's events, the sent frames
/// and the counters.
fn run(seed: u64, batch: usize) -> (Vec<String>, Vec<Vec<u8>>, String) {
    let mut config = config(0);
    config.limits.batch = batch;
    let mut stack = stack(script(), config);
    let trace = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&trace);
    stack.set_event_tap(Some(Box::new(move |event: &TapEvent<'_>| {
        seen.lock().push(format!("{event:?}"));
    })));
    stack
        .listen(Instant::from_nanos(1), address(0, 3), 1)
        .expect("free");
    let mut wire = Tape::new(frames(seed));
    while stack
        .poll(Instant::from_nanos(1), &mut wire)
        .expect("a tape does not fail")
    {}
    let counts = format!(
        "{:?} {:?} {}",
        stack.counters(),
        stack.interface_counters(),
        stack.contexts()
    );
    let trace = trace.lock().clone();
    // The network layer's own answers leave before the packets of a batch's chains.
    wire.sent.sort_by_key(|frame| frame[9]);
    (trace, wire.sent, counts)
}

#[test]
fn frames_in_a_batch_have_the_effect_of_single_frames() {
    for seed in 0..40 {
        let alone = run(seed, 1);
        assert!(
            alone.0.len() > 200 && alone.1.len() > 100,
            "{} events",
            alone.0.len()
        );
        for batch in [2, 31, 33, 256] {
            let together = run(seed, batch);
            let first = alone.0.iter().zip(&together.0).position(|(a, b)| a != b);
            assert_eq!(
                first, None,
                "seed {seed}, {batch} at a time: the first event with another effect"
            );
            assert!(alone == together, "seed {seed}, {batch} at a time");
        }
    }
}

/// Returns a stack that receives one frame at a time, with a context whose timer is due at 10 ms. The last
/// element has the milliseconds at which the timer fires.
fn waiting_for_an_answer() -> (Stack, Tape, Arc<Mutex<Vec<u64>>>) {
    let fired = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&fired);
    let script = script()
        .on(PACKET, |step| {
            step.new_context(FLOW);
            step.timer_start_fresh(0, 10_000_000 - 1);
            ChainOutcome::Done
        })
        .on(OTHER_PACKET, |step| {
            if step.ev.flag as u8 == END {
                step.timer_stop(0);
            }
            ChainOutcome::Done
        })
        .on(TIMER, move |step| {
            log.lock().push(step.ev.header.now / 1_000_000);
            ChainOutcome::Done
        });
    let mut config = config(0);
    config.limits.batch = 1;
    let mut stack = stack(script, config);
    let now = Instant::from_nanos(1);
    stack.listen(now, address(0, 3), 1).expect("free");
    let mut wire = Tape::new([ip(253, &body(3, 1, PACKET as u8, 0, 0))].into());
    while stack.poll(now, &mut wire).expect("a tape does not fail") {}
    assert_eq!(stack.next_deadline(), Some(Instant::from_nanos(10_000_000)));
    (stack, wire, fired)
}

/// A process that got no processor time for a while finds the answer behind other frames, while the timer
/// that waited for it has expired.
#[test]
fn a_late_driver_receives_frames_before_firing_timers() {
    let (mut stack, mut wire, fired) = waiting_for_an_answer();
    let frame = |flag, seq| ip(253, &body(3, 1, OTHER_PACKET as u8, flag, seq));
    wire.waiting = [frame(0, 1), frame(0, 2), frame(END, 3)].into();
    while stack
        .poll(Instant::from_nanos(12_000_000), &mut wire)
        .expect("a tape does not fail")
    {}
    assert!(wire.waiting.is_empty());
    assert_eq!(*fired.lock(), [0; 0], "the answer was there");
    assert_eq!(stack.next_deadline(), None);
}

/// Timers give way only for as long as they were late when the first frame came.
#[test]
fn a_flood_does_not_stop_timers() {
    let (mut stack, mut wire, fired) = waiting_for_an_answer();
    let mut late = Vec::new();
    for millisecond in 12..30 {
        wire.waiting = [ip(253, &body(3, 1, OTHER_PACKET as u8, 0, 1))].into();
        stack
            .poll(Instant::from_nanos(millisecond * 1_000_000), &mut wire)
            .expect("a tape does not fail");
        late.extend(fired.lock().drain(..));
    }
    assert_eq!(late, [14], "2 ms late at 12 ms");
}

/// A driver that is on time delays no timer.
#[test]
fn a_timer_fires_in_time_beside_a_frame() {
    let (mut stack, mut wire, fired) = waiting_for_an_answer();
    let frame = |flag| ip(253, &body(3, 1, OTHER_PACKET as u8, flag, 1));
    wire.waiting = [frame(0), frame(END)].into();
    stack
        .poll(Instant::from_nanos(10_900_000), &mut wire)
        .expect("a tape does not fail");
    assert_eq!(*fired.lock(), [10]);
}
