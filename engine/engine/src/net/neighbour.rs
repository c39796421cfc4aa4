//! The Ethernet addresses of neighbours: one table and one set of rules, those of RFC 4861, 7.3, for ARP and
//! neighbour discovery alike.
//!
//! ```text
//!            asked              answered            30 s               used
//! (nothing) ───────> Incomplete ───────> Reachable ─────> Stale ─────────────> Delay
//!                     │ 3 tries             ^               ^ heard of           │ 5 s
//!                     v                     └── answered ───┼──────── Probe <────┘
//!                  forgotten <──────────────────── 3 tries ─┴───────────┘
//! ```
//!
//! Packets wait only for an Incomplete neighbour. The table holds at most [`MAX_NEIGHBOURS`] entries, of
//! which [`MAX_ASKED`] may be Incomplete. At most [`MAX_WAITING_EACH`] packets wait for one neighbour and
//! [`MAX_WAITING`] for all.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use hawser_time::Instant;

use crate::wire::TxFrame;

use super::address::Ip;
use super::ethernet::Mac;

/// The maximum number of entries.
pub(super) const MAX_NEIGHBOURS: usize = 256;
/// The maximum number of Incomplete entries. A host that asks for us always finds room, however many absent
/// hosts we were made to send to.
pub(super) const MAX_ASKED: usize = MAX_NEIGHBOURS / 2;
/// The maximum number of packets that wait for one address; beyond it the oldest is dropped (RFC 4861,
/// 7.2.2). It is enough for the first packets of some thousand connections that are opened at once: a lost
/// one delays its connection by a second.
pub(super) const MAX_WAITING_EACH: usize = 4096;
/// The maximum number of packets that wait for all addresses; beyond it a new one is dropped. Without
/// payload, they take 1 MB.
pub(super) const MAX_WAITING: usize = 2 * MAX_WAITING_EACH;

/// RFC 4861, 10: REACHABLE_TIME.
const REACHABLE_TIME: Duration = Duration::from_secs(30);
/// RFC 4861, 10: RETRANS_TIMER.
const RETRANS_TIMER: Duration = Duration::from_secs(1);
/// RFC 4861, 10: DELAY_FIRST_PROBE_TIME.
const DELAY_FIRST_PROBE: Duration = Duration::from_secs(5);
/// RFC 4861, 10: MAX_MULTICAST_SOLICIT and MAX_UNICAST_SOLICIT.
const MAX_SOLICIT: u8 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Incomplete,
    Reachable,
    Stale,
    Delay,
    Probe,
}

#[derive(Debug)]
struct Neighbour {
    state: State,
    mac: Mac,
    /// The time at which the state ends; without meaning in Stale.
    until: Instant,
    /// The number of solicitations sent in this state.
    tries: u8,
    /// The time at which a packet was last sent to the neighbour.
    used: Instant,
    waiting: VecDeque<TxFrame>,
}

/// The result of [`Neighbours::resolve`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resolved {
    /// The address is known.
    Known(Mac),
    /// The address was requested before; the packet is to wait.
    Pending,
    /// The caller is to request the address now, and the packet is to wait.
    Unknown,
    /// The maximum number of addresses is being requested.
    Full,
}

/// A request for an address, to be sent on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Solicit {
    pub(super) ip: Ip,
    /// The Ethernet address to ask; `None` if it is unknown, which asks all nodes.
    pub(super) mac: Option<Mac>,
}

/// The content of a neighbour's answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct NeighbourAdvertisement {
    pub(super) mac: Option<Mac>,
    /// True if it answers a request of ours, which proves that the neighbour receives our packets.
    pub(super) solicited: bool,
    /// True if it may replace a different address.
    pub(super) overrides: bool,
}

/// The neighbour table.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    table: BTreeMap<Ip, Neighbour>,
    /// The number of Incomplete entries. It is stored because, in a flood that names absent hosts, each
    /// packet asks for it.
    asked: usize,
    waiting: usize,
    /// The earliest end of a state that requires action, or an earlier time.
    next: Option<Instant>,
}

impl Neighbours {
    /// Returns the Ethernet address of `ip`, for sending to it.
    pub(super) fn resolve(&mut self, now: Instant, ip: Ip) -> Resolved {
        if let Some(neighbour) = self.table.get_mut(&ip) {
            neighbour.used = now;
            match neighbour.state {
                State::Incomplete => return Resolved::Pending,
                State::Reachable if now < neighbour.until => {}
                State::Reachable | State::Stale => {
                    neighbour.state = State::Delay;
                    neighbour.until = now + DELAY_FIRST_PROBE;
                    arm(&mut self.next, neighbour.until);
                }
                State::Delay | State::Probe => {}
            }
            return Resolved::Known(neighbour.mac);
        }
        if self.asked >= MAX_ASKED || !self.make_room(|state| state != State::Incomplete) {
            return Resolved::Full;
        }
        self.asked += 1;
        self.insert(ip, State::Incomplete, [0; 6], now, now + RETRANS_TIMER);
        Resolved::Unknown
    }

    /// Keeps a packet until the address of `ip`, which has just been found unknown, is known. Returns the
    /// number of packets that were dropped for it: itself, or an older one.
    pub(super) fn hold(&mut self, ip: &Ip, frame: TxFrame) -> u32 {
        let Some(neighbour) = self.table.get_mut(ip) else {
            return 1;
        };
        if neighbour.waiting.len() >= MAX_WAITING_EACH {
            neighbour.waiting.pop_front();
            neighbour.waiting.push_back(frame);
            return 1;
        }
        if self.waiting >= MAX_WAITING {
            return 1;
        }
        neighbour.waiting.push_back(frame);
        self.waiting += 1;
        0
    }

    /// Records the address of a neighbour that asked for us. Returns the packets that waited for it.
    pub(super) fn learn(&mut self, now: Instant, ip: Ip, mac: Mac) -> (Mac, VecDeque<TxFrame>) {
        if let Some(neighbour) = self.table.get_mut(&ip) {
            // RFC 4861, 7.2.3: only a different address makes it stale.
            if neighbour.state == State::Incomplete || neighbour.mac != mac {
                self.asked -= usize::from(neighbour.state == State::Incomplete);
                neighbour.state = State::Stale;
                neighbour.mac = mac;
            }
            return (mac, self.release(&ip));
        }
        // Other hosts cannot evict an entry that we use ourselves.
        if self.make_room(|state| state == State::Stale) {
            self.insert(ip, State::Stale, mac, now, now);
        }
        (mac, VecDeque::new())
    }

    /// Records a neighbour's answer (RFC 4861, 7.2.5; an ARP reply is a solicited answer that overrides).
    /// Returns its address and the packets that waited for it.
    pub(super) fn answered(
        &mut self,
        now: Instant,
        ip: Ip,
        answer: NeighbourAdvertisement,
    ) -> (Mac, VecDeque<TxFrame>) {
        let nothing = ([0; 6], VecDeque::new());
        let Some(neighbour) = self.table.get_mut(&ip) else {
            return nothing;
        };
        let differs = answer.mac.is_some_and(|mac| mac != neighbour.mac);
        match (neighbour.state, answer.mac) {
            (State::Incomplete, None) => return nothing,
            (State::Incomplete, Some(_)) => {}
            (State::Reachable, _) if differs && !answer.overrides => {
                neighbour.state = State::Stale;
                return nothing;
            }
            (_, _) if differs && !answer.overrides => return nothing,
            (_, _) => {}
        }
        let was_asked = neighbour.state == State::Incomplete;
        self.asked -= usize::from(was_asked);
        let is_news = differs || was_asked;
        neighbour.mac = answer.mac.unwrap_or(neighbour.mac);
        if answer.solicited {
            neighbour.state = State::Reachable;
            neighbour.until = now + REACHABLE_TIME;
        } else if is_news {
            neighbour.state = State::Stale;
        }
        (neighbour.mac, self.release(&ip))
    }

    /// Returns the number of entries.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns the time of the next work for [`Neighbours::poll`], or an earlier time.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.next
    }

    /// Ends states whose time has come. Appends the requests to send, and returns the number of waiting
    /// packets that were dropped.
    pub(super) fn poll(&mut self, now: Instant, questions: &mut Vec<Solicit>) -> u32 {
        if self.next.is_none_or(|next| now < next) {
            return 0;
        }
        let mut dropped = 0;
        self.table.retain(|ip, neighbour| {
            let keeps = neighbour.advance(*ip, now, questions);
            if !keeps {
                dropped += neighbour.waiting.len();
            }
            keeps
        });
        self.waiting -= dropped;
        self.asked = self
            .table
            .values()
            .filter(|n| n.state == State::Incomplete)
            .count();
        self.next = self.table.values().filter_map(Neighbour::deadline).min();
        dropped as u32
    }

    fn insert(&mut self, ip: Ip, state: State, mac: Mac, now: Instant, until: Instant) {
        let neighbour = Neighbour { state, mac, until, tries: 1, used: now, waiting: VecDeque::new() };
        if let Some(deadline) = neighbour.deadline() {
            arm(&mut self.next, deadline);
        }
        self.table.insert(ip, neighbour);
    }

    /// Makes room for one more entry by evicting the least recently used one among those in a state that
    /// `may_go`. Returns false if that is impossible.
    fn make_room(&mut self, may_go: impl Fn(State) -> bool) -> bool {
        if self.table.len() < MAX_NEIGHBOURS {
            return true;
        }
        let candidates = self.table.iter().filter(|(_, n)| may_go(n.state));
        let Some(oldest) = candidates.min_by_key(|(_, n)| n.used).map(|(ip, _)| *ip) else {
            return false;
        };
        self.table.remove(&oldest);
        true
    }

    fn release(&mut self, ip: &Ip) -> VecDeque<TxFrame> {
        let released = self
            .table
            .get_mut(ip)
            .map(|n| std::mem::take(&mut n.waiting))
            .unwrap_or_default();
        self.waiting -= released.len();
        released
    }
}

impl Neighbour {
    /// Returns the time at which the entry requires action. A Reachable or Stale entry has no such time until
    /// it is used.
    fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Incomplete | State::Delay | State::Probe => Some(self.until),
            State::Reachable | State::Stale => None,
        }
    }

    /// Performs the action that the end of the state requires; returns false if the entry is to be removed.
    fn advance(&mut self, ip: Ip, now: Instant, questions: &mut Vec<Solicit>) -> bool {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return true;
        }
        match self.state {
            State::Incomplete | State::Probe if self.tries >= MAX_SOLICIT => return false,
            State::Incomplete | State::Probe => self.tries += 1,
            State::Delay => {
                self.state = State::Probe;
                self.tries = 1;
            }
            State::Reachable | State::Stale => return true,
        }
        self.until = now + RETRANS_TIMER;
        questions.push(Solicit { ip, mac: (self.state == State::Probe).then_some(self.mac) });
        true
    }
}

fn arm(next: &mut Option<Instant>, deadline: Instant) {
    *next = Some(next.map_or(deadline, |next| next.min(deadline)));
}
