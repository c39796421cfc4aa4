//! In a steady state a packet costs no allocation: neither for receiving, nor for answering, nor for building
//! it.

#![allow(unsafe_code)] // An allocator that counts.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use common::cable::caps;
use common::script::*;
use common::{address, config, stack};
use hawser_engine::wire::{Caps, Csum, RxFrame, TxFrame, Wire};
use hawser_ir::abi::*;
use hawser_testing::internet_checksum;
use hawser_time::Instant;

/// The system's allocator, with a count of allocations.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A wire that always has the same frames and discards sent ones.
struct Mirror {
    caps: Caps,
    frame: Vec<u8>,
    sent: usize,
}

impl Wire for Mirror {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, _: usize) -> io::Result<usize> {
        Ok(32)
    }

    fn frame(&self, _: usize) -> RxFrame<'_> {
        RxFrame {
            head: &self.frame,
            tail: &[],
            csum: Csum::Unverified,
            seg_size: 0,
            at: Instant::ORIGIN,
        }
    }

    fn release(&mut self) {}

    fn transmit(&mut self, frames: &[TxFrame]) -> io::Result<usize> {
        self.sent += frames.len();
        Ok(frames.len())
    }
}

/// Returns a packet of stack 1 from port 80, with 1,000 bytes, to the port of stack 0.
fn frame(port: u16) -> Vec<u8> {
    let mut frame = vec![
        0x45, 0, 0x04, 0x08, 0, 0, 0, 0, 64, 253, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1,
    ];
    let sum = internet_checksum(&[&frame]);
    frame[10..12].copy_from_slice(&sum);
    frame.extend([0, 80]);
    frame.extend(port.to_be_bytes());
    frame.extend([PACKET as u8, 0, 0, 0, 0, 0, 0, 0]);
    frame.resize(20 + 12 + 1000, 7);
    frame
}

#[test]
fn processing_a_packet_allocates_no_memory() {
    let script = Script::new()
        .on(CONNECT, |step| {
            let id = step.new_context(FLOW);
            step.new_units(id, 65_536);
            ChainOutcome::Done
        })
        .on(SEND, |step| {
            step.add_tx();
            ChainOutcome::Done
        })
        .on(PACKET, |step| {
            let received = step.words()[0];
            step.add_rx(received);
            step.flush_rx(step.ev.len);
            step.words()[0] += step.ev.len;
            step.packet(1, PACKET, 0, received, (received % 5000, 900, 300));
            step.timer_start(0, 1_000_000);
            ChainOutcome::Done
        });
    let mut stack = stack(script, config(0));
    let handle = stack
        .connect(Instant::from_nanos(1), address(1, 80), Some(address(0, 4000)))
        .expect("free");
    assert_eq!(
        stack.send(Instant::from_nanos(1), handle, &[9; 10_000]),
        Ok(10_000)
    );
    let mut wire = Mirror { caps: caps(), frame: frame(4000), sent: 0 };
    let mut out = vec![0; 64 * 1024];
    let mut round = |nanos| {
        let now = Instant::from_nanos(nanos);
        stack.poll(now, &mut wire).expect("a mirror does not fail");
        assert_eq!(stack.recv(now, handle, &mut out), Ok(32_000));
        assert!(stack.next_notice().is_some());
    };
    (1..100).for_each(&mut round);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    (100..1100).for_each(&mut round);
    let during = ALLOCATIONS.load(Ordering::Relaxed) - before;
    assert_eq!(wire.sent, 1099 * 32 * 3);
    assert!(
        during < 10,
        "{during} allocations for 32,000 packets in and 96,000 out"
    );
}
