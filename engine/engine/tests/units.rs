//! Units of ordered data end and make room for others; beyond the limit no data is lost silently.

use crate::common;

use common::script::*;
use common::{Pair, address, config, stack};
use hawser_engine::{Errno, Handle, Notice, RequestError, Stack};
use hawser_ir::abi::*;
use hawser_time::Instant;

const LIMIT: usize = 4;

/// The way in which a program ends a unit.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// By reaching its stated size.
    Size,
    /// By an instruction.
    Instruction,
    /// Not at all.
    Never,
}

/// Returns the uid of the n-th message.
fn message(n: u64) -> Id {
    flow_id(1000 + n, 1)
}

/// A program that connects without a unit of its own. Each `send` is a unit, sent in one packet and retired
/// at once.
fn sender(end: End) -> Script {
    let connect = Script::new().on(CONNECT, |step| {
        step.new_context(FLOW);
        ChainOutcome::Done
    });
    connect.on(SEND, move |step| {
        let (number, ev) = (step.words()[0], step.ev);
        step.words()[0] += 1;
        let uid = message(number);
        step.unit(
            RecordKind::NewTx,
            uid,
            0,
            if end == End::Size { ev.len } else { INF },
            0,
        );
        step.unit(RecordKind::AddTx, uid, ev.addr, ev.len, 0);
        step.packet_of(uid, 1, PACKET, 0, number, (0, ev.len as u32, 0));
        step.unit(RecordKind::FlushTx, uid, 0, ev.len, 0);
        if end == End::Instruction {
            step.unit(RecordKind::DelTx, uid, 0, 0, 0);
        }
        ChainOutcome::Done
    })
}

/// A program that makes a unit of each packet and delivers its bytes.
fn receiver(end: End) -> Script {
    let connect = Script::new().on(CONNECT, |step| {
        step.new_context(FLOW);
        ChainOutcome::Done
    });
    let script = connect.on(ABORT, |step| {
        step.del_context();
        ChainOutcome::Done
    });
    script.on(PACKET, move |step| {
        let (uid, ev) = (message(step.ev.seq), step.ev);
        step.unit(
            RecordKind::NewRx,
            uid,
            0,
            if end == End::Size { ev.len } else { INF },
            65_536,
        );
        step.unit(RecordKind::AddRx, uid, ev.addr, ev.len, 0);
        step.unit(RecordKind::FlushRx, uid, 0, ev.len, 0);
        if end == End::Instruction {
            step.unit(RecordKind::DelRx, uid, 0, 0, 0);
        }
        ChainOutcome::Done
    })
}

/// Both ends with at most [`LIMIT`] units for each context, and their handles.
fn pair(end: End) -> (Pair, [Handle; 2]) {
    let mut pair = Pair::new([Script::new(), Script::new()], 0, 1);
    for (i, script) in [sender(end), receiver(end)].into_iter().enumerate() {
        let mut config = config(i);
        config.limits.units_per_context = LIMIT;
        pair.stacks[i] = stack(script, config);
    }
    let theirs = pair.stacks[1]
        .connect(Instant::from_nanos(1), address(0, 80), Some(address(1, 4000)))
        .expect("free");
    let ours = pair.stacks[0]
        .connect(Instant::from_nanos(1), address(1, 4000), Some(address(0, 80)))
        .expect("free");
    (pair, [ours, theirs])
}

fn text(n: u64) -> String {
    format!("message {n};")
}

fn read(stack: &mut Stack, handle: Handle) -> String {
    let mut out = [0; 65_536];
    let len = stack
        .recv(Instant::from_nanos(1), handle, &mut out)
        .expect("a handle");
    String::from_utf8_lossy(&out[..len]).into_owned()
}

#[test]
fn units_that_end_make_room_for_any_number_of_later_ones() {
    for end in [End::Size, End::Instruction] {
        let (mut pair, [ours, theirs]) = pair(end);
        let mut all = String::new();
        for n in 0..20 * LIMIT as u64 {
            assert_eq!(
                pair.stacks[0].send(Instant::from_nanos(1), ours, text(n).as_bytes()),
                Ok(text(n).len()),
                "{end:?}, {n}"
            );
            pair.settle();
            all += &text(n);
        }
        // Finished units, twenty times the limit, wait to be read: they count only against memory.
        assert_eq!(read(&mut pair.stacks[1], theirs), all, "{end:?}");
        assert_eq!(
            pair.stacks.each_ref().map(Stack::held_bytes),
            [(0, 0); 2],
            "{end:?}"
        );
        for stack in &pair.stacks {
            let counters = stack.counters();
            let lost = (
                counters.dangling,
                counters.clipped_sending,
                counters.clipped_receiving,
            );
            assert_eq!(
                (lost, counters.unit_limit, counters.duplicate_ids),
                ((0, 0, 0), 0, 0),
                "{end:?}"
            );
        }
    }
}

#[test]
fn a_request_beyond_the_limit_of_units_is_refused_by_its_name() {
    let (mut pair, [ours, _]) = pair(End::Never);
    let stack = &mut pair.stacks[0];
    let results: Vec<_> = (0..10)
        .map(|n| stack.send(Instant::from_nanos(1), ours, text(n).as_bytes()))
        .collect();
    // A chain of this program may create two units: with three in use there is no room for its worst case.
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), LIMIT - 1);
    assert_eq!(
        results.last(),
        Some(&Err(RequestError::Limit("units_per_context")))
    );
    assert_eq!(
        RequestError::Limit("units_per_context").errno(),
        Errno(105),
        "ENOBUFS"
    );
    assert_eq!((stack.counters().unit_limit, stack.counters().dangling), (7, 0));
    assert_eq!(stack.contexts(), 1, "the connection lives on");
}

#[test]
fn exceeding_the_unit_limit_ends_the_context_with_an_error() {
    let (mut pair, [_, theirs]) = pair(End::Never);
    // The sender ends its units; only the receiver has too many.
    let mut config = config(0);
    config.limits.units_per_context = LIMIT;
    pair.stacks[0] = stack(sender(End::Size), config);
    let ours = pair.stacks[0]
        .connect(Instant::from_nanos(1), address(1, 4000), Some(address(0, 80)))
        .expect("free");
    for n in 0..2 * LIMIT as u64 {
        assert!(
            pair.stacks[0]
                .send(Instant::from_nanos(1), ours, text(n).as_bytes())
                .is_ok()
        );
        pair.settle();
    }
    let notices = pair.notices(1);
    let failures = notices
        .iter()
        .filter(|(_, notice)| matches!(notice, Notice::Failed(_)));
    assert_eq!(
        failures.collect::<Vec<_>>(),
        [&(theirs, Notice::Failed(Errno(105)))],
        "once: {notices:?}"
    );
    assert_eq!(
        (pair.stacks[1].counters().unit_limit, pair.stacks[1].contexts()),
        (1, 0)
    );
    let before: String = (0..LIMIT as u64).map(text).collect();
    assert_eq!(
        read(&mut pair.stacks[1], theirs),
        before,
        "what was handed over before is not lost"
    );
}

#[test]
fn an_ended_receive_unit_releases_its_bytes_and_id() {
    let script = receiver(End::Never).on(PACKET, |step| {
        let (uid, ev) = (message(0), step.ev);
        step.unit(RecordKind::NewRx, uid, 0, INF, 65_536);
        step.unit(RecordKind::AddRx, uid, ev.addr, ev.len, 0);
        step.unit(RecordKind::AddRx, uid, ev.addr, ev.len, 20_000);
        step.unit(RecordKind::FlushRx, uid, 0, 3, 0);
        step.unit(RecordKind::DelRx, uid, 0, 0, 0);
        ChainOutcome::Done
    });
    let (mut pair, [ours, theirs]) = pair(End::Size);
    pair.stacks[1] = stack(script, config(1));
    let again = pair.stacks[1]
        .connect(Instant::from_nanos(1), address(0, 80), Some(address(1, 4000)))
        .expect("free");
    assert_eq!(again, theirs);
    for _ in 0..2 {
        assert_eq!(
            pair.stacks[0].send(Instant::from_nanos(1), ours, b"abcdef"),
            Ok(6)
        );
        pair.settle();
    }
    assert_eq!(
        pair.stacks[1].held_bytes().1,
        2 * 4096,
        "one page for each unread unit"
    );
    assert_eq!(read(&mut pair.stacks[1], theirs), "abcabc");
    assert_eq!(
        (
            pair.stacks[1].held_bytes().1,
            pair.stacks[1].counters().duplicate_ids
        ),
        (0, 0)
    );
}

#[test]
fn bytes_of_several_units_are_read_in_flush_order() {
    // A program whose messages overtake one another creates units as packets arrive.
    let script = receiver(End::Never).on(PACKET, |step| {
        let (uid, ev) = (message(step.ev.seq), step.ev);
        step.unit(RecordKind::NewRx, uid, 0, INF, 65_536);
        step.unit(RecordKind::AddRx, uid, ev.addr, ev.len, 0);
        if ev.seq == 2 {
            for seq in [2, 0, 1] {
                step.unit(RecordKind::FlushRx, message(seq), 0, ev.len, 0);
            }
        }
        ChainOutcome::Done
    });
    let (mut pair, [ours, theirs]) = pair(End::Size);
    pair.stacks[1] = stack(script, config(1));
    assert_eq!(
        pair.stacks[1].connect(Instant::from_nanos(1), address(0, 80), Some(address(1, 4000))),
        Ok(theirs)
    );
    for bytes in [b"aa", b"bb", b"cc"] {
        assert_eq!(pair.stacks[0].send(Instant::from_nanos(1), ours, bytes), Ok(2));
        pair.settle();
    }
    assert_eq!(read(&mut pair.stacks[1], theirs), "ccaabb");
}

fn message_of(stack: &mut Stack, handle: Handle) -> Option<String> {
    let mut out = Vec::new();
    let is_some = stack
        .recv_message(Instant::from_nanos(1), handle, &mut out)
        .expect("a handle");
    is_some.then(|| String::from_utf8_lossy(&out).into_owned())
}

#[test]
fn a_unit_of_a_stated_size_is_read_as_a_message() {
    let (mut pair, [ours, theirs]) = pair(End::Size);
    let count = 3 * LIMIT as u64;
    for n in 0..count {
        let sent = pair.stacks[0].send_message(Instant::from_nanos(1), ours, text(n).as_bytes());
        assert_eq!(sent, Ok(true), "{n}");
        pair.settle();
    }
    for n in 0..count {
        assert_eq!(message_of(&mut pair.stacks[1], theirs), Some(text(n)));
    }
    assert_eq!(message_of(&mut pair.stacks[1], theirs), None);
    assert_eq!(pair.stacks.each_ref().map(Stack::held_bytes), [(0, 0); 2]);
}

#[test]
fn an_ended_unit_yields_no_message_and_holds_no_bytes() {
    let (mut pair, [ours, theirs]) = pair(End::Instruction);
    for n in 0..3 {
        let sent = pair.stacks[0].send(Instant::from_nanos(1), ours, text(n).as_bytes());
        assert_eq!(sent, Ok(text(n).len()));
    }
    pair.settle();
    assert!(pair.stacks[1].readable(theirs) > 0);
    assert_eq!(message_of(&mut pair.stacks[1], theirs), None);
    assert_eq!(pair.stacks[1].held_bytes(), (0, 0));
}

#[test]
fn a_message_goes_out_whole_or_not_at_all() {
    let connect = Script::new().on(CONNECT, |step| {
        step.new_context(FLOW);
        ChainOutcome::Done
    });
    let keeper = connect.on(SEND, |step| {
        let uid = message(step.words()[0]);
        step.words()[0] += 1;
        let ev = step.ev;
        step.unit(RecordKind::NewTx, uid, 0, ev.len, 0);
        step.unit(RecordKind::AddTx, uid, ev.addr, ev.len, 0);
        ChainOutcome::Done
    });
    let mut stack = stack(keeper, config(0));
    let ours = stack
        .connect(Instant::from_nanos(1), address(1, 4000), Some(address(0, 80)))
        .expect("free");
    let mut send = |length: usize| stack.send_message(Instant::from_nanos(1), ours, &vec![7; length]);
    let limits = hawser_engine::StackLimits::default();
    let (longest, first) = (limits.tx_bytes as usize, limits.first_bytes as usize);
    assert_eq!(send(0), Err(RequestError::MessageEmpty));
    assert_eq!(
        send(longest + 1),
        Err(RequestError::MessageTooLong(limits.tx_bytes))
    );
    // The first message may be longer than a connection may hold before any bytes have left it.
    assert_eq!(send(4 * first), Ok(true));
    assert_eq!(send(1), Ok(false), "this program never lets bytes go");
    assert_eq!(stack.held_bytes().0, 4 * limits.first_bytes, "all of it");
    assert_eq!(stack.counters().clipped_sending, 0);
    assert_eq!(
        [RequestError::MessageTooLong(1), RequestError::MessageEmpty].map(RequestError::errno),
        [Errno(90), Errno(22)],
        "EMSGSIZE, EINVAL"
    );
}
