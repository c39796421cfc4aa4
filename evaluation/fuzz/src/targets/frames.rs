//! Arbitrary bytes as Ethernet frames, in the form in which the wires of DPDK, AF_XDP and packet sockets pass
//! them to a stack. A stack with a TCP listener does not panic, sends no frame that its link does not carry,
//! and comes to rest.
//!
//! The first byte selects the checksum state. The frames follow, each after a header of four bytes. Two bytes
//! are its length, one is the place at which the wire splits it in two, and one is the milliseconds before
//! it.

use std::io;
use std::sync::{Arc, LazyLock};

use hawser_engine::net::InterfaceConfig;
use hawser_engine::program::Program;
use hawser_engine::wire::{Caps, Csum, Medium, RxFrame, TxFrame, Wire};
use hawser_engine::{Notice, Stack, StackConfig};
use hawser_load::{Engine, LoadedProgram};
use hawser_time::Instant;

static PROGRAM: LazyLock<Arc<dyn Program>> = LazyLock::new(|| {
    let tcp = LoadedProgram::open("tcp", Some(Engine::Interp)).expect("it comes with Hawser");
    tcp.with(&[]).expect("it has all it needs")
});

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const MTU: u32 = 1500;
const ETHERNET: usize = 14;
/// The largest number of frames in one input.
const MAX_FRAMES: usize = 64;
/// The largest number of polls after which a stack without new input must be idle.
const MAX_POLLS: usize = 10_000;

/// A link that holds one frame at a time.
struct Link<'a> {
    caps: Caps,
    frame: Option<(&'a [u8], usize)>,
    csum: Csum,
    now: Instant,
}

impl Wire for Link<'_> {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, max: usize) -> io::Result<usize> {
        Ok(usize::from(self.frame.is_some()).min(max))
    }

    fn frame(&self, _: usize) -> RxFrame<'_> {
        let (bytes, cut) = self.frame.unwrap_or_default();
        let (head, tail) = bytes.split_at(cut.min(bytes.len()));
        RxFrame { head, tail, csum: self.csum, seg_size: 0, at: self.now }
    }

    fn release(&mut self) {
        self.frame = None;
    }

    fn transmit(&mut self, frames: &[TxFrame]) -> io::Result<usize> {
        for frame in frames {
            let len = frame.len();
            assert!(
                (ETHERNET..=MTU as usize + ETHERNET).contains(&len),
                "a frame of {len} bytes"
            );
            assert_eq!(frame.head[6..12], MAC, "another host's address");
        }
        Ok(frames.len())
    }
}

pub(crate) fn fuzz(data: &[u8]) {
    let Some((known, mut rest)) = data.split_first() else {
        return;
    };
    let caps = Caps {
        medium: Medium::Ethernet(MAC),
        mtu: MTU,
        tx_csum: false,
        gso_max: 0,
        rx_queue_bytes: 1 << 20,
    };
    let mut stack = stack(&caps);
    let csum = if known & 1 == 0 {
        Csum::Complete
    } else {
        Csum::Unverified
    };
    let mut link = Link { caps, frame: None, csum, now: Instant::from_nanos(1) };
    settle(&mut stack, &mut link);
    for _ in 0..MAX_FRAMES {
        let [high, low, cut, pause, data @ ..] = rest else {
            return;
        };
        let len = usize::from(u16::from_be_bytes([*high, *low]) % 2048).min(data.len());
        let (frame, behind) = data.split_at(len);
        link.now = Instant::from_nanos(link.now.as_nanos() + u64::from(*pause) * 1_000_000);
        // Wires guarantee that all headers are in the first part.
        let cut = if *cut == 0 {
            len
        } else {
            len.min(128 + usize::from(*cut))
        };
        link.frame = Some((frame, cut));
        settle(&mut stack, &mut link);
        rest = behind;
    }
}

/// Returns a stack at 10.0.0.1 and fd00::1 that listens on port 80.
fn stack(caps: &Caps) -> Stack {
    let address = |text: &str| text.parse().expect("an address");
    let addresses = vec![(address("10.0.0.1"), 24), (address("fd00::1"), 64)];
    let interface = InterfaceConfig { addresses, gateways: vec![], mtu: MTU };
    let mut stack =
        Stack::new(PROGRAM.clone(), StackConfig::new(interface, 1), caps).expect("a good configuration");
    let here = "10.0.0.1:80".parse().expect("an address");
    let _ = stack
        .listen(Instant::from_nanos(1), here, 16)
        .expect("the port is free");
    stack
}

/// Polls the stack until it is idle, and takes its notices for the application.
fn settle(stack: &mut Stack, link: &mut Link<'_>) {
    for _ in 0..MAX_POLLS {
        let mut any = stack.poll(link.now, link).expect("the link does not fail");
        while let Some((handle, notice)) = stack.next_notice() {
            any = true;
            match notice {
                Notice::Accepted(_) => stack.accept(handle),
                Notice::Readable => while let Ok(1..) = stack.recv(link.now, handle, &mut [0; 4096]) {},
                _ => {}
            }
        }
        if !any {
            return;
        }
    }
    panic!("the stack does not come to rest");
}
