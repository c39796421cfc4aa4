//! A client and a server whose peers, applications and network are played by a script.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use hawser_carriers::Statistics;
use hawser_time::Instant;

use super::joined;
use super::script::Script;
use crate::scheduler::{Scheduler, by_name};
use crate::segment::MAX_SEGMENT;
use crate::{
    Acceptor, AcceptorConfig, Candidate, CarrierDecision, CarrierId, Config, Instruction, Loss, Priority,
    Session,
};

/// The maximum number of bytes that a carrier is given beyond the room it reported: control segments, and one
/// data segment.
const OVERDRAFT: usize = 65_536 + 16_384 + MAX_SEGMENT;
/// The number of timeouts at one moment that counts as an endless loop.
const CIRCLES: usize = 100;

fn config() -> Config {
    Config {
        carriers: 4,
        streams: 128,
        session_credit: 65_536,
        stream_credit: 65_536,
        max_credit: 131_072,
        send_buffer: 8_192,
        send_memory: 16_384,
        resume: Duration::from_secs(30),
        keep_alive: Duration::from_secs(5),
        candidates: vec![
            Candidate { quota: Some(20_000), ..Candidate::new(0) },
            Candidate::new(1),
            Candidate { backup: true, ..Candidate::new(2) },
        ],
        ..Config::default()
    }
}

/// A session, with the bytes that it last sent on each carrier.
struct Side {
    session: Session,
    sent: BTreeMap<CarrierId, Vec<Bytes>>,
    /// For each carrier, its reported room and the bytes it was given beyond that.
    beyond: BTreeMap<CarrierId, (usize, usize)>,
    asked: Vec<CarrierId>,
    statistics: Statistics,
}

impl Side {
    fn new(session: Session) -> Self {
        Self {
            session,
            sent: BTreeMap::new(),
            beyond: BTreeMap::new(),
            asked: Vec::new(),
            statistics: Statistics::default(),
        }
    }

    /// Carries out the session's instructions, and checks how much it keeps.
    fn settle(&mut self) {
        while let Some(instruction) = self.session.poll() {
            match instruction {
                Instruction::Connect { carrier, .. } => self.asked.push(carrier),
                Instruction::Send { carrier, head, body } => {
                    let (room, beyond) = self.beyond.entry(carrier).or_default();
                    let length = head.len() + body.len();
                    *beyond += length.saturating_sub(*room);
                    *room = room.saturating_sub(length);
                    assert!(
                        *beyond <= OVERDRAFT,
                        "{beyond} bytes for a carrier that takes none"
                    );
                    let sent = self.sent.entry(carrier).or_default();
                    sent.push(joined(&head, &body));
                    if sent.len() > 16 {
                        sent.clear();
                    }
                }
                Instruction::Close { carrier, .. } => {
                    self.beyond.remove(&carrier);
                    self.asked.retain(|asked| *asked != carrier);
                }
                Instruction::Notify(_) => {}
            }
        }
        let held = self.session.held();
        let config = config();
        assert!(held.unread <= config.max_credit, "{held:?}");
        assert!(held.unacknowledged <= config.send_memory, "{held:?}");
        assert!(held.streams <= 5 * config.streams as usize, "{held:?}");
        assert!(held.unread >= held.pieces as u64, "{held:?}");
    }
}

struct Conversation {
    sides: [Side; 2],
    acceptor: Acceptor<u32>,
    next: u32,
    now: Instant,
}

fn scheduler(name: u8) -> Box<dyn Scheduler> {
    const NAMES: [&str; 4] = ["ecf", "rr", "redundant", "blest"];
    by_name(NAMES[usize::from(name) % NAMES.len()]).expect("a scheduler that there is")
}

/// Runs two sessions. The script plays both peers, both applications, all carriers and the clock. No step may
/// panic or loop without end, and memory stays within the configured limits.
///
/// # Panics
/// Panics if one of these promises is broken.
pub fn converse(data: &[u8]) {
    let mut script = Script(data);
    let how = script.byte();
    let Some(mut talk) = Conversation::begin(how) else {
        return;
    };
    while !script.is_over() {
        talk.step(&mut script);
        talk.sides.iter_mut().for_each(Side::settle);
    }
}

impl Conversation {
    /// Starts a session over one carrier between client and server. Another carrier may follow.
    fn begin(how: u8) -> Option<Self> {
        let now = Instant::after(Duration::from_secs(1));
        let exporter = Some([7; 32]);
        let mut client = Session::client(config(), scheduler(how), [3; 16], now);
        client.connected(CarrierId(0), exporter, now);
        let mut client = Side::new(client);
        client.settle();
        let session = Config { candidates: Vec::new(), ..config() };
        let mut acceptor = Acceptor::new(AcceptorConfig { session, ..AcceptorConfig::default() });
        acceptor.accepted(0, exporter, [1; 28], now).ok()?;
        let hello = client.sent.remove(&CarrierId(0))?.concat().into();
        let verdict = acceptor.received(0, hello, || scheduler(how >> 2), now);
        let CarrierDecision::Begin { mut session, carrier, answer, .. } = verdict else {
            return None;
        };
        session.admitted(carrier, false, now);
        let mut talk = Self { sides: [client, Side::new(*session)], acceptor, next: 1, now };
        if how & 16 == 0 {
            talk.sides[0].session.received(CarrierId(0), answer, now);
        }
        for side in &mut talk.sides {
            let room = 1_000 * usize::from(how >> 5);
            side.session.room(CarrierId(0), room, now);
            side.beyond.insert(CarrierId(0), (room, 0));
            let stream = side.session.open().ok()?;
            side.session
                .write(stream, Bytes::from_static(&[7; 3_000]), now)
                .ok()?;
        }
        talk.sides.iter_mut().for_each(Side::settle);
        Some(talk)
    }

    fn step(&mut self, script: &mut Script<'_>) {
        let what = script.byte();
        let side = usize::from(what >> 7);
        let now = self.now;
        let carrier = CarrierId(u32::from(what >> 5 & 3));
        match what & 15 {
            0..=3 => {
                let word = script.word();
                self.sides[side].session.received(carrier, word, now);
            }
            4 => {
                let length = usize::from(script.byte());
                let bytes = script.bytes(length);
                self.sides[side].session.received(carrier, bytes, now);
            }
            5 => self.pass(side, carrier),
            6 | 7 => self.wait(script.time()),
            8..=10 => self.use_streams(side, script),
            11 => {
                let room = usize::from(script.byte()) << 6;
                self.sides[side].session.room(carrier, room, now);
                if let Some(beyond) = self.sides[side].beyond.get_mut(&carrier) {
                    *beyond = (room, if room > 0 { 0 } else { beyond.1 });
                }
            }
            12 => {
                let of = &mut self.sides[side];
                of.statistics = script.statistics(&of.statistics);
                of.session.statistics(carrier, of.statistics, now);
            }
            13 => self.change_carriers(side, carrier, script),
            14 => self.knock(script),
            _ => {
                if script.byte().is_multiple_of(8) {
                    self.sides[side]
                        .session
                        .close(u64::from(script.byte() % 2) * 300, now);
                }
            }
        }
    }

    /// Delivers the bytes that one side sent on a carrier to the other side.
    fn pass(&mut self, side: usize, carrier: CarrierId) {
        let sent = self.sides[side].sent.remove(&carrier).unwrap_or_default();
        for bytes in sent {
            self.sides[1 - side].session.received(carrier, bytes, self.now);
        }
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        let now = self.now;
        for side in &mut self.sides {
            let mut turns = 0;
            while side.session.next_timeout(now).is_some_and(|at| at <= now) {
                side.session.timeout(now);
                side.settle();
                turns += 1;
                assert!(turns < CIRCLES, "it runs in circles");
            }
        }
        self.acceptor.sweep(now);
    }

    /// Makes one request of an application. The conversation continues whatever the result is.
    fn use_streams(&mut self, side: usize, script: &mut Script<'_>) {
        let (session, now) = (&mut self.sides[side].session, self.now);
        let (what, id) = (script.byte(), script.stream());
        let _ = match what % 10 {
            0 => session.open().map(drop),
            1 | 2 => {
                let bytes = vec![what; usize::from(script.byte()) << 5];
                session.write(id, bytes.into(), now).map(drop)
            }
            3 | 4 => {
                let _ = session.read(id, usize::from(script.byte()) << 5, now);
                Ok(())
            }
            5 => session.finish(id, now),
            6 => session.reset(id, 9, now),
            7 => session.stop(id, 9, now),
            8 => {
                session.release(id, now);
                Ok(())
            }
            _ => session.prioritize(
                id,
                Priority { level: what >> 5, incremental: what & 16 == 0 },
                now,
            ),
        };
    }

    /// Performs one action of a carrier or the network.
    fn change_carriers(&mut self, side: usize, carrier: CarrierId, script: &mut Script<'_>) {
        let (of, now) = (&mut self.sides[side], self.now);
        match script.byte() % 8 {
            0 => of
                .session
                .lost(carrier, Loss::Transport("by the script".into()), now),
            1 => {
                if let Some(asked) = of.asked.pop() {
                    of.session.connected(asked, Some([script.byte(); 32]), now);
                }
            }
            2 if side == 1 => of.session.admitted(carrier, script.byte().is_multiple_of(2), now),
            3 => of.session.link(carrier, script.byte().is_multiple_of(2), now),
            4 => of.session.set_status(carrier, script.status(), now),
            5 => of.session.network_changed(now),
            6 => of.session.remove_path(u32::from(script.byte() % 3), now),
            _ => of.session.set_quota(0, u64::from(script.byte()) << 6, now),
        }
    }

    /// Lets an unauthenticated peer contact the acceptor.
    fn knock(&mut self, script: &mut Script<'_>) {
        self.next += 1;
        let exporter = (script.byte().is_multiple_of(2)).then_some([script.byte(); 32]);
        if self
            .acceptor
            .accepted(self.next, exporter, [script.byte(); 28], self.now)
            .is_err()
        {
            return;
        }
        let first = match script.byte() % 2 {
            0 => script.word(),
            _ => script.bytes(99),
        };
        for piece in [first, script.bytes(9)] {
            if !matches!(
                self.acceptor
                    .received(self.next, piece, || scheduler(0), self.now),
                CarrierDecision::More
            ) {
                return;
            }
        }
    }
}
