//! Calls: messages from endpoint to endpoint, to which the peer may reply.
//!
//! The hosts of a flow share a [`CallTable`]. The ledger checks that each message arrives at most once,
//! whole, at the host for which it was meant. [`agent`] is the application on each host, and [`content`]
//! makes the messages.

pub mod agent;
pub(in crate::app) mod content;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hawser_time::Instant;

pub use self::agent::Agent;
use self::content::MessageId;

/// The maximum number of faults of one caller in a report.
const FAULTS: usize = 4;
/// Mixed into the key for replies, so that a reply differs from its message.
const REPLIES: u64 = 0x5245_504c_5945_5321;

/// A planned call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedCall {
    /// The due time, counted from the start of the flow.
    pub due: Duration,
    /// The server, as an index into [`CallPlan::servers`].
    pub server: usize,
    /// The message's size, in bytes.
    pub size: u64,
}

/// A host that makes calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The host's number.
    pub host: usize,
    /// The address of its endpoint.
    pub address: SocketAddr,
    /// Its calls, as indices into [`CallPlan::calls`], in the order of their due times.
    pub calls: std::ops::Range<u32>,
}

/// The plan of a flow, shared by its hosts.
#[derive(Clone, Debug)]
pub struct CallPlan {
    /// The flow's number, for the trace.
    pub flow: usize,
    /// Determines the bytes of messages and the lengths of replies.
    pub key: u64,
    /// The time at which the flow starts.
    pub start: Instant,
    /// The sizes of the smallest and the largest reply, in bytes; `None` if servers do not reply.
    pub reply: Option<(u64, u64)>,
    /// The maximum number of calls in progress on one host.
    pub outstanding: Option<u64>,
    /// The time after which a failed call is retried.
    pub retry: Option<Duration>,
    /// True if connections are opened before the first call, where messages are framed on connections.
    pub connects_at_start: bool,
    /// The hosts that make calls.
    pub callers: Vec<Caller>,
    /// The hosts that are called: each host's number, and its endpoint.
    pub servers: Vec<(usize, SocketAddr)>,
    /// All planned calls.
    pub calls: Vec<PlannedCall>,
}

/// A completed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The index of the scenario's flow.
    pub flow: usize,
    /// The numbers of the calling host and of the called host.
    pub hosts: [usize; 2],
    /// The size of its message, in bytes.
    pub bytes: u64,
    /// The call's duration.
    pub took: Duration,
}

/// The stage of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallPhase {
    /// It has not begun, or waits to be retried.
    Planned,
    UnderWay,
    /// Its reply has arrived, or the transport reported that the peer has the message.
    Done,
    /// It failed, or can no longer have a reply, because a host fell. This is not a fault.
    Excused,
    Failed,
}

/// The progress of a call.
#[derive(Clone, Copy, Debug)]
struct Course {
    stage: CallPhase,
    attempt: u16,
    /// True if the first attempt has reached its server.
    served: bool,
    /// The time at which the last attempt began.
    begun: Instant,
    /// The time at which the message was first read.
    read: Option<Instant>,
    /// The time at which the call was done.
    done: Option<Instant>,
}

/// Counts of equal messages.
#[derive(Clone, Copy, Debug, Default)]
struct Alike {
    begun: u64,
    served: u64,
}

/// The totals of a caller's messages.
#[derive(Clone, Debug, Default)]
pub struct MessageTotals {
    /// The number of messages that were handed over. The next two fields count those that their servers have
    /// read, and the bytes of these.
    pub begun: u64,
    /// See [`MessageTotals::begun`].
    pub served: u64,
    /// See [`MessageTotals::begun`].
    pub served_bytes: u64,
    /// The time at which the last of them was read.
    pub served_at: Option<Instant>,
    /// The number of replies that were handed over. The next two fields count those that arrived, and the
    /// bytes of these.
    pub replied: u64,
    /// See [`MessageTotals::replied`].
    pub answered: u64,
    /// See [`MessageTotals::replied`].
    pub answered_bytes: u64,
    /// The time at which the last of them was read.
    pub answered_at: Option<Instant>,
    /// The number of failed attempts.
    pub failed: u64,
    /// The number of calls that are over, with any outcome.
    over: u64,
    faults: Vec<String>,
    /// The time of the first fault.
    failed_at: Option<Instant>,
    more: u64,
}

/// The state of all calls of a flow.
pub struct CallTable {
    plan: CallPlan,
    courses: Vec<Course>,
    tallies: Vec<MessageTotals>,
    /// The served attempts other than the first.
    served: BTreeSet<(u32, u16)>,
    /// Short messages, by caller and server.
    alike: BTreeMap<(usize, usize, MessageId), Alike>,
    by_address: BTreeMap<SocketAddr, usize>,
    /// Hosts that have been down, with the time of their last failure and whether they are still down.
    fallen: BTreeMap<usize, (Instant, bool)>,
}

impl CallTable {
    /// Creates a ledger for a plan, with no call begun.
    #[must_use]
    pub fn new(plan: CallPlan) -> CallTable {
        let course = Course {
            stage: CallPhase::Planned,
            attempt: 0,
            served: false,
            begun: plan.start,
            read: None,
            done: None,
        };
        let callers = plan.callers.iter().enumerate();
        CallTable {
            courses: vec![course; plan.calls.len()],
            tallies: vec![MessageTotals::default(); plan.callers.len()],
            served: BTreeSet::new(),
            alike: BTreeMap::new(),
            by_address: callers.map(|(number, caller)| (caller.address, number)).collect(),
            fallen: BTreeMap::new(),
            plan,
        }
    }

    /// Returns the plan of the flow.
    #[must_use]
    pub fn plan(&self) -> &CallPlan {
        &self.plan
    }

    /// Returns the totals of a caller's messages so far.
    #[must_use]
    pub fn tally(&self, caller: usize) -> &MessageTotals {
        &self.tallies[caller]
    }

    fn caller_of(&self, call: u32) -> usize {
        self.plan
            .callers
            .partition_point(|caller| caller.calls.end <= call)
    }

    fn planned(&self, call: u32) -> &PlannedCall {
        &self.plan.calls[call as usize]
    }

    fn known(&self, call: u32) -> MessageId {
        let attempt = self.courses[call as usize].attempt;
        MessageId::from_length(call, attempt, self.planned(call).size as usize)
    }

    /// Returns the address of the server of a call.
    fn server(&self, call: u32) -> SocketAddr {
        self.plan.servers[self.planned(call).server].1
    }

    /// Returns the servers of a caller.
    fn peers(&self, caller: usize) -> BTreeSet<SocketAddr> {
        let calls = self.plan.callers[caller].calls.clone();
        calls.map(|call| self.server(call)).collect()
    }

    /// Returns the endpoint of the caller with this address.
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
        matches!(known, MessageId::Part { .. }).then(|| self.alike.entry(key).or_default())
    }

    fn begin(&mut self, call: u32, now: Instant) {
        if let Some(alike) = self.alike(call) {
            alike.begun += 1;
        }
        let caller = self.caller_of(call);
        let course = &mut self.courses[call as usize];
        (course.stage, course.begun) = (CallPhase::UnderWay, now);
        if course.attempt == 0 {
            self.tallies[caller].begun += 1;
        }
    }

    /// Records a message that arrived at a host. Returns the caller and the message's identity, or `None` for
    /// an unexpected message.
    fn arrive(
        &mut self,
        host: usize,
        from: Option<SocketAddr>,
        message: &[u8],
        now: Instant,
    ) -> Option<(usize, MessageId)> {
        let caller = from.and_then(|from| self.by_address.get(&from).copied());
        let Some(caller) = caller else {
            let from = from.map_or_else(|| "nobody".to_owned(), |from| from.to_string());
            self.blame(0, now, format!("a message came from {from}, which sends none"));
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

    /// Marks a caller's message as served, or returns the reason why it was not expected.
    fn check(&mut self, host: usize, caller: usize, message: &[u8]) -> Result<MessageId, &'static str> {
        const NONE: &str = "was never sent";
        const TWICE: &str = "was delivered twice";
        let known = content::recognize(message, self.plan.key).ok_or(NONE)?;
        match known {
            MessageId::Number { call, attempt } => {
                if !self.plan.callers[caller].calls.contains(&call) {
                    return Err("belongs to another caller");
                }
                let (planned, course) = (self.plan.calls[call as usize], &mut self.courses[call as usize]);
                let is_begun = attempt < course.attempt
                    || attempt == course.attempt && course.stage != CallPhase::Planned;
                if !is_begun || planned.size != message.len() as u64 {
                    return Err(NONE);
                }
                if self.plan.servers[planned.server].0 != host {
                    return Err("arrived at the wrong host");
                }
                let is_new = match attempt {
                    0 => !std::mem::replace(&mut course.served, true),
                    _ => self.served.insert((call, attempt)),
                };
                if is_new { Ok(known) } else { Err(TWICE) }
            }
            MessageId::Part { .. } => {
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

    fn note_arrival(&mut self, caller: usize, known: MessageId, len: usize, now: Instant) {
        if let MessageId::Number { call, .. } = known {
            self.courses[call as usize].read.get_or_insert(now);
        }
        let tally = &mut self.tallies[caller];
        (tally.served, tally.served_bytes) = (tally.served + 1, tally.served_bytes + len as u64);
        tally.served_at = Some(now);
    }

    /// Returns the length of the reply to a message, in bytes; 0 if servers do not reply.
    fn reply_len(&self, known: MessageId) -> usize {
        let (min, max) = self.plan.reply.unwrap_or_default();
        let random = content::mix(known.call() ^ self.plan.key ^ REPLIES);
        let span = u128::from(max - min) + 1;
        (min + ((u128::from(random) * span) >> 64) as u64) as usize
    }

    /// Writes the reply to a message.
    fn write_reply(&self, known: MessageId, reply: &mut Vec<u8>) {
        content::write(known, self.plan.key ^ REPLIES, self.reply_len(known), reply);
    }

    fn replied(&mut self, caller: usize) {
        self.tallies[caller].replied += 1;
    }

    /// Records a reply that reached the caller.
    fn answer(&mut self, call: u32, reply: &[u8], now: Instant) {
        let (caller, known) = (self.caller_of(call), self.known(call));
        let len = reply.len();
        if self.courses[call as usize].stage != CallPhase::UnderWay {
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
            self.end(call, CallPhase::Done);
        } else {
            self.blame(
                caller,
                now,
                format!("{len} bytes are not the reply to call {call}"),
            );
            self.end(call, CallPhase::Failed);
        }
    }

    /// Records that the program reported the end of a call.
    fn close(&mut self, call: u32, now: Instant) {
        let course = &mut self.courses[call as usize];
        if course.stage != CallPhase::UnderWay {
            return;
        }
        if self.plan.reply.is_none() {
            course.done = Some(now);
            return self.end(call, CallPhase::Done);
        }
        let caller = self.caller_of(call);
        self.blame(caller, now, format!("call {call} was closed without a reply"));
        self.end(call, CallPhase::Failed);
    }

    /// Records a failed attempt; returns the time at which the next one is due.
    fn fail(&mut self, call: u32, why: &str, now: Instant) -> Option<Instant> {
        let (caller, course) = (self.caller_of(call), self.courses[call as usize]);
        if course.stage != CallPhase::UnderWay {
            return None;
        }
        self.tallies[caller].failed += 1;
        let host = self.plan.servers[self.planned(call).server].0;
        if let (Some(retry), Some(next)) = (self.plan.retry, course.attempt.checked_add(1)) {
            let course = &mut self.courses[call as usize];
            (course.stage, course.attempt) = (CallPhase::Planned, next);
            return Some(now + retry);
        }
        if self.fallen.get(&host).is_some_and(|(at, _)| *at >= course.begun) {
            self.end(call, CallPhase::Excused);
        } else {
            self.blame(caller, now, format!("call {call}: {why}"));
            self.end(call, CallPhase::Failed);
        }
        None
    }

    fn end(&mut self, call: u32, stage: CallPhase) {
        let caller = self.caller_of(call);
        self.courses[call as usize].stage = stage;
        self.tallies[caller].over += 1;
    }

    /// Records a fault.
    fn blame(&mut self, caller: usize, now: Instant, fault: String) {
        let tally = &mut self.tallies[caller];
        tally.failed_at.get_or_insert(now);
        if tally.faults.len() < FAULTS {
            tally.faults.push(fault);
        } else {
            tally.more += 1;
        }
    }

    /// Records that a host goes down or comes up. Its own calls in progress end, and it may serve again each
    /// message that it had served. It has lost its memory, and cannot distinguish a late copy of a request
    /// from the first one, even if the call is over. At-most-once semantics hold only within one life of a
    /// server (Birrell and Nelson, "Implementing Remote Procedure Calls", 1984).
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
            if is_own && self.courses[call as usize].stage == CallPhase::UnderWay {
                self.end(call, CallPhase::Excused);
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

    /// Returns the number of a caller's calls that are not over and can still end. Calls to a host that is
    /// down do not count.
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
                CallPhase::Planned | CallPhase::UnderWay
            ) && !is_down(&server)
        };
        calls.filter(waits).count() as u64
    }

    /// Returns the first call of a caller that is in progress or has not begun.
    fn oldest(&self, caller: usize) -> Option<u32> {
        let mut calls = self.plan.callers[caller].calls.clone();
        calls.find(|call| {
            matches!(
                self.courses[*call as usize].stage,
                CallPhase::Planned | CallPhase::UnderWay
            )
        })
    }

    /// Returns the first call that is not over, or else the caller's last call.
    pub(crate) fn oldest_or_last(&self, caller: usize) -> Option<u32> {
        let last = self.plan.callers[caller].calls.clone().last();
        self.oldest(caller).or(last)
    }

    /// Returns the number of the host that serves a call.
    pub(crate) fn server_host(&self, call: u32) -> Option<usize> {
        let planned = self.plan.calls.get(call as usize)?;
        Some(self.plan.servers[planned.server].0)
    }

    /// Returns the time of the first fault in a caller's messages.
    #[must_use]
    pub fn failed_at(&self, caller: usize) -> Option<Instant> {
        self.tallies[caller].failed_at
    }

    /// Returns the duration of each completed call of a caller. It is counted from the due time, or from the
    /// call's beginning if the number of calls in progress is limited.
    #[must_use]
    pub fn times(&self, caller: usize) -> Vec<Duration> {
        let calls = self.plan.callers[caller].calls.clone();
        calls.filter_map(|call| self.time(call)).collect()
    }

    /// Returns the completed calls of a caller.
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

    /// Returns the faults of a caller's messages.
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
                "{missing} messages were reported as delivered, but have not arrived"
            ));
        }
        faults
    }
}

#[cfg(test)]
mod tests;
