//! A shard's stack: one program, one interface, all their state; what its driver calls.
//!
//! * `arrive`, `flush`, `superframe`: frames received and sent
//! * `lend`: contexts on loan to what runs chains in front of the stack
//! * `request`, `messages`, `options`, `error`: what applications ask for
//! * `verbs`: registered memory, and work on it
//! * `shards`: events for other stacks of the same addresses
//! * `swap`, `params`: another program, other params
//! * `interact`, `observe`: the bus, and variables by name
//! * `standing`: what a connection holds and waits for

mod arrive;
mod error;
mod flush;
mod interact;
mod lend;
mod messages;
mod observe;
mod options;
mod params;
mod request;
mod shards;
mod standing;
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
pub use standing::Standing;
pub use streams::Direction;
pub use swap::{Step, StepError, Swap, SwapError};
pub use verbs::WorkRequest;

use crate::chain::{Cause, Chains, Denied, EventTap, Memory, Tap};
use crate::config::{ConfigError, StackConfig};
use crate::counters::Counters;
use crate::data::{ChunkPool, PagePool};
use crate::net::{Interface, Steering};
use crate::program::Program;
use crate::rand::{Purpose, Rand};
use crate::scalar;
use crate::state::{Contexts, Guess, Handles, Owner, Packets, Ports, Raised, Regions, State, Timers};
use crate::tables::{self, Tables};
use crate::wire::{Caps, Medium, Wire};

/// How long timers wait when there was no room for their chains: 1 ms.
const TIMER_RETRY: Duration = Duration::from_millis(1);
/// How late a timer is, at least, where its driver came late: 1 ms.
const LATE: Duration = Duration::from_millis(1);

/// Runs a transport program on one interface, for one shard.
///
/// It owns no thread, no clock and no socket. Its driver calls, in a loop:
///
/// 1. [`Stack::poll`] with the time and the wire, until it returns false;
/// 2. [`Stack::next_notice`] until there is none, acting on each by requests: [`Stack::listen`],
///    [`Stack::connect`], [`Stack::send`], [`Stack::recv`], [`Stack::close`], [`Stack::abort`],
///    [`Stack::release`], [`Stack::finish`]. After any of them it polls again, since packets leave only then;
/// 3. then it waits until a frame arrives, until [`Stack::next_deadline`], or, while
///    [`Stack::wants_wire`], until the wire can take frames.
///
/// Time must not run backwards. The same program, configuration, calls and frames give the same
/// effects, bit by bit.
pub struct Stack {
    /// The program, its state, and what runs the one on the other.
    chains: Chains,
    /// The program that it began with: all others share its memory.
    begun: Arc<dyn Program>,
    interface: Interface,
    output: Output,
    /// Timers wait until then for want of room; the origin: they do not.
    timers_wait: Instant,
    /// Until when late timers give way to frames; none while no frame waits.
    catches_up: Option<Instant>,
    /// What is received now are frames of a front, on which chains ran.
    takes_back: bool,
    /// See [`StackConfig::merge`].
    merge: bool,
    /// The number of the last buffer that addresses referred to.
    last_buffer: u32,
    /// The number of the last message of an endpoint.
    calls: u64,
    work: Work,
}

/// What is known of the route.
#[derive(Debug, Default)]
struct Output {
    wire_full: bool,
    /// The largest super-segment that the wire cuts, in bytes; 0: none.
    gso_max: u32,
    check_super_segments: bool,
    /// Room for a blueprint's image while a super-segment is tried.
    saved_image: Vec<u8>,
}

/// Working memory of one call, kept for the next. It means nothing between calls.
#[derive(Debug)]
struct Work {
    /// The events of a request, or of an ICMP error.
    events: EventBuf,
    /// The event of a timer.
    timer: Vec<u64>,
    /// The events of a group of packets, parsed ahead of their chains.
    ahead: EventBuf,
    /// By event of `ahead`: what is known of its first id.
    guesses: Vec<Option<Guess>>,
    /// The last id that was hashed, and its hash: packets of one connection come together.
    hashed: (Id, u64),
    /// Room for the payloads of packets that are merged with the one before.
    payloads: Vec<&'static [u8]>,
}

impl Default for Work {
    fn default() -> Work {
        Work {
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
    /// Sets a stack up and runs the program's `start`, at time 0.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn new(program: Arc<dyn Program>, config: StackConfig, caps: &Caps) -> Result<Stack, ConfigError> {
        if config.ephemeral.is_empty() || *config.ephemeral.start() == 0 {
            return Err(ConfigError::Ports);
        }
        let module = program.module();
        let steering = config.steering;
        if steering.index >= steering.shards {
            return Err(ConfigError::Steering);
        }
        let tables = Tables::new(module, steering)?;
        let with_ports = Steering::has_ports(tables.protocol);
        if tables.invariant && caps.medium == Medium::Socket {
            return Err(ConfigError::Invariant);
        }
        tables::check_limits(&config.limits, &tables)?;
        let stream = |purpose| Rand::of_shard(&config.seed, purpose, steering.index);
        let key = stream(Purpose::Tables).key();
        let limits = config.limits;
        let state = State {
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
            counters: Counters::default(),
            limits,
        };
        let chains = Chains {
            globals: tables::globals(module),
            memory: Memory::new(&tables),
            // What `start` makes of it is the same in all stacks of a seed.
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
            work: Work::default(),
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
    fn start(&mut self) -> Result<(), ConfigError> {
        let Some(parser) = self.chains.tables.start else {
            return Ok(());
        };
        let input = (parser, Input::Start);
        let started = self
            .chains
            .input(Instant::ORIGIN, input, &Cause::default(), &mut self.work.events);
        started.map(drop).map_err(|denied| {
            ConfigError::Start(match denied {
                Denied::Refused(_) => "the program refused it",
                Denied::NoRoom => "its chain needs more room than there is",
                Denied::Limit(name) => name,
            })
        })
    }

    /// A batch begins: so many raised events may run in it.
    fn grant_raised(&mut self) {
        self.chains.state.raised.budget = self.chains.state.limits.batch;
    }

    /// Does what is to be done now: a batch of received frames, due timers, then what all that and
    /// the applications' requests have to send. True when it did something: call it again before
    /// waiting.
    ///
    /// # Errors
    /// When the wire failed for good.
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

    /// Sends what the applications' requests have to send, without asking the wire first whether
    /// something arrived: a part of [`Stack::poll`], for who wants a request to leave at once.
    /// What the program has yet to receive ([`Stack::take`], requests for which there was no room)
    /// waits for the poll. True when something left.
    ///
    /// # Errors
    /// When the wire failed for good.
    pub fn transmit(&mut self, now: Instant, wire: &mut dyn Wire) -> io::Result<bool> {
        self.grant_raised();
        self.run_waiting(now);
        self.flush(now, wire)
    }

    /// Runs the events that were raised and not run; true when it ran any.
    fn run_waiting(&mut self, now: Instant) -> bool {
        if self.chains.state.raised.len() == 0 {
            return false;
        }
        self.chains.memory.begin_input();
        self.chains.run_raised(now, &Cause::default())
    }

    /// When [`Stack::poll`] has something to do, if nothing arrives before: exact to the
    /// nanosecond.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let timers = self
            .chains
            .state
            .timers
            .next()
            .map(|deadline| deadline.max(self.timers_wait));
        // While the wire is full, nothing leaves however late it is.
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

    /// What was counted since the start.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.chains.state.counters
    }

    /// The interface's own counts.
    #[must_use]
    pub fn interface_counters(&self) -> &crate::net::Counters {
        self.interface.counters()
    }

    /// Takes all packets from now on, also those that an own address sends and those to other hosts: for a program that
    /// watches. Of a packet that an own address sends, its parser sees a path back of 0 bytes.
    pub fn overhear(&mut self) {
        self.interface.overhear();
    }

    /// The text of the last assert or invariant that was false.
    #[must_use]
    pub fn last_assert(&self) -> Option<&str> {
        let asserts = &self.module().asserts;
        asserts
            .get(self.chains.last_assert? as usize)
            .map(|(_, text)| text.as_str())
    }

    /// Compares, from now on, each super-segment with the packets that it stands for, byte by byte.
    /// One that a device would cut into others is counted and leaves packet by packet. What the
    /// compiler proves makes this needless: it is here to test that, and costs as much as no
    /// super-segments.
    pub fn check_super_segments(&mut self, check: bool) {
        self.output.check_super_segments = check;
    }

    /// Shows every event to `tap` from now on, after it took effect; events too for which no chain ran.
    pub fn set_event_tap(&mut self, tap: Option<EventTap>) {
        self.chains.state.packets.cause = 0;
        self.chains.observer = Tap::of(tap);
    }

    /// Asks the program for the signals whose bits ([`hawser_ir::SignalId::bit`]) are set, from the
    /// next event on, and for no others: those leave no record. A new stack wants none.
    pub fn want_signals(&mut self, signals: u64) {
        self.chains.memory.records.want(signals);
    }

    /// The signals that the program is asked for.
    #[must_use]
    pub fn wanted_signals(&self) -> u64 {
        self.chains.memory.records.wanted()
    }

    /// How many contexts there are, those that exist once and for all apart.
    #[must_use]
    pub fn contexts(&self) -> usize {
        self.chains.state.contexts.len()
    }

    /// Bytes held for applications: accepted for sending and not retired, and memory of received
    /// data. See [`Limits::tx_total`](crate::Limits::tx_total) and [`Limits::rx_total`](crate::Limits::rx_total).
    #[must_use]
    pub fn held_bytes(&self) -> (u64, u64) {
        (self.chains.state.tx_held, self.chains.state.rx_held)
    }

    /// Whether due timers give way to frames: a driver that comes late finds frames that arrived before the timers ran
    /// out. If it fired those first, a process that got no processor for a while would take answers that it has for lost,
    /// and its peers for gone. For as long as the timers are late already, so that no flood of frames stops them.
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

    /// Fires the timers that are due; true when it fired any.
    fn fire(&mut self, now: Instant) -> bool {
        let last = self.chains.state.timers.last_number();
        self.timers_wait = Instant::ORIGIN;
        let mut any = false;
        while let Some((owner, timer)) = self.chains.state.timers.due(now, last) {
            let contexts = &self.chains.state.contexts;
            let (kind, slot) = match owner {
                Owner::Global(kind) => (kind, None),
                Owner::Context(index) => {
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
            // In its own event the timer does not run any more.
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
