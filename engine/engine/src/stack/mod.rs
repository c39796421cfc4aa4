//! The stack of a shard: one program, one interface, all their state, and the calls of its driver.
//!
//! * `receive`, `flush`, `superframe`: frames received and sent
//! * `context_loan`: contexts on loan to a front, which runs chains ahead of the stack
//! * `request`, `messages`, `options`, `error`: requests of applications
//! * `verbs`: registered memory, and work on it
//! * `shards`: events for other stacks of the same addresses
//! * `swap`, `params`: replacing the program or its params
//! * `interact`, `observe`: the bus, and variables by name
//! * `status`: the state and pending work of a connection

mod context_loan;
mod error;
mod flush;
mod interact;
mod messages;
mod observe;
mod options;
mod params;
mod receive;
mod request;
mod shards;
mod status;
mod streams;
mod superframe;
mod swap;
mod verbs;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hawser_ir::abi::Id;
use hawser_ir::buf::{EventBuf, Input};
use hawser_time::Instant;

pub use error::RequestError;
pub use observe::Observable;
pub use params::AnotherProgram;
pub use status::ConnectionStatus;
pub use streams::Direction;
pub use swap::{Step, StepError, Swap, SwapError};
pub use verbs::WorkRequest;

use crate::chain::{Cause, ChainScratch, Chains, Denied, EventTap, Tap};
use crate::config::{StackConfig, StackConfigError};
use crate::counters::StackCounters;
use crate::data::{ChunkPool, PagePool};
use crate::net::{Interface, Steering};
use crate::program::Program;
use crate::rand::{Purpose, Rand};
use crate::scalar;
use crate::state::{
    Contexts, Guess, Handles, Packets, Ports, Raised, Regions, StackState, TimerOwner, Timers,
};
use crate::tables::{self, Tables};
use crate::wire::{Caps, Medium, Wire};

/// The delay of timers when there was no room for their chains: 1 ms.
const TIMER_RETRY: Duration = Duration::from_millis(1);
/// The least delay of a timer whose driver was late: 1 ms.
const LATE: Duration = Duration::from_millis(1);

/// Runs a transport program on one interface, for one shard.
///
/// It owns no thread, no clock and no socket. Its driver calls, in a loop:
///
/// 1. [`Stack::poll`] with the time and the wire, until it returns false.
/// 2. [`Stack::next_notice`] until it returns `None`, acting on each notice by requests: [`Stack::listen`],
///    [`Stack::connect`], [`Stack::send`], [`Stack::recv`], [`Stack::close`], [`Stack::abort`],
///    [`Stack::release`], [`Stack::finish`]. After any request it polls again, because packets leave only
///    then.
/// 3. Then it waits until a frame arrives, until [`Stack::next_deadline`], or, while [`Stack::wants_wire`],
///    until the wire can take frames.
///
/// Time must not run backwards. The same program, configuration, calls and frames give the same effects, bit
/// by bit.
pub struct Stack {
    /// The program, its state, and the machinery that runs the program on it.
    chains: Chains,
    /// The program that the stack began with; its replacements share its memory layout.
    begun: Arc<dyn Program>,
    interface: Interface,
    output: Output,
    /// The time until which timers wait for lack of room; the origin if they do not wait.
    timers_wait: Instant,
    /// The time until which late timers give way to frames; `None` while no frame waits.
    catches_up: Option<Instant>,
    /// True while the received frames come from a front, which ran chains on them.
    takes_back: bool,
    /// See [`StackConfig::merge`].
    merge: bool,
    /// The number of the last buffer that addresses referred to.
    last_buffer: u32,
    /// The number of the last message of an endpoint.
    calls: u64,
    work: StackScratch,
}

/// The state of the output to the wire.
#[derive(Debug, Default)]
struct Output {
    wire_full: bool,
    /// The largest super-segment that the wire cuts, in bytes; 0 if it does not cut them.
    gso_max: u32,
    check_super_segments: bool,
    /// Memory for a copy of a blueprint's image while a super-segment is tried.
    saved_image: Vec<u8>,
}

/// The working memory of one call, kept for the next. Its content has no meaning between calls.
#[derive(Debug)]
struct StackScratch {
    /// The events of a request, or of an ICMP error.
    events: EventBuf,
    /// The event of a timer.
    timer: Vec<u64>,
    /// The events of a group of packets, parsed ahead of their chains.
    ahead: EventBuf,
    /// For each event of `ahead`, the result of looking up its first id.
    guesses: Vec<Option<Guess>>,
    /// The last hashed id and its hash, because packets of one connection come together.
    hashed: (Id, u64),
    /// Memory for the payloads of packets that are merged with the one before.
    payloads: Vec<&'static [u8]>,
}

impl Default for StackScratch {
    fn default() -> StackScratch {
        StackScratch {
            events: EventBuf::default(),
            timer: Vec::new(),
            ahead: EventBuf::default(),
            guesses: Vec::new(),
            hashed: (Id::NONE, 0),
            payloads: Vec::new(),
        }
    }
}

impl Stack {
    /// Creates a stack and runs the program's `start`, at time 0.
    ///
    /// # Errors
    /// Returns the error in the configuration.
    pub fn new(
        program: Arc<dyn Program>,
        config: StackConfig,
        caps: &Caps,
    ) -> Result<Stack, StackConfigError> {
        if config.ephemeral.is_empty() || *config.ephemeral.start() == 0 {
            return Err(StackConfigError::Ports);
        }
        let module = program.module();
        let steering = config.steering;
        if steering.index >= steering.shards {
            return Err(StackConfigError::Steering);
        }
        let tables = Tables::new(module, steering)?;
        let with_ports = Steering::has_ports(tables.protocol);
        if tables.invariant && caps.medium == Medium::Socket {
            return Err(StackConfigError::Invariant);
        }
        tables::check_limits(&config.limits, &tables)?;
        let stream = |purpose| Rand::of_shard(&config.seed, purpose, steering.index);
        let key = stream(Purpose::Tables).key();
        let limits = config.limits;
        let state = StackState {
            contexts: Contexts::new(tables.contexts.iter().map(|c| c.size), key),
            handles: Handles::new(limits.handles, limits.notices),
            ports: Ports::new(config.ephemeral, stream(Purpose::Ports))
                .known_by_port(!tables.udp.is_empty())
                .steered(steering, with_ports),
            timers: Timers::new(tables.contexts.len() as u32, tables.timers_per_context),
            packets: Packets::new(module),
            raised: Raised::default(),
            regions: Regions::new(stream(Purpose::Regions).key()),
            chunks: ChunkPool::default(),
            pages: PagePool::default(),
            tx_held: 0,
            rx_held: 0,
            reports_taken: tables.reports_taken(),
            deferred: VecDeque::new(),
            blocked: Vec::new(),
            put_off: Vec::new(),
            given_up: BTreeMap::new(),
            counters: StackCounters::default(),
            limits,
        };
        let chains = Chains {
            globals: tables::globals(module),
            memory: ChainScratch::new(&tables),
            // The state that `start` creates is the same in all stacks of a seed.
            rand: Rand::new(&config.seed, Purpose::Programs),
            program: program.clone(),
            tables,
            state,
            observer: Tap::default(),
            interactive: None,
            last_assert: None,
        };
        let mut stack = Stack {
            chains,
            begun: program,
            interface: Interface::new(config.interface, caps)?,
            output: Output {
                gso_max: if caps.tx_csum { caps.gso_max } else { 0 },
                ..Output::default()
            },
            timers_wait: Instant::ORIGIN,
            catches_up: None,
            takes_back: false,
            merge: config.merge,
            last_buffer: 0,
            calls: stream(Purpose::Messages).bits() >> 2,
            work: StackScratch::default(),
        };
        stack.want_signals(0);
        stack.grant_raised();
        stack.start()?;
        if steering.index > 0 {
            stack.chains.rand = stream(Purpose::Programs);
        }
        Ok(stack)
    }

    /// Runs the program's `start`, if it has one, at time 0.
    fn start(&mut self) -> Result<(), StackConfigError> {
        let Some(parser) = self.chains.tables.start else {
            return Ok(());
        };
        let input = (parser, Input::Start);
        let started = self
            .chains
            .input(Instant::ORIGIN, input, &Cause::default(), &mut self.work.events);
        started.map(drop).map_err(|denied| {
            StackConfigError::Start(match denied {
                Denied::Refused(_) => "the program refused the request",
                Denied::NoRoom => "the chain needs more room than is available",
                Denied::Limit(name) => name,
            })
        })
    }

    /// Allows a batch of raised events to run.
    fn grant_raised(&mut self) {
        self.chains.state.raised.budget = self.chains.state.limits.batch;
    }

    /// Does the work that is due: processes a batch of received frames and due timers, then sends the
    /// resulting packets and those of the applications' requests. Returns true if there was work; call it
    /// again before waiting.
    ///
    /// # Errors
    /// Returns an error if the wire has failed for good.
    pub fn poll(&mut self, now: Instant, wire: &mut dyn Wire) -> io::Result<bool> {
        self.batch_signals(true);
        let any = self.turn(now, wire);
        self.batch_signals(false);
        any
    }

    fn turn(&mut self, now: Instant, wire: &mut dyn Wire) -> io::Result<bool> {
        self.grant_raised();
        let mut any = self.run_waiting(now);
        any |= self.poll_source(now);
        any |= self.deliver_all(now);
        let received = self.receive(now, wire)? > 0;
        any |= received;
        if self
            .interface
            .next_deadline()
            .is_some_and(|deadline| deadline <= now)
        {
            self.interface.poll(now);
            any = true;
        }
        if !self.catches_up(now, received) {
            any |= self.fire(now);
        }
        any |= self.flush(now, wire)?;
        self.chains.state.unblock_all();
        self.chains.state.offer_again();
        self.chains.state.timers.settle();
        Ok(any)
    }

    /// Sends the packets of the applications' requests, without asking the wire whether a frame has arrived.
    /// It is a part of [`Stack::poll`] for callers whose request is to leave at once. Input that the program
    /// has yet to receive ([`Stack::take`], requests for which there was no room) waits for the poll. Returns
    /// true if a packet left.
    ///
    /// # Errors
    /// Returns an error if the wire has failed for good.
    pub fn transmit(&mut self, now: Instant, wire: &mut dyn Wire) -> io::Result<bool> {
        self.grant_raised();
        self.run_waiting(now);
        self.flush(now, wire)
    }

    /// Runs the raised events that have not run yet; returns true if there were any.
    fn run_waiting(&mut self, now: Instant) -> bool {
        if self.chains.state.raised.len() == 0 {
            return false;
        }
        self.chains.memory.begin_input();
        self.chains.run_raised(now, &Cause::default())
    }

    /// Returns the time of the next work for [`Stack::poll`] if no frame arrives before, exact to the
    /// nanosecond.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let timers = self
            .chains
            .state
            .timers
            .next()
            .map(|deadline| deadline.max(self.timers_wait));
        // While the wire is full, a paced packet cannot leave even when it is due.
        let paced = self
            .chains
            .state
            .packets
            .next_deadline()
            .filter(|_| !self.output.wire_full);
        [
            timers,
            paced,
            self.interface.next_deadline(),
            self.source_deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Returns the counters since the start.
    #[must_use]
    pub fn counters(&self) -> &StackCounters {
        &self.chains.state.counters
    }

    /// Returns the interface's own counters.
    #[must_use]
    pub fn interface_counters(&self) -> &crate::net::InterfaceCounters {
        self.interface.counters()
    }

    /// Accepts all packets from now on, including those from the stack's own addresses and those to other
    /// hosts, for a program that monitors traffic. For packets from an own address, the parser sees a path
    /// back of 0 bytes.
    pub fn overhear(&mut self) {
        self.interface.overhear();
    }

    /// Returns the text of the last assert or invariant that was false.
    #[must_use]
    pub fn last_assert(&self) -> Option<&str> {
        let asserts = &self.module().asserts;
        asserts
            .get(self.chains.last_assert? as usize)
            .map(|(_, text)| text.as_str())
    }

    /// Compares, from now on, each super-segment with the packets that it stands for, byte by byte. A
    /// super-segment that a device would cut into other packets is counted and leaves packet by packet. The
    /// compiler's proof makes this check unnecessary; it exists to test the proof, and costs as much as
    /// sending without super-segments.
    pub fn check_super_segments(&mut self, check: bool) {
        self.output.check_super_segments = check;
    }

    /// Shows every event to `tap` from now on, after it took effect, including events for which no chain ran.
    pub fn set_event_tap(&mut self, tap: Option<EventTap>) {
        self.chains.state.packets.cause = 0;
        self.chains.observer = Tap::new(tap);
    }

    /// Asks the program, from the next event on, for the signals whose bits ([`hawser_ir::SignalId::bit`])
    /// are set. Other signals leave no record. A new stack asks for no signals.
    pub fn want_signals(&mut self, signals: u64) {
        self.chains.memory.records.want(signals);
    }

    /// Returns the signals that the program is asked for.
    #[must_use]
    pub fn wanted_signals(&self) -> u64 {
        self.chains.memory.records.wanted()
    }

    /// Returns the number of contexts, without the `GLOBAL` ones.
    #[must_use]
    pub fn contexts(&self) -> usize {
        self.chains.state.contexts.len()
    }

    /// Returns the bytes held for applications: those accepted for sending and not retired, and the memory of
    /// received data. See [`Limits::tx_total`](crate::StackLimits::tx_total) and
    /// [`Limits::rx_total`](crate::StackLimits::rx_total).
    #[must_use]
    pub fn held_bytes(&self) -> (u64, u64) {
        (self.chains.state.tx_held, self.chains.state.rx_held)
    }

    /// Returns true if due timers give way to frames. A late driver finds frames that arrived before the
    /// timers expired. If it fired the timers first, a process that got no processor time for a while would
    /// consider received answers lost and its peers gone. Timers give way only for as long as they are
    /// already late, so that a flood of frames cannot stop them.
    fn catches_up(&mut self, now: Instant, received: bool) -> bool {
        if !received {
            self.catches_up = None;
            return false;
        }
        let late = self
            .chains
            .state
            .timers
            .next()
            .map_or(Duration::ZERO, |due| now - due);
        late >= LATE && now < *self.catches_up.get_or_insert(now + late)
    }

    /// Fires the timers that are due; returns true if it fired any.
    fn fire(&mut self, now: Instant) -> bool {
        let last = self.chains.state.timers.last_number();
        self.timers_wait = Instant::ORIGIN;
        let mut any = false;
        while let Some((owner, timer)) = self.chains.state.timers.due(now, last) {
            let contexts = &self.chains.state.contexts;
            let (kind, slot) = match owner {
                TimerOwner::Global(kind) => (kind, None),
                TimerOwner::Context(index) => {
                    let slot = contexts.at(index);
                    (contexts.entry(slot).kind.0, Some(slot))
                }
            };
            let (offset, event) = self.chains.tables.contexts[kind as usize].timers[timer as usize];
            if !self.chains.room_for_timer(now, event) {
                self.timers_wait = now + TIMER_RETRY;
                break;
            }
            let state = &mut self.chains.state;
            state.counters.timers += 1;
            // The timer is already stopped when its own event runs.
            state.timers.stop(owner, timer);
            let bytes = match slot {
                Some(slot) => state.contexts.bytes_mut(slot),
                None => &mut self.chains.globals[kind as usize],
            };
            scalar::store(&mut bytes[offset..offset + 8], 0);
            self.chains.timer_event(now, slot, event, &mut self.work.timer);
            any = true;
        }
        any
    }
}

impl std::fmt::Debug for Stack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stack")
            .field("program", &self.module().name)
            .field("contexts", &self.contexts())
            .field("counters", self.counters())
            .finish_non_exhaustive()
    }
}
