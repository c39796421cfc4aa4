//! A shard's stack: one program, one interface, all their state.

use std::io;
use std::sync::Arc;

use hawser_ir::buf::{EventBuf, Input, RecordBuf};

use crate::arrive::Ahead;
use crate::chain::{Cause, Denied};
use crate::config::{ConfigError, Limits, StackConfig};
use crate::contexts::{Contexts, Slot};
use crate::counters::Counters;
use crate::handles::Handles;
use crate::interact::Interactive;
use crate::net::Interface;
use crate::packets::Packets;
use crate::ports::Ports;
use crate::program::Program;
use crate::raised::Raised;
use crate::rand::{Purpose, Rand};
use crate::rxunit::PagePool;
use crate::scalar;
use crate::tables::{self, Tables};
use crate::tap::Tap;
use crate::timers::Timers;
use crate::txunit::ChunkPool;
use crate::wire::{Caps, Nanos, Wire};

/// How long timers wait when there was no room for their chains: 1 ms.
const TIMER_RETRY: Nanos = 1_000_000;

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
    pub(crate) program: Arc<dyn Program>,
    /// The one that it began with: all others share its memory.
    pub(crate) begun: Arc<dyn Program>,
    pub(crate) tables: Tables,
    pub(crate) limits: Limits,
    pub(crate) interface: Interface,
    pub(crate) counters: Counters,
    pub(crate) rand: Rand,
    pub(crate) tap: Option<Tap>,
    pub(crate) interactive: Option<Box<Interactive>>,
    /// The last assert that was false, an index in the module's list.
    pub(crate) last_assert: Option<u32>,

    pub(crate) contexts: Contexts,
    pub(crate) globals: Vec<Vec<u8>>,
    pub(crate) timers: Timers,
    /// Timers wait until then for want of room; 0: they do not.
    pub(crate) timers_wait: Nanos,
    pub(crate) chunks: ChunkPool,
    pub(crate) pages: PagePool,
    /// Bytes accepted for sending and not retired, in all.
    pub(crate) tx_held: u64,
    /// Bytes of memory for received data, in all.
    pub(crate) rx_held: u64,
    pub(crate) packets: Packets,
    pub(crate) wire_full: bool,
    /// The largest super-segment that the wire cuts, in bytes; 0: none.
    pub(crate) gso_max: u32,
    pub(crate) check_super_segments: bool,
    /// Room for a blueprint's image while a super-segment is tried.
    pub(crate) saved_image: Vec<u8>,

    pub(crate) handles: Handles,
    pub(crate) ports: Ports,
    /// Contexts with requests that they have not been told.
    pub(crate) debts: std::collections::VecDeque<(Slot, u32)>,
    /// Contexts whose applications wait for packets to leave.
    pub(crate) starved: Vec<(Slot, u32)>,

    pub(crate) raised: Raised,
    pub(crate) raise_budget: usize,
    /// The number of the last buffer that addresses referred to.
    pub(crate) buffers: u32,

    // Working memory of a batch and of a chain, kept for the next.
    pub(crate) ahead: Ahead,
    pub(crate) events: EventBuf,
    pub(crate) event_words: Vec<u64>,
    pub(crate) records: RecordBuf,
    pub(crate) fresh: Vec<u64>,
    pub(crate) scratch: Vec<u64>,
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
        let tables = Tables::new(module)?;
        check_limits(&config.limits, &tables)?;
        let stream = |purpose| Rand::new(&config.seed, purpose);
        let (rand, key) = (stream(Purpose::Programs), stream(Purpose::Tables).key());
        let ports = Ports::new(config.ephemeral, stream(Purpose::Ports));
        let limits = config.limits;
        let mut stack = Stack {
            contexts: Contexts::new(tables.contexts.iter().map(|c| c.size), key),
            globals: tables::globals(module),
            timers: Timers::new(tables.timers_per_context),
            packets: Packets::new(module),
            fresh: vec![0; tables.fresh_size.div_ceil(8)],
            scratch: vec![0; tables.scratch_size.div_ceil(8)],
            handles: Handles::new(limits.handles, limits.notices),
            ports,
            interface: Interface::new(config.interface, caps)?,
            raise_budget: limits.batch,
            begun: program.clone(),
            program,
            tables,
            limits,
            rand,
            counters: Counters::default(),
            tap: None,
            interactive: None,
            last_assert: None,
            timers_wait: 0,
            chunks: ChunkPool::default(),
            pages: PagePool::default(),
            tx_held: 0,
            rx_held: 0,
            wire_full: false,
            gso_max: if caps.tx_csum { caps.gso_max } else { 0 },
            check_super_segments: false,
            saved_image: Vec::new(),
            debts: std::collections::VecDeque::new(),
            starved: Vec::new(),
            raised: Raised::default(),
            buffers: 0,
            ahead: Ahead::default(),
            events: EventBuf::default(),
            event_words: Vec::new(),
            records: RecordBuf::default(),
        };
        stack.want_signals(0);
        if let Some(parser) = stack.tables.start {
            stack
                .input(0, parser, Input::Start, &Cause::default())
                .map_err(|denied| {
                    ConfigError::Start(match denied {
                        Denied::Refused(_) => "it was turned down",
                        Denied::NoRoom => "its chain needs more room than there is",
                        Denied::Limit(name) => name,
                    })
                })?;
        }
        Ok(stack)
    }

    /// Does what is to be done now: a batch of received frames, due timers, then what all that and
    /// the applications' requests have to send. True when it did something: call it again before
    /// waiting.
    ///
    /// # Errors
    /// When the wire failed for good.
    pub fn poll(&mut self, now: Nanos, wire: &mut dyn Wire) -> io::Result<bool> {
        self.batch_signals(true);
        let any = self.turn(now, wire);
        self.batch_signals(false);
        any
    }

    fn turn(&mut self, now: Nanos, wire: &mut dyn Wire) -> io::Result<bool> {
        self.raise_budget = self.limits.batch;
        let mut any = self.run_waiting(now);
        any |= self.poll_source(now);
        any |= self.pay_all(now);
        any |= self.receive(now, wire)?;
        if self
            .interface
            .next_deadline()
            .is_some_and(|deadline| deadline <= now)
        {
            self.interface.poll(now);
            any = true;
        }
        any |= self.fire(now);
        any |= self.flush(now, wire)?;
        self.feed();
        self.timers.settle();
        Ok(any)
    }

    /// Sends what the applications' requests have to send, without asking the wire first whether
    /// something arrived: a part of [`Stack::poll`], for who wants a request to leave at once.
    /// What the program has yet to be told ([`Stack::take`], requests for which there was no room)
    /// waits for the poll. True when something left.
    ///
    /// # Errors
    /// When the wire failed for good.
    pub fn transmit(&mut self, now: Nanos, wire: &mut dyn Wire) -> io::Result<bool> {
        self.raise_budget = self.limits.batch;
        self.run_waiting(now);
        self.flush(now, wire)
    }

    /// Runs the events that were raised and not run; true when it ran any.
    fn run_waiting(&mut self, now: Nanos) -> bool {
        if self.raised.len() == 0 {
            return false;
        }
        self.scratch.fill(0);
        self.run_raised(now, &Cause::default())
    }

    /// When [`Stack::poll`] has something to do, if nothing arrives before: exact to the
    /// nanosecond.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Nanos> {
        let timers = self.timers.next().map(|deadline| deadline.max(self.timers_wait));
        [timers, self.interface.next_deadline(), self.source_deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    /// What was counted since the start.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The interface's own counts.
    #[must_use]
    pub fn interface_counters(&self) -> &crate::net::Counters {
        self.interface.counters()
    }

    /// The text of the last assert or invariant that was false.
    #[must_use]
    pub fn last_assert(&self) -> Option<&str> {
        let asserts = &self.program.module().asserts;
        asserts
            .get(self.last_assert? as usize)
            .map(|(_, text)| text.as_str())
    }

    /// Compares, from now on, each super-segment with the packets that it stands for, byte by byte.
    /// One that a device would cut into others is counted and leaves packet by packet. What the
    /// compiler proves makes this needless: it is here to test that, and costs as much as no
    /// super-segments.
    pub fn check_super_segments(&mut self, check: bool) {
        self.check_super_segments = check;
    }

    /// Shows every event to `tap` from now on, after it took effect.
    pub fn set_tap(&mut self, tap: Option<Tap>) {
        self.tap = tap;
    }

    /// Asks the program for the signals whose bits ([`hawser_ir::SignalId::bit`]) are set, from the
    /// next event on, and for no others: those leave no record. A new stack wants none.
    pub fn want_signals(&mut self, signals: u64) {
        self.records.want(signals);
    }

    /// The signals that the program is asked for.
    #[must_use]
    pub fn wanted_signals(&self) -> u64 {
        self.records.wanted()
    }

    /// How many contexts there are, those that exist once and for all apart.
    #[must_use]
    pub fn contexts(&self) -> usize {
        self.contexts.len()
    }

    /// Bytes held for applications: accepted for sending and not retired, and memory of received
    /// data. See [`Limits::tx_total`] and [`Limits::rx_total`].
    #[must_use]
    pub fn held_bytes(&self) -> (u64, u64) {
        (self.tx_held, self.rx_held)
    }

    /// Fires the timers that are due; true when it fired any.
    fn fire(&mut self, now: Nanos) -> bool {
        let last = self.timers.last_number();
        self.timers_wait = 0;
        let mut any = false;
        while let Some((slot, timer)) = self.timers.due(now, last) {
            let kind = self.contexts.entry(slot).kind;
            let (offset, event) = self.tables.contexts[kind.0 as usize].timers[timer as usize];
            if !self.room_for_timer(event) {
                self.timers_wait = now.saturating_add(TIMER_RETRY);
                break;
            }
            // In its own event the timer does not run any more.
            self.timers.stop(slot, timer);
            scalar::store(&mut self.contexts.bytes_mut(slot)[offset..offset + 8], 0);
            self.timer_event(now, slot, event);
            any = true;
            self.counters.timers += 1;
        }
        any
    }
}

pub(crate) fn check_limits(limits: &Limits, tables: &Tables) -> Result<(), ConfigError> {
    let most =
        |bound: fn(&tables::EventPlan) -> u32| u64::from(tables.events.iter().map(bound).max().unwrap_or(0));
    let needs = [
        ("contexts", limits.contexts as u64, 1),
        ("handles", limits.handles as u64, 1),
        ("ids_per_context", limits.ids_per_context as u64, 1),
        (
            "units_per_context",
            limits.units_per_context as u64,
            most(|e| e.bounds.units).max(2),
        ),
        ("tx_bytes", limits.tx_bytes, 1),
        ("rx_bytes", limits.rx_bytes, 128 * 1024),
        ("tx_total", limits.tx_total, 1),
        ("rx_total", limits.rx_total, 128 * 1024),
        ("first_bytes", limits.first_bytes, 1),
        ("least_bytes", limits.least_bytes, 1),
        (
            "pending_packets",
            limits.pending_packets as u64,
            most(|e| e.bounds.packets).max(1),
        ),
        ("pending_frames", limits.pending_frames as u64, 1),
        ("raised", limits.raised as u64, most(|e| e.bounds.raises)),
        ("notices", limits.notices as u64, 1),
        ("batch", limits.batch as u64, 1),
    ];
    match needs.into_iter().find(|(_, value, least)| value < least) {
        Some((name, value, least)) => Err(ConfigError::Limit { name, value, least }),
        None => Ok(()),
    }
}

impl std::fmt::Debug for Stack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stack")
            .field("program", &self.program.module().name)
            .field("contexts", &self.contexts.len())
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}
