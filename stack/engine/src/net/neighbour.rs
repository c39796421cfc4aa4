//! Who on the link has which Ethernet address: one table and one set of rules, those of RFC 4861,
//! 7.3, for ARP and neighbour discovery alike.
//!
//! ```text
//!            asked              answered            30 s               used
//! (nothing) ───────> Incomplete ───────> Reachable ─────> Stale ─────────────> Delay
//!                     │ 3 tries             ^               ^ heard of           │ 5 s
//!                     v                     └── answered ───┼──────── Probe <────┘
//!                  forgotten <──────────────────── 3 tries ─┴───────────┘
//! ```
//!
//! Packets wait for an Incomplete neighbour alone. Bounded: [`MAX_NEIGHBOURS`] entries, of them
//! [`MAX_ASKED`] Incomplete, [`MAX_WAITING_EACH`] packets waiting for one and [`MAX_WAITING`] for all.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use hawser_time::Instant;

use crate::wire::TxFrame;

use super::address::Ip;
use super::ethernet::Mac;

/// The maximum number of entries.
pub(super) const MAX_NEIGHBOURS: usize = 256;
/// Of these, how many may be asked for at a time: a host that asks for us finds a place, however many absent ones we
/// were made to send to.
pub(super) const MAX_ASKED: usize = MAX_NEIGHBOURS / 2;
/// The maximum number of packets that wait for one address; the oldest is dropped (RFC 4861, 7.2.2). Enough for
/// the first packets of some thousand connections that are opened at once: one that is lost here
/// costs its connection a second.
pub(super) const MAX_WAITING_EACH: usize = 4096;
/// The maximum number of packets that wait for addresses in all; beyond it a new one is dropped. Of those
/// without payload, 1 MB.
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
    /// When the state ends; without meaning in Stale.
    until: Instant,
    /// Solicitations sent in this state.
    tries: u8,
    /// When a packet was last sent to it.
    used: Instant,
    waiting: VecDeque<TxFrame>,
}

/// What [`Neighbours::resolve`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resolved {
    /// The address.
    Known(Mac),
    /// It was asked for before: the packet is to wait.
    Pending,
    /// It is to be asked for now, and the packet is to wait.
    Unknown,
    /// As many as may be are being asked for.
    Full,
}

/// A question to ask the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Solicit {
    pub(super) ip: Ip,
    /// Whom to ask; nobody in particular when nothing is known.
    pub(super) mac: Option<Mac>,
}

/// What was learnt of a neighbour.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) mac: Option<Mac>,
    /// It answers a question of ours, and so proves that the neighbour receives us.
    pub(super) solicited: bool,
    /// It may replace a different address.
    pub(super) overrides: bool,
}

/// The table.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    table: BTreeMap<Ip, Neighbour>,
    /// The number of Incomplete entries, kept here: a flood in the names of absent hosts has each packet ask.
    asked: usize,
    waiting: usize,
    /// No later than the first state's end that calls for something to be done.
    next: Option<Instant>,
}

impl Neighbours {
    /// The Ethernet address of `ip`, to send something to it.
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

    /// Keeps a packet until the address of `ip`, just found unknown, is known. Returns how many
    /// packets were dropped for it: itself, or an older one.
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

    /// A neighbour asked for us and stated who it is. Returns the packets that waited for it.
    pub(super) fn learn(&mut self, now: Instant, ip: Ip, mac: Mac) -> (Mac, VecDeque<TxFrame>) {
        if let Some(neighbour) = self.table.get_mut(&ip) {
            // RFC 4861, 7.2.3: only news makes it stale.
            if neighbour.state == State::Incomplete || neighbour.mac != mac {
                self.asked -= usize::from(neighbour.state == State::Incomplete);
                neighbour.state = State::Stale;
                neighbour.mac = mac;
            }
            return (mac, self.release(&ip));
        }
        // Others cannot push out what we use ourselves.
        if self.make_room(|state| state == State::Stale) {
            self.insert(ip, State::Stale, mac, now, now);
        }
        (mac, VecDeque::new())
    }

    /// A neighbour answered (RFC 4861, 7.2.5; an ARP reply is a solicited answer that overrides).
    /// Returns its address and the packets that waited for it.
    pub(super) fn answered(&mut self, now: Instant, ip: Ip, answer: Answer) -> (Mac, VecDeque<TxFrame>) {
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

    /// How many entries there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// When [`Neighbours::poll`] has something to do, or earlier.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.next
    }

    /// Ends what has lasted long enough. Appends the questions to ask, and returns how many
    /// waiting packets were dropped.
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

    /// Makes sure that there is room for one more entry, at the cost of the one that was used
    /// least recently among those in a state that `may_go`.
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
    /// When something must be done about it: a Reachable or Stale one waits to be used.
    fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Incomplete | State::Delay | State::Probe => Some(self.until),
            State::Reachable | State::Stale => None,
        }
    }

    /// Does what the end of its state calls for; false when it is to be forgotten.
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
