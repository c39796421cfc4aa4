//! Two hosts with endpoints and a wire between them, in virtual time. Tests of call-based transports share
//! it.

#![allow(dead_code)] // Each test uses its own part.

#[path = "../../../engine/tests/common/cable.rs"]
pub mod cable;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use cable::{Cable, cable};
use hawser_engine::net::InterfaceConfig;
use hawser_engine::program::Program;
use hawser_engine::wire::Wire;
use hawser_engine::{Errno, Handle, Notice, Stack, StackConfig};
use hawser_load::Engine;
use hawser_load::programs::resolve_on;
use hawser_testing::internet_checksum;
use hawser_time::Instant;

/// The size of a call's request and of its reply, in bytes.
pub type Sizes = (usize, usize);

pub fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::new([10, 0, 0, host + 1].into(), port)
}

/// Returns a built-in program. `HAWSER_HOMA` names another main file for `homa`, such as a mutant, which is
/// then interpreted. Other programs have the same kind of variable.
pub fn program(name: &str, engine: Engine, params: &[(String, u64)]) -> Arc<dyn Program> {
    let other = std::env::var(format!("HAWSER_{}", name.to_uppercase())).ok();
    let (engine, name) = match &other {
        Some(file) => (Engine::Interp, file.as_str()),
        None => (engine, name),
    };
    resolve_on(Some(engine), name, params).unwrap_or_else(|error| panic!("{error}"))
}

/// A stack with an endpoint at port 80, and its end of the cable.
pub struct Host {
    pub stack: Stack,
    pub end: Cable,
    pub endpoint: Handle,
    /// Replies by the handles of their calls, and failed calls.
    pub replies: BTreeMap<Handle, Vec<u8>>,
    pub failed: BTreeMap<Handle, Errno>,
    /// The requests served.
    pub served: Vec<Vec<u8>>,
    /// True if the host answers incoming calls.
    pub answers: bool,
}

impl Host {
    pub fn new(program: &Arc<dyn Program>, number: u8, end: Cable) -> Host {
        let interface = InterfaceConfig {
            addresses: vec![(address(number, 0).ip(), 24)],
            gateways: vec![],
            mtu: 1500,
        };
        let config = StackConfig::new(interface, 40 + u64::from(number));
        let mut stack = Stack::new(program.clone(), config, end.caps()).expect("a good configuration");
        let endpoint = stack
            .listen(Instant::ORIGIN, address(number, 80), 64)
            .expect("free");
        Host {
            stack,
            end,
            endpoint,
            replies: BTreeMap::new(),
            failed: BTreeMap::new(),
            served: Vec::new(),
            answers: true,
        }
    }

    /// Does all work that is due at this time. Returns whether there was any.
    pub fn work(&mut self, now: Instant) -> bool {
        let mut any = false;
        while self
            .stack
            .poll(now, &mut self.end)
            .expect("a cable does not fail")
        {
            any = true;
        }
        while let Some((handle, notice)) = self.stack.next_notice() {
            any = true;
            match notice {
                Notice::Accepted(call) => {
                    self.stack.accept(handle);
                    let request = self
                        .message(now, call)
                        .expect("a call is accepted when it is whole");
                    if self.answers {
                        let reply = reply_to(&request);
                        assert_eq!(self.stack.send_message(now, call, &reply), Ok(true));
                    }
                    self.served.push(request);
                }
                Notice::Readable => {
                    if let Some(reply) = self.message(now, handle) {
                        assert!(
                            self.replies.insert(handle, reply).is_none(),
                            "one reply for a call"
                        );
                    }
                }
                Notice::Failed(errno) => {
                    self.failed.insert(handle, errno);
                    self.stack.release(handle);
                }
                Notice::Closed => self.stack.release(handle),
                _ => {}
            }
        }
        any
    }

    pub fn message(&mut self, now: Instant, handle: Handle) -> Option<Vec<u8>> {
        let mut message = Vec::new();
        let is_some = self.stack.recv_message(now, handle, &mut message).ok()?;
        is_some.then_some(message)
    }

    /// Counts events that only a bug in the program or the engine can cause.
    pub fn faults(&self) -> u64 {
        let c = self.stack.counters();
        c.asserts + c.dangling + c.duplicate_ids + c.clipped_sending + c.clipped_receiving + c.oversize
    }
}

/// Returns the n-th request, of `len` bytes, which asks for a reply of `wanted` bytes.
pub fn request(n: usize, (len, wanted): Sizes) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len)
        .map(|i| ((i ^ n).wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let head = (wanted as u32).to_be_bytes();
    let known = len.min(head.len());
    bytes[..known].copy_from_slice(&head[4 - known..]);
    bytes
}

/// Returns a reply of the length in the request's first four bytes, filled with its last byte.
pub fn reply_to(request: &[u8]) -> Vec<u8> {
    let known = &request[..request.len().min(4)];
    let wanted = known.iter().fold(0, |all, byte| all << 8 | usize::from(*byte));
    let last = request[request.len() - 1];
    (0..wanted).map(|i| (i as u8).wrapping_mul(31) ^ last).collect()
}

/// Runs both hosts until no work is left before `until`.
pub fn run(hosts: &mut [Host; 2], from: Instant, until: Instant) -> Instant {
    let mut now = from;
    for _ in 0..1_000_000 {
        let [a, b] = &mut *hosts;
        let (first, second) = (a.work(now), b.work(now));
        if first || second {
            continue;
        }
        let next = hosts.iter().filter_map(|host| host.stack.next_deadline()).min();
        match next {
            Some(next) if next <= until => now = now.max(next),
            _ => return now,
        }
    }
    panic!("no end: {:?}", hosts[0].stack.counters());
}

/// Makes these calls at once from the first host to the second, with losses and trimmed packets. Returns both
/// hosts after the run.
pub fn calls(name: &str, engine: Engine, sizes: &[Sizes], (loss, cut): (u64, u64), seed: u64) -> [Host; 2] {
    let program = program(name, engine, &[]);
    let [mut a, mut b] = cable(loss, seed);
    (a.trim_percent, b.trim_percent) = (cut, cut);
    let mut hosts = [Host::new(&program, 0, a), Host::new(&program, 1, b)];
    let start = Instant::from_nanos(1_000_000);
    let mut made = Vec::new();
    for (n, sizes) in sizes.iter().enumerate() {
        let call = hosts[0]
            .stack
            .call(start, hosts[0].endpoint, address(1, 80), &request(n, *sizes));
        made.push(call.expect("it is taken").expect("there is room"));
    }
    run(&mut hosts, start, Instant::from_nanos(60_000_000_000));
    let wanted: Vec<Vec<u8>> = sizes
        .iter()
        .enumerate()
        .map(|(n, sizes)| request(n, *sizes))
        .collect();
    for (n, (call, request)) in made.iter().zip(&wanted).enumerate() {
        let reply = hosts[0].replies.get(call);
        assert!(
            reply == Some(&reply_to(request)),
            "seed {seed}, call {n}: {:?}",
            (reply.map(Vec::len), hosts[0].failed.get(call))
        );
    }
    let mut served = hosts[1].served.clone();
    let mut wanted = wanted;
    served.sort();
    wanted.sort();
    assert!(served == wanted, "seed {seed}: each request is served once");
    for host in &hosts {
        assert_eq!(host.faults(), 0, "seed {seed}: {:?}", host.stack.counters());
        assert_eq!(
            host.stack.contexts(),
            1,
            "seed {seed}: the endpoint alone is left"
        );
        assert_eq!(host.stack.held_bytes(), (0, 0), "seed {seed}");
    }
    hosts
}

/// Builds a router's error about a packet that exceeds the MTU of its next link: RFC 792 and RFC 1191, 4; RFC
/// 4443, 3.2.
pub fn too_big(mtu: u16, packet: &[u8]) -> Vec<u8> {
    let [high, low] = mtu.to_be_bytes();
    let quoted = &packet[..packet.len().min(500)];
    let summed = |mut icmp: Vec<u8>, pseudo: &[u8]| {
        let sum = internet_checksum(&[pseudo, &icmp]);
        icmp[2..4].copy_from_slice(&sum);
        icmp
    };
    if packet[0] >> 4 == 6 {
        let icmp = [&[2, 0, 0, 0, 0, 0, high, low], quoted].concat();
        let [len_high, len_low] = (icmp.len() as u16).to_be_bytes();
        let (router, to) = (&packet[24..40], &packet[8..24]);
        let pseudo = [router, to, &[0, 0, len_high, len_low, 0, 0, 0, 58]].concat();
        let ip = [&[0x60, 0, 0, 0, len_high, len_low, 58, 64], router, to].concat();
        return [ip, summed(icmp, &pseudo)].concat();
    }
    let icmp = [&[3, 4, 0, 0, 0, 0, high, low], quoted].concat();
    let mut ip = [0x45, 0, 0, 0, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 0, 9, 0, 0, 0, 0];
    ip[16..20].copy_from_slice(&packet[12..16]);
    ip[2..4].copy_from_slice(&(20 + icmp.len() as u16).to_be_bytes());
    let sum = internet_checksum(&[&ip]);
    ip[10..12].copy_from_slice(&sum);
    [ip.to_vec(), summed(icmp, &[])].concat()
}

/// Checks a call of 3,000 bytes on a path whose narrowest link has an MTU of `mtu` bytes. The call ends at
/// once with EMSGSIZE, and the next one is cut to that size.
pub fn ends_for_its_path(name: &str, [own, peer]: [IpAddr; 2], mtu: u16) {
    let [mut end, _] = cable(0, 1);
    end.caps.tx_csum = true;
    let interface = InterfaceConfig { addresses: vec![(own, 24)], gateways: vec![], mtu: 1500 };
    let now = Instant::from_nanos(1_000_000_000);
    let program = program(name, Engine::Native, &[]);
    let mut stack = Stack::new(program, StackConfig::new(interface, 7), end.caps()).expect("good");
    let endpoint = stack.listen(now, SocketAddr::new(own, 80), 64).expect("free");
    let call = |stack: &mut Stack, end: &mut Cable| {
        let call = stack.call(now, endpoint, SocketAddr::new(peer, 80), &[7; 3_000]);
        while stack.poll(now, end).expect("a cable does not fail") {}
        let sent: Vec<Vec<u8>> = end.outbound.lock().drain(..).collect();
        (call.expect("it is taken").expect("there is room"), sent)
    };
    let (first, sent) = call(&mut stack, &mut end);
    assert_eq!(sent[0].len(), 1_500);
    for (stated, expected) in [(1_500, None), (mtu, Some(Errno(90)))] {
        end.inbound.lock().push_back(too_big(stated, &sent[0]));
        while stack.poll(now, &mut end).expect("a cable does not fail") {}
        let notices = std::iter::from_fn(|| stack.next_notice());
        let failed: Vec<Errno> = notices
            .filter_map(|(of, notice)| match notice {
                Notice::Failed(error) if of == first => Some(error),
                _ => None,
            })
            .collect();
        assert_eq!(failed, Vec::from_iter(expected), "{stated}");
    }
    end.outbound.lock().clear();
    let (_, sent) = call(&mut stack, &mut end);
    assert_eq!(sent.iter().map(Vec::len).max(), Some(usize::from(mtu)));
}

pub const SIZES: [Sizes; 8] = [
    (4, 1),
    (5, 1_000_000),
    (1_400, 60_000),
    (60_000, 60_001),
    (60_001, 4),
    (1_000_000, 7),
    (300_000, 300_000),
    (1_444, 1_445),
];
