//! Chains of the stack's program in the kernel, in front of the stack. While the stack sleeps, they run on
//! frames that arrive, and answer them.
//!
//! * `object`: the program as eBPF, compiled and loaded
//! * `layout`: the layout of the memory that both sides share
//! * `arena`, `ownership`: that memory, and its current owner
//! * [`Chains`]: the engine's [`Front`]
//!
//! `bpf/front.h` has the kernel's side.

#[allow(unsafe_code)] // It shares memory with the kernel.
mod arena;
mod layout;
mod object;
mod ownership;
mod sync;

use std::collections::BTreeSet;
use std::io;
use std::mem::offset_of;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hawser_engine::front::{Front, FrontLimits, FrontResults, Lent, RanChain};
use hawser_ir::abi::{ChainOutcome, Id, RecordHeader};
use hawser_ir::buf::RecordBuf;
use hawser_ir::capabilities::{Capabilities, Placement, placements};
use hawser_ir::{EventId, Module};
use hawser_time::Instant;
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::program::Program;
use arena::{Arena, WakeRing};
use layout::{CALL_BYTES, Chain, Control, Entry, Layout, Place};

/// The maximum time for which frames are in transit from the kernel to the stack.
const UNDER_WAY: Duration = Duration::from_millis(10);

/// Chains could not be run in the kernel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChainsError {
    /// A file could not be written or read.
    #[error("cannot write the program's C to a temporary folder, or read what is compiled there: {0}")]
    Files(#[source] io::Error),
    /// Clang was not found, or did not start.
    #[error(
        "clang, which compiles chains for the kernel, does not start ({clang}: {error}): install it (Debian: apt-get install clang)"
    )]
    NoCompiler {
        /// The command that was called.
        clang: String,
        /// The error from starting it.
        error: io::Error,
    },
    /// Clang rejected the program.
    #[error("clang does not compile the program's C: {0}")]
    Compiler(String),
    /// The kernel rejected the program.
    #[error("the kernel refuses the program's chains: {0:#}")]
    Load(#[source] libbpf_rs::Error),
    /// A capability is missing.
    #[error(
        "no permission to load the program's chains into the kernel: besides the capabilities of the device \
         they need CAP_PERFMON; run as root, or grant all of them (setcap \
         cap_bpf,cap_net_admin,cap_net_raw,cap_perfmon+ep PROGRAM)"
    )]
    Permission,
    /// Frames may occupy several buffers.
    #[error("chains cannot run on frames of several buffers: lower the interface's MTU to 3,826 bytes")]
    InPieces,
    /// The notification by which chains wake the stack could not be set up.
    #[error("cannot wait for messages of chains in the kernel (epoll): {0}")]
    Bell(#[source] io::Error),
    /// No chain of the program can run in the kernel.
    #[error(
        "none of the program's chains can run in the kernel: `hawser check --target xdp` states the reason \
         for each"
    )]
    NoChain,
    /// The kernel lacks a required feature.
    #[error("the kernel has no {0}")]
    Kernel(&'static str),
}

/// Returns the events whose chains run in the kernel; `hawser check --target xdp` gives the reasons.
#[must_use]
pub fn chains_in_kernel(module: &Module) -> Vec<EventId> {
    let Ok(capabilities) = Capabilities::for_target("xdp") else {
        return Vec::new();
    };
    let placed = placements(module, &capabilities).into_iter();
    let placed = placed.filter(|placed| placed.placement != Placement::User);
    placed.map(|placed| placed.event).collect()
}

/// The chains of a program that run in the kernel.
pub(crate) struct Chains {
    object: Object,
    arena: Arena,
    layout: Layout,
    /// By context number: the ids under which the kernel knows the context.
    ids: Vec<Vec<Id>>,
    /// Contexts that the kernel does not know by all their ids, because there was no room.
    unknown: BTreeSet<u32>,
    /// True while the stack owns the shared memory.
    is_ours: bool,
    /// The number of frames passed to the stack unhandled that the stack has received.
    pub(crate) taken: u64,
    /// The time since which frames have been in transit to the stack, and the number passed by then.
    missing: Option<(Instant, u64)>,
    /// The number of frames handled when contexts were last lent.
    handled_before: u64,
    /// The frames that chains handled while the stack slept, and the number of these that the stack has
    /// taken.
    entries: Vec<HandledFrame>,
    next: usize,
}

/// Chains in the kernel, with their notifications.
#[derive(Debug)]
pub(crate) struct KernelChains {
    pub(crate) chains: Chains,
    /// Readable if a frame waits, or if the chains have output for the stack.
    pub(crate) readiness: OwnedFd,
    /// The range of handled frames in the wire's batch.
    pub(crate) batch: Range<usize>,
    wakeup: WakeRing,
}

impl KernelChains {
    /// Loads a program's chains, and passes them the frames that arrive for `socket`.
    pub(crate) fn load(
        module: &Module,
        c: &str,
        program: &Program,
        socket: BorrowedFd<'_>,
    ) -> Result<KernelChains, ChainsError> {
        let map = |name| program.map(name).map_err(ChainsError::Load);
        let chains = Chains::load(module, c, &[map("xsks_map")?, map("addresses")?])?;
        let wakeup = chains.wakeup()?;
        let readiness = epoll::create(CreateFlags::CLOEXEC).map_err(unheard)?;
        for fd in [socket, wakeup.as_fd()] {
            epoll::add(&readiness, fd, EventData::new_u64(0), EventFlags::IN).map_err(unheard)?;
        }
        chains.attach(&map("front")?)?;
        Ok(KernelChains {
            chains,
            readiness,
            batch: 0..0,
            wakeup: WakeRing::new(wakeup).map_err(ChainsError::Load)?,
        })
    }

    /// Includes room for sending in the wire's readiness while the wire is full.
    pub(crate) fn watch_room(&self, socket: BorrowedFd<'_>, is_full: bool) {
        let mut events = EventFlags::IN;
        events.set(EventFlags::OUT, is_full);
        // The socket was added before, so the call succeeds.
        let _ = epoll::modify(&self.readiness, socket, EventData::new_u64(0), events);
    }

    /// Clears the notification, so that chains can notify the stack again.
    pub(crate) fn silence(&mut self) {
        self.wakeup.clear();
    }
}

fn unheard(error: rustix::io::Errno) -> ChainsError {
    ChainsError::Bell(error.into())
}

/// A frame whose chains ran.
#[derive(Debug)]
struct HandledFrame {
    at: Instant,
    /// Its offset in the arena, and its length.
    frame: (u64, usize),
    chains: Vec<RanChain>,
    /// The length of the scratchpad, in bytes, with which the stack continues on the frame's other events. It
    /// is set only for the last frame.
    scratch: usize,
}

impl std::fmt::Debug for Chains {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chains")
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}

impl Chains {
    /// Compiles and loads a program's chains, given its C for the kernel. `shared` are maps of the program
    /// that calls them.
    pub(crate) fn load(module: &Module, c: &str, shared: &[MapHandle]) -> Result<Chains, ChainsError> {
        let candidates: Vec<usize> = chains_in_kernel(module)
            .into_iter()
            .map(|event| event.0 as usize)
            .collect();
        if candidates.is_empty() {
            return Err(ChainsError::NoChain);
        }
        let compiled = object::compile(c)?;
        let load = |chains: &[usize]| {
            let is_wanted = |name: &str| match name.strip_prefix("hw_chain_") {
                Some(event) => event.parse().is_ok_and(|event| chains.contains(&event)),
                None => true,
            };
            object::load(&compiled, shared, is_wanted)
        };
        // The verifier rejects the whole object if it rejects any chain, so each chain is then tried alone.
        // Without any chain, it must accept the programs that call them.
        let (object, taken) = match load(&candidates) {
            Ok(object) => (object, candidates),
            Err(_) => {
                drop(load(&[])?);
                let taken: Vec<usize> = candidates
                    .into_iter()
                    .filter(|event| load(&[*event]).is_ok())
                    .collect();
                (load(&taken)?, taken)
            }
        };
        if taken.is_empty() {
            return Err(ChainsError::NoChain);
        }
        let layout = Layout::new(module, c, &|event| taken.contains(&event));
        let map = object.maps().find(|map| map.name() == "hw_arena");
        let arena = map.and_then(|map| Arena::from_map(&map, layout.arena));
        let mut arena = arena.ok_or(ChainsError::Kernel("arenas (since Linux 6.9)"))?;
        let begin = layout.memory.start;
        // Clears all but the first page, which stands for null. An absent page also reads as zeros, but with
        // a fault each time.
        arena.clear(begin, (layout.memory.end - begin) as usize);
        layout
            .tables
            .iter()
            .for_each(|(at, bytes)| arena.write(*at, bytes));
        // The stack begins as the owner.
        arena.put(
            layout.control,
            &Control { turn: ownership::STACK, ..layout.begun },
        );
        let globals: Vec<u64> = layout.globals.iter().map(|(at, _)| *at).collect();
        arena.write(layout.call + CALL_BYTES, bytemuck::cast_slice(&globals));
        let chains = Chains {
            object,
            arena,
            layout,
            ids: Vec::new(),
            unknown: BTreeSet::new(),
            is_ours: true,
            taken: 0,
            missing: None,
            handled_before: 0,
            entries: Vec::new(),
            next: 0,
        };
        chains.connect(module).map_err(ChainsError::Load)?;
        Ok(chains)
    }

    /// Stores the programs in the table through which they call each other.
    fn connect(&self, module: &Module) -> libbpf_rs::Result<()> {
        let chains = (0..module.chains.len()).map(|event| (2 + event as u32, format!("hw_chain_{event}")));
        let names = [(0, "hw_step".to_owned()), (1, "hw_answer".to_owned())];
        for (number, name) in names.into_iter().chain(chains) {
            let mut programs = self.object.progs();
            let Some(program) = programs.find(|program| program.name() == name.as_str()) else {
                continue;
            };
            let fd = program.as_fd().as_raw_fd();
            if fd >= 0 {
                self.map("hw_programs")?
                    .update(&number.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY)?;
            }
        }
        Ok(())
    }

    fn map(&self, name: &str) -> libbpf_rs::Result<libbpf_rs::Map<'_>> {
        let mut maps = self.object.maps();
        maps.find(|map| map.name() == name)
            .ok_or_else(|| libbpf_rs::Error::from_raw_os_error(2))
    }

    /// Stores the entry program in `programs`, through which the caller passes it frames.
    pub(crate) fn attach(&self, programs: &MapHandle) -> Result<(), ChainsError> {
        let entry = self.object.progs().find(|program| program.name() == "hw_arrive");
        let fd = entry.map(|program| program.as_fd().as_raw_fd().to_ne_bytes());
        programs
            .update(&0_u32.to_ne_bytes(), &fd.unwrap_or_default(), MapFlags::ANY)
            .map_err(ChainsError::Load)
    }

    /// Returns the map by which chains wake the stack.
    pub(crate) fn wakeup(&self) -> Result<MapHandle, ChainsError> {
        let wakeup = self.map("hw_bell").and_then(|map| MapHandle::try_from(&map));
        wakeup.map_err(ChainsError::Load)
    }

    fn turn(&self) -> Option<&AtomicU64> {
        self.arena.word(self.layout.control)
    }

    /// Takes ownership of the shared memory, if the stack does not have it.
    pub(crate) fn take_turn(&mut self) {
        if !std::mem::replace(&mut self.is_ours, true)
            && let Some(turn) = self.turn()
        {
            ownership::take(turn);
        }
    }

    fn give_turn(&mut self, to: u64) {
        self.is_ours = false;
        if let Some(turn) = self.turn() {
            ownership::give(turn, to);
        }
    }

    /// Returns the number of frames passed to the stack unhandled.
    pub(crate) fn passed(&self) -> u64 {
        self.count(offset_of!(Control, passed))
    }

    /// Records that the stack, which is awake, has yet to receive `waiting` of the first `passed` frames. The
    /// others were received, or were lost on the way.
    pub(crate) fn has_waiting(&self, waiting: u32, passed: u64) {
        let at = self.layout.control + offset_of!(Control, seen) as u64;
        if let Some(seen) = self.arena.word(at) {
            seen.store(passed.wrapping_sub(waiting.into()), Ordering::Relaxed);
        }
    }

    fn control(&self) -> Control {
        self.arena.get(self.layout.control).unwrap_or_default()
    }

    fn place(&self, number: u32) -> u64 {
        self.layout.begun.contexts + u64::from(number) * self.layout.begun.stride
    }

    /// Returns the next handled frames that the stack has not received, at most `max`.
    pub(crate) fn batch(&mut self, max: usize) -> std::ops::Range<usize> {
        let begin = self.next;
        self.next = self.entries.len().min(begin + max);
        begin..self.next
    }

    /// Returns a frame of a batch, and the time of its arrival.
    pub(crate) fn frame(&self, number: usize) -> (&[u8], Instant) {
        let entry = &self.entries[number];
        (self.arena.bytes(entry.frame.0, entry.frame.1), entry.at)
    }

    /// Returns the results of the chains that ran on the frame.
    pub(crate) fn ran(&self, number: usize) -> FrontResults<'_> {
        let entry = &self.entries[number];
        FrontResults {
            at: entry.at,
            chains: &entry.chains,
            scratch: self.arena.bytes(self.layout.begun.scratch, entry.scratch),
        }
    }

    /// Reads a counter of the front.
    fn count(&self, at: usize) -> u64 {
        let word = self.arena.word(self.layout.control + at as u64);
        word.map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Returns the number of frames handled, and of frames answered.
    pub(crate) fn handled(&self) -> (u64, u64) {
        (
            self.count(offset_of!(Control, handled)),
            self.count(offset_of!(Control, answered)),
        )
    }

    /// Returns the number of frames without a connection that were dropped in a flood.
    pub(crate) fn sifted(&self) -> u64 {
        self.count(offset_of!(Control, sifted))
    }

    fn forget(&mut self, number: u32) {
        self.unknown.remove(&number);
        let Some(ids) = self.ids.get_mut(number as usize) else {
            return;
        };
        for id in std::mem::take(ids) {
            // The id may be absent, because the map was full.
            let _ = self.map("hw_ids").and_then(|map| map.delete(&id.0));
        }
    }

    /// Returns the contexts on which chains ran.
    fn changed(&self) -> impl Iterator<Item = u32> + '_ {
        let begin = self.layout.begun.changed;
        let words = (0..self.ids.len().div_ceil(64) as u64).map(move |i| (i, begin + i * 8));
        words.flat_map(|(i, at)| {
            let word: u64 = self.arena.get(at).unwrap_or_default();
            let bits = (0..64).filter(move |bit| word >> bit & 1 == 1);
            bits.map(move |bit| (i * 64 + bit) as u32)
        })
    }

    /// Reads the log.
    fn read(&mut self, control: &Control) {
        let mut at = self.layout.log;
        for _ in 0..control.frames {
            let Some(entry) = self.arena.get::<Entry>(at) else {
                break;
            };
            at += size_of::<Entry>() as u64;
            let frame = (at, entry.frame as usize);
            at += u64::from(entry.frame).next_multiple_of(8);
            let mut chains = Vec::with_capacity(entry.chains as usize);
            for _ in 0..entry.chains {
                let Some(chain) = self.arena.get::<Chain>(at) else {
                    break;
                };
                at += size_of::<Chain>() as u64;
                let fresh = self.arena.bytes(at, chain.fresh as usize).to_vec();
                at += chain.fresh.next_multiple_of(8);
                let bytes = self.arena.bytes(at, chain.records as usize);
                chains.push(RanChain {
                    outcome: outcome(chain.outcome),
                    records: records(bytes, chain.answer),
                    fresh,
                });
                at = (at + u64::from(chain.records)).next_multiple_of(8);
            }
            self.entries
                .push(HandledFrame { at: Instant::from_nanos(entry.now), frame, chains, scratch: 0 });
        }
        if let Some(last) = self.entries.last_mut() {
            last.scratch = self.layout.begun.scratch_bytes as usize;
        }
    }
}

/// Returns a chain's records without the one that was already executed, at `answer` - 1.
fn records(bytes: &[u8], answer: u64) -> RecordBuf {
    let begin = answer
        .checked_sub(1)
        .map_or(bytes.len(), |at| at as usize)
        .min(bytes.len());
    let (before, rest) = bytes.split_at(begin);
    let header = rest.get(..size_of::<RecordHeader>());
    let len = header.map_or(0, |header| {
        bytemuck::pod_read_unaligned::<RecordHeader>(header).len as usize
    });
    let behind = rest.get(len..).unwrap_or_default();
    let mut out = RecordBuf::default();
    let count = before.len() + behind.len();
    let room: &mut [u8] = bytemuck::cast_slice_mut(out.room(count));
    room[..before.len()].copy_from_slice(before);
    room[before.len()..count].copy_from_slice(behind);
    // The chain's own code wrote whole records; an incomplete one is omitted.
    let _ = out.commit(count);
    out
}

/// Decodes the outcome of a chain: `HW_DONE` and the others of `runtime/hawser.h`.
fn outcome(word: u64) -> ChainOutcome {
    let code = (word >> 32) as u32;
    match word as u32 {
        0 => ChainOutcome::Done,
        2 => ChainOutcome::Refused(code),
        3 => ChainOutcome::Assert(code),
        _ => ChainOutcome::Stop,
    }
}

impl Front for Chains {
    fn put(&mut self, context: &Lent<'_>) {
        if context.number >= self.layout.capacity {
            self.unknown.insert(context.number);
            return;
        }
        let number = context.number as usize;
        if self.ids.len() <= number {
            self.ids.resize_with(number + 1, Vec::new);
        }
        if self.ids[number] != context.ids {
            self.forget(context.number);
            self.ids[number] = context.ids.to_vec();
            for id in context.ids {
                // If the map has no room for the id, its frames go to the stack.
                let value = context.number.to_ne_bytes();
                let map = self.map("hw_ids");
                if map
                    .and_then(|map| map.update(&id.0, &value, MapFlags::ANY))
                    .is_err()
                {
                    self.unknown.insert(context.number);
                }
            }
        }
        let at = self.place(context.number);
        let place = Place { kind: context.kind.0 + 1, pad: 0, room: context.room };
        self.arena.put(at, &place);
        self.arena.write(at + size_of::<Place>() as u64, context.bytes);
    }

    fn remove(&mut self, number: u32) {
        self.forget(number);
        if number < self.layout.capacity {
            self.arena.clear(self.place(number), size_of::<Place>());
        }
    }

    fn open(&mut self, terms: &FrontLimits<'_>) {
        let control = self.layout.control;
        let passed = self.passed();
        // Some frames arrived before the chains existed, or were counted as lost.
        self.taken = self.taken.min(passed);
        // Frames that have not arrived after this time were lost on the way.
        let now = hawser_host::Clock.now();
        self.missing = match self.missing {
            _ if passed == self.taken => None,
            Some((since, by_then)) if now - since >= UNDER_WAY => {
                self.taken = self.taken.max(by_then);
                None
            }
            None => Some((now, passed)),
            waiting => waiting,
        };
        let before = self.control();
        let begun = Control {
            passed,
            taken: self.taken,
            until: terms.until.map_or(u64::MAX, Instant::as_nanos),
            chains: terms.chains,
            room: terms.room,
            is_complete: u64::from(terms.is_complete && self.unknown.is_empty()),
            may_create: terms.may_create.into(),
            key: [terms.key.0, terms.key.1],
            mtu: terms.mtu.into(),
            answered: before.answered,
            handled: before.handled,
            seen: before.seen,
            lent: now.as_nanos(),
            flooded_until: before.flooded_until,
            sifted: before.sifted,
            ..self.layout.begun
        };
        self.handled_before = begun.handled;
        self.arena
            .clear(self.layout.begun.changed, self.ids.len().div_ceil(64) * 8);
        // The kernel also writes `turn` and `passed`.
        self.arena.write(control + 16, &bytemuck::bytes_of(&begun)[16..]);
        self.arena
            .write(self.layout.begun.params, bytemuck::cast_slice(terms.params));
        self.arena
            .write(self.layout.begun.ports, bytemuck::cast_slice(terms.ports));
        for ((at, len), global) in self.layout.globals.iter().zip(terms.globals) {
            self.arena.write(*at, &global[..global.len().min(*len)]);
        }
        self.give_turn(ownership::FREE);
    }

    fn close(&mut self, globals: &mut [Vec<u8>], changed: &mut dyn FnMut(u32, &[u8])) -> usize {
        self.take_turn();
        let control = self.control();
        self.entries.clear();
        self.next = 0;
        self.read(&control);
        if control.handled == self.handled_before {
            self.give_turn(ownership::AWAKE);
            return 0;
        }
        let bytes = (self.layout.begun.stride as usize).saturating_sub(size_of::<Place>());
        for number in self.changed() {
            let at = self.place(number) + size_of::<Place>() as u64;
            changed(number, self.arena.bytes(at, bytes));
        }
        for ((at, len), global) in self.layout.globals.iter().zip(globals) {
            let len = global.len().min(*len);
            global[..len].copy_from_slice(self.arena.bytes(*at, len));
        }
        self.give_turn(ownership::AWAKE);
        self.entries.len()
    }
}
