//! Work of each kind, at random and in both directions, beside a model of both memories.

use std::collections::VecDeque;
use std::ops::Range;

use hawser_engine::Stack;
use hawser_load::Engine;
use hawser_time::Instant;
use hawser_verbs::{Opcode, Operation, SendRequest, Status, VerbsError, WorkCompletion};

use super::stage::{Host, SIZE, Stage, program};

/// Bytes of a place in the own region: each work uses one, and each receive.
const PLACE: usize = 4096;
/// Receives are in the upper half of the own region.
const HALF: usize = SIZE / 2;
/// What of the peer's shared region is used: little, so that works meet at the same bytes.
const AREA: usize = 1 << 15;

/// What one host does and expects.
struct Script {
    random: fastrand::Rng,
    left: u64,
    posted: u64,
    /// What is posted, oldest first: its number, and the bytes that its place has to have in the end.
    under_way: VecDeque<(u64, Option<Vec<u8>>)>,
    /// Reads that are under way, and the places that they read.
    reads: VecDeque<(u64, Range<usize>)>,
    /// The peer's shared region as it will be once all that is posted is done.
    model: Vec<u8>,
    /// Messages that the peer will get, oldest first.
    messages: VecDeque<(Vec<u8>, Option<u32>)>,
    /// Receives that are posted at a time; 1 to 8.
    posted_receives: u64,
    receives: u64,
    received: u64,
}

impl Script {
    fn new(seed: u64, works: u64, posted_receives: u64) -> Script {
        Script {
            random: fastrand::Rng::with_seed(seed),
            left: works,
            posted: 0,
            under_way: VecDeque::new(),
            reads: VecDeque::new(),
            model: vec![0; SIZE],
            messages: VecDeque::new(),
            posted_receives,
            receives: 0,
            received: 0,
        }
    }

    fn is_done(&self) -> bool {
        self.left == 0 && self.under_way.is_empty()
    }

    /// Posts receives and work as long as there is room; true when it posted any.
    fn post(&mut self, host: &mut Host, peer: &Host, now: Instant) -> bool {
        let mut any = false;
        while self.receives < self.received + self.posted_receives {
            let place = HALF + (self.receives as usize % 8) * PLACE;
            let local = host.own.slice(place as u64, PLACE as u64);
            let id = 1000 + self.receives;
            host.device
                .post_receive(&mut host.stack, now, host.pair, id, local)
                .expect("there is room");
            self.receives += 1;
            any = true;
        }
        while self.left > 0 && self.under_way.len() < 16 {
            let request = self.next(host, peer);
            match host.device.post_send(&mut host.stack, now, host.pair, &request) {
                Ok(()) => any = true,
                Err(VerbsError::Full) => break,
                Err(error) => panic!("{error}"),
            }
            self.left -= 1;
        }
        any
    }

    fn next(&mut self, host: &Host, peer: &Host) -> SendRequest {
        let id = self.posted;
        self.posted += 1;
        let place = (id as usize % 16) * PLACE;
        let len = *self
            .random
            .choice(&[0, 1, 5, 1023, 1024, 1025, 3000, 4096])
            .expect("some");
        let bytes: Vec<u8> = std::iter::repeat_with(|| self.random.u8(..)).take(len).collect();
        let at = self.random.usize(..(AREA - PLACE) / 8) * 8;
        let odd = at + self.random.usize(..8);
        let local = host.own.slice(place as u64, len as u64);
        let (operation, local, result) = match self.random.u8(..6) {
            kind @ (0 | 1) => {
                host.own.write(place, &bytes);
                let immediate = self.random.bool().then(|| self.random.u32(..));
                let operation = if kind == 0 {
                    Operation::Send
                } else {
                    self.model[odd..odd + len].copy_from_slice(&bytes);
                    Operation::Write(peer.shared.remote(odd as u64))
                };
                let request = SendRequest::new(id, operation, local);
                let request = self.fence(request, kind == 1, odd..odd + len);
                if kind == 0 {
                    self.messages.push_back((bytes, immediate));
                } else if immediate.is_some() {
                    self.messages.push_back((vec![0; len], immediate));
                }
                self.under_way.push_back((id, None));
                return immediate.map_or(request.clone(), |value| request.immediate(value));
            }
            2 | 3 => {
                let operation = Operation::Read(peer.shared.remote(odd as u64));
                self.reads.push_back((id, odd..odd + len));
                (operation, local, self.model[odd..odd + len].to_vec())
            }
            kind => {
                let before: [u8; 8] = self.model[at..at + 8].try_into().expect("eight");
                let number = u64::from_ne_bytes(before);
                let remote = peer.shared.remote(at as u64);
                let (operation, after) = if kind == 4 {
                    let add = self.random.u64(..);
                    (Operation::FetchAdd { remote, add }, number.wrapping_add(add))
                } else {
                    let (hits, swap) = (self.random.bool(), self.random.u64(..));
                    let compare = if hits { number } else { !number };
                    let after = if hits { swap } else { number };
                    (
                        Operation::CompareSwap {
                            remote,
                            compare,
                            swap,
                        },
                        after,
                    )
                };
                self.model[at..at + 8].copy_from_slice(&after.to_ne_bytes());
                (operation, host.own.slice(place as u64, 8), before.to_vec())
            }
        };
        self.under_way.push_back((id, Some(result)));
        let changes = !matches!(operation, Operation::Read(_));
        self.fence(SendRequest::new(id, operation, local), changes, at..at + 8)
    }

    /// A read whose answer is lost reads again, perhaps after what was posted behind it: what changes the same bytes has
    /// to wait for it (IBA, 10.8.3.3).
    fn fence(&mut self, request: SendRequest, changes: bool, place: Range<usize>) -> SendRequest {
        let meets = |(_, read): &(u64, Range<usize>)| read.start < place.end && place.start < read.end;
        if changes && self.reads.iter().any(meets) || self.random.u8(..8) == 0 {
            request.fenced()
        } else {
            request
        }
    }

    /// Takes what is done, in order; true when anything was.
    fn poll(&mut self, host: &mut Host, peer: &mut VecDeque<(Vec<u8>, Option<u32>)>) -> bool {
        let mut any = false;
        while let Some(completion) = host.device.poll(host.queue) {
            any = true;
            assert_eq!(completion.status, Status::Success, "{completion:?}");
            match completion.opcode {
                Opcode::Receive | Opcode::ReceiveWrite => self.take_message(host, &completion, peer),
                _ => {
                    let (id, result) = self.under_way.pop_front().expect("it was posted");
                    self.reads.retain(|(read, _)| *read != id);
                    assert_eq!(completion.id, id, "in order");
                    if let Some(result) = result {
                        let mut found = vec![0; result.len()];
                        host.own.read((id as usize % 16) * PLACE, &mut found);
                        assert!(found == result, "{completion:?}");
                    }
                }
            }
        }
        any
    }

    fn take_message(
        &mut self,
        host: &Host,
        completion: &WorkCompletion,
        expected: &mut VecDeque<(Vec<u8>, Option<u32>)>,
    ) {
        let (bytes, immediate) = expected.pop_front().expect("it was sent");
        assert_eq!(
            (completion.id, completion.immediate),
            (1000 + self.received, immediate)
        );
        assert_eq!(completion.len, bytes.len() as u64, "{completion:?}");
        if completion.opcode == Opcode::Receive {
            let mut found = vec![0; bytes.len()];
            host.own
                .read(HALF + (self.received as usize % 8) * PLACE, &mut found);
            assert!(found == bytes, "{completion:?}");
        }
        self.received += 1;
    }
}

/// Runs so many works of each host to their ends.
pub fn run(engine: Engine, loss: u64, seed: u64, works: u64) -> Stage {
    let mut stage = Stage::new(&program(engine), loss, seed, |_| {});
    run_on(&mut stage, seed, works, 8);
    stage
}

/// The same on a stage, where each host has so many receives posted.
pub fn run_on(stage: &mut Stage, seed: u64, works: u64, receives: u64) {
    let mut scripts = [
        Script::new(seed, works, receives),
        Script::new(!seed, works, receives),
    ];
    // It ends when nothing happens any more.
    stage.run(|hosts, now| {
        loop {
            let [a, b] = hosts;
            let [first, second] = &mut scripts;
            let polled = [
                first.poll(a, &mut second.messages),
                second.poll(b, &mut first.messages),
            ];
            let posted = [first.post(a, b, now), second.post(b, a, now)];
            if polled == [false; 2] || posted != [false; 2] {
                return false;
            }
        }
    });
    let done = scripts
        .iter()
        .all(|script| script.is_done() && script.messages.is_empty());
    let state = |stack: &Stack| format!("{:?}", stack.counters());
    let left = scripts
        .each_ref()
        .map(|script| (script.left, script.under_way.len(), script.messages.len()));
    assert!(
        done,
        "seed {seed}: {left:?} {:?}",
        stage.hosts.each_ref().map(|host| state(&host.stack))
    );
    stage.assert_no_faults();
    for (script, host) in scripts.iter().zip(stage.hosts.iter().rev()) {
        let found = host.shared.region().bytes();
        assert!(
            found[..] == script.model[..],
            "seed {seed}: the memory of pair {}",
            host.pair.number()
        );
    }
}

#[test]
fn each_work_is_done_once_and_in_order() {
    for seed in 0..4 {
        run(Engine::Interp, 0, seed, 200);
    }
}

#[test]
fn nothing_is_lost_and_nothing_happens_twice_where_packets_are_lost() {
    for seed in 0..8 {
        run(Engine::Interp, 1 + seed, seed, 150);
    }
}

#[test]
fn both_engines_send_the_same_packets() {
    for seed in 0..3 {
        let [interpreted, native] = [Engine::Interp, Engine::Native].map(|engine| run(engine, 3, seed, 100));
        assert_eq!(interpreted.now, native.now, "seed {seed}");
        assert!(interpreted.packets == native.packets, "seed {seed}");
    }
}
