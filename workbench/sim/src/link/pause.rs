//! Priority-based flow control (PFC, IEEE 802.1Qbb) of a switch.
//!
//! A switch counts the bytes that it holds by ingress port and by priority. When the count reaches the
//! threshold XOFF, it asks the sender at the other end of the port to pause this priority. When the count has
//! fallen to XON, it asks the sender to resume. Frames that arrive before the pause takes effect are held in
//! headroom above XOFF; frames beyond the headroom are lost.
//!
//! A pause is a frame of 64 bytes. It leaves behind the frame that is on the line back, and takes that line's
//! time and the link's delay to arrive ([`super::Rule::control`]). It does not interrupt the frame on the
//! line. Decision 79 lists the omissions.

use crate::scenario::Thresholds;
use hawser_time::Instant;
use parking_lot::Mutex;

use crate::frame::Frame;

/// The maximum number of priorities.
const PRIORITIES: usize = 8;

/// The bytes that wait in a switch, by ingress port and by priority.
#[derive(Debug)]
pub struct Ingress {
    thresholds: Thresholds,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    ports: Vec<IngressPort>,
    /// Pause frames that are to be sent and have not been taken.
    orders: Vec<PauseFrame>,
}

/// An ingress port.
#[derive(Debug)]
struct IngressPort {
    /// The pipe that ends here, which is paused.
    pipe: usize,
    /// The pipe that leads back, which carries pause frames.
    back: usize,
    /// The arrival time of the last pause frame: pause frames do not overtake one another.
    last: Instant,
    accounts: [Account; PRIORITIES],
}

/// The waiting bytes of one priority.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    bytes: u64,
    max_bytes: u64,
    lost: u64,
    pauses: u64,
    /// True if the last order was a pause.
    is_asked: bool,
    /// The time since which the sender has paused, if it is paused.
    since: Option<Instant>,
    /// The total time of earlier pauses, in nanoseconds.
    nanos: u64,
}

/// A frame that requests a pause, or that ends one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseFrame {
    /// The port, counted from 1.
    port: u16,
    /// The switch's priority.
    priority: u8,
    /// True if it requests a pause.
    is_pause: bool,
}

/// The pauses of one priority on the link to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pauses {
    /// The switch's priority.
    pub priority: u8,
    /// The number of pauses that were requested.
    pub count: u64,
    /// The time for which its sender has paused until now, in nanoseconds.
    pub nanos: u64,
    /// True if the sender is paused now.
    pub is_paused: bool,
    /// The maximum number of bytes that waited.
    pub max_bytes: u64,
    /// The number of packets lost for lack of headroom.
    pub lost: u64,
}

impl Ingress {
    /// Creates the counters of a switch without ports.
    #[must_use]
    pub fn new(thresholds: Thresholds) -> Ingress {
        Ingress { thresholds, state: Mutex::default() }
    }

    /// Adds the port at which one pipe ends and another one begins; returns its number, counted from 1.
    pub fn add(&self, pipe: usize, back: usize) -> u16 {
        let mut state = self.state.lock();
        state
            .ports
            .push(IngressPort { pipe, back, last: Instant::ORIGIN, accounts: Default::default() });
        u16::try_from(state.ports.len()).unwrap_or(0)
    }

    /// Returns true if a priority is paused instead of losing frames.
    #[must_use]
    pub fn is_lossless(&self, priority: usize) -> bool {
        self.thresholds.lossless >> priority & 1 == 1
    }

    /// Returns true if there is room for a frame; it is lost otherwise. A frame without an ingress port
    /// always has room.
    #[must_use]
    pub fn admits(&self, port: u16, priority: usize, bytes: u64) -> bool {
        let limit = self.thresholds.xoff.saturating_add(self.thresholds.headroom);
        let mut state = self.state.lock();
        let Some(account) = state.account(port, priority) else {
            return true;
        };
        let fits = account.bytes.saturating_add(bytes) <= limit;
        account.lost += u64::from(!fits);
        fits
    }

    /// Counts a frame that now waits.
    pub fn enter(&self, port: u16, priority: usize, bytes: u64) {
        let mut state = self.state.lock();
        let Some(account) = state.account(port, priority) else {
            return;
        };
        account.bytes += bytes;
        account.max_bytes = account.max_bytes.max(account.bytes);
        if account.bytes >= self.thresholds.xoff && !account.is_asked {
            account.is_asked = true;
            account.pauses += 1;
            state.order(port, priority, true);
        }
    }

    /// Removes a frame that has left.
    pub fn leave(&self, port: u16, priority: usize, bytes: u64) {
        let mut state = self.state.lock();
        let Some(account) = state.account(port, priority) else {
            return;
        };
        account.bytes = account.bytes.saturating_sub(bytes);
        if account.bytes <= self.thresholds.xon && account.is_asked {
            account.is_asked = false;
            state.order(port, priority, false);
        }
    }

    /// Takes a pause frame that is to be sent, with the pipe that carries it.
    pub fn take_order(&self) -> Option<(PauseFrame, usize)> {
        let mut state = self.state.lock();
        let order = state.orders.pop()?;
        let back = state.ports.get(usize::from(order.port) - 1)?.back;
        Some((order, back))
    }

    /// Returns the arrival time of a pause frame that alone would arrive at `at`: not before those sent
    /// earlier.
    #[must_use]
    pub fn arrives(&self, order: PauseFrame, at: Instant) -> Instant {
        let mut state = self.state.lock();
        let Some(port) = state.ports.get_mut(usize::from(order.port) - 1) else {
            return at;
        };
        port.last = port.last.max(at);
        port.last
    }

    /// Records that a pause frame has arrived. Returns the pipe, and the precedences that it may not send
    /// from now on, one bit each.
    pub fn obeyed(&self, order: PauseFrame, now: Instant) -> Option<(usize, u8)> {
        let mut state = self.state.lock();
        let port = state.ports.get_mut(usize::from(order.port) - 1)?;
        let account = &mut port.accounts[usize::from(order.priority)];
        match (order.is_pause, account.since) {
            (true, None) => account.since = Some(now),
            (false, Some(since)) => {
                account.nanos += now.nanos_since(since);
                account.since = None;
            }
            (true, Some(_)) | (false, None) => {}
        }
        let paused = port.accounts.iter().enumerate();
        let paused = paused.filter(|(_, account)| account.since.is_some());
        let classes = paused.map(|(priority, _)| self.precedences(priority));
        Some((port.pipe, classes.fold(0, |all, some| all | some)))
    }

    /// Returns the precedences that belong to a priority of the switch, one bit each.
    fn precedences(&self, priority: usize) -> u8 {
        let count = usize::from(self.thresholds.priorities);
        let all = (0..8u8).filter(|precedence| usize::from(*precedence) * count / 8 == priority);
        all.fold(0, |bits, precedence| bits | 1 << precedence)
    }

    /// Returns the pauses of the priorities on the link to a port. Only priorities with traffic are included.
    #[must_use]
    pub fn pauses(&self, port: u16, now: Instant) -> Vec<Pauses> {
        let state = self.state.lock();
        let Some(port) = usize::from(port)
            .checked_sub(1)
            .and_then(|port| state.ports.get(port))
        else {
            return Vec::new();
        };
        let accounts = (0u8..).zip(&port.accounts);
        let used = accounts.filter(|(_, account)| account.max_bytes > 0 || account.lost > 0);
        used.map(|(priority, account)| Pauses {
            priority,
            count: account.pauses,
            nanos: account.nanos + account.since.map_or(0, |since| now.nanos_since(since)),
            is_paused: account.since.is_some(),
            max_bytes: account.max_bytes,
            lost: account.lost,
        })
        .collect()
    }
}

impl State {
    fn account(&mut self, port: u16, priority: usize) -> Option<&mut Account> {
        let port = self.ports.get_mut(usize::from(port).checked_sub(1)?)?;
        port.accounts.get_mut(priority)
    }

    fn order(&mut self, port: u16, priority: usize, is_pause: bool) {
        let priority = priority as u8;
        // A later frame replaces one that has not been taken: both belong to the same instant.
        let same = |order: &PauseFrame| order.port == port && order.priority == priority;
        self.orders.retain(|order| !same(order));
        self.orders.push(PauseFrame { port, priority, is_pause });
    }
}

/// Returns true if a frame has one of these precedences, one bit each.
#[must_use]
pub(super) fn is_of(classes: u8, frame: &Frame) -> bool {
    classes != 0 && classes >> frame.precedence() & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    fn ingress(lossless: u8, priorities: u8) -> Ingress {
        let ingress =
            Ingress::new(Thresholds { xoff: 3000, xon: 1000, headroom: 2000, lossless, priorities });
        assert_eq!((ingress.add(4, 5), ingress.add(6, 7)), (1, 2));
        ingress
    }

    fn orders(ingress: &Ingress) -> Vec<(u16, u8, bool, usize)> {
        let orders = std::iter::from_fn(|| ingress.take_order());
        orders
            .map(|(order, back)| (order.port, order.priority, order.is_pause, back))
            .collect()
    }

    #[test]
    fn each_port_and_priority_pauses_at_xoff_and_goes_on_at_xon() {
        let ingress = ingress(0b11, 2);
        for (port, priority) in [(1, 0), (1, 1), (2, 1)] {
            ingress.enter(port, priority, 1500);
        }
        assert_eq!(orders(&ingress), []);
        ingress.enter(2, 1, 1500);
        assert_eq!(orders(&ingress), [(2, 1, true, 7)]);
        // Between the thresholds no order is repeated.
        ingress.enter(2, 1, 1000);
        ingress.leave(2, 1, 2999);
        assert_eq!(orders(&ingress), []);
        ingress.leave(2, 1, 1);
        assert_eq!(orders(&ingress), [(2, 1, false, 7)]);
    }

    #[test]
    fn frames_are_admitted_up_to_the_headroom() {
        let ingress = ingress(0b11, 2);
        ingress.enter(1, 0, 4000);
        assert!(ingress.admits(1, 0, 1000) && !ingress.admits(1, 0, 1001));
        assert!(ingress.admits(1, 1, 5000) && ingress.admits(2, 0, 5000) && ingress.admits(0, 0, 9000));
        let pauses = ingress.pauses(1, at(0));
        assert_eq!((pauses.len(), pauses[0].lost, pauses[0].max_bytes), (1, 1, 4000));
    }

    /// Of two priorities, the upper one has precedences 4 to 7 (docs/scenarios.md).
    #[test]
    fn a_pause_names_the_precedences_of_its_priority_and_is_timed() {
        let ingress = ingress(0b11, 2);
        let order = |priority, is_pause| PauseFrame { port: 2, priority, is_pause };
        assert_eq!(ingress.obeyed(order(1, true), at(10)), Some((6, 0xf0)));
        assert_eq!(ingress.obeyed(order(0, true), at(20)), Some((6, 0xff)));
        assert_eq!(ingress.obeyed(order(1, false), at(50)), Some((6, 0x0f)));
        ingress.enter(2, 0, 1);
        ingress.enter(2, 1, 1);
        let pauses = ingress.pauses(2, at(100));
        let seen: Vec<_> = pauses
            .iter()
            .map(|p| (p.priority, p.nanos, p.is_paused))
            .collect();
        assert_eq!(seen, [(0, 80, true), (1, 40, false)]);
    }

    #[test]
    fn frames_do_not_overtake_one_another() {
        let ingress = ingress(0b1, 1);
        ingress.enter(1, 0, 3000);
        let (order, _) = ingress.take_order().expect("a pause");
        assert_eq!(ingress.arrives(order, at(500)), at(500));
        assert_eq!(ingress.arrives(order, at(400)), at(500));
    }
}
