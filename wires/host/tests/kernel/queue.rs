//! The data that a packet socket passes to the kernel ahead of a slow device. The rest waits where a program
//! can still decide.
//!
//! Every bound also holds if the test runs late. The device then idles, and the limit is raised to at most
//! twice the value that was too small.

use std::time::{Duration, Instant};

use hawser_engine::wire::{PayRef, TxFrame, Wire};
use hawser_host::PacketWire;
use hawser_host::netns::{Namespace, Netlink, ShaperRate};
use hawser_host::packet::Receive;

use crate::TestResult;
use crate::cable;

type Error = Box<dyn std::error::Error + Send + Sync>;

const CABLE: &str = "cable0";
/// The size of the longest Ethernet frame, in bytes.
const FRAME: usize = 1514;
/// The time after which a test gives up.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Returns a frame of an EtherType for experiments (IEEE 802, 9.2.4), which every host drops.
fn frame(len: usize) -> TxFrame {
    let mut head = vec![0x02, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 2];
    head.extend([0x88, 0xb5]);
    let payload = vec![PayRef::from(vec![0; len - head.len()])];
    TxFrame { head, payload, ..TxFrame::default() }
}

/// The measurements of a sender that always has more frames.
#[derive(Debug, Default)]
struct Found {
    /// The maximum number of bytes that waited in the device's queue.
    waiting: u64,
    /// The highest limit, in the kernel's accounting.
    limit: u64,
    /// The number of times the sender woke up without a frame to receive and without room.
    in_vain: u32,
}

struct Sender {
    wire: PacketWire,
    netlink: Netlink,
    _peer: Namespace,
}

impl Sender {
    fn new() -> Result<Sender, Error> {
        let (station, peer) = cable::set_up(Receive::Buffer)?;
        Ok(Sender { wire: station.wire, netlink: Netlink::open()?, _peer: peer })
    }

    fn shape(&mut self, bytes_per_second: u64, queue: u32) -> TestResult {
        let burst = 1600;
        let shape = ShaperRate { bytes_per_second, burst, queue };
        Ok(self.netlink.shape(CABLE, shape)?)
    }

    /// Sends frames that fill the available room, up to `left` of them. Returns how many left.
    fn fill(&mut self, left: usize) -> Result<usize, Error> {
        let mut sent = 0;
        while sent < left {
            let room = self.wire.room();
            if room == 0 {
                break;
            }
            let frames: Vec<TxFrame> = (0..room.div_ceil(FRAME).min(left - sent))
                .map(|_| frame(FRAME))
                .collect();
            sent += self.wire.transmit(&frames)?;
        }
        Ok(sent)
    }

    /// Sends this many frames like a driver: as far as there is room, then it sleeps.
    fn send(&mut self, count: usize) -> Result<Found, Error> {
        let (begin, mut sent, mut found) = (Instant::now(), 0, Found::default());
        while sent < count {
            if begin.elapsed() > TIMEOUT {
                return Err(format!("{sent} of {count} frames left, {found:?}").into());
            }
            let received = self.wire.receive(64)?;
            self.wire.release();
            let now = self.fill(count - sent)?;
            found.in_vain += u32::from(received == 0 && now == 0);
            sent += now;
            found.waiting = found
                .waiting
                .max(self.netlink.queue_counters(CABLE)?.waiting_bytes);
            found.limit = found.limit.max(self.wire.queue_limit());
            self.wire.wait(Some(TIMEOUT))?;
        }
        Ok(found)
    }
}

/// At 5 Mbit/s 400 frames take a second, and 8 of them wait in the kernel. A driver that sleeps until there
/// is room wakes up when there is, and not before.
pub(crate) fn few_frames_wait_in_a_slow_devices_queue() -> TestResult {
    let mut sender = Sender::new()?;
    sender.shape(625_000, 4 << 20)?;
    let found = sender.send(400)?;
    assert!(
        found.waiting <= found.limit,
        "as much as the limit allows: {found:?}"
    );
    assert!(
        found.waiting < 400 * FRAME as u64 / 4,
        "most frames wait outside of the kernel: {found:?}"
    );
    assert_eq!(found.in_vain, 0, "{found:?}");
    Ok(())
}

/// A device that sends all frames at once gets all available frames, however many they are.
pub(crate) fn a_fast_device_gets_more_ahead() -> TestResult {
    let mut sender = Sender::new()?;
    let first = sender.wire.queue_limit();
    let begin = Instant::now();
    while sender.wire.queue_limit() < 8 * first {
        sender.send(400)?;
        assert!(
            begin.elapsed() < TIMEOUT,
            "{} after {first}",
            sender.wire.queue_limit()
        );
    }
    Ok(())
}

/// A queue of two frames drops further ones. They are counted, and the wire continues.
pub(crate) fn a_queue_that_drops_does_not_stop_the_wire() -> TestResult {
    let mut sender = Sender::new()?;
    sender.shape(125_000, 2 * FRAME as u32)?;
    sender.send(100)?;
    let counters = sender.wire.counters();
    assert_eq!(counters.sent + counters.refused, 100);
    assert!(counters.refused > 0, "{counters:?}");
    Ok(())
}

/// Frames that wait in an interface are lost when it goes down, and a sender that waits for room wakes up.
pub(crate) fn an_interface_going_down_wakes_waiting_senders() -> TestResult {
    let mut sender = Sender::new()?;
    // At 1 kB/s, the queue would take 10 s.
    sender.shape(1000, 4 << 20)?;
    sender.fill(100)?;
    assert_eq!(sender.wire.room(), 0);
    sender.netlink.take_down(CABLE)?;
    let begin = Instant::now();
    while sender.wire.room() == 0 && begin.elapsed() < TIMEOUT {
        sender.wire.wait(Some(TIMEOUT))?;
        sender.wire.receive(64)?;
        sender.wire.release();
    }
    assert!(begin.elapsed() < TIMEOUT, "there is no room");
    let before = sender.wire.counters();
    assert!(
        sender.fill(20)? > 0,
        "frames for a device that is down are dropped"
    );
    assert!(sender.wire.counters().refused > before.refused);
    sender.netlink.bring_up(CABLE)?;
    sender.netlink.unshape(CABLE)?;
    sender.send(100)?;
    assert!(sender.wire.counters().sent >= before.sent + 100);
    Ok(())
}
