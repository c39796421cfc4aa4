//! Ethernet through a port of DPDK.

use std::io;
use std::net::IpAddr;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use hawser_engine::net::Sum;
use hawser_engine::wire::{Caps, Csum, Medium, RxFrame, TxFrame, Wire};
use hawser_host::{Clock, Interface, Presence, WireCounters};
use hawser_time::Instant;

use crate::OpenError;
use crate::environment;
use crate::pace::Pace;
use crate::port::{BATCH, Batch, Frame, Info, Probed, Queue};
use crate::program;
use crate::shared;

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// Bytes of payload up to which it is copied behind its headers: that is less work than a reference.
const SMALL: usize = 256;
/// Frames that wait for a port that is full, at most: the rest waits in the stack.
const WAITING: usize = 64;
/// How long AF_XDP sockets of a process that has ended have their queues at most.
const RELEASE: Duration = Duration::from_secs(1);

/// A port of DPDK: one more host on the link that the port is on.
///
/// A port that stands on an interface of the host (`net_af_packet`, `net_af_xdp`, `net_tap`) has the kernel beside it, and
/// the stack an Ethernet address of its own, so that the kernel neither answers nor forwards what is sent to it. Any other is
/// the stack's alone, with its address.
///
/// Nobody wakes who waits for a port: it is polled, without pause for a while, then 20,000 times a second.
#[derive(Debug)]
pub struct DpdkWire {
    /// Before the queue: what it holds goes back first.
    batch: Batch,
    /// Bytes of received frames that were copied out of the port's memory, behind each other.
    copied: Vec<u8>,
    /// The places in `copied` of those of each frame.
    places: Vec<Range<usize>>,
    at: Instant,
    waiting: Vec<Frame>,
    /// Memory for a head whose checksum is completed here.
    head: Vec<u8>,
    queue: Queue,
    /// Payload stays where it lies until the port has sent it, in frames of no more pieces than this; 0: it is copied.
    pieces: usize,
    /// The port's peer can write to received frames: they are copied before they are read.
    is_shared: bool,
    caps: Caps,
    counters: WireCounters,
    pace: Pace,
    stand: Option<Arc<Stand>>,
    /// Of the interface that the port stands on: drivers do not report that it was taken away.
    presence: Option<Presence>,
}

/// The host's interface that a port stands on.
#[derive(Debug)]
struct Stand {
    interface: Interface,
    promiscuous: OwnedFd,
}

impl DpdkWire {
    /// Opens a port on `device`: the name of a virtual device with its arguments, such as `net_tap0,iface=dpdk0`,
    /// `net_af_packet0,iface=eth0` or `net_memif0,role=client`, or a PCI address, such as `0000:03:00.0`, as DPDK's `--vdev`
    /// and `--allow` take them. DPDK is started when a process opens its first.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(device: &str) -> Result<DpdkWire, OpenError> {
        let mut wires = DpdkWire::open_queues(device, &[], 1)?;
        Ok(wires.remove(0))
    }

    /// The same with several queues, each a wire. By which of them a frame comes is the port's affair: adapters go by a hash
    /// of addresses and ports. `addresses` are the stack's: where a program on the interface tells frames apart (`net_af_xdp`),
    /// questions for their Ethernet address reach the stack, all others the kernel.
    ///
    /// # Errors
    /// Also [`OpenError::Queues`].
    pub fn open_queues(device: &str, addresses: &[IpAddr], count: u16) -> Result<Vec<DpdkWire>, OpenError> {
        // DPDK does not survive all that it could be given: `bus=vdev` in place of a name.
        let name = device.split(',').next().unwrap_or_default();
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte);
        if name.is_empty()
            || !name.bytes().all(is_name)
            || !device.bytes().all(|byte| byte.is_ascii_graphic())
        {
            return Err(OpenError::Name(device.to_owned()));
        }
        let device = &shared::with_own_socket(device)?;
        environment::start()?;
        let begin = std::time::Instant::now();
        loop {
            match DpdkWire::try_open(device, addresses, count) {
                // The kernel releases what a process that has ended had open in the background: its sockets may still have
                // the queues, and the driver does not say so.
                Err(OpenError::Port { .. })
                    if name.starts_with("net_af_xdp") && begin.elapsed() < RELEASE =>
                {
                    std::thread::sleep(RELEASE / 20);
                }
                opened => return opened,
            }
        }
    }

    fn try_open(device: &str, addresses: &[IpAddr], count: u16) -> Result<Vec<DpdkWire>, OpenError> {
        let (probed, messages) = environment::with_messages(|| Probed::new(device));
        let probed = probed.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => OpenError::Busy(device.to_owned()),
            // `net_…` is what drivers of virtual devices are called.
            _ if device.starts_with("net_") && !environment::has_privilege() => {
                let device = device.to_owned();
                OpenError::Permission { device, messages }
            }
            _ => OpenError::probe(device, error, messages),
        })?;
        let info = probed
            .info()
            .map_err(OpenError::io("read what the port offers"))?;
        if count > info.queues {
            return Err(OpenError::Queues { device: device.to_owned(), queues: info.queues, wanted: count });
        }
        let program = info
            .is_af_xdp
            .then(|| program::attach(device, info.interface, addresses, count))
            .transpose()?;
        let (queues, messages) = environment::with_messages(|| probed.open(&info, count, program));
        let queues =
            queues.map_err(|error| OpenError::Port { device: device.to_owned(), error, messages })?;
        let (mut own, mut mtu) = (info.mac, u32::from(info.mtu));
        let stand = (info.interface != 0)
            .then(|| Stand::on(info.interface))
            .transpose()?;
        if let Some(stand) = &stand {
            own = stand.interface.neighbour();
            mtu = mtu.min(stand.interface.mtu);
        }
        let stand = stand.map(Arc::new);
        let caps = Caps {
            medium: Medium::Ethernet(own),
            mtu,
            tx_csum: info.sums,
            gso_max: if info.cuts { longest(&info) } else { 0 },
            rx_queue_bytes: queues
                .first()
                .map_or(0, |queue| u64::from(queue.depth()) * u64::from(mtu)),
        };
        let wires = queues
            .into_iter()
            .map(|queue| DpdkWire::new(queue, &info, caps.clone(), stand.clone()));
        wires.collect()
    }

    fn new(queue: Queue, info: &Info, caps: Caps, stand: Option<Arc<Stand>>) -> Result<DpdkWire, OpenError> {
        Ok(DpdkWire {
            batch: Batch::default(),
            copied: Vec::new(),
            places: Vec::new(),
            at: Instant::default(),
            waiting: Vec::with_capacity(2 * WAITING),
            head: Vec::new(),
            queue,
            pieces: if info.copies { usize::from(info.pieces) } else { 0 },
            is_shared: info.is_shared,
            caps,
            counters: WireCounters::default(),
            pace: Pace::new().map_err(OpenError::io("make a timer"))?,
            presence: stand.as_ref().map(|stand| Presence::new(&stand.interface)),
            stand,
        })
    }

    /// The stack's own Ethernet address.
    #[must_use]
    pub fn mac(&self) -> [u8; 6] {
        match self.caps.medium {
            Medium::Ethernet(mac) => mac,
            Medium::Ip | Medium::Socket => [0; 6],
        }
    }

    /// The name of the host's interface that the port stands on, if it does.
    #[must_use]
    pub fn interface(&self) -> Option<&str> {
        self.stand.as_ref().map(|stand| stand.interface.name.as_str())
    }

    /// Counts since it was opened. How many system calls a driver makes is not known.
    #[must_use]
    pub fn counters(&self) -> WireCounters {
        self.counters
    }

    /// Received frames that found no room since it was opened, of all queues of the port.
    ///
    /// # Errors
    /// When the port does not say.
    pub fn missed(&self) -> io::Result<u64> {
        self.queue.missed()
    }

    /// Returns at once where the port had something to do a moment ago; otherwise when it is to be polled again, or `limit`
    /// is over.
    ///
    /// # Errors
    /// When the timer cannot be waited for.
    pub fn wait(&self, limit: Option<Duration>) -> io::Result<()> {
        self.pace.wait(limit)
    }

    /// Builds a frame. Nothing where memory has run out, or the port could not cut it.
    fn build(&mut self, frame: &TxFrame) -> Option<Frame> {
        let mut built = match frame.csum {
            Some((start, field)) => self.with_sum(frame, usize::from(start), usize::from(field)),
            None => (frame.gso_size == 0).then(|| self.queue.frame(&frame.head))?,
        }?;
        let refers = frame.len() - frame.head.len() > SMALL && frame.payload.len() < self.pieces;
        for piece in frame.payload.iter().filter(|piece| !piece.is_empty()) {
            let is_whole = match refers {
                true => self.queue.refer(&mut built, piece),
                false => self.queue.append(&mut built, piece.bytes()),
            };
            if !is_whole {
                return None;
            }
        }
        Some(built)
    }

    /// The head of a frame whose checksum is left to complete: the port does that for the protocols numbered 6 and 17.
    fn with_sum(&mut self, frame: &TxFrame, start: usize, field: usize) -> Option<Frame> {
        let head = &frame.head;
        if start > field || field + 2 > head.len() {
            return None;
        }
        let is_ipv4 = head.get(ETHERNET)? >> 4 == 4;
        let protocol = *head.get(ETHERNET + if is_ipv4 { 9 } else { 6 })?;
        if let (6, 16) | (17, 6) = (protocol, field - start) {
            let mut built = self.queue.frame(head)?;
            built.complete(is_ipv4, protocol == 17, ETHERNET as u16, start as u16);
            if frame.gso_size != 0 {
                built.cut(head.len() as u16, frame.gso_size);
            }
            return Some(built);
        }
        if frame.gso_size != 0 {
            return None;
        }
        let sum = frame.payload.iter().map(|piece| piece.bytes());
        let sum = sum.fold(Sum::default().with(&head[start..]), Sum::with);
        self.head.clone_from(head);
        self.head[field..field + 2].copy_from_slice(&sum.complement());
        self.queue.frame(&self.head)
    }

    /// Sends frames that the port had no room for before.
    fn send_waiting(&mut self) {
        let (done, refused) = self.queue.send(&mut self.waiting);
        self.counters.refused += refused as u64;
        self.counters.sent += (done - refused) as u64;
        if done > 0 {
            self.pace.busy(Clock.now());
        }
    }
}

impl Stand {
    fn on(interface: u32) -> Result<Stand, OpenError> {
        let interface = Interface::numbered(interface)?;
        let promiscuous = interface.promiscuous()?;
        Ok(Stand { interface, promiscuous })
    }
}

/// The longest super-segment of a port that cuts them, in bytes of IP: what fits into as many pieces as it takes.
fn longest(info: &Info) -> u32 {
    /// Bytes of a piece, at least.
    const ROOM: u32 = 2048;
    let pieces = u32::from(info.pieces.saturating_sub(1));
    (pieces * ROOM).min(u32::from(u16::MAX))
}

impl Wire for DpdkWire {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, max: usize) -> io::Result<usize> {
        if !self.waiting.is_empty() {
            self.send_waiting();
        }
        self.queue.receive(&mut self.batch, max.min(BATCH));
        let count = self.batch.len();
        if count == 0 {
            self.pace.idle()?;
            if let (Some(presence), Some(stand)) = (&mut self.presence, &self.stand) {
                presence.check(&stand.promiscuous)?;
            }
            return Ok(0);
        }
        self.at = Clock.now();
        self.pace.busy(self.at);
        self.counters.received += count as u64;
        for i in 0..count {
            let begin = self.copied.len();
            if self.is_shared {
                self.batch.copy_head(i, &mut self.copied);
            }
            self.batch.copy_tail(i, &mut self.copied);
            self.places.push(begin..self.copied.len());
        }
        Ok(count)
    }

    fn frame(&self, i: usize) -> RxFrame<'_> {
        let copied = &self.copied[self.places[i].clone()];
        let (head, tail) = match self.is_shared {
            true => copied.split_at(self.batch.head_len(i)),
            false => (self.batch.head(i), copied),
        };
        RxFrame {
            head,
            tail,
            csum: match self.batch.is_verified(i) {
                true => Csum::Complete,
                false => Csum::Unverified,
            },
            seg_size: self.batch.seg_size(i),
            at: self.at,
        }
    }

    fn release(&mut self) {
        self.batch.release();
        self.copied.clear();
        self.places.clear();
    }

    fn room(&mut self) -> usize {
        if self.waiting.len() >= WAITING {
            self.send_waiting();
        }
        WAITING.saturating_sub(self.waiting.len()) * (self.caps.mtu as usize + ETHERNET)
    }

    fn transmit(&mut self, frames: &[TxFrame]) -> io::Result<usize> {
        let mut taken = 0;
        for frame in frames {
            if self.waiting.len() >= WAITING {
                self.send_waiting();
                if self.waiting.len() >= WAITING {
                    break;
                }
            }
            let max = match frame.gso_size {
                0 => self.caps.mtu,
                _ => self.caps.gso_max,
            };
            if !(ETHERNET..=max as usize + ETHERNET).contains(&frame.len()) {
                self.counters.refused += 1;
            } else if let Some(built) = self.build(frame) {
                self.waiting.push(built);
            } else {
                // As a network may.
                self.counters.refused += 1;
            }
            taken += 1;
        }
        self.send_waiting();
        Ok(taken)
    }
}

impl AsFd for DpdkWire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pace.as_fd()
    }
}
