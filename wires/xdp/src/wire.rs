//! Ethernet through an AF_XDP socket on an existing interface.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use hawser_engine::front::{Front, FrontResults};
use hawser_engine::wire::{Caps, Csum, Medium, RxFrame, TxFrame, Wire};
use hawser_host::{Clock, Interface, WireCounters, set_busy_poll};
use hawser_ir::Module;
use hawser_time::Instant;
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use crate::OpenError;
use crate::error::About;
use crate::front::{ChainsError, KernelChains};
use crate::program::{Attached, Program};
use crate::shared::{Buffer, Buffers, FramePart};
use crate::socket::{Binding, RECEIVE, SEND, Socket};

/// The length of an Ethernet header, in bytes.
const ETHERNET: u32 = 14;
/// The space that the kernel leaves free in front of a received frame, in bytes (XDP_PACKET_HEADROOM).
const HEADROOM: u32 = 256;
/// The size of a buffer, in bytes: the smaller one if it holds a frame, otherwise the larger one.
const BUFFER_BYTES: [u32; 2] = [2048, 4096];
/// The maximum number of frames in a batch.
const BATCH: usize = 64;
/// The interval at which an idle wire checks whether its interface and its program still exist. Without
/// either, a socket is never readable.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// The time for which a system call polls the device's queue. Only the permission to poll matters, because
/// nonblocking sockets poll the queue once.
const BUSY_POLL: Duration = Duration::from_micros(20);

/// Options for opening a wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct XdpOptions {
    /// The stack's own Ethernet address; if it is not given, one is derived from the interface's.
    pub mac: Option<[u8; 6]>,
    /// The stack's IP addresses, at most 64. Queries for their Ethernet address reach the stack and not the
    /// kernel. All other frames to groups reach the kernel and not the stack.
    pub addresses: Vec<IpAddr>,
    /// True if frames are to be answered in the kernel ([`XdpWire::run_chains`]). The driver of veth pairs
    /// delivers answers only if the other end has an XDP program as well. On veth pairs, frames are therefore
    /// answered in front of the kernel's stack.
    pub answers: bool,
}

/// The cooperation of a device with the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// True if frames are redirected in the device's driver; otherwise, in front of the kernel's stack, after
    /// the kernel has made packets of them.
    pub is_native: bool,
    /// True if the device reads and writes the frames' buffers itself; otherwise the kernel copies.
    pub is_zero_copy: bool,
    /// True if a frame may occupy more than one buffer.
    pub is_in_pieces: bool,
    /// True if system calls poll the device's queue, in addition to its interrupts.
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

/// An AF_XDP socket: a further host on the interface's link, with its own Ethernet address. The kernel
/// therefore neither answers nor forwards frames to it. Frames for other hosts and for the kernel reach the
/// kernel.
///
/// Frames are sent and received as they are on the link, one by one. There are no super-segments, and the
/// stack computes and verifies checksums. A peer at the other end of a veth pair must therefore complete its
/// checksums itself: `ethtool -K PEER tx off`.
///
/// Each of the interface's queues has a wire. They leave no state on the interface, however the process ends.
#[derive(Debug)]
pub struct XdpWire {
    socket: Socket,
    /// Declared before the program, because the chains that it calls must be dropped first.
    ahead: Option<KernelChains>,
    stand: Arc<SharedInterface>,
    buffers: Buffers,
    caps: Caps,
    mode: Mode,
    counters: WireCounters,
    batch: Batch,
    /// Free buffers for frames to send.
    spare: Vec<Buffer>,
    /// True if there was no room for all frames, so that new room must be reported.
    is_full: bool,
    /// The time of the last check that the interface and the program exist.
    checked: Instant,
}

/// The state that the wires of an interface share.
#[derive(Debug)]
struct SharedInterface {
    interface: Interface,
    program: Program,
    attached: Attached,
    #[expect(dead_code, reason = "to hold it is its use")]
    promiscuous: OwnedFd,
}

/// Received frames that have not been released.
#[derive(Debug, Default)]
struct Batch {
    frames: Vec<ReceivedFrame>,
    /// The bytes behind the first pieces of frames in several pieces.
    tails: Vec<u8>,
    /// Buffers to release in addition to those of the frames.
    copied: Vec<Buffer>,
    at: Instant,
}

/// A received frame.
#[derive(Debug)]
struct ReceivedFrame {
    first: FramePart,
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

    /// Opens a wire for each of the interface's receive queues, of which there must be `count`. The device
    /// determines the queue of each frame.
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
            // A device does not know the buffers unless its driver runs the program.
            copies: !attached.is_native,
        };
        let stand =
            Arc::new(SharedInterface { promiscuous: interface.promiscuous()?, interface, program, attached });
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

    /// Creates the wire of a queue, and redirects the queue's frames to its socket.
    fn new(
        stand: Arc<SharedInterface>,
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

    /// Returns the stack's own Ethernet address.
    #[must_use]
    pub fn mac(&self) -> [u8; 6] {
        match self.caps.medium {
            Medium::Ethernet(mac) => mac,
            Medium::Ip | Medium::Socket => [0; 6],
        }
    }

    /// Runs the chains of a program in the kernel while the stack sleeps. The stack has to lend them its
    /// contexts ([`hawser_engine::Stack::lend`]). `c` is the program in C for the kernel (`hawser build
    /// --as ebpf`), with at least the chains of [`crate::chains_in_kernel`].
    ///
    /// # Errors
    /// Returns an error if the chains cannot run; the wire is then unchanged.
    pub fn run_chains(&mut self, module: &Module, c: &str) -> Result<(), ChainsError> {
        if self.mode.is_in_pieces {
            return Err(ChainsError::InPieces);
        }
        self.ahead = Some(KernelChains::load(
            module,
            c,
            &self.stand.program,
            self.socket.as_fd(),
        )?);
        Ok(())
    }

    /// Returns the number of frames that the chains in the kernel have handled, and the number of these that
    /// they have answered.
    #[must_use]
    pub fn handled(&self) -> (u64, u64) {
        self.ahead.as_ref().map_or((0, 0), |ahead| ahead.chains.handled())
    }

    /// Returns the cooperation of the device with the kernel.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the counters since the wire was opened.
    #[must_use]
    pub fn counters(&self) -> WireCounters {
        self.counters
    }

    /// Returns the number of received frames that were dropped since the wire was opened. Such frames found
    /// no room, or were longer than the interface's MTU. While chains run in the kernel, frames without a
    /// connection in a flood count too.
    ///
    /// # Errors
    /// Returns an error if the kernel does not answer.
    pub fn missed(&self) -> io::Result<u64> {
        let counts = self.socket.statistics()?;
        // A frame that finds no free buffer counts among the dropped ones as well.
        let sifted = self.ahead.as_ref().map_or(0, |ahead| ahead.chains.sifted());
        Ok(counts.rx_dropped + counts.rx_ring_full.unwrap_or(0) + sifted)
    }

    /// Sleeps until a frame waits, until a full device has room again, or until `limit` is over. Without a
    /// limit, it sleeps as long as necessary. A signal may end it early, and an idle wire occasionally
    /// returns early.
    ///
    /// # Errors
    /// Returns an error if the socket cannot be waited for.
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

    /// Returns the error of an interface that was removed.
    fn gone(&self) -> io::Error {
        let name = &self.stand.interface.name;
        io::Error::new(
            io::ErrorKind::NotConnected,
            format!(
                "the interface '{name}' was removed, and the device xdp:{name} with it: open the device \
                 again when the interface is back"
            ),
        )
    }

    /// Returns the error of a program that another process has detached: no further frames arrive.
    fn detached(&self) -> io::Error {
        let name = &self.stand.interface.name;
        io::Error::new(
            io::ErrorKind::NotConnected,
            format!(
                "the XDP program was detached from the interface '{name}', so xdp:{name} receives no more \
                 frames: open the device again"
            ),
        )
    }

    /// Checks at intervals that the interface and the program still exist.
    fn check(&mut self) -> io::Result<()> {
        // The coarse clock costs only a few nanoseconds, which matters to a caller that polls in a loop.
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

    /// Makes the kernel take the frames to send, if it needs a system call. Each call takes a limited number.
    fn kick(&mut self) -> io::Result<()> {
        let mut waiting = self.socket.departures.waiting();
        while waiting > 0 && self.socket.departures.needs_wakeup() {
            self.counters.system_calls += 1;
            // After any other error the device is full or down, and takes the frames later.
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

    /// Reclaims the buffers of frames that have been sent.
    fn reclaim(&mut self) {
        while let Some(buffer) = self.socket.sent.pop() {
            self.spare.push(buffer);
        }
        self.socket.sent.release();
    }

    /// Takes the next received frame. Returns false if there is none.
    fn take(&mut self) -> bool {
        let Some(first) = self.socket.arrivals.pop() else {
            return false;
        };
        let begin = self.batch.tails.len();
        let mut continues = first.continues;
        while continues {
            let Some(next) = self.socket.arrivals.pop() else {
                // The kernel should deliver only whole frames.
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
            .push(ReceivedFrame { first, tail: begin..self.batch.tails.len() });
        true
    }

    /// Puts a frame into buffers and the ring. Returns false if there is no room for it.
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
                .push(FramePart { buffer, start: 0, len: len as u32, continues: left > 0 });
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
        // A caller that still has data to send asks for room again, or transmits.
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
            // The next receive or transmit detects a removed interface.
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

    fn ran(&self, i: usize) -> Option<FrontResults<'_>> {
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
