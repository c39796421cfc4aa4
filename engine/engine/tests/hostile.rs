//! A program that issues every instruction with arbitrary arguments, under applications that make arbitrary
//! requests. The engine does not panic, limits hold, and no state is left in the end.

use crate::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::script::*;
use common::{Pair, address, config, stack};
use fastrand::Rng;
use hawser_engine::{Handle, Notice, StackConfig};
use hawser_ir::abi::*;

/// Random numbers drawn from a seed.
struct Random(Rng);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.u64(..bound)
    }

    /// Returns a small number, a large one, or one near an edge of the range.
    fn number(&mut self) -> u64 {
        match self.below(6) {
            0 => u64::MAX - self.below(3),
            1 => u64::from(u32::MAX) + self.below(3),
            2 => self.below(100_000),
            _ => self.below(3000),
        }
    }
}

fn anything(step: &mut Step<'_>, end: &AtomicBool, stack: u8) -> ChainOutcome {
    let mut rng = Random(Rng::with_seed(step.ev.header.rand));
    // The program does end the contexts that it must: aborted ones, closed listeners, and finally all.
    let over = match step.ev.header.event {
        ABORT => true,
        CLOSE => step.kind() == Some(LISTENER),
        _ => end.load(Ordering::Relaxed),
    };
    if step.kind().is_some() && over {
        step.del_context();
        return ChainOutcome::Done;
    }
    let app = step.ev.header.event <= ABORT;
    if app && rng.below(10) == 0 {
        return ChainOutcome::Refused(1);
    }
    let created = match step.ev.header.event {
        LISTEN if step.ev.addr == 0 => Some(LISTENER), // not from a packet
        CONNECT | PACKET | RAISED => Some(FLOW),
        _ => None,
    };
    if let Some(kind) = created.filter(|_| step.fresh.is_some() && (app || rng.below(4) == 0)) {
        let id = step.new_context(kind);
        if kind == FLOW {
            step.timer_start_fresh(rng.below(2) as u32, 1 + rng.below(1000));
            step.new_units(id, rng.number());
            step.notify(NOTIFY_ACCEPTED, id, 0);
        }
    }
    if step.keyed.is_some() {
        for _ in 0..rng.below(6) {
            instruction(step, &mut rng, stack);
        }
        if step.ev.header.event == TIMER {
            step.timer_start(0, 1 + rng.below(1000));
        }
    }
    match rng.below(20) {
        0 => ChainOutcome::Stop,
        1 => ChainOutcome::Assert(0),
        _ => ChainOutcome::Done,
    }
}

fn instruction(step: &mut Step<'_>, rng: &mut Random, stack: u8) {
    let own = step.keyed.as_ref().expect("a keyed context").1.header.id;
    let uid = if rng.below(8) == 0 {
        flow_id(rng.below(5), 0)
    } else {
        own
    };
    let addr = if rng.below(4) == 0 {
        rng.number() << rng.below(33)
    } else {
        step.ev.addr
    };
    let len = if rng.below(2) == 0 {
        step.ev.len
    } else {
        rng.number()
    };
    match rng.below(18) {
        0 => step.unit(RecordKind::NewTx, uid, addr, len, 0),
        1 => step.unit(RecordKind::NewRx, uid, addr, len, rng.number()),
        2 | 3 => step.unit(RecordKind::AddTx, uid, addr, len, 0),
        4 => step.unit(RecordKind::FlushTx, uid, 0, rng.number(), 0),
        5 => step.unit(RecordKind::AddRx, uid, addr, len, rng.number()),
        6 => step.unit(RecordKind::FlushRx, uid, 0, rng.number(), 0),
        7..10 => {
            let data = (rng.number(), rng.number() as u32, rng.below(1800) as u32);
            let event = if rng.below(3) == 0 {
                rng.below(256) as u16
            } else {
                PACKET
            };
            step.packet(1 - stack, event, rng.below(4), rng.number(), data);
        }
        10 if step.kind() == Some(FLOW) => step.timer_start(rng.below(2) as u32, 1 + rng.below(5000)),
        11 if rng.below(4) == 0 => step.del_context(),
        12 => {
            let kind = if rng.below(2) == 0 {
                RecordKind::AddId
            } else {
                RecordKind::DropId
            };
            step.context_record(kind, flow_id(rng.below(50), rng.below(3)));
        }
        13 => step.notify(rng.below(9) as u32, flow_id(80, rng.below(9)), 7),
        14 => step.raise(if rng.below(2) == 0 { own } else { Id::NONE }, 0),
        16 => step.unit(RecordKind::DelTx, uid, 0, 0, 0),
        17 => step.unit(RecordKind::DelRx, uid, 0, 0, 0),
        15 => {
            let kinds = [
                RecordKind::QueueRate,
                RecordKind::QueuePrio,
                RecordKind::QueueReset,
            ];
            step.queue(kinds[rng.below(3) as usize], rng.below(4) as u32, rng.number());
        }
        _ => {}
    }
}

fn script(end: &Arc<AtomicBool>, own: u8) -> Script {
    (LISTEN..=RAISED).fold(Script::new().coalescing(), |script, event| {
        let end = end.clone();
        script.on(event, move |step| anything(step, &end, own))
    })
}

fn small(own: usize) -> StackConfig {
    let mut config = config(own);
    let limits = &mut config.limits;
    (limits.contexts, limits.handles, limits.notices) = (30, 20, 10);
    (limits.tx_bytes, limits.rx_bytes) = (100_000, 150_000);
    (limits.tx_total, limits.rx_total) = (300_000, 400_000);
    (limits.first_bytes, limits.min_bytes) = (20_000, 1000);
    (
        limits.pending_packets,
        limits.pending_frames,
        limits.raised,
        limits.batch,
    ) = (50, 20, 12, 10);
    (limits.ids_per_context, limits.units_per_context) = (4, 5);
    config
}

/// Makes one random request to a stack.
fn request(pair: &mut Pair, own: usize, handles: &mut Vec<Handle>, rng: &mut Random) {
    let (now, stack) = (pair.now, &mut pair.stacks[own]);
    let pick = handles
        .get(rng.below(handles.len().max(1) as u64) as usize)
        .copied();
    match (rng.below(12), pick) {
        (0, _) => handles.extend(stack.listen(now, address(own, 80 + rng.below(3) as u16), 8)),
        (1 | 2, _) => handles.extend(stack.connect(now, address(1 - own, 80 + rng.below(3) as u16), None)),
        (3..6, Some(handle)) => {
            let bytes = vec![1; rng.below(60_000) as usize];
            let room = stack.writable(handle);
            let taken = stack.send(now, handle, &bytes);
            assert!(taken.is_err() || taken.is_ok_and(|n| n <= bytes.len().min(room)));
        }
        (6..8, Some(handle)) => {
            let mut out = vec![0; rng.below(20_000) as usize];
            let want = stack.readable(handle).min(out.len());
            let got = stack.recv(now, handle, &mut out);
            assert!(got.is_err() || got == Ok(want));
        }
        (8, Some(handle)) => stack.close(now, handle),
        (9, Some(handle)) => stack.abort(now, handle),
        (10, Some(handle)) => {
            stack.release(handle);
            handles.retain(|h| *h != handle);
        }
        _ => {}
    }
}

#[test]
fn random_inputs_cause_no_panic_and_leave_no_state() {
    for seed in 0..30 {
        let end = Arc::new(AtomicBool::new(false));
        let mut pair = Pair::new([Script::new(), Script::new()], 5, seed);
        pair.stacks = [0, 1].map(|own| stack(script(&end, own as u8), small(own)));
        let (mut rng, mut handles) = (Random(Rng::with_seed(seed)), [Vec::new(), Vec::new()]);
        for _ in 0..2000 {
            let own = rng.below(2) as usize;
            pair.ends[own].slots = rng.below(40) as usize;
            request(&mut pair, own, &mut handles[own], &mut rng);
            pair.stacks[own]
                .poll(pair.now, &mut pair.ends[own])
                .expect("a cable does not fail");
            while rng.below(2) == 0
                && let Some((_, notice)) = pair.stacks[own].next_notice()
            {
                if let Notice::Accepted(handle) = notice {
                    handles[own].push(handle);
                }
            }
            let (sending, receiving) = pair.stacks[own].held_bytes();
            assert!(
                sending <= 300_000 + 30 * 1000 && receiving <= 400_000,
                "seed {seed}: {sending} {receiving}"
            );
            assert!(pair.stacks[own].contexts() <= 30, "seed {seed}");
            pair.now += Duration::from_nanos(rng.below(300));
        }
        end.store(true, Ordering::Relaxed);
        pair.ends.iter_mut().for_each(|end| end.slots = 10_000);
        for _ in 0..200 {
            for (own, handles) in handles.iter_mut().enumerate() {
                handles
                    .drain(..)
                    .for_each(|handle| pair.stacks[own].release(handle));
                while let Some((_, notice)) = pair.stacks[own].next_notice() {
                    if let Notice::Accepted(handle) = notice {
                        handles.push(handle);
                    }
                }
                pair.stacks[own]
                    .poll(pair.now, &mut pair.ends[own])
                    .expect("a cable does not fail");
                pair.ends[own].outbound.lock().clear();
            }
            pair.now += Duration::from_millis(1);
        }
        for stack in &pair.stacks {
            assert_eq!(
                (stack.contexts(), stack.held_bytes()),
                (0, (0, 0)),
                "seed {seed}: {stack:?}"
            );
            assert_eq!(stack.next_deadline(), None, "seed {seed}");
        }
    }
}
