//! Ethernet through an AF_XDP socket on an existing interface.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use hawser_engine::front::{Front, Ran};
use hawser_engine::wire::{Caps, Csum, Medium, RxFrame, TxFrame, Wire};
use hawser_host::{Clock, Interface, WireCounters, set_busy_poll};
use hawser_ir::Module;
use hawser_time::Instant;
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use crate::OpenError;
use crate::error::About;
use crate::front::{Ahead, ChainsError};
use crate::program::{Attached, Program};
use crate::shared::{Buffer, Buffers, Piece};
use crate::socket::{Binding, RECEIVE, SEND, Socket};

/// Bytes of an Ethernet header.
const ETHERNET: u32 = 14;
/// What the kernel leaves free in front of a received frame (XDP_PACKET_HEADROOM).
const HEADROOM: u32 = 256;
/// Bytes of a buffer where they hold a frame, and otherwise.
const BUFFER_BYTES: [u32; 2] = [2048, 4096];
/// Frames per batch, at most.
const BATCH: usize = 64;
/// The interval at which an idle wire checks whether its interface and its program are still there: a socket without either is
/// never readable.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// How long a system call polls the device's queue: that it may is what counts, since sockets that do not block poll it once.
const BUSY_POLL: Duration = Duration::from_micros(20);

/// How a wire is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct XdpOptions {
    /// The stack's own Ethernet address; otherwise one is made from the interface's.
    pub mac: Option<[u8; 6]>,
    /// The stack's IP addresses, at most 64: questions for their Ethernet address reach the stack and not the kernel, all
    /// other frames to groups the kernel and not the stack.
    pub addresses: Vec<IpAddr>,
    /// Frames are to be answered in the kernel ([`XdpWire::run_chains`]). The driver of veth pairs delivers answers only
    /// where the other end has an XDP program as well: there it is done in front of the kernel's stack.
    pub answers: bool,
}

/// How a device works with the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// Frames are redirected in the device's driver; otherwise in front of the kernel's stack, once it has made a packet
    /// of them.
    pub is_native: bool,
    /// The device reads and writes the frames' buffers itself; otherwise the kernel copies.
    pub is_zero_copy: bool,
    /// A frame may take more than one buffer.
    pub is_in_pieces: bool,
    /// A system call polls the device's queue as well, rather than leave that to its interrupts.
    pub polls_device: bool,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let choose = |is, yes, no| if is { yes } else { no };
        write!(
            f,
            "{} XDP, {}, {}, {}",
            choose(self.is_native, "native", "generic"),
            choose(self.is_zero_copy, "zero copy", "copied by the kernel"),
            choose(
                self.is_in_pieces,
                "frames in several buffers",
                "a buffer for each frame"
            ),
            choose(self.polls_device, "busy polling", "no busy polling")
        )
    }
}

/// An AF_XDP socket: one more host on the link that an interface is on, with an Ethernet address of its own, so that the
/// kernel neither answers nor forwards what is sent to it. Frames for other hosts and for the kernel reach the kernel.
///
/// Frames come and go as they are on the link, one by one: there are no super-segments, and the stack computes and
/// verifies checksums. So a peer at the other end of a veth pair has to complete its checksums itself: `ethtool -K PEER tx
/// off`.
///
/// Each of the interface's queues has a wire. Nothing stays on it once they are gone, however the process ends.
#[derive(Debug)]
pub struct XdpWire {
    socket: Socket,
    /// Before the program: what it calls is let go first.
    ahead: Option<Ahead>,
    stand: Arc<Stand>,
    buffers: Buffers,
    caps: Caps,
    mode: Mode,
    counters: WireCounters,
    batch: Batch,
    /// Buffers for frames to send.
    spare: Vec<Buffer>,
    /// There was no room for all frames: that there is again is news.
    is_full: bool,
    /// When the wire last checked that the interface and the program are there.
    checked: Instant,
}

/// What the wires of an interface have in common.
#[derive(Debug)]
struct Stand {
    interface: Interface,
    program: Program,
    attached: Attached,
    #[expect(dead_code, reason = "to hold it is its use")]
    promiscuous: OwnedFd,
}

/// What was received and not given back.
#[derive(Debug, Default)]
struct Batch {
    frames: Vec<Received>,
    /// What follows the first piece of frames in several.
    tails: Vec<u8>,
    /// Buffers to give back beside those of the frames.
    copied: Vec<Buffer>,
    at: Instant,
}

/// One received frame.
#[derive(Debug)]
struct Received {
    first: Piece,
    tail: Range<usize>,
}

impl XdpWire {
    /// Opens an AF_XDP socket on the interface `name`, which must be Ethernet and up.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(name: &str, options: &XdpOptions) -> Result<XdpWire, OpenError> {
        let mut wires = XdpWire::open_queues(name, options, 1)?;
        Ok(wires.remove(0))
    }

    /// The same with a socket for each of the interface's receive queues, of which there must be so many, each a wire. By
    /// which of them a frame comes is the device's affair.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open_queues(name: &str, options: &XdpOptions, count: u16) -> Result<Vec<XdpWire>, OpenError> {
        let interface = Interface::read(name)?;
        let about = About(name);
        let own = options.mac.unwrap_or_else(|| interface.neighbour());
        let frame = interface.mtu + ETHERNET;
        let [small, large] = BUFFER_BYTES;
        let size = if frame <= small - HEADROOM { small } else { large };
        let is_in_pieces = frame > size - HEADROOM;
        let program = Program::load(&interface, own, &options.addresses, is_in_pieces, count)?;
        let attached = program.attach(&interface, options.answers && interface.is_veth()?)?;
        let binding = Binding {
            in_pieces: is_in_pieces,
            // Without its driver a device does not know the buffers.
            copies: !attached.is_native,
        };
        let stand = Arc::new(Stand { promiscuous: interface.promiscuous()?, interface, program, attached });
        let caps = Caps {
            medium: Medium::Ethernet(own),
            mtu: stand.interface.mtu,
            tx_csum: false,
            gso_max: 0,
            rx_queue_bytes: u64::from(RECEIVE / frame.div_ceil(size - HEADROOM))
                * u64::from(stand.interface.mtu),
        };
        let wires = (0..count).map(|queue| {
            let (buffers, spare) = Buffers::new(size, RECEIVE + SEND)
                .map_err(|error| about.call("map memory for frames", error))?;
            let socket = Socket::open(&stand.interface, queue, &buffers, binding)?;
            XdpWire::new(
                stand.clone(),
                queue,
                socket,
                (buffers, spare),
                caps.clone(),
                is_in_pieces,
            )
        });
        wires.collect()
    }

    /// Has a queue's frames redirected to its socket.
    fn new(
        stand: Arc<Stand>,
        queue: u16,
        mut socket: Socket,
        (buffers, mut spare): (Buffers, Vec<Buffer>),
        caps: Caps,
        is_in_pieces: bool,
    ) -> Result<XdpWire, OpenError> {
        let about = About(&stand.interface.name);
        spare
            .drain(..RECEIVE as usize)
            .for_each(|buffer| socket.fill.push(buffer));
        socket.fill.publish();
        stand
            .program
            .redirect_to(queue, socket.as_fd())
            .map_err(|error| about.call("redirect frames to the AF_XDP socket", error))?;
        let is_native = stand.attached.is_native;
        let mode = Mode {
            is_native,
            is_zero_copy: socket
                .is_zero_copy()
                .map_err(|error| about.call("read how the AF_XDP socket works", error))?,
            is_in_pieces,
            polls_device: is_native && set_busy_poll(socket.as_fd(), BUSY_POLL).is_ok(),
        };
        Ok(XdpWire {
            socket,
            ahead: None,
            stand,
            buffers,
            caps,
            mode,
            counters: WireCounters::default(),
            batch: Batch::default(),
            spare,
            is_full: false,
            checked: Instant::default(),
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

    /// Has the chains of a program run in the kernel while the stack sleeps, which is to lend them its contexts
    /// ([`hawser_engine::Stack::lend`]). `c` is the program in C for the kernel (`hawser emit --machine ebpf`), at least
    /// the chains of [`crate::chains_in_kernel`].
    ///
    /// # Errors
    /// Why they do not run; the wire is then as before.
    pub fn run_chains(&mut self, module: &Module, c: &str) -> Result<(), ChainsError> {
        if self.mode.is_in_pieces {
            return Err(ChainsError::InPieces);
        }
        self.ahead = Some(Ahead::load(module, c, &self.stand.program, self.socket.as_fd())?);
        Ok(())
    }

    /// How many frames the chains in the kernel have handled, and how many of them they have answered.
    #[must_use]
    pub fn handled(&self) -> (u64, u64) {
        self.ahead.as_ref().map_or((0, 0), |ahead| ahead.chains.handled())
    }

    /// How the device works with the kernel.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Counts since it was opened.
    #[must_use]
    pub fn counters(&self) -> WireCounters {
        self.counters
    }

    /// Received frames that were dropped since it was opened: they found no room, were longer than the interface's MTU, or
    /// were of no connection and came in a flood while chains run in the kernel.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn missed(&self) -> io::Result<u64> {
        let counts = self.socket.statistics()?;
        // Without a buffer to fill, a frame is among the dropped as well.
        let sifted = self.ahead.as_ref().map_or(0, |ahead| ahead.chains.sifted());
        Ok(counts.rx_dropped + counts.rx_ring_full.unwrap_or(0) + sifted)
    }

    /// Sleeps until a frame waits, or the device takes frames again after it was full, or `limit`
    /// is over; without a limit, for as long as it takes. A signal may end it early, and an idle wire does now and then.
    ///
    /// # Errors
    /// When the socket cannot be waited for.
    pub fn wait(&self, limit: Option<Duration>) -> io::Result<()> {
        let limit = limit.map_or(CHECK_INTERVAL, |limit| limit.min(CHECK_INTERVAL));
        match &self.ahead {
            Some(ahead) => {
                ahead.watch_room(self.socket.as_fd(), self.is_full);
                hawser_host::wait(ahead.readiness.as_fd(), false, Some(limit))
            }
            None => hawser_host::wait(self.socket.as_fd(), self.is_full, Some(limit)),
        }
    }

    /// The error of an interface that was removed.
    fn gone(&self) -> io::Error {
        let name = &self.stand.interface.name;
        io::Error::new(
            io::ErrorKind::NotConnected,
            format!(
                "the interface '{name}' was removed, and the device xdp:{name} with it: open it again once it is back"
            ),
        )
    }

    /// The error of a program that another process has detached: no frame comes any more.
    fn detached(&self) -> io::Error {
        let name = &self.stand.interface.name;
        io::Error::new(
            io::ErrorKind::NotConnected,
            format!(
                "the XDP program was detached from the interface '{name}', so that xdp:{name} gets no frames any more: open \
                 it again"
            ),
        )
    }

    /// Checks now and then that the interface and the program are still there.
    fn check(&mut self) -> io::Result<()> {
        // It costs a few nanoseconds, which counts for one who spins.
        let time = clock_gettime(ClockId::MonotonicCoarse);
        let now = Instant::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64);
        if now - self.checked < CHECK_INTERVAL {
            return Ok(());
        }
        self.checked = now;
        self.counters.system_calls += 2;
        self.socket.error().map_err(|_| self.gone())?;
        match self.stand.attached.is_in_force() {
            true => Ok(()),
            false => Err(self.detached()),
        }
    }

    /// Has the kernel take what is to be sent, where it does not by itself. It takes so many at a time.
    fn kick(&mut self) -> io::Result<()> {
        let mut waiting = self.socket.departures.waiting();
        while waiting > 0 && self.socket.departures.needs_wakeup() {
            self.counters.system_calls += 1;
            // Whatever else fails, the device is full or down: the frames are taken when it is not.
            if let Err(Errno::NXIO) = self.socket.wake() {
                return Err(self.gone());
            }
            let left = self.socket.departures.waiting();
            if left == waiting {
                break;
            }
            waiting = left;
        }
        Ok(())
    }

    /// Takes buffers back whose frames have left.
    fn reclaim(&mut self) {
        while let Some(buffer) = self.socket.sent.pop() {
            self.spare.push(buffer);
        }
        self.socket.sent.release();
    }

    /// Takes a frame in. False when there is none.
    fn take(&mut self) -> bool {
        let Some(first) = self.socket.arrivals.pop() else {
            return false;
        };
        let begin = self.batch.tails.len();
        let mut continues = first.continues;
        while continues {
            let Some(next) = self.socket.arrivals.pop() else {
                // The kernel gives whole frames.
                self.counters.malformed += 1;
                self.batch.tails.truncate(begin);
                self.batch.copied.push(first.buffer);
                return true;
            };
            self.batch.tails.extend_from_slice(self.buffers.read(&next));
            continues = next.continues;
            self.batch.copied.push(next.buffer);
        }
        if let Some(ahead) = &mut self.ahead
            && let Medium::Ethernet(own) = self.caps.medium
            && self.buffers.read(&first).starts_with(&own)
        {
            ahead.chains.taken += 1;
        }
        self.counters.received += 1;
        self.batch
            .frames
            .push(Received { first, tail: begin..self.batch.tails.len() });
        true
    }

    /// Puts a frame into buffers and the ring. False when there is no room for it.
    fn put(&mut self, frame: &TxFrame) -> bool {
        let size = self.buffers.size() as usize;
        let count = frame.len().div_ceil(size);
        if self.spare.len() < count || (self.socket.departures.room() as usize) < count {
            return false;
        }
        let payload = frame.payload.iter().map(|piece| piece.bytes());
        let mut pieces = std::iter::once(&frame.head[..]).chain(payload);
        let mut rest: &[u8] = &[];
        let mut left = frame.len();
        while left > 0
            && let Some(mut buffer) = self.spare.pop()
        {
            let bytes = self.buffers.write(&mut buffer);
            let len = left.min(size);
            let mut end = 0;
            while end < len {
                if rest.is_empty() {
                    rest = pieces.next().unwrap_or_default();
                }
                let part = rest.len().min(len - end);
                bytes[end..end + part].copy_from_slice(&rest[..part]);
                rest = &rest[part..];
                end += part;
            }
            left -= len;
            self.socket
                .departures
                .push(Piece { buffer, start: 0, len: len as u32, continues: left > 0 });
        }
        true
    }
}

impl Wire for XdpWire {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, max: usize) -> io::Result<usize> {
        if let Some(ahead) = &mut self.ahead {
            ahead.batch = ahead.chains.batch(max.min(BATCH));
            if !ahead.batch.is_empty() {
                return Ok(ahead.batch.len());
            }
        }
        // Whoever still has something to send asks for room again, or transmits.
        self.is_full = false;
        self.kick()?;
        let passed = self.ahead.as_ref().map(|ahead| ahead.chains.passed());
        while self.batch.frames.len() < max.min(BATCH) && self.take() {}
        self.socket.arrivals.release();
        if let (Some(ahead), Some(passed)) = (&self.ahead, passed) {
            ahead.chains.has_waiting(self.socket.arrivals.waiting(), passed);
        }
        if self.batch.frames.is_empty() {
            self.check()?;
        } else {
            self.batch.at = Clock.now();
        }
        Ok(self.batch.frames.len())
    }

    fn frame(&self, i: usize) -> RxFrame<'_> {
        if let Some(ahead) = self.ahead.as_ref().filter(|ahead| !ahead.batch.is_empty()) {
            let (head, at) = ahead.chains.frame(ahead.batch.start + i);
            return RxFrame { head, tail: &[], csum: Csum::Unverified, seg_size: 0, at };
        }
        let frame = &self.batch.frames[i];
        RxFrame {
            head: self.buffers.read(&frame.first),
            tail: &self.batch.tails[frame.tail.clone()],
            csum: Csum::Unverified,
            seg_size: 0,
            at: self.batch.at,
        }
    }

    fn release(&mut self) {
        if let Some(ahead) = &mut self.ahead {
            ahead.batch = 0..0;
        }
        let frames = self.batch.frames.drain(..).map(|frame| frame.first.buffer);
        let mut any = false;
        for buffer in frames.chain(self.batch.copied.drain(..)) {
            self.socket.fill.push(buffer);
            any = true;
        }
        self.batch.tails.clear();
        if !any {
            return;
        }
        self.socket.fill.publish();
        if self.socket.fill.needs_wakeup() {
            self.counters.system_calls += 1;
            // An interface that was removed is found when frames are received or sent.
            let _ = self.socket.wake();
        }
    }

    fn room(&mut self) -> usize {
        self.reclaim();
        let places = self.spare.len().min(self.socket.departures.room() as usize);
        self.is_full = places == 0;
        places * (self.caps.mtu + ETHERNET).min(self.buffers.size()) as usize
    }

    fn transmit(&mut self, frames: &[TxFrame]) -> io::Result<usize> {
        self.reclaim();
        let max = (self.caps.mtu + ETHERNET) as usize;
        let mut taken = 0;
        for frame in frames {
            if frame.csum.is_some() || frame.gso_size != 0 || !(1..=max).contains(&frame.len()) {
                self.counters.refused += 1;
            } else if self.put(frame) {
                self.counters.sent += 1;
            } else {
                break;
            }
            taken += 1;
        }
        self.socket.departures.publish();
        self.is_full = taken < frames.len();
        self.kick()?;
        Ok(taken)
    }

    fn ran(&self, i: usize) -> Option<Ran<'_>> {
        let ahead = self.ahead.as_ref().filter(|ahead| !ahead.batch.is_empty())?;
        Some(ahead.chains.ran(ahead.batch.start + i))
    }

    fn front(&mut self) -> Option<&mut dyn Front> {
        let ahead = self.ahead.as_mut()?;
        ahead.chains.take_turn();
        ahead.silence();
        Some(&mut ahead.chains)
    }
}

impl AsFd for XdpWire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.ahead {
            Some(ahead) => ahead.readiness.as_fd(),
            None => self.socket.as_fd(),
        }
    }
}

impl AsRawFd for XdpWire {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}
