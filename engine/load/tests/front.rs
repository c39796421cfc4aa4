//! Tests of chains that run in front of a sleeping stack. Applications see no difference, and no record is
//! lost, executed twice or reordered.

#![allow(unreachable_pub)]

#[path = "../../engine/tests/common/cable.rs"]
#[allow(dead_code)]
mod cable;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use cable::{Cable, cable};
use hawser_engine::front::{FRONT_BUFFER, Front, FrontLimits, FrontResults, Lent, RanChain};
use hawser_engine::net::{Ingress, Interface, InterfaceConfig};
use hawser_engine::program::Program;
use hawser_engine::wire::{Caps, Csum, RxFrame, TxFrame, Wire};
use hawser_engine::{Handle, Notice, Stack, StackConfig};
use hawser_ir::abi::{ChainOutcome, EventHeader, Id, Packet, RecordKind, addr};
use hawser_ir::buf::{EventBuf, Input, RecordBuf, Regions, event_header, set_event_header};
use hawser_ir::{ContextId, Module, ParserInput, Precondition};
use hawser_load::{Interpreted, builtin, load};
use hawser_time::Instant;
use siphasher::sip::SipHasher13;

/// A wire with chains in front of its stack. They belong to the same program as the stack.
struct Fronted {
    end: Cable,
    program: Arc<dyn Program>,
    /// The interface that reads network headers.
    interface: Interface,
    rng: fastrand::Rng,
    contexts: HashMap<u32, Context>,
    ids: HashMap<Id, u32>,
    globals: Vec<Vec<u8>>,
    /// While the stack sleeps, the number of chains that may run, and their terms.
    open: Option<u64>,
    is_complete: bool,
    may_create: bool,
    key: (u64, u64),
    /// True if the stack has to wake up before anything else happens.
    is_wanted: bool,
    changed: Vec<u32>,
    /// The frames for the stack: first those that chains have processed, with the results, then raw ones.
    log: Vec<Logged>,
    passed: Vec<Vec<u8>>,
    batch: Vec<Logged>,
    /// Counts of the chains that ran: all of them, those that created a context, and those without one.
    ran: u64,
    made: u64,
    lonely: u64,
}

struct Context {
    kind: ContextId,
    ids: Vec<Id>,
    bytes: Vec<u64>,
}

struct Logged {
    frame: Vec<u8>,
    at: Instant,
    chains: Option<Vec<RanChain>>,
    scratch: Vec<u64>,
}

impl Fronted {
    /// Accepts arrivals while the stack sleeps.
    fn arrive(&mut self, now: Instant) {
        let frames: Vec<Vec<u8>> = self.end.inbound.lock().drain(..).collect();
        for frame in frames {
            // A frame goes to the stack if an earlier one did, and occasionally at random.
            let chains = if self.passed.is_empty() && !self.is_wanted && self.rng.u8(..40) > 0 {
                self.run(now, &frame)
            } else {
                None
            };
            match chains {
                Some((chains, scratch)) => {
                    self.log
                        .push(Logged { frame, at: now, chains: Some(chains), scratch })
                }
                None => self.passed.push(frame),
            }
        }
    }

    /// Runs the chains of a frame's first events. Returns `None` if the chain of the first event cannot run
    /// here.
    fn run(&mut self, now: Instant, frame: &[u8]) -> Option<(Vec<RanChain>, Vec<u64>)> {
        let received = RxFrame { head: frame, ..no_frame() };
        let Ingress::Packet { mut net, head, .. } = self.interface.ingress(now, &received) else {
            return None;
        };
        net.path_mtu = self.interface.mtu();
        let module = self.program.module();
        let parsers = &module.parsers;
        let parser = parsers
            .iter()
            .position(|p| p.source == ParserInput::Ip(net.protocol))?;
        let packet = Packet {
            net: &net,
            head,
            tail: &[],
            merged: 0,
            addr: addr(FRONT_BUFFER, 0),
            csum: received.csum,
            crc: None,
        };
        let mut events = EventBuf::default();
        self.program
            .parse(parser, Input::Packet(packet), &mut events)
            .ok()?;
        let scratch = module.scratch.map_or(0, |id| module.structure(id).size as usize);
        let mut scratch = vec![0_u64; scratch.div_ceil(8)];
        let mut chains = Vec::new();
        let limit = if self.rng.u8(..8) == 0 { 1 } else { usize::MAX };
        for i in 0..events.len().min(limit) {
            let ran = self.event(now, events.get_mut(i), &mut scratch);
            let Some((number, ran)) = ran else { break };
            self.changed.extend(number);
            let makes = ran
                .records
                .iter()
                .any(|record| record.kind == RecordKind::NewContext);
            self.made += u64::from(makes);
            self.lonely += u64::from(number.is_none());
            // The raised events run before the next event, which may find a context that they created.
            let is_over = ran.outcome != ChainOutcome::Done || is_urgent(&ran);
            chains.push(ran);
            if is_over {
                break;
            }
        }
        self.ran += chains.len() as u64;
        // The stack has to continue before anything else happens.
        self.is_wanted = chains.len() < events.len() || chains.iter().any(is_urgent);
        (!chains.is_empty()).then_some((chains, scratch))
    }

    /// Runs the chain of an event and returns the number of its context.
    fn event(
        &mut self,
        now: Instant,
        event: &mut [u8],
        scratch: &mut [u64],
    ) -> Option<(Option<u32>, RanChain)> {
        let header = event_header(event);
        let module = self.program.module();
        let chain = &module.chains[usize::from(header.event)];
        let creators = module.creators.get(usize::from(header.event));
        let creates_on = |kind: ContextId| {
            let fits = |when: &Precondition| match when {
                Precondition::Always => true,
                Precondition::Found(known) => *known == kind,
                Precondition::NotFound => false,
            };
            chain.creates.is_some() && creators.is_none_or(|creators| creators.iter().any(fits))
        };
        let (mut keyed, mut vacant) = (None, None);
        for id in header.id.iter().take(usize::from(header.ids)) {
            match self.ids.get(id) {
                Some(number) => keyed = keyed.or(Some(*number)),
                None if id.is_none() => {}
                None => vacant = vacant.or(Some(*id)),
            }
            let Some(number) = keyed else { continue };
            if vacant.is_some() || !creates_on(self.contexts[&number].kind) {
                break;
            }
        }
        let kind = keyed.map(|number| self.contexts[&number].kind);
        let creates = chain
            .creates
            .filter(|_| vacant.is_some() && kind.is_none_or(creates_on));
        let runs_without = chain
            .processors
            .iter()
            .any(|p| !matches!(p.when, Precondition::Found(_)));
        let searched_all = vacant.is_none() || self.is_complete;
        if !searched_all || (creates.is_some() && !self.may_create) {
            return None;
        }
        if keyed.is_none() && !runs_without {
            let ran = RanChain {
                outcome: ChainOutcome::Done,
                records: RecordBuf::default(),
                fresh: Vec::new(),
            };
            return Some((None, ran));
        }
        let left = self.open.as_mut().filter(|left| **left > 0)?;
        *left -= 1;
        let hasher = SipHasher13::new_with_keys(self.key.0, self.key.1);
        let stamped = EventHeader {
            now: now.as_nanos(),
            rand: self.rng.u64(..),
            hash: hasher.hash(header.id[0].bytes()) as u32,
            ..header
        };
        set_event_header(event, &stamped);
        let mut records = RecordBuf::default();
        records.want(0);
        let size = creates.map_or(0, |kind| module.context_size(kind));
        let mut fresh = vec![0_u64; size.div_ceil(8)];
        let fresh_bytes: &mut [u8] = &mut bytemuck::cast_slice_mut(&mut fresh)[..size];
        if let Some(id) = vacant.filter(|_| size > 0) {
            fresh_bytes[..size_of::<Id>()].copy_from_slice(&id.0);
        }
        let mut context = keyed.and_then(|number| self.contexts.get_mut(&number));
        let mut regions = Regions {
            keyed: context
                .as_mut()
                .map(|context| (context.kind, bytemuck::cast_slice_mut(&mut context.bytes))),
            fresh: creates.is_some().then_some(fresh_bytes),
            globals: &mut self.globals,
            scratch: bytemuck::cast_slice_mut(scratch),
        };
        let outcome = self.program.react(event, &mut regions, &mut records);
        let fresh: &[u8] = bytemuck::cast_slice(&fresh);
        let fresh = fresh[..size].to_vec();
        Some((keyed, RanChain { outcome, records, fresh }))
    }
}

/// Returns whether a chain emits instructions on which others depend.
fn is_urgent(ran: &RanChain) -> bool {
    use RecordKind::{AddId, DelContext, DropId, Extern, NewContext, Raise};
    let mut kinds = ran.records.iter().map(|record| record.kind);
    kinds.any(|kind| matches!(kind, NewContext | DelContext | AddId | DropId | Raise | Extern))
}

fn no_frame() -> RxFrame<'static> {
    RxFrame {
        head: &[],
        tail: &[],
        csum: Csum::Unverified,
        seg_size: 0,
        at: Instant::ORIGIN,
    }
}

impl Wire for Fronted {
    fn caps(&self) -> &Caps {
        self.end.caps()
    }

    fn receive(&mut self, max: usize) -> io::Result<usize> {
        if self.log.is_empty() {
            let mut arrived = self.end.inbound.lock();
            let passed = self.passed.drain(..).chain(arrived.drain(..));
            self.batch.extend(passed.map(|frame| Logged {
                frame,
                at: Instant::ORIGIN,
                chains: None,
                scratch: Vec::new(),
            }));
        } else {
            let count = max.min(self.log.len());
            self.batch.extend(self.log.drain(..count));
        }
        Ok(self.batch.len())
    }

    fn frame(&self, i: usize) -> RxFrame<'_> {
        RxFrame { head: &self.batch[i].frame, ..no_frame() }
    }

    fn release(&mut self) {
        self.batch.clear();
    }

    fn transmit(&mut self, frames: &[TxFrame]) -> io::Result<usize> {
        self.end.transmit(frames)
    }

    fn ran(&self, i: usize) -> Option<FrontResults<'_>> {
        let logged = &self.batch[i];
        let chains = logged.chains.as_deref()?;
        Some(FrontResults { at: logged.at, chains, scratch: bytemuck::cast_slice(&logged.scratch) })
    }

    fn front(&mut self) -> Option<&mut dyn Front> {
        Some(self)
    }
}

impl Front for Fronted {
    fn put(&mut self, context: &Lent<'_>) {
        self.remove(context.number);
        for id in context.ids {
            assert_eq!(
                self.ids.insert(*id, context.number),
                None,
                "an id leads to one context"
            );
        }
        let mut bytes = vec![0; context.bytes.len().div_ceil(8)];
        bytemuck::cast_slice_mut(&mut bytes)[..context.bytes.len()].copy_from_slice(context.bytes);
        let lent = Context { kind: context.kind, ids: context.ids.to_vec(), bytes };
        self.contexts.insert(context.number, lent);
    }

    fn remove(&mut self, number: u32) {
        if let Some(context) = self.contexts.remove(&number) {
            for id in &context.ids {
                self.ids.remove(id);
            }
        }
    }

    fn open(&mut self, terms: &FrontLimits<'_>) {
        self.globals = terms.globals.to_vec();
        self.open = Some(terms.chains);
        (self.is_complete, self.may_create, self.key) = (terms.is_complete, terms.may_create, terms.key);
        self.is_wanted = false;
    }

    fn close(&mut self, globals: &mut [Vec<u8>], changed: &mut dyn FnMut(u32, &[u8])) -> usize {
        assert!(self.open.take().is_some(), "it was lent");
        globals.clone_from_slice(&self.globals);
        self.changed.sort_unstable();
        self.changed.dedup();
        for number in self.changed.drain(..) {
            if let Some(context) = self.contexts.get(&number) {
                changed(number, bytemuck::cast_slice(&context.bytes));
            }
        }
        self.log.len()
    }
}

/// A stack, and the actions of its application.
struct Host {
    stack: Stack,
    wire: Fronted,
    handle: Option<Handle>,
    to_send: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
    closed: bool,
    is_lent: bool,
}

fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::new([10, 0, 0, host + 1].into(), port)
}

impl Host {
    fn new(module: &Module, number: u8, end: Cable, to_send: Vec<u8>, seed: u64) -> Host {
        let program: Arc<dyn Program> =
            Arc::new(Interpreted::new(module.clone(), &[]).expect("a program that runs"));
        let interface = InterfaceConfig {
            addresses: vec![(address(number, 0).ip(), 24)],
            gateways: vec![],
            mtu: 1500,
        };
        let reader = Interface::new(interface.clone(), end.caps()).expect("a good configuration");
        let config = StackConfig::new(interface, 40 + u64::from(number));
        let stack = Stack::new(program.clone(), config, end.caps()).expect("a good configuration");
        let wire = Fronted {
            end,
            program,
            interface: reader,
            rng: fastrand::Rng::with_seed(seed ^ u64::from(number)),
            contexts: HashMap::new(),
            ids: HashMap::new(),
            globals: Vec::new(),
            open: None,
            is_complete: false,
            may_create: false,
            key: (0, 0),
            is_wanted: false,
            changed: Vec::new(),
            log: Vec::new(),
            passed: Vec::new(),
            batch: Vec::new(),
            ran: 0,
            made: 0,
            lonely: 0,
        };
        Host {
            stack,
            wire,
            handle: None,
            to_send,
            sent: 0,
            received: Vec::new(),
            closed: false,
            is_lent: false,
        }
    }

    /// Wakes up, does all due work, and sleeps again. Returns whether there was any work.
    fn work(&mut self, now: Instant) -> bool {
        let mut any = false;
        if self.is_lent {
            self.wire.arrive(now);
            any |= !self.wire.log.is_empty();
            self.stack
                .take_back(now, &mut self.wire)
                .expect("a cable does not fail");
        }
        while self.turn(now) {
            any = true;
        }
        self.is_lent = self.stack.lend(&mut self.wire);
        any
    }

    /// Does the work that is due now. Returns whether there was any.
    fn turn(&mut self, now: Instant) -> bool {
        let mut any = false;
        while self
            .stack
            .poll(now, &mut self.wire)
            .expect("a cable does not fail")
        {
            any = true;
        }
        while let Some((handle, notice)) = self.stack.next_notice() {
            any = true;
            match notice {
                Notice::Accepted(child) => self.handle = Some(child),
                Notice::Eof => self.stack.close(now, handle),
                Notice::Closed if Some(handle) == self.handle => self.closed = true,
                Notice::Failed(errno) => panic!("failed: {errno}"),
                _ => {}
            }
        }
        if let Some(handle) = self.handle.filter(|_| !self.closed) {
            while self.sent < self.to_send.len() {
                let until = self.to_send.len().min(self.sent + 10_000);
                let taken = self.stack.send(now, handle, &self.to_send[self.sent..until]);
                let taken = taken.expect("open");
                if taken == 0 {
                    break;
                }
                any = true;
                self.sent += taken;
            }
            let mut out = [0; 5000];
            while let Ok(n @ 1..) = self.stack.recv(now, handle, &mut out) {
                any = true;
                self.received.extend_from_slice(&out[..n]);
            }
        }
        any
    }
}

/// Runs streams in both directions between two hosts that sleep whenever possible. Returns how many chains in
/// front of the server created a context, and how many ran without one.
fn exchange(module: &Module, name: &str, losses: u64, seed: u64) -> [u64; 2] {
    let [a, b] = cable(losses, seed);
    let bytes = |len: u32, salt: u32| -> Vec<u8> {
        (0..len)
            .map(|i| ((i ^ salt).wrapping_mul(2_654_435_761) >> 13) as u8)
            .collect()
    };
    let mut hosts = [
        Host::new(module, 0, a, bytes(60_000, 1), seed),
        Host::new(module, 1, b, bytes(20_000, 2), seed),
    ];
    let mut now = Instant::from_nanos(1_000_000);
    hosts[1].stack.listen(now, address(1, 80), 16).expect("free");
    // The server sleeps when the client's first packet arrives.
    hosts[1].work(now);
    let client = hosts[0].stack.connect(now, address(1, 80), None).expect("free");
    hosts[0].handle = Some(client);
    for _ in 0..100_000 {
        while hosts
            .iter_mut()
            .map(|host| host.work(now))
            .fold(false, |any, did| any | did)
        {}
        if hosts[0].sent == 60_000 && hosts[0].received.len() == 20_000 && !hosts[0].closed {
            // The client is awake for the request.
            hosts[0].wire.arrive(now);
            let Host { stack, wire, is_lent, .. } = &mut hosts[0];
            if std::mem::take(is_lent) {
                stack.take_back(now, wire).expect("a cable does not fail");
            }
            stack.close(now, client);
        } else if hosts[0].closed {
            break;
        }
        let next = hosts.iter().filter_map(|host| host.stack.next_deadline()).min();
        now = now.max(next.unwrap_or_else(|| panic!("{name}, seed {seed}: nothing more will happen")));
    }
    for (host, peer) in [(0, 1), (1, 0)] {
        let c = hosts[host].stack.counters();
        assert!(
            hosts[host].received == hosts[peer].to_send,
            "{name}, seed {seed}, host {host}: {} bytes, {c:?}",
            hosts[host].received.len()
        );
        let faults = c.asserts + c.dangling + c.duplicate_ids + c.clipped_sending + c.clipped_receiving;
        assert_eq!(faults, 0, "{name}, seed {seed}, host {host}: {c:?}");
    }
    let ran = hosts[0].wire.ran + hosts[1].wire.ran;
    assert!(ran > 10, "{name}, seed {seed}: {ran} chains ran in front");
    [hosts[1].wire.made, hosts[1].wire.lonely]
}

#[test]
fn streams_are_whole_where_chains_run_in_front() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let stop_and_wait = load(&examples.join("stop-and-wait.mtp")).expect("an example");
    exchange(&stop_and_wait, "stop-and-wait", 5, 1);
    for name in ["selective-repeat", "tcp"] {
        let module = builtin(name)
            .expect("it comes along")
            .expect("it passes the checker");
        let mut counts = [0; 2];
        for seed in 1..=6 {
            let of_one = exchange(&module, name, seed % 3 * 4, seed);
            counts.iter_mut().zip(of_one).for_each(|(all, one)| *all += one);
        }
        println!(
            "{name}: {} contexts were made in front of the stack, {} chains ran on none",
            counts[0], counts[1]
        );
        assert!(counts[0] > 0);
    }
}
