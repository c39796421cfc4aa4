//! A stream longer than 4 GiB: sequence numbers wrap, offsets do not.
//!
//! Two stacks hand each other 64 KB segments, so that the whole length is run in seconds:
//! `cargo xtask long stream`.

use std::io;
use std::net::{IpAddr, SocketAddr};

use hawser_time::Instant;
use hawser_engine::wire::{Caps, Csum, Medium, RxFrame, TxFrame, Wire};
use hawser_engine::{Handle, Notice, Stack};

use crate::bench::{SECOND, stack_with_mtu};
use crate::segment::{HOST, PEER};

const MTU: u32 = 65_535;

struct End {
    caps: Caps,
    batch: Vec<Vec<u8>>,
    arrived: Vec<Vec<u8>>,
    sent: Vec<Vec<u8>>,
    spare: Vec<Vec<u8>>,
}

impl Wire for End {
    fn caps(&self) -> &Caps {
        &self.caps
    }
    fn receive(&mut self, max: usize) -> io::Result<usize> {
        let count = self.arrived.len().min(max);
        self.batch = self.arrived.drain(..count).collect();
        Ok(count)
    }
    fn frame(&self, i: usize) -> RxFrame<'_> {
        RxFrame { head: &self.batch[i], tail: &[], csum: Csum::Complete, seg_size: 0, at: Instant::ORIGIN }
    }
    fn release(&mut self) {
        self.spare.append(&mut self.batch);
    }
    fn transmit(&mut self, frames: &[TxFrame]) -> io::Result<usize> {
        for frame in frames {
            let mut bytes = self.spare.pop().unwrap_or_default();
            bytes.clear();
            bytes.extend_from_slice(&frame.head);
            frame.payload.iter().for_each(|piece| bytes.extend_from_slice(piece.bytes()));
            self.sent.push(bytes);
        }
        Ok(frames.len())
    }
}

/// Returns the eight bytes at an offset of the stream, a multiple of eight.
fn word(at: u64) -> [u8; 8] {
    (at ^ 0x5bd1_e995_9e37_79b9).to_le_bytes()
}

struct Pair {
    stacks: [Stack; 2],
    ends: [End; 2],
    now: u64,
}

impl Pair {
    fn settle(&mut self) {
        for i in 0..2 {
            while self.stacks[i].poll(Instant::from_nanos(self.now), &mut self.ends[i]).expect("memory") {
                assert_eq!(self.stacks[i].counters().asserts, 0, "{:?}", self.stacks[i].last_assert());
            }
            let mut sent = std::mem::take(&mut self.ends[i].sent);
            self.ends[1 - i].arrived.append(&mut sent);
        }
    }
}

/// Sends `len` bytes from stack 1 to stack 0 and checks each byte.
fn transfer(len: u64) {
    let caps = Caps { medium: Medium::Ip, mtu: MTU, tx_csum: true, gso_max: 0, rx_queue_bytes: 1 << 24 };
    let end = || End { caps: caps.clone(), batch: vec![], arrived: vec![], sent: vec![], spare: vec![] };
    let stacks = [HOST, PEER].map(|ip| stack_with_mtu(IpAddr::V4(ip), &[], 7, &caps, MTU));
    let mut pair = Pair { stacks, ends: [end(), end()], now: SECOND };
    let address = SocketAddr::new(IpAddr::V4(HOST), 80);
    pair.stacks[0].listen(Instant::from_nanos(pair.now), address, 1).expect("a listener");
    let client = connect_before_the_wrap(&mut pair, address);
    (0..4).for_each(|_| pair.settle());
    let Some((_, Notice::Accepted(server))) = pair.stacks[0].next_notice() else { panic!("not accepted") };
    let (mut given, mut taken) = (0u64, 0u64);
    let mut room = vec![0; 1 << 18];
    let mut data = vec![0; 1 << 16];
    let mut idle = 0;
    while taken < len {
        given += give(&mut pair, client, &mut data, given, len);
        pair.settle();
        let read = pair.stacks[0].recv(Instant::from_nanos(pair.now), server, &mut room).expect("open");
        check(&room[..read], taken);
        taken += read as u64;
        idle = if read == 0 { idle + 1 } else { 0 };
        pair.now += if idle > 3 { 10_000_000 } else { 10_000 };
        assert!(idle < 10_000, "stalled at {taken}");
    }
    let [una, nxt] = ["snd_una", "rcv_nxt"].map(|field| {
        let (stack, handle) = if field == "snd_una" { (1, client) } else { (0, server) };
        pair.stacks[stack].observe(handle, field).expect("observable")
    });
    println!(
        "{taken} bytes; snd_una {una:#x}, rcv_nxt {nxt:#x}, {} frames",
        pair.stacks[0].counters().frames_received
    );
    assert!(nxt - (1 << 32) >= len, "64-bit numbers do not wrap");
    // The first number is ISS + 2^32, with the ISS slightly below 2^32: on the wire it has wrapped.
    assert!(nxt > 2 << 32, "{nxt:#x}");
}

/// Opens a connection when the clock of RFC 6528, four microseconds a tick, puts the initial number a
/// mebibyte below 2^32.
fn connect_before_the_wrap(pair: &mut Pair, address: SocketAddr) -> Handle {
    let local = Some(SocketAddr::new(IpAddr::V4(PEER), 5000));
    let first = pair.stacks[1].connect(Instant::from_nanos(pair.now), address, local).expect("a connection");
    let number = pair.stacks[1].observe(first, "snd_una").expect("observable") as u32;
    pair.stacks[1].abort(Instant::from_nanos(pair.now), first);
    pair.stacks[1].release(first);
    let ticks = 0xfff0_0000_u32.wrapping_sub(number);
    pair.now += u64::from(ticks) * 4_000;
    pair.ends.iter_mut().for_each(|end| end.arrived.clear());
    for (stack, end) in pair.stacks.iter_mut().zip(&mut pair.ends) {
        while stack.poll(Instant::from_nanos(pair.now), end).expect("memory") {}
        end.sent.clear();
        while stack.next_notice().is_some() {}
    }
    pair.stacks[1].connect(Instant::from_nanos(pair.now), address, local).expect("a connection")
}

fn give(pair: &mut Pair, client: Handle, data: &mut [u8], given: u64, len: u64) -> u64 {
    let room = pair.stacks[1].writable(client).min(data.len()).min((len - given) as usize) / 8 * 8;
    for (i, bytes) in data[..room].chunks_exact_mut(8).enumerate() {
        bytes.copy_from_slice(&word(given + 8 * i as u64));
    }
    pair.stacks[1].send(Instant::from_nanos(pair.now), client, &data[..room]).expect("open") as u64
}

fn check(bytes: &[u8], at: u64) {
    let whole = at.next_multiple_of(8) - at;
    let words = bytes.get(whole as usize..).unwrap_or_default().chunks_exact(8);
    for (i, found) in words.enumerate() {
        let offset = at + whole + 8 * i as u64;
        assert!(found == word(offset), "the word at {offset:#x}");
    }
}

/// Exceeds the numbers on the wire; in the long mode, 2^32 bytes and a window.
#[test]
fn a_stream_survives_sequence_number_wrap() {
    let bytes = std::env::var("HAWSER_STREAM_BYTES").ok().and_then(|bytes| bytes.parse().ok());
    transfer(bytes.unwrap_or(64 << 20));
}
