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
use crate::pace::PollTimer;
use crate::port::{BATCH, Batch, Frame, Info, Probed, Queue};
use crate::program;
use crate::shared;

/// The length of an Ethernet header, in bytes.
const ETHERNET: usize = 14;
/// The maximum length of payload that is copied behind its headers, in bytes: up to that, a copy costs less
/// than a reference.
const SMALL: usize = 256;
/// The maximum number of frames that wait for a full port; the rest waits in the stack.
const WAITING: usize = 64;
/// The maximum time for which AF_XDP sockets of an ended process still occupy their queues.
const RELEASE: Duration = Duration::from_secs(1);

/// A port of DPDK: a further host on the link of the port.
///
/// A port on an interface of the host (`net_af_packet`, `net_af_xdp`, `net_tap`) has the kernel beside it.
/// The stack has its own Ethernet address there, so that the kernel neither answers nor forwards frames to
/// it. Any other port belongs to the stack alone, with the port's address.
///
/// A port does not wake a waiting caller: it is polled, without pause for a short time, then 20,000 times a
/// second.
#[derive(Debug)]
pub struct DpdkWire {
    /// Declared before the queue, because its frames must be returned first.
    batch: Batch,
    /// The bytes of received frames that were copied out of the port's memory, one after another.
    copied: Vec<u8>,
    /// The range of each frame's bytes in `copied`.
    places: Vec<Range<usize>>,
    at: Instant,
    waiting: Vec<Frame>,
    /// A buffer for a head whose checksum is completed here.
    head: Vec<u8>,
    queue: Queue,
    /// The maximum number of pieces in a frame whose payload stays in place until the port has sent it; 0 if
    /// payload is copied.
    pieces: usize,
    /// True if the port's peer can write to received frames: they are copied before they are read.
    is_shared: bool,
    caps: Caps,
    counters: WireCounters,
    pace: PollTimer,
    stand: Option<Arc<HostInterface>>,
    /// The presence of the port's interface, since drivers do not report its removal.
    presence: Option<Presence>,
}

/// The host's interface on which a port stands.
#[derive(Debug)]
struct HostInterface {
    interface: Interface,
    promiscuous: OwnedFd,
}

impl DpdkWire {
    /// Opens a port on `device`. This is the name of a virtual device with its arguments, such as
    /// `net_tap0,iface=dpdk0`, `net_af_packet0,iface=eth0` or `net_memif0,role=client`, or a PCI address,
    /// such as `0000:03:00.0`. The forms are those of DPDK's `--vdev` and `--allow`. DPDK is started when a
    /// process opens its first port.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(device: &str) -> Result<DpdkWire, OpenError> {
        let mut wires = DpdkWire::open_queues(device, &[], 1)?;
        Ok(wires.remove(0))
    }

    /// Opens a port with several queues, each a wire. The port determines the queue of each frame; adapters
    /// use a hash of addresses and ports. `addresses` are the stack's addresses. If a program on the
    /// interface selects the stack's frames (`net_af_xdp`), queries for their Ethernet address reach the
    /// stack, and all others reach the kernel.
    ///
    /// # Errors
    /// Also [`OpenError::Queues`].
    pub fn open_queues(device: &str, addresses: &[IpAddr], count: u16) -> Result<Vec<DpdkWire>, OpenError> {
        // Some inputs crash DPDK, such as `bus=vdev` in place of a name.
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
                // The kernel closes the sockets of an ended process in the background. They may still occupy
                // the queues, and the driver does not report that.
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
            // Drivers of virtual devices have names that begin with `net_`.
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
            .then(|| HostInterface::on(info.interface))
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

    fn new(
        queue: Queue,
        info: &Info,
        caps: Caps,
        stand: Option<Arc<HostInterface>>,
    ) -> Result<DpdkWire, OpenError> {
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
            pace: PollTimer::new().map_err(OpenError::io("make a timer"))?,
            presence: stand.as_ref().map(|stand| Presence::new(&stand.interface)),
            stand,
        })
    }

    /// Returns the stack's own Ethernet address.
    #[must_use]
    pub fn mac(&self) -> [u8; 6] {
        match self.caps.medium {
            Medium::Ethernet(mac) => mac,
            Medium::Ip | Medium::Socket => [0; 6],
        }
    }

    /// Returns the name of the host's interface on which the port stands, if there is one.
    #[must_use]
    pub fn interface(&self) -> Option<&str> {
        self.stand.as_ref().map(|stand| stand.interface.name.as_str())
    }

    /// Returns the counters since the wire was opened. The number of system calls that a driver makes is
    /// unknown.
    #[must_use]
    pub fn counters(&self) -> WireCounters {
        self.counters
    }

    /// Returns the number of received frames that found no room since the wire was opened, over all queues of
    /// the port.
    ///
    /// # Errors
    /// Returns an error if the port does not report its counters.
    pub fn missed(&self) -> io::Result<u64> {
        self.queue.missed()
    }

    /// Returns at once if the port had work a moment ago. Otherwise, it returns when the next poll is due, or
    /// when `limit` is over.
    ///
    /// # Errors
    /// Returns an error if the timer cannot be waited for.
    pub fn wait(&self, limit: Option<Duration>) -> io::Result<()> {
        self.pace.wait(limit)
    }

    /// Builds a frame. Returns `None` if memory has run out, or if the port cannot cut it.
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

    /// Returns the head of a frame whose checksum is left to complete. The port completes it for the
    /// protocols numbered 6 and 17.
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

    /// Sends frames for which the port had no room before.
    fn send_waiting(&mut self) {
        let (done, refused) = self.queue.send(&mut self.waiting);
        self.counters.refused += refused as u64;
        self.counters.sent += (done - refused) as u64;
        if done > 0 {
            self.pace.busy(Clock.now());
        }
    }
}

impl HostInterface {
    fn on(interface: u32) -> Result<HostInterface, OpenError> {
        let interface = Interface::numbered(interface)?;
        let promiscuous = interface.promiscuous()?;
        Ok(HostInterface { interface, promiscuous })
    }
}

/// Returns the maximum length of a super-segment for a port that cuts them, in bytes of IP. It is limited by
/// the number of pieces that a frame may have.
fn longest(info: &Info) -> u32 {
    /// The minimum size of a piece, in bytes.
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
                // The wire may drop a frame, as a network may.
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
