//! A cable in memory that delivers at once, in virtual time.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hawser_engine::wire::{Caps, Csum, Medium, RxFrame, TxFrame, Wire};
use hawser_sockets::Device;
use hawser_time::Instant;
use parking_lot::Mutex;

type Queue = Arc<Mutex<VecDeque<Vec<u8>>>>;

/// One end of a cable that delivers at once.
pub(crate) struct CableEnd {
    caps: Caps,
    clock: Arc<AtomicU64>,
    inward: Queue,
    outward: Queue,
    /// Readable once a frame has arrived; the peer writes into the other end of the socket.
    wakeup: UnixStream,
    ring: UnixStream,
    batch: Vec<Vec<u8>>,
    /// If it is set, the next use of the device panics.
    broken: Arc<AtomicBool>,
}

impl Wire for CableEnd {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, max: usize) -> io::Result<usize> {
        assert!(!self.broken.load(Ordering::Relaxed), "broken on purpose");
        // Without this the socket would eventually be full and ring no more.
        let _ = self.wakeup.read(&mut [0; 4096]);
        let mut waiting = self.inward.lock();
        let count = waiting.len().min(max);
        self.batch = waiting.drain(..count).collect();
        Ok(count)
    }

    fn frame(&self, i: usize) -> RxFrame<'_> {
        RxFrame {
            head: &self.batch[i],
            tail: &[],
            csum: Csum::Unverified,
            seg_size: 0,
            at: Instant::ORIGIN,
        }
    }

    fn release(&mut self) {
        self.batch.clear();
    }

    fn transmit(&mut self, frames: &[TxFrame]) -> io::Result<usize> {
        let bytes = |frame: &TxFrame| {
            let mut bytes = frame.head.clone();
            frame
                .payload
                .iter()
                .for_each(|piece| bytes.extend_from_slice(piece.bytes()));
            bytes
        };
        self.outward.lock().extend(frames.iter().map(bytes));
        // A full socket has been signalled already.
        let _ = self.ring.write(&[1]);
        Ok(frames.len())
    }
}

impl Device for CableEnd {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.clock.load(Ordering::Relaxed))
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }

    fn wait(&self, _: Option<Duration>) -> io::Result<()> {
        unreachable!("nobody sleeps here")
    }
}

/// Returns both ends of a cable, on one clock; the flags break them.
pub(crate) fn cable(clock: &Arc<AtomicU64>, broken: &[Arc<AtomicBool>; 2]) -> [CableEnd; 2] {
    let queues = [Queue::default(), Queue::default()];
    let wakeups = [0, 1].map(|_| UnixStream::pair().expect("sockets"));
    for (wakeup, ring) in &wakeups {
        for socket in [wakeup, ring] {
            socket.set_nonblocking(true).expect("a socket");
        }
    }
    [0, 1].map(|end| CableEnd {
        caps: Caps {
            medium: Medium::Ip,
            mtu: 1500,
            tx_csum: false,
            gso_max: 0,
            rx_queue_bytes: 1 << 22,
        },
        clock: clock.clone(),
        inward: queues[end].clone(),
        outward: queues[1 - end].clone(),
        wakeup: wakeups[end].0.try_clone().expect("a socket"),
        ring: wakeups[1 - end].1.try_clone().expect("a socket"),
        batch: Vec::new(),
        broken: broken[end].clone(),
    })
}
