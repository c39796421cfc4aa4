//! Calls: messages from endpoint to endpoint, to which the peer replies, or not.
//!
//! The hosts of a flow share a [`Ledger`], in which each message is found once at most, whole, at the host that it
//! was for. [`agent`] is what stands on each host, [`content`] what messages are made of.

pub mod agent;
pub(in crate::app) mod content;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hawser_time::Instant;

pub use self::agent::Agent;
use self::content::Known;

/// How many faults of one caller are reported.
const FAULTS: usize = 4;
/// Replies have another key than what they reply to.
const REPLIES: u64 = 0x5245_504c_5945_5321;

/// A call that is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// When, from the start of the flow.
    pub due: Duration,
    /// Whom, as a place among [`Plan::servers`].
    pub server: usize,
    /// How many bytes.
    pub size: u64,
}

/// A host that calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Its number.
    pub host: usize,
    /// Its endpoint.
    pub address: SocketAddr,
    /// What it calls, as places in [`Plan::calls`], in the order in which it is due.
    pub calls: std::ops::Range<u32>,
}

/// What the hosts of a flow do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The flow's number, for the trace.
    pub flow: usize,
    /// Decides what messages are made of, and how long replies are.
    pub key: u64,
    /// When it starts.
    pub start: Instant,
    /// The smallest and the largest reply; without it nobody replies.
    pub reply: Option<(u64, u64)>,
    /// How many calls of a host may be under way.
    pub outstanding: Option<u64>,
    /// How long after it has failed a call is made again.
    pub retry: Option<Duration>,
    /// Whether connections are opened before anything is called, where messages are framed on connections.
    pub connects_at_start: bool,
    /// Who calls.
    pub callers: Vec<Caller>,
    /// Who is called: a host's number, and its endpoint.
    pub servers: Vec<(usize, SocketAddr)>,
    /// All calls.
    pub calls: Vec<Planned>,
}

/// A call that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The scenario's flow.
    pub flow: usize,
    /// Who called whom.
    pub hosts: [usize; 2],
    /// The bytes of its message.
    pub bytes: u64,
    /// How long it took.
    pub took: Duration,
}

/// How far a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It has not begun, or is to be made again.
    Planned,
    UnderWay,
    /// Its reply has come, or the transport reported that the peer has the message.
    Done,
    /// It failed, or cannot have a reply any more, because a host fell. Nothing is missing.
    Excused,
    /// It failed.
    Failed,
}

/// A call in its course.
#[derive(Clone, Copy, Debug)]
struct Course {
    stage: Stage,
    attempt: u16,
    /// The first attempt has reached its server.
    served: bool,
    /// When the last attempt began.
    begun: Instant,
    /// When the message first was read.
    read: Option<Instant>,
    /// When it was done.
    done: Option<Instant>,
}

/// Messages that are alike.
#[derive(Clone, Copy, Debug, Default)]
struct Alike {
    begun: u64,
    served: u64,
}

/// What a caller's messages have come to.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Messages that were handed over, and bytes and number of those that their servers have read.
    pub begun: u64,
    /// See [`Tally::begun`].
    pub served: u64,
    /// See [`Tally::begun`].
    pub served_bytes: u64,
    /// When the last of them was read.
    pub served_at: Option<Instant>,
    /// Replies that were handed over, and bytes and number of those that have come.
    pub replied: u64,
    /// See [`Tally::replied`].
    pub answered: u64,
    /// See [`Tally::replied`].
    pub answered_bytes: u64,
    /// When the last of them was read.
    pub answered_at: Option<Instant>,
    /// Attempts that failed.
    pub failed: u64,
    /// Calls that are over, whatever has become of them.
    over: u64,
    faults: Vec<String>,
    /// When the first of them happened.
    failed_at: Option<Instant>,
    more: u64,
}

/// What has become of the calls of a flow.
pub struct Ledger {
    plan: Plan,
    courses: Vec<Course>,
    tallies: Vec<Tally>,
    /// Attempts after the first that were served.
    served: BTreeSet<(u32, u16)>,
    /// Short messages, by caller and server.
    alike: BTreeMap<(usize, usize, Known), Alike>,
    by_address: BTreeMap<SocketAddr, usize>,
    /// Hosts that have been down, when they went down last, and whether they still are.
    fallen: BTreeMap<usize, (Instant, bool)>,
}

impl Ledger {
    /// A ledger in which nothing has happened.
    #[must_use]
    pub fn new(plan: Plan) -> Ledger {
        let course = Course {
            stage: Stage::Planned,
            attempt: 0,
            served: false,
            begun: plan.start,
            read: None,
            done: None,
        };
        let callers = plan.callers.iter().enumerate();
        Ledger {
            courses: vec![course; plan.calls.len()],
            tallies: vec![Tally::default(); plan.callers.len()],
            served: BTreeSet::new(),
            alike: BTreeMap::new(),
            by_address: callers.map(|(number, caller)| (caller.address, number)).collect(),
            fallen: BTreeMap::new(),
            plan,
        }
    }

    /// What is done.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What a caller's messages have come to so far.
    #[must_use]
    pub fn tally(&self, caller: usize) -> &Tally {
        &self.tallies[caller]
    }

    fn caller_of(&self, call: u32) -> usize {
        self.plan
            .callers
            .partition_point(|caller| caller.calls.end <= call)
    }

    fn planned(&self, call: u32) -> &Planned {
        &self.plan.calls[call as usize]
    }

    fn known(&self, call: u32) -> Known {
        let attempt = self.courses[call as usize].attempt;
        Known::of(call, attempt, self.planned(call).size as usize)
    }

    /// Where a call goes.
    fn server(&self, call: u32) -> SocketAddr {
        self.plan.servers[self.planned(call).server].1
    }

    /// Whom a caller calls.
    fn peers(&self, caller: usize) -> BTreeSet<SocketAddr> {
        let calls = self.plan.callers[caller].calls.clone();
        calls.map(|call| self.server(call)).collect()
    }

    /// The endpoint of the caller whose address this is.
    fn endpoint_at(&self, address: IpAddr) -> Option<SocketAddr> {
        let ports = SocketAddr::new(address, 0)..=SocketAddr::new(address, u16::MAX);
        self.by_address.range(ports).next().map(|(endpoint, _)| *endpoint)
    }

    fn due(&self, call: u32) -> Instant {
        self.plan.start + self.planned(call).due
    }

    /// Writes the message of a call's next attempt.
    fn write(&self, call: u32, message: &mut Vec<u8>) {
        let size = self.planned(call).size as usize;
        content::write(self.known(call), self.plan.key, size, message);
    }

    fn alike(&mut self, call: u32) -> Option<&mut Alike> {
        let known = self.known(call);
        let key = (self.caller_of(call), self.planned(call).server, known);
        matches!(known, Known::Part { .. }).then(|| self.alike.entry(key).or_default())
    }

    fn begin(&mut self, call: u32, now: Instant) {
        if let Some(alike) = self.alike(call) {
            alike.begun += 1;
        }
        let caller = self.caller_of(call);
        let course = &mut self.courses[call as usize];
        (course.stage, course.begun) = (Stage::UnderWay, now);
        if course.attempt == 0 {
            self.tallies[caller].begun += 1;
        }
    }

    /// A message has come to a host: the call that it is of, as far as it is known, unless it ought not to have come.
    fn arrive(
        &mut self,
        host: usize,
        from: Option<SocketAddr>,
        message: &[u8],
        now: Instant,
    ) -> Option<(usize, Known)> {
        let caller = from.and_then(|from| self.by_address.get(&from).copied());
        let Some(caller) = caller else {
            let from = from.map_or_else(|| "nobody".to_owned(), |from| from.to_string());
            self.blame(0, now, format!("a message came from {from}, who sends none"));
            return None;
        };
        let len = message.len();
        match self.check(host, caller, message) {
            Ok(known) => {
                self.note_arrival(caller, known, len, now);
                Some((caller, known))
            }
            Err(fault) => {
                self.blame(caller, now, format!("a message of {len} bytes {fault}"));
                None
            }
        }
    }

    /// Marks a message of a caller as served; why it ought not to have come.
    fn check(&mut self, host: usize, caller: usize, message: &[u8]) -> Result<Known, &'static str> {
        const NONE: &str = "is none that was sent";
        const TWICE: &str = "was delivered twice";
        let known = content::recognize(message, self.plan.key).ok_or(NONE)?;
        match known {
            Known::Number { call, attempt } => {
                if !self.plan.callers[caller].calls.contains(&call) {
                    return Err("is another caller's");
                }
                let (planned, course) = (self.plan.calls[call as usize], &mut self.courses[call as usize]);
                let is_begun =
                    attempt < course.attempt || attempt == course.attempt && course.stage != Stage::Planned;
                if !is_begun || planned.size != message.len() as u64 {
                    return Err(NONE);
                }
                if self.plan.servers[planned.server].0 != host {
                    return Err("came to another host than it was for");
                }
                let is_new = match attempt {
                    0 => !std::mem::replace(&mut course.served, true),
                    _ => self.served.insert((call, attempt)),
                };
                if is_new { Ok(known) } else { Err(TWICE) }
            }
            Known::Part { .. } => {
                let server = self
                    .plan
                    .servers
                    .iter()
                    .position(|server| server.0 == host)
                    .ok_or(NONE)?;
                let alike = self.alike.get_mut(&(caller, server, known)).ok_or(NONE)?;
                if alike.served == alike.begun {
                    return Err(TWICE);
                }
                alike.served += 1;
                Ok(known)
            }
        }
    }

    fn note_arrival(&mut self, caller: usize, known: Known, len: usize, now: Instant) {
        if let Known::Number { call, .. } = known {
            self.courses[call as usize].read.get_or_insert(now);
        }
        let tally = &mut self.tallies[caller];
        (tally.served, tally.served_bytes) = (tally.served + 1, tally.served_bytes + len as u64);
        tally.served_at = Some(now);
    }

    /// How long the reply to a message is; 0 where nobody replies.
    fn reply_len(&self, known: Known) -> usize {
        let (min, max) = self.plan.reply.unwrap_or_default();
        let random = content::mix(known.call() ^ self.plan.key ^ REPLIES);
        let span = u128::from(max - min) + 1;
        (min + ((u128::from(random) * span) >> 64) as u64) as usize
    }

    /// Writes the reply to a message.
    fn write_reply(&self, known: Known, reply: &mut Vec<u8>) {
        content::write(known, self.plan.key ^ REPLIES, self.reply_len(known), reply);
    }

    fn replied(&mut self, caller: usize) {
        self.tallies[caller].replied += 1;
    }

    /// A reply has come to who made the call.
    fn answer(&mut self, call: u32, reply: &[u8], now: Instant) {
        let (caller, known) = (self.caller_of(call), self.known(call));
        let len = reply.len();
        if self.courses[call as usize].stage != Stage::UnderWay {
            self.blame(
                caller,
                now,
                format!("a second reply came to call {call}, of {len} bytes"),
            );
        } else if content::is(known, self.plan.key ^ REPLIES, self.reply_len(known), reply) {
            let tally = &mut self.tallies[caller];
            (tally.answered, tally.answered_bytes) = (tally.answered + 1, tally.answered_bytes + len as u64);
            tally.answered_at = Some(now);
            self.courses[call as usize].done = Some(now);
            self.end(call, Stage::Done);
        } else {
            self.blame(
                caller,
                now,
                format!("{len} bytes are not the reply to call {call}"),
            );
            self.end(call, Stage::Failed);
        }
    }

    /// The program reported that nothing more comes of a call.
    fn close(&mut self, call: u32, now: Instant) {
        let course = &mut self.courses[call as usize];
        if course.stage != Stage::UnderWay {
            return;
        }
        if self.plan.reply.is_none() {
            course.done = Some(now);
            return self.end(call, Stage::Done);
        }
        let caller = self.caller_of(call);
        self.blame(caller, now, format!("call {call} was closed without a reply"));
        self.end(call, Stage::Failed);
    }

    /// An attempt has failed: when the next one is due.
    fn fail(&mut self, call: u32, why: &str, now: Instant) -> Option<Instant> {
        let (caller, course) = (self.caller_of(call), self.courses[call as usize]);
        if course.stage != Stage::UnderWay {
            return None;
        }
        self.tallies[caller].failed += 1;
        let host = self.plan.servers[self.planned(call).server].0;
        if let (Some(retry), Some(next)) = (self.plan.retry, course.attempt.checked_add(1)) {
            let course = &mut self.courses[call as usize];
            (course.stage, course.attempt) = (Stage::Planned, next);
            return Some(now + retry);
        }
        if self.fallen.get(&host).is_some_and(|(at, _)| *at >= course.begun) {
            self.end(call, Stage::Excused);
        } else {
            self.blame(caller, now, format!("call {call}: {why}"));
            self.end(call, Stage::Failed);
        }
        None
    }

    fn end(&mut self, call: u32, stage: Stage) {
        let caller = self.caller_of(call);
        self.courses[call as usize].stage = stage;
        self.tallies[caller].over += 1;
    }

    /// Notes what went wrong.
    fn blame(&mut self, caller: usize, now: Instant, fault: String) {
        let tally = &mut self.tallies[caller];
        tally.failed_at.get_or_insert(now);
        if tally.faults.len() < FAULTS {
            tally.faults.push(fault);
        } else {
            tally.more += 1;
        }
    }

    /// A host goes down or comes up: what it had called has no end, and what it had served it may serve once more. It has
    /// lost its memory, and cannot tell a copy of a request that is late from the first one, be the call over or not
    /// (Birrell and Nelson, "Implementing Remote Procedure Calls", 1984: at most once is promised in one life of a
    /// server).
    fn fall(&mut self, host: usize, now: Instant, up: bool) {
        if up {
            if let Some((_, is_down)) = self.fallen.get_mut(&host) {
                *is_down = false;
            }
            return;
        }
        self.fallen.insert(host, (now, true));
        for call in 0..self.courses.len() as u32 {
            let is_own = self.plan.callers[self.caller_of(call)].host == host;
            if is_own && self.courses[call as usize].stage == Stage::UnderWay {
                self.end(call, Stage::Excused);
            }
            let is_called = self.plan.servers[self.planned(call).server].0 == host;
            self.courses[call as usize].served &= !is_called;
        }
        let plan = &self.plan;
        let of_host = |server: usize| plan.servers[server].0 == host;
        self.served
            .retain(|(call, _)| !of_host(plan.calls[*call as usize].server));
        let alike = self
            .alike
            .iter_mut()
            .filter(|((_, server, _), _)| of_host(*server));
        alike.for_each(|(_, alike)| alike.served = 0);
    }

    /// Calls of a caller that are to come to an end and have not: not those to a host that is down.
    fn left(&self, caller: usize) -> u64 {
        let calls = self.plan.callers[caller].calls.clone();
        let left = u64::from(calls.end - calls.start) - self.tallies[caller].over;
        let is_down = |host: &usize| self.fallen.get(host).is_some_and(|(_, is_down)| *is_down);
        if left == 0 || !self.fallen.keys().any(is_down) {
            return left;
        }
        let waits = |call: &u32| {
            let server = self.plan.servers[self.planned(*call).server].0;
            matches!(
                self.courses[*call as usize].stage,
                Stage::Planned | Stage::UnderWay
            ) && !is_down(&server)
        };
        calls.filter(waits).count() as u64
    }

    /// The first call of a caller that is under way, or has not begun.
    fn oldest(&self, caller: usize) -> Option<u32> {
        let mut calls = self.plan.callers[caller].calls.clone();
        calls.find(|call| {
            matches!(
                self.courses[*call as usize].stage,
                Stage::Planned | Stage::UnderWay
            )
        })
    }

    /// The same, or its last one.
    pub(crate) fn oldest_or_last(&self, caller: usize) -> Option<u32> {
        let last = self.plan.callers[caller].calls.clone().last();
        self.oldest(caller).or(last)
    }

    /// The number of the host that a call goes to.
    pub(crate) fn server_host(&self, call: u32) -> Option<usize> {
        let planned = self.plan.calls.get(call as usize)?;
        Some(self.plan.servers[planned.server].0)
    }

    /// When something first went wrong with a caller's messages.
    #[must_use]
    pub fn failed_at(&self, caller: usize) -> Option<Instant> {
        self.tallies[caller].failed_at
    }

    /// How long each call of a caller has taken that is done: from when it was due, or had begun where the number of
    /// those under way is limited.
    #[must_use]
    pub fn times(&self, caller: usize) -> Vec<Duration> {
        let calls = self.plan.callers[caller].calls.clone();
        calls.filter_map(|call| self.time(call)).collect()
    }

    /// The calls of a caller of a flow that are done.
    pub(crate) fn done(&self, flow: usize, caller: usize) -> impl Iterator<Item = Call> + '_ {
        let Caller { host, calls, .. } = &self.plan.callers[caller];
        calls.clone().filter_map(move |call| {
            let planned = self.planned(call);
            Some(Call {
                flow,
                hosts: [*host, self.plan.servers[planned.server].0],
                bytes: planned.size,
                took: self.time(call)?,
            })
        })
    }

    fn time(&self, call: u32) -> Option<Duration> {
        let course = &self.courses[call as usize];
        let from = match self.plan.outstanding {
            Some(_) => course.begun,
            None => self.due(call),
        };
        Some(course.done? - from)
    }

    /// What is wrong with a caller's messages.
    #[must_use]
    pub fn faults(&self, caller: usize) -> Vec<String> {
        let tally = &self.tallies[caller];
        let mut faults = tally.faults.clone();
        if tally.more > 0 {
            faults.push(format!("{} faults more", tally.more));
        }
        let all = self.plan.callers[caller].calls.len();
        let down = |host: usize| self.fallen.get(&host).is_some_and(|(_, is_down)| *is_down);
        if self.left(caller) > 0 && !down(self.plan.callers[caller].host) {
            let over = tally.over;
            let oldest = self.oldest(caller).map_or_else(String::new, |call| {
                format!("; call {call} to {} is the first that is not", self.server(call))
            });
            faults.push(format!(
                "not done: {over} of {all} calls are over, {} begun{oldest}",
                tally.begun
            ));
        }
        if self.plan.reply.is_none()
            && tally.served < tally.begun
            && faults.is_empty()
            && self.fallen.is_empty()
        {
            let missing = tally.begun - tally.served;
            faults.push(format!(
                "{missing} messages were reported as delivered, and have not come"
            ));
        }
        faults
    }
}

#[cfg(test)]
mod tests;
