//! The language's promises about an engine, one by one.

use crate::common;

use std::sync::Arc;

use common::cable::{cable, caps};
use common::script::*;
use common::{Pair, address, config, stack};
use hawser_engine::net::DropReason;
use hawser_engine::{Errno, Handle, Notice, RequestError, Stack, StackConfigError};
use hawser_ir::abi::*;
use hawser_testing::internet_checksum;
use hawser_time::Instant;
use parking_lot::Mutex;

/// A program that connects; the flow has both units.
fn connecting() -> Script {
    Script::new().on(CONNECT, |step| {
        let id = step.new_context(FLOW);
        step.new_units(id, 65_536);
        ChainOutcome::Done
    })
}

fn connected(script: Script) -> (Pair, Handle) {
    let mut pair = Pair::new([script, Script::new()], 0, 1);
    let handle = pair.stacks[0]
        .connect(pair.now, address(1, 80), None)
        .expect("free");
    (pair, handle)
}

/// Returns the frames that stack 0 sends now: flag, sequence number, payload.
fn sent(pair: &mut Pair) -> Vec<(u8, u32, Vec<u8>)> {
    let end = &mut pair.ends[0];
    while pair.stacks[0].poll(pair.now, end).expect("a cable does not fail") {}
    let mut frames = end.outbound.lock();
    let take = |frame: Vec<u8>| {
        let seq = u32::from_be_bytes([frame[28], frame[29], frame[30], frame[31]]);
        (frame[25], seq, frame[32..].to_vec())
    };
    frames.drain(..).map(take).collect()
}

#[test]
fn a_refused_request_leaves_no_state() {
    let script = Script::new()
        .on(CONNECT, |_| ChainOutcome::Refused(111))
        .on(LISTEN, |_| ChainOutcome::Refused(13));
    let mut stack = stack(script, config(0));
    let local = Some(address(0, 1234));
    for _ in 0..3 {
        let refused = stack.connect(Instant::from_nanos(1), address(1, 80), local);
        assert_eq!(refused, Err(RequestError::Refused(Errno(111))));
        assert_eq!(
            stack.listen(Instant::from_nanos(1), address(0, 80), 1),
            Err(RequestError::Refused(Errno(13)))
        );
    }
    assert_eq!((stack.contexts(), stack.counters().refused), (0, 6));
    assert!(stack.next_notice().is_none());
}

#[test]
fn retired_bytes_still_leave_with_blueprints_issued_before() {
    let script = connecting().on(SEND, |step| {
        let len = step.ev.len;
        step.add_tx();
        step.packet(1, PACKET, 0, 7, (0, len as u32, 0));
        step.flush_tx(len);
        step.packet(1, PACKET, 0, 8, (0, len as u32, 0));
        step.del_context();
        ChainOutcome::Done
    });
    let (mut pair, handle) = connected(script);
    assert_eq!(
        pair.stacks[0].send(Instant::from_nanos(1), handle, b"gone but not lost"),
        Ok(17)
    );
    let want = vec![(0, 7, b"gone but not lost".to_vec()), (0, 8, vec![])];
    assert_eq!(sent(&mut pair), want, "the second was issued too late");
    assert_eq!(pair.stacks[0].counters().clipped_sending, 17);
}

#[test]
fn one_blueprint_becomes_as_many_packets_as_its_segments() {
    let script = connecting().on(SEND, |step| {
        step.add_tx();
        step.packet(1, PACKET, 0, 100, (0, 5000, 1400));
        ChainOutcome::Done
    });
    let (mut pair, handle) = connected(script);
    let bytes: Vec<u8> = (0..4000u32).map(|i| (i / 7) as u8).collect();
    assert_eq!(
        pair.stacks[0].send(Instant::from_nanos(1), handle, &bytes),
        Ok(4000)
    );
    let frames = sent(&mut pair);
    let shape: Vec<(u32, usize)> = frames.iter().map(|f| (f.1, f.2.len())).collect();
    assert_eq!(
        shape,
        [(100, 1400), (1500, 1400), (2900, 1200)],
        "1,000 bytes do not exist"
    );
    assert!(frames.iter().flat_map(|f| f.2.clone()).eq(bytes));
    assert_eq!(pair.stacks[0].counters().clipped_sending, 1000);
}

/// Sends 20 packets and one through a wire that cuts super-segments of up to `gso_max` bytes. Returns the
/// packets on the link from the transport header on, the number of super-segments, and the number of wrong
/// ones if they are `checked`.
fn sent_through(script: Script, flag: u64, gso_max: u32, checked: bool) -> (Vec<Vec<u8>>, usize, u64) {
    let script = script.tcp().on(SEND, move |step| {
        step.add_tx();
        step.packet(1, PACKET, flag, u64::from(u32::MAX) - 5000, (0, 20_000, 1000));
        step.packet(1, PACKET, 0, 7, (100, 500, 1000));
        ChainOutcome::Done
    });
    let [mut end, _] = cable(0, 1);
    (end.caps.tx_csum, end.caps.gso_max) = (true, gso_max);
    let mut stack = Stack::new(Arc::new(script), config(0), &end.caps).expect("a good configuration");
    stack.check_super_segments(checked);
    let handle = stack
        .connect(Instant::from_nanos(1), address(1, 80), None)
        .expect("free");
    let bytes: Vec<u8> = (0..19_500u32).map(|i| (i / 3) as u8).collect();
    assert_eq!(stack.send(Instant::from_nanos(1), handle, &bytes), Ok(19_500));
    while stack
        .poll(Instant::from_nanos(1), &mut end)
        .expect("a cable does not fail")
    {}
    let frames = end.outbound.lock();
    let packets = frames.iter().map(|frame| frame[20..].to_vec()).collect();
    (packets, end.joined, stack.counters().wrong_super_segments)
}

#[test]
fn super_segments_put_the_same_packets_on_the_link() {
    let (plain, none, _) = sent_through(connecting(), 0, 0, false);
    assert_eq!((plain.len(), none), (21, 0));
    // 6,000 bytes have room for five packets: four super-segments. 2,100 have room for two: ten
    // super-segments. If the wire does not cut them, the stack does.
    for (gso_max, joined) in [(65_535, 1), (6000, 4), (2100, 10), (1500, 0), (0, 0)] {
        for checked in [false, true] {
            let (packets, count, wrong) = sent_through(connecting().proven(), 0, gso_max, checked);
            assert!(packets == plain, "of at most {gso_max} bytes");
            assert_eq!((count, wrong), (joined, 0), "of at most {gso_max} bytes");
        }
    }
}

#[test]
fn only_proven_packets_leave_as_super_segments() {
    assert_eq!(sent_through(connecting(), 0, 65_535, false).1, 0, "nothing is");
    let (plain, ..) = sent_through(connecting(), 2, 0, false);
    for gso_max in [0, 65_535] {
        let (packets, joined, _) = sent_through(connecting().proven(), 2, gso_max, false);
        assert!(
            joined == 0 && packets == plain,
            "a flag is set that has to be clear"
        );
    }
    let other = connecting().proven().with(|module| {
        module.offloads[0].rules.push(hawser_ir::RuleId(0));
    });
    assert_eq!(sent_through(other, 0, 65_535, false).1, 0, "other rules");
}

#[test]
fn a_wrong_proof_is_noticed_on_request() {
    let (plain, ..) = sent_through(connecting(), 1, 0, false);
    for gso_max in [0, 65_535] {
        let (packets, joined, wrong) = sent_through(connecting().proven(), 1, gso_max, true);
        let found = (joined, wrong, packets == plain);
        assert_eq!(found, (0, 1, true), "packet by packet from there on");
        let (packets, ..) = sent_through(connecting().proven(), 1, gso_max, false);
        assert!(packets != plain, "the lie would show on the link");
    }
    let (packets, joined, wrong) = sent_through(connecting().proven(), 1, 2100, true);
    assert_eq!(
        (joined, wrong, packets == plain),
        (1, 1, true),
        "the first two were right"
    );
}

#[test]
fn a_later_adjacent_packet_replaces_an_earlier_by_rule() {
    let script = connecting().coalescing().on(CLOSE, |step| {
        step.packet(1, PACKET, 0, 1, (0, 0, 0));
        step.packet(1, PACKET, 0, 2, (0, 0, 0)); // replaces 1
        step.packet(1, PACKET, 2, 3, (0, 0, 0)); // another flag: the rule forbids it
        step.packet(1, PACKET, 0, 4, (0, 0, 0)); // no longer adjacent to 2
        ChainOutcome::Done
    });
    let (mut pair, handle) = connected(script);
    let other = pair.stacks[0]
        .connect(Instant::from_nanos(1), address(1, 80), None)
        .expect("free");
    pair.stacks[0].close(Instant::from_nanos(1), handle);
    pair.stacks[0].close(Instant::from_nanos(1), other);
    let seqs: Vec<u32> = sent(&mut pair).iter().map(|f| f.1).collect();
    assert_eq!(seqs, [2, 3, 4, 2, 3, 4], "contexts do not mix");
    assert_eq!(pair.stacks[0].counters().coalesced, 2);
}

#[test]
fn queues_with_a_lower_number_go_first() {
    // Odd flags use the second queue, which has priority 1; the default one has 5.
    let script = connecting().on(CLOSE, |step| {
        (0..4).for_each(|flag| step.packet(1, PACKET, flag, 0, (0, 0, 0)));
        ChainOutcome::Done
    });
    let (mut pair, handle) = connected(script);
    pair.stacks[0].close(Instant::from_nanos(1), handle);
    let flags: Vec<u8> = sent(&mut pair).iter().map(|f| f.0).collect();
    assert_eq!(flags, [1, 3, 0, 2]);
}

#[test]
fn raised_events_run_after_the_records_and_in_order() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let (raised, closed) = (log.clone(), log.clone());
    let script = connecting()
        .on(CLOSE, move |step| {
            closed.lock().push(100);
            step.scratch[0] = 42;
            let own = step.keyed.as_ref().expect("bound").1.header.id;
            step.raise(own, 1);
            step.raise(flow_id(9, 9), 2);
            step.raise(own, 3);
            step.raise(Id::NONE, 5);
            ChainOutcome::Done
        })
        .on(RAISED, move |step| {
            let flag = step.ev.flag;
            raised.lock().push(flag);
            assert_eq!(step.scratch[0], 42, "the scratchpad lives as long as the request");
            assert_eq!(
                step.keyed.is_some(),
                flag != 2,
                "its target is its only id, without one its raiser"
            );
            if flag == 1 {
                let own = step.keyed.as_ref().expect("found").1.header.id;
                step.raise(own, 4);
            }
            ChainOutcome::Done
        });
    let (mut pair, handle) = connected(script);
    pair.stacks[0].close(Instant::from_nanos(1), handle);
    assert_eq!(*log.lock(), [100, 1, 2, 3, 5, 4]);
}

#[test]
fn endless_raising_is_cut_into_batches() {
    let script = connecting().on(CLOSE, raise_again).on(RAISED, raise_again);
    fn raise_again(step: &mut Step<'_>) -> ChainOutcome {
        let own = step.keyed.as_ref().expect("found").1.header.id;
        step.words()[0] += 1;
        step.raise(own, 0);
        ChainOutcome::Done
    }
    let (mut pair, handle) = connected(script);
    pair.stacks[0].close(Instant::from_nanos(1), handle);
    let first = pair.stacks[0].observe(handle, "shown").expect("observable");
    assert!(first <= 300, "{first}");
    assert!(
        pair.stacks[0]
            .poll(Instant::from_nanos(1), &mut pair.ends[0])
            .expect("a cable does not fail"),
        "there is more"
    );
    assert!(pair.stacks[0].observe(handle, "shown") > Some(first));
    assert_eq!(pair.stacks[0].observe(handle, "hidden"), None);
    assert_eq!(pair.stacks[0].observe(handle, "nothing"), None);
}

#[test]
fn timers_fire_at_their_nanosecond_in_order_of_arming() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let fired = log.clone();
    let script = connecting()
        .on(CLOSE, |step| {
            step.timer_start(0, 1000);
            step.timer_start(1, 1000);
            step.timer_start(0, 1000); // rearmed: now behind timer 1
            ChainOutcome::Done
        })
        .on(ABORT, |step| {
            step.timer_stop(1);
            ChainOutcome::Done
        })
        .on(TIMER, move |step| {
            let now = step.ev.header.now;
            let running = [step.words()[14] > 0, step.words()[15] > 0];
            fired.lock().push((now, running));
            ChainOutcome::Done
        });
    let (mut pair, handle) = connected(script);
    pair.stacks[0].close(Instant::from_nanos(5), handle);
    pair.settle();
    assert_eq!(pair.stacks[0].next_deadline(), Some(Instant::from_nanos(1005)));
    let deadlines = |stack: &Stack| {
        let standing = stack.standing(handle).expect("it lives");
        standing.timers.into_iter().map(|(_, at)| at).collect::<Vec<_>>()
    };
    assert_eq!(deadlines(&pair.stacks[0]), [Some(Instant::from_nanos(1005)); 2]);
    pair.now = Instant::from_nanos(1004);
    pair.settle();
    assert!(log.lock().is_empty());
    assert!(pair.advance());
    pair.settle();
    assert_eq!(*log.lock(), [(1005, [true, false]), (1005, [false, false])]);
    assert_eq!(pair.stacks[0].next_deadline(), None);
    assert_eq!(deadlines(&pair.stacks[0]), [None; 2]);
    let other = pair.stacks[0]
        .connect(Instant::from_nanos(1), address(1, 80), None)
        .expect("free");
    pair.stacks[0].close(Instant::from_nanos(2000), other);
    pair.stacks[0].abort(Instant::from_nanos(2000), other);
    pair.now = Instant::from_nanos(9000);
    pair.settle();
    assert_eq!(log.lock().len(), 3, "a stopped timer does not fire");
}

#[test]
fn a_full_wire_keeps_order_and_a_full_queue_refuses_work() {
    let script = connecting().on(SEND, |step| {
        let seq = step.words()[0];
        step.words()[0] += 1;
        step.packet(1, PACKET, 0, seq, (0, 0, 0));
        ChainOutcome::Done
    });
    let mut config = config(0);
    (config.limits.pending_packets, config.limits.pending_frames) = (20, 3);
    let mut stack = stack(script, config);
    let [mut end, _] = cable(0, 1);
    let handle = stack
        .connect(Instant::from_nanos(1), address(1, 80), None)
        .expect("free");
    end.slots = 2;
    // 4 packets are the worst case of each chain: 17 fit into 20.
    let accepted = (0..50)
        .map(|_| stack.send(Instant::from_nanos(1), handle, b"x").expect("open"))
        .sum::<usize>();
    assert_eq!(accepted, 17);
    assert!(
        stack
            .poll(Instant::from_nanos(1), &mut end)
            .expect("a cable does not fail")
    );
    assert!(
        !stack
            .poll(Instant::from_nanos(1), &mut end)
            .expect("a cable does not fail"),
        "nothing moves"
    );
    assert!(stack.wants_wire());
    let mut seqs = Vec::new();
    while seqs.len() < 17 {
        seqs.extend(end.outbound.lock().drain(..).map(|frame| frame[31]));
        stack
            .poll(Instant::from_nanos(1), &mut end)
            .expect("a cable does not fail");
    }
    assert!(seqs.iter().copied().eq(0..17));
    assert!(!stack.wants_wire());
    assert_eq!(stack.next_notice(), Some((handle, Notice::Writable)));
    assert_eq!(stack.send(Instant::from_nanos(1), handle, b"x"), Ok(1));
}

#[test]
fn a_full_unit_notifies_when_there_is_room() {
    let script = connecting()
        .on(SEND, |step| {
            step.add_tx();
            ChainOutcome::Done
        })
        .on(CLOSE, |step| {
            step.flush_tx(300);
            ChainOutcome::Done
        });
    let mut config = config(0);
    config.limits.tx_bytes = 1000;
    let mut stack = stack(script, config);
    let handle = stack
        .connect(Instant::from_nanos(1), address(1, 80), None)
        .expect("free");
    assert_eq!(stack.writable(handle), 1000);
    assert_eq!(stack.send(Instant::from_nanos(1), handle, &[0; 700]), Ok(700));
    assert_eq!(stack.send(Instant::from_nanos(1), handle, &[0; 700]), Ok(300));
    assert_eq!(stack.send(Instant::from_nanos(1), handle, &[0; 700]), Ok(0));
    assert!(stack.next_notice().is_none());
    stack.close(Instant::from_nanos(1), handle);
    assert_eq!(stack.next_notice(), Some((handle, Notice::Writable)));
    assert_eq!(stack.writable(handle), 300);
}

/// The program refuses with `EAGAIN` because it accepts one piece at a time.
#[test]
fn a_send_refused_with_eagain_waits_until_bytes_have_left() {
    let script = connecting()
        .on(SEND, |step| {
            if step.words()[0] > 0 {
                return ChainOutcome::Refused(11);
            }
            step.words()[0] = step.ev.len;
            step.add_tx();
            ChainOutcome::Done
        })
        .on(CLOSE, |step| {
            let len = std::mem::take(&mut step.words()[0]);
            step.flush_tx(len);
            ChainOutcome::Done
        });
    let mut stack = stack(script, config(0));
    let handle = stack
        .connect(Instant::from_nanos(1), address(1, 80), None)
        .expect("free");
    assert_eq!(stack.send(Instant::from_nanos(1), handle, b"one"), Ok(3));
    assert_eq!(stack.send(Instant::from_nanos(1), handle, b"two"), Ok(0));
    assert!(stack.next_notice().is_none());
    stack.close(Instant::from_nanos(1), handle);
    assert_eq!(stack.next_notice(), Some((handle, Notice::Writable)));
    assert_eq!(stack.send(Instant::from_nanos(1), handle, b"two"), Ok(3));
}

#[test]
fn a_full_table_of_contexts_refuses_new_ones_and_keeps_the_old() {
    let mut config = config(0);
    config.limits.contexts = 2;
    let mut stack = stack(connecting(), config);
    let first = stack
        .connect(Instant::from_nanos(1), address(1, 80), None)
        .expect("room");
    stack
        .connect(Instant::from_nanos(1), address(1, 80), None)
        .expect("room");
    assert_eq!(
        stack.connect(Instant::from_nanos(1), address(1, 80), None),
        Err(RequestError::Limit("contexts"))
    );
    stack.abort(Instant::from_nanos(1), first); // No chain, but an `abort` is registered: no effect.
    assert_eq!(stack.contexts(), 2);
}

#[test]
fn aborting_without_an_abort_chain_deletes_the_context() {
    let script = connecting().with(|module| {
        module
            .parsers
            .retain(|p| p.source != hawser_ir::ParserInput::App(hawser_ir::AppOp::Abort));
    });
    let mut stack = stack(script, config(0));
    let handle = stack
        .connect(Instant::from_nanos(1), address(1, 80), None)
        .expect("room");
    stack.abort(Instant::from_nanos(1), handle);
    assert_eq!(stack.contexts(), 0);
    assert_eq!(stack.next_notice(), Some((handle, Notice::Closed)));
    // The port is free again.
    for _ in 0..3 {
        let handle = stack
            .connect(Instant::from_nanos(1), address(1, 80), Some(address(0, 999)))
            .expect("free again");
        stack.release(handle);
        stack
            .poll(Instant::from_nanos(1), &mut cable(0, 1)[0])
            .expect("a cable does not fail");
    }
    assert_eq!(stack.contexts(), 0);
}

#[test]
fn a_chain_without_context_can_answer_a_packet() {
    let answering = Script::new().on(PACKET, |step| {
        assert!(step.keyed.is_none() && step.fresh.is_some());
        step.answer(0, OTHER_PACKET, 3, 99);
        ChainOutcome::Done
    });
    let script = connecting()
        .on(CLOSE, |step| {
            step.packet(1, PACKET, 0, 0, (0, 0, 0));
            ChainOutcome::Done
        })
        .on(OTHER_PACKET, |step| {
            assert!(step.keyed.is_some(), "it found its context again");
            step.notify(NOTIFY_FAILED, Id::NONE, 111);
            step.del_context();
            ChainOutcome::Done
        });
    let mut pair = Pair::new([script, answering], 0, 1);
    let handle = pair.stacks[0]
        .connect(Instant::from_nanos(1), address(1, 80), None)
        .expect("free");
    pair.stacks[0].close(Instant::from_nanos(1), handle);
    pair.settle();
    assert_eq!(pair.notices(0), [(handle, Notice::Failed(Errno(111)))]);
    assert_eq!((pair.stacks[0].contexts(), pair.stacks[1].contexts()), (0, 0));
}

#[test]
fn a_connection_beyond_the_backlog_is_aborted() {
    let server = Script::new()
        .on(LISTEN, |step| {
            step.new_context(LISTENER);
            ChainOutcome::Done
        })
        .on(PACKET, |step| {
            let id = step.new_context(FLOW);
            step.notify(NOTIFY_ACCEPTED, id, 0);
            ChainOutcome::Done
        })
        .on(ABORT, |step| {
            step.del_context();
            ChainOutcome::Done
        });
    let client = connecting().on(CLOSE, |step| {
        step.packet(1, PACKET, 0, 0, (0, 0, 0));
        ChainOutcome::Done
    });
    let mut config = config(1);
    config.limits.handles = 2;
    let mut pair = Pair::new([client, Script::new()], 0, 1);
    pair.stacks[1] = stack(server, config);
    pair.stacks[1]
        .listen(Instant::from_nanos(1), address(1, 80), 8)
        .expect("room");
    for _ in 0..2 {
        let handle = pair.stacks[0]
            .connect(Instant::from_nanos(1), address(1, 80), None)
            .expect("free");
        pair.stacks[0].close(Instant::from_nanos(1), handle);
    }
    pair.settle();
    assert_eq!(pair.stacks[1].counters().accept_overflow, 1);
    assert_eq!(pair.stacks[1].contexts(), 2, "the listener and the first");
}

#[test]
fn the_tap_sees_every_event_after_it_took_effect() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let script = connecting().on(CLOSE, |step| {
        step.words()[3] = 77;
        step.packet(1, PACKET, 0, 0, (0, 0, 0));
        ChainOutcome::Stop
    });
    let mut stack = stack(script, config(0));
    let log = seen.clone();
    stack.set_event_tap(Some(Box::new(move |event| {
        let header = hawser_ir::buf::event_header(event.event);
        let word = |bytes: &[u8]| bytemuck::pod_read_unaligned::<Ctx>(bytes).words[3];
        let before = event.before.keyed.as_ref().map(|(_, bytes)| word(bytes));
        let after = event.context.map(|(_, bytes)| word(bytes));
        let made = event.fresh.is_some();
        let records = event.records.iter().count();
        log.lock().push((
            header.event,
            header.now,
            (before, after),
            made,
            records,
            event.outcome,
        ));
    })));
    let handle = stack
        .connect(Instant::from_nanos(5), address(1, 80), None)
        .expect("free");
    stack.close(Instant::from_nanos(6), handle);
    let want = [
        (CONNECT, 5, (None, None), true, 3, Some(ChainOutcome::Done)),
        (CLOSE, 6, (Some(0), Some(77)), false, 1, Some(ChainOutcome::Stop)),
    ];
    assert_eq!(*seen.lock(), want);
}

#[test]
fn a_configuration_that_cannot_work_is_rejected() {
    let with = |change: fn(&mut hawser_engine::StackConfig)| {
        let mut config = config(0);
        change(&mut config);
        Stack::new(Arc::new(Script::new()), config, &caps())
            .map(|_| ())
            .expect_err("broken")
    };
    assert!(matches!(
        with(|c| c.interface.addresses.clear()),
        StackConfigError::Interface(_)
    ));
    #[allow(clippy::reversed_empty_ranges)]
    let empty = with(|c| c.ephemeral = 10..=9);
    assert_eq!(empty, StackConfigError::Ports);
    let limit = with(|c| c.limits.pending_packets = 3);
    assert_eq!(
        limit,
        StackConfigError::Limit { name: "pending_packets", value: 3, min: 4 }
    );
    let broken = Script::new().with(|module| module.chains.truncate(2));
    let broken = Stack::new(Arc::new(broken), config(0), &caps()).map(|_| ());
    assert!(matches!(broken, Err(StackConfigError::Program(_))));
}

#[test]
fn the_first_vacant_id_is_reserved_after_a_found_id() {
    let script = connecting()
        .on(CLOSE, |step| {
            step.packet(1, PACKET, 0, 0, (0, 0, 0));
            ChainOutcome::Done
        })
        .on(OTHER_PACKET, |step| {
            assert!(
                step.keyed.is_some() && step.fresh.is_none(),
                "this chain creates nothing"
            );
            step.answer(1, PACKET, 1, 0);
            ChainOutcome::Done
        })
        .on(PACKET, |step| {
            let id = step.fresh.as_ref().expect("reserved").header.id;
            assert!(step.keyed.is_some());
            assert_eq!(
                id.bytes(),
                step.ev.header.id[1].bytes(),
                "its port alone names nothing yet"
            );
            step.new_context(FLOW);
            step.notify(NOTIFY_EOF, Id::NONE, 0);
            ChainOutcome::Done
        });
    let mirror = Script::new().on(PACKET, |step| {
        let event = if step.ev.flag == 0 { OTHER_PACKET } else { PACKET };
        step.answer(0, event, 0, 0);
        ChainOutcome::Done
    });
    let mut pair = Pair::new([script, mirror], 0, 1);
    let handle = pair.stacks[0]
        .connect(Instant::from_nanos(1), address(1, 80), None)
        .expect("free");
    pair.stacks[0].close(Instant::from_nanos(1), handle);
    pair.settle();
    assert_eq!(pair.notices(0), [(handle, Notice::Eof)]);
    assert_eq!(pair.stacks[0].contexts(), 2);
}

#[test]
fn fresh_slots_and_scratchpads_start_at_zero() {
    let script = Script::new().on(CONNECT, |step| {
        assert_eq!(step.scratch[0], 0);
        step.scratch[0] = 1;
        let fresh = step.fresh.as_mut().expect("reserved");
        assert_eq!(fresh.words, [0; 16]);
        fresh.words = [5; 16];
        step.new_context(FLOW);
        ChainOutcome::Done
    });
    let (mut pair, handle) = connected(script);
    pair.stacks[0]
        .connect(Instant::from_nanos(1), address(1, 80), None)
        .expect("free");
    assert_eq!(pair.stacks[0].observe(handle, "shown"), Some(5));
}

#[test]
fn unread_data_of_an_application_is_limited() {
    let client = connecting().on(SEND, |step| {
        let len = step.ev.len;
        step.add_tx();
        let offset = step.words()[0];
        step.packet(1, PACKET, 0, 0, (offset, len as u32, 0));
        step.words()[0] += len;
        step.flush_tx(len);
        ChainOutcome::Done
    });
    let server = connecting().on(PACKET, |step| {
        let received = step.words()[0];
        step.words()[0] += step.ev.len;
        step.add_rx(received);
        step.flush_rx(step.ev.len);
        ChainOutcome::Done
    });
    let mut config = config(1);
    config.limits.rx_bytes = 128 * 1024;
    let mut pair = Pair::new([client, Script::new()], 0, 1);
    pair.stacks[1] = stack(server, config);
    let handle = pair.stacks[1]
        .connect(Instant::from_nanos(1), address(0, 80), Some(address(1, 4000)))
        .expect("free");
    let sender = pair.stacks[0]
        .connect(Instant::from_nanos(1), address(1, 4000), Some(address(0, 80)))
        .expect("free");
    for _ in 0..500 {
        assert_eq!(
            pair.stacks[0].send(Instant::from_nanos(1), sender, &[1; 992]),
            Ok(992)
        );
        pair.settle();
    }
    let held = pair.stacks[1].held_bytes().1;
    assert!((100 * 1024..=128 * 1024).contains(&held), "{held}");
    let dropped = pair.stacks[1].counters().no_room_packet;
    let mut out = vec![0; 1 << 20];
    let read = pair.stacks[1]
        .recv(Instant::from_nanos(1), handle, &mut out)
        .expect("a handle") as u64;
    assert_eq!(read + dropped * 992, 500 * 992, "taken in or counted");
    assert_eq!(pair.stacks[1].held_bytes(), (0, 0));
}

#[test]
fn a_full_table_of_handles_keeps_the_port_free() {
    let mut config = config(0);
    config.limits.handles = 1;
    let mut stack = stack(connecting(), config);
    let [mut end, _] = cable(0, 1);
    let first = stack
        .connect(Instant::from_nanos(1), address(1, 80), None)
        .expect("room");
    let local = Some(address(0, 999));
    assert_eq!(
        stack.connect(Instant::from_nanos(1), address(1, 80), local),
        Err(RequestError::Limit("handles"))
    );
    stack.release(first);
    stack
        .poll(Instant::from_nanos(1), &mut end)
        .expect("a cable does not fail");
    assert!(
        stack
            .connect(Instant::from_nanos(1), address(1, 80), local)
            .is_ok()
    );
}

#[test]
fn a_program_is_told_once_that_a_handle_was_released() {
    let reported = Arc::new(Mutex::new(Vec::new()));
    let note = |what: &'static str| {
        let reported = reported.clone();
        move |_: &mut Step<'_>| {
            reported.lock().push(what);
            ChainOutcome::Done
        }
    };
    let script = connecting().on(CLOSE, note("close")).on(RELEASE, note("release"));
    let (mut pair, handle) = connected(script);
    pair.stacks[0].close(Instant::from_nanos(1), handle);
    pair.stacks[0].release(handle);
    pair.stacks[0].release(handle);
    let _ = sent(&mut pair);
    assert_eq!(*reported.lock(), ["close", "release"]);
    reported.lock().clear();
    let handle = pair.stacks[0]
        .connect(Instant::from_nanos(1), address(1, 80), None)
        .expect("free");
    pair.stacks[0].finish(Instant::from_nanos(1), handle);
    pair.stacks[0].finish(Instant::from_nanos(1), handle);
    let _ = sent(&mut pair);
    assert_eq!(
        *reported.lock(),
        ["release", "close"],
        "both at once: nobody will read"
    );
}

/// Returns an IPv4 packet without options that must not be fragmented.
fn ipv4(from: u8, to: u8, protocol: u8, len: u16, payload: &[u8]) -> Vec<u8> {
    let mut header = [
        0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, from, 10, 0, 0, to,
    ];
    header[2..4].copy_from_slice(&len.to_be_bytes());
    let sum = internet_checksum(&[&header]);
    header[10..12].copy_from_slice(&sum);
    [&header[..], payload].concat()
}

/// RFC 5927, 7.2: an off-path attacker does not know the bytes in flight. A program that does not look at
/// errors cannot tell the difference.
#[test]
fn a_program_without_an_error_parser_confirms_no_errors() {
    let (mut pair, _) = connected(connecting());
    let quoted = ipv4(1, 2, 253, 1500, &[0; 8]);
    let mut error = [&[3, 4, 0, 0, 0, 0, 0, 68][..], &quoted].concat();
    let sum = internet_checksum(&[&error]);
    error[2..4].copy_from_slice(&sum);
    let len = 20 + error.len() as u16;
    pair.ends[0].inbound.lock().push_back(ipv4(9, 1, 1, len, &error));
    let _ = sent(&mut pair);
    assert_eq!(pair.stacks[0].counters().frames_received, 1);
    let interface = pair.stacks[0].interface_counters();
    let dropped: u64 = DropReason::ALL
        .iter()
        .map(|reason| interface.dropped(*reason))
        .sum();
    assert_eq!((dropped, interface.paths_lowered), (0, 0));
}
