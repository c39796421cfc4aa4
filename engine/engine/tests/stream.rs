//! A stop-and-wait stream between two stacks: connections, ordered data, timers, notices, and their end, over
//! a wire that loses frames.

use crate::common;

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use common::script::*;
use common::{Pair, address};
use hawser_bus::{Bus, Rights};
use hawser_engine::{Handle, Notice, RequestError, Stack, StackLimits};
use hawser_ir::Module;
use hawser_ir::abi::*;

const MSS: u64 = 1000;
const RTO: u64 = 1_000_000;

const DATA: u64 = 0;
const ACK: u64 = 1;
const FIN: u64 = 2;

// The indices of a flow's words.
const UNA: usize = 0;
const END: usize = 1;
const RECEIVED: usize = 2;
const FLIGHT: usize = 3;
const CLOSING: usize = 4;
const FIN_SENT: usize = 5;
const PEER: usize = 6;
const READ: usize = 7;

/// Sends the next packet, or again the one in flight; a FIN takes one number after the data.
fn transmit(step: &mut Step<'_>, again: bool) {
    let w = *step.words();
    let waiting = w[FLIGHT] > 0 || w[FIN_SENT] == 1;
    if waiting && !again {
        return;
    }
    let len = if again {
        w[FLIGHT]
    } else {
        (w[END] - w[UNA]).min(MSS)
    };
    if len == 0 && w[CLOSING] == 0 {
        return;
    }
    step.words()[FLIGHT] = len;
    step.words()[FIN_SENT] = u64::from(len == 0);
    let flag = if len == 0 { FIN } else { DATA };
    step.packet(w[PEER] as u8, PACKET, flag, w[UNA], (w[UNA], len as u32, 0));
    step.timer_start(0, RTO);
}

fn on_packet(step: &mut Step<'_>, own: u8) -> ChainOutcome {
    let (ev, w) = (
        step.ev,
        step.keyed.as_ref().map(|k| k.1.words).unwrap_or_default(),
    );
    if step.kind() != Some(FLOW) {
        return without_context(step, own);
    }
    match ev.flag {
        ACK if ev.seq == w[UNA] + w[FLIGHT].max(w[FIN_SENT]) && ev.seq > w[UNA] => {
            if w[FIN_SENT] == 1 {
                step.notify(NOTIFY_CLOSED, Id::NONE, 0);
                step.del_context();
                return ChainOutcome::Stop;
            }
            step.flush_tx(w[FLIGHT]);
            step.words()[UNA] += w[FLIGHT];
            step.words()[FLIGHT] = 0;
            step.timer_stop(0);
            transmit(step, false);
        }
        DATA if ev.seq == w[RECEIVED] => {
            step.add_rx(ev.seq);
            step.flush_rx(ev.len);
            step.words()[RECEIVED] += ev.len;
            let next = step.words()[RECEIVED];
            step.packet(w[PEER] as u8, PACKET, ACK, next, (0, 0, 0));
        }
        FIN if ev.seq == w[RECEIVED] => {
            step.notify(NOTIFY_EOF, Id::NONE, 0);
            step.words()[RECEIVED] += 1;
            step.packet(w[PEER] as u8, PACKET, ACK, ev.seq + 1, (0, 0, 0));
        }
        DATA => step.packet(w[PEER] as u8, PACKET, ACK, w[RECEIVED], (0, 0, 0)),
        FIN => step.packet(w[PEER] as u8, PACKET, ACK, ev.seq + 1, (0, 0, 0)),
        _ => {}
    }
    ChainOutcome::Done
}

/// Handles a packet without a context. A first packet creates a connection; the packet itself comes again. A
/// FIN of a connection that is over is acknowledged once more.
fn without_context(step: &mut Step<'_>, own: u8) -> ChainOutcome {
    let ev = step.ev;
    let peer = 1 - own;
    if step.kind() == Some(LISTENER) && ev.flag == DATA && ev.seq == 0 && step.fresh.is_some() {
        let id = step.new_context(FLOW);
        step.fresh.as_mut().expect("a fresh slot").words[PEER] = peer.into();
        step.new_units(id, 65_536);
        step.set_ends(own, peer);
        step.notify(NOTIFY_ACCEPTED, id, 0);
    } else if ev.flag == FIN {
        step.answer(peer, PACKET, ACK, ev.seq + 1);
    }
    ChainOutcome::Done
}

fn program(own: u8) -> Script {
    Script::new()
        .on(LISTEN, |step| {
            if step.keyed.is_some() {
                return ChainOutcome::Refused(98);
            }
            step.new_context(LISTENER);
            ChainOutcome::Done
        })
        .on(CONNECT, move |step| {
            let id = step.new_context(FLOW);
            step.fresh.as_mut().expect("a fresh slot").words[PEER] = (1 - own).into();
            step.new_units(id, 65_536);
            step.notify(NOTIFY_CONNECTED, Id::NONE, 0);
            ChainOutcome::Done
        })
        .on(SEND, |step| {
            if step.words()[CLOSING] == 1 {
                return ChainOutcome::Refused(32);
            }
            step.add_tx();
            step.words()[END] += step.ev.len;
            transmit(step, false);
            ChainOutcome::Done
        })
        .on(RECV, |step| {
            let taken = if step.kind() == Some(LISTENER) { UNA } else { READ };
            step.words()[taken] += step.ev.len;
            ChainOutcome::Done
        })
        .on(CLOSE, |step| {
            step.words()[CLOSING] = 1;
            if step.kind() == Some(LISTENER) {
                step.notify(NOTIFY_CLOSED, Id::NONE, 0);
                step.del_context();
            } else {
                transmit(step, false);
            }
            ChainOutcome::Done
        })
        .on(ABORT, |step| {
            step.notify(NOTIFY_FAILED, Id::NONE, 103);
            step.del_context();
            ChainOutcome::Done
        })
        .on(TIMER, |step| {
            assert_eq!(step.words()[14], 0, "the timer does not run in its own event");
            transmit(step, true);
            ChainOutcome::Done
        })
        .on(PACKET, move |step| on_packet(step, own))
}

fn byte_at(i: usize) -> u8 {
    (i.wrapping_mul(2_654_435_761) >> 11) as u8
}

/// Sends `total` bytes from stack 0 to 1 and closes; returns the bytes that arrived.
fn transfer(pair: &mut Pair, total: usize) -> Vec<u8> {
    pair.stacks[1].listen(pair.now, address(1, 80), 8).expect("free");
    let client = pair.stacks[0]
        .connect(pair.now, address(1, 80), None)
        .expect("free");
    let (mut sent, mut received, mut over) = (0, Vec::new(), false);
    let mut server: Option<Handle> = None;
    for _ in 0..2_000_000 {
        pair.settle();
        while sent < total {
            let bytes: Bytes = (sent..total.min(sent + 5000)).map(byte_at).collect();
            let n = match sent / 5000 % 2 {
                0 => pair.stacks[0].send(pair.now, client, &bytes),
                _ => pair.stacks[0].send_shared(pair.now, client, &bytes),
            };
            let n = n.expect("open");
            sent += n;
            if n == 0 {
                break;
            }
        }
        // One packet is in flight, however many have arrived; more than twice that would only wait.
        let (held, _) = pair.stacks[0].held_bytes();
        assert!(
            held <= StackLimits::default().first_bytes + 2 * MSS,
            "{held} bytes"
        );
        for (_, notice) in pair.notices(1) {
            match notice {
                Notice::Accepted(handle) => server = Some(handle),
                Notice::Eof => pair.stacks[1].close(pair.now, server.expect("accepted")),
                _ => {}
            }
        }
        if let Some(server) = server {
            let mut out = [0; 3000];
            while let Ok(n @ 1..) = pair.stacks[1].recv(pair.now, server, &mut out) {
                received.extend_from_slice(&out[..n]);
            }
        }
        if sent == total {
            pair.stacks[0].close(pair.now, client);
        }
        over |= pair.notices(0).contains(&(client, Notice::Closed));
        if over {
            return received;
        }
        pair.settle();
        pair.advance();
    }
    panic!("no end: {:?} {:?}", pair.stacks[0], pair.stacks[1]);
}

#[test]
fn a_stream_arrives_whole_in_spite_of_losses() {
    for seed in 0..10 {
        let mut pair = Pair::new([program(0), program(1)], 20, seed);
        let total = 200_000;
        let received = transfer(&mut pair, total);
        assert!(
            received.len() == total,
            "seed {seed}: {} of {total} bytes",
            received.len()
        );
        assert!(
            received.iter().enumerate().all(|(i, b)| *b == byte_at(i)),
            "seed {seed}"
        );
        let counters = pair.stacks[0].counters();
        assert!(counters.timers > 10, "{counters:?}");
        assert_eq!(
            (counters.clipped_sending, counters.dangling),
            (0, 0),
            "{counters:?}"
        );
        assert_eq!(pair.stacks[1].counters().clipped_receiving, 0);
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let mut pair = Pair::new([program(0), program(1)], 20, seed);
        transfer(&mut pair, 50_000);
        (
            pair.now,
            pair.stacks[0].counters().clone(),
            pair.stacks[1].counters().clone(),
        )
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}

#[test]
fn many_connections_share_a_stack() {
    let mut pair = Pair::new([program(0), program(1)], 0, 1);
    pair.stacks[1].listen(pair.now, address(1, 80), 8).expect("free");
    let clients: Vec<Handle> = (0..500)
        .map(|_| {
            pair.stacks[0]
                .connect(pair.now, address(1, 80), None)
                .expect("ports enough")
        })
        .collect();
    for (i, client) in clients.iter().enumerate() {
        pair.stacks[0]
            .send(pair.now, *client, &(i as u64).to_be_bytes())
            .expect("open");
    }
    pair.settle();
    // The first packet creates the connection; it comes again when its timer fires.
    assert!(pair.advance());
    pair.settle();
    let mut sums = 0;
    for (_, notice) in pair.notices(1) {
        if let Notice::Accepted(handle) = notice {
            let mut out = [0; 8];
            assert_eq!(pair.stacks[1].recv(pair.now, handle, &mut out), Ok(8));
            sums += u64::from_be_bytes(out);
        }
    }
    assert_eq!(sums, (0..500).sum::<u64>());
    assert_eq!(pair.stacks[1].contexts(), 501);
    clients
        .iter()
        .for_each(|client| pair.stacks[0].abort(pair.now, *client));
    assert_eq!(pair.stacks[0].contexts(), 0);
    let failed = Notice::Failed(hawser_engine::Errno(103));
    assert_eq!(
        pair.notices(0)
            .iter()
            .filter(|(_, notice)| *notice == failed)
            .count(),
        500
    );
}

/// Returns the ends of a connection to this server, as an observer on the bus sees them.
fn observed_ends(server: Script) -> [Option<SocketAddr>; 2] {
    let mut pair = Pair::new([program(0), server], 0, 1);
    let bus = Bus::new();
    let schema = hawser_engine::schema(pair.stacks[1].module()).expect("a small program");
    let source = bus.source(Arc::new(schema), None);
    let observer = bus.join("observer", Rights::observer(), 0).expect("room for one");
    let id = source.id();
    pair.stacks[1].interact(source);
    pair.stacks[1].listen(pair.now, address(1, 80), 8).expect("free");
    let client = pair.stacks[0]
        .connect(pair.now, address(1, 80), Some(address(0, 5555)))
        .expect("free");
    pair.stacks[0].send(pair.now, client, b"x").expect("open");
    pair.settle();
    let flows = observer.flows(id).expect("a source");
    pair.settle();
    let flows = flows.ready().expect("an answer");
    let mut connections = flows.iter().filter(|(_, info)| info.kind == "flow");
    let (Some((_, info)), None) = (connections.next(), connections.next()) else {
        panic!("one connection: {flows:?}")
    };
    [info.local, info.remote]
}

#[test]
fn observers_see_only_the_addresses_a_program_states() {
    let stated = observed_ends(program(1));
    assert_eq!(stated, [Some(address(1, 80)), Some(address(0, 5555))]);
    let forget = |module: &mut Module| module.contexts.iter_mut().for_each(|kind| kind.ends = None);
    assert_eq!(observed_ends(program(1).with(forget)), [None, None]);
}

#[test]
fn addresses_are_known_at_both_ends() {
    let mut pair = Pair::new([program(0), program(1)], 0, 1);
    let listener = pair.stacks[1].listen(pair.now, address(1, 80), 8).expect("free");
    let client = pair.stacks[0]
        .connect(pair.now, address(1, 80), Some(address(0, 5555)))
        .expect("free");
    pair.stacks[0].send(pair.now, client, b"x").expect("open");
    pair.settle();
    assert_eq!(pair.stacks[1].observe(listener, "shown"), Some(0));
    let [(reported, Notice::Accepted(server))] = pair.notices(1)[..] else {
        panic!("one connection")
    };
    assert_eq!(reported, listener);
    pair.settle();
    assert_eq!(
        pair.stacks[1].observe(listener, "shown"),
        Some(0),
        "it still waits"
    );
    pair.stacks[1].accept(listener);
    pair.settle();
    assert_eq!(
        pair.stacks[1].observe(listener, "shown"),
        Some(1),
        "it was notified that one was taken"
    );
    let ends = |stack: &Stack, handle| (stack.local(handle), stack.peer(handle));
    assert_eq!(
        ends(&pair.stacks[0], client),
        (Some(address(0, 5555)), Some(address(1, 80)))
    );
    assert_eq!(
        ends(&pair.stacks[1], server),
        (Some(address(1, 80)), Some(address(0, 5555)))
    );
    assert_eq!(ends(&pair.stacks[1], listener), (Some(address(1, 80)), None));
    let again = pair.stacks[0].connect(pair.now, address(1, 80), Some(address(0, 5555)));
    assert_eq!(again, Err(RequestError::AddressInUse));
    let elsewhere = pair.stacks[0].connect(pair.now, "10.9.0.1:80".parse().expect("an address"), None);
    // On a wire without link layer every address is reachable, except those of another family.
    assert!(elsewhere.is_ok());
    let other_family = pair.stacks[0].connect(pair.now, "[fd00::1]:80".parse().expect("an address"), None);
    assert!(
        matches!(other_family, Err(RequestError::Unreachable(_))),
        "{other_family:?}"
    );
}

#[test]
fn flushed_bytes_stay_readable_after_the_end() {
    let mut pair = Pair::new([program(0), program(1)], 0, 1);
    pair.stacks[1].listen(pair.now, address(1, 80), 8).expect("free");
    let client = pair.stacks[0]
        .connect(pair.now, address(1, 80), None)
        .expect("free");
    pair.stacks[0]
        .send(pair.now, client, b"last words")
        .expect("open");
    pair.settle();
    pair.advance();
    pair.settle();
    let server = pair.notices(1).into_iter().find_map(|(_, notice)| match notice {
        Notice::Accepted(handle) => Some(handle),
        _ => None,
    });
    let server = server.expect("accepted");
    pair.stacks[1].abort(pair.now, server);
    assert_eq!(
        pair.stacks[1].send(pair.now, server, b"x"),
        Err(RequestError::NotConnected)
    );
    assert_eq!(pair.stacks[1].readable(server), 10);
    let mut out = [0; 20];
    assert_eq!(pair.stacks[1].recv(pair.now, server, &mut out), Ok(10));
    assert_eq!(&out[..10], b"last words");
    pair.stacks[1].release(server);
    assert_eq!(
        pair.stacks[1].recv(pair.now, server, &mut out),
        Err(RequestError::BadHandle)
    );
}

#[test]
fn a_released_connection_is_aborted_and_a_closed_one_goes_on() {
    let mut pair = Pair::new([program(0), program(1)], 0, 1);
    pair.stacks[1].listen(pair.now, address(1, 80), 8).expect("free");
    let left = pair.stacks[0]
        .connect(pair.now, address(1, 80), None)
        .expect("free");
    let closed = pair.stacks[0]
        .connect(pair.now, address(1, 80), None)
        .expect("free");
    pair.stacks[0].send(pair.now, left, b"one").expect("open");
    pair.stacks[0].send(pair.now, closed, b"two").expect("open");
    pair.stacks[0].close(pair.now, closed);
    pair.stacks[0].release(closed);
    pair.stacks[0].release(left);
    pair.settle();
    assert_eq!(pair.stacks[0].contexts(), 1, "one was aborted");
    (0..10).for_each(|_| {
        pair.advance();
        pair.settle();
    });
    assert_eq!(pair.stacks[0].contexts(), 0, "the other one came to its end");
    assert!(pair.stacks[0].next_notice().is_none());
}

#[test]
fn a_missing_connect_chain_is_not_an_address_in_use() {
    let mut pair = Pair::new([Script::new(), Script::new()], 0, 1);
    let opened = pair.stacks[0].connect(pair.now, address(1, 80), None);
    assert_eq!(opened, Err(RequestError::NothingOpened));
    assert!(
        RequestError::NothingOpened
            .to_string()
            .contains("check that `deploy` registers its chains")
    );
}
