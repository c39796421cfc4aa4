//! The queue of messages to be sent: their order, their lifetimes, and refusals. No I/O, no clock.
//!
//! Invariants:
//!
//! * Parts of a message follow one another.
//! * An entry that is taken for sending has not expired.
//! * Ordered messages are taken in the order of sending; unordered ones may overtake less urgent ones (RFC
//!   9622, 9.1.3.2, 9.1.3.3).
//! * No message overtakes a final one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

use bytes::Bytes;

use crate::taps::property::Property;
use crate::taps::{MessageContext, MessageId, SendError};

/// The maximum number of messages with parts still to be given. Beyond it, the oldest unsent one is
/// forgotten, and its later parts are a separate message.
const MAX_OPEN: usize = 1_024;

/// The number of a call to Send, counted for each Connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SendId(pub(super) u64);

impl SendId {
    /// Returns the number.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }
}

/// One call to Send.
#[derive(Debug)]
pub(super) struct QueuedSend {
    pub(super) id: SendId,
    pub(super) context: MessageContext,
    pub(super) data: Bytes,
    /// True if it has the message's last byte.
    pub(super) is_end: bool,
    pub(super) deadline: Option<Instant>,
    pub(super) fate: SendOutcome,
    /// True if its outcome is not reported.
    pub(super) is_quiet: bool,
}

/// The intended outcome of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SendOutcome {
    /// The entry is to be sent.
    Send,
    /// Its lifetime ended before it was sent.
    Expired,
    /// It cannot be sent.
    Refused(SendError),
}

impl QueuedSend {
    fn is_unordered(&self) -> bool {
        self.fate == SendOutcome::Send
            && self.context.is_false(Property::MsgOrdered)
            && !self.context.is_true(Property::Final)
    }

    /// Sets its outcome and drops its data, because it is not sent.
    fn set_fate(&mut self, fate: SendOutcome) {
        self.fate = fate;
        self.data = Bytes::new();
    }
}

/// The queued messages.
#[derive(Debug, Default)]
pub(super) struct SendQueue {
    entries: VecDeque<QueuedSend>,
    bytes: usize,
    /// Messages with parts still to be given, and the outcome of those parts.
    open: BTreeMap<MessageId, SendOutcome>,
    /// The message of which a part, but not the last, was taken.
    under_way: Option<MessageId>,
}

impl SendQueue {
    /// Returns the number of queued bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the lowest id of a queued Send.
    pub(super) fn first_id(&self) -> Option<SendId> {
        self.entries.iter().map(|entry| entry.id).min()
    }

    /// Returns whether only a part of this message can be taken next, and none is queued.
    pub(super) fn wants(&self, message: MessageId) -> bool {
        self.under_way == Some(message) && self.first_of(message).is_none()
    }

    /// Returns whether parts of this message are still to be given.
    pub(super) fn is_open(&self, message: MessageId) -> bool {
        self.open.contains_key(&message)
    }

    /// Inserts an entry after the earlier parts of its message, or at the end.
    pub(super) fn push(&mut self, mut entry: QueuedSend) {
        let message = entry.context.id();
        if entry.fate == SendOutcome::Send {
            let known = self.open.remove(&message);
            let was_open = known.is_some();
            if let Some(fate) = known.filter(|fate| *fate != SendOutcome::Send) {
                entry.set_fate(fate);
            }
            if !entry.is_end {
                self.open.insert(message, entry.fate.clone());
                self.forget();
            }
            if was_open {
                let last = self
                    .entries
                    .iter()
                    .rposition(|other| other.context.id() == message);
                let place = match last {
                    Some(place) => place + 1,
                    None if self.under_way == Some(message) => 0,
                    None => self.entries.len(),
                };
                self.bytes += entry.data.len();
                return self.entries.insert(place, entry);
            }
        }
        self.bytes += entry.data.len();
        self.entries.push_back(entry);
    }

    /// Marks expired entries, and frees their data. Returns the time of the next expiry, if there is one.
    pub(super) fn expire(&mut self, now: Instant) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        // Messages of which a part has expired, and the end was not seen yet.
        let mut lapsed = BTreeSet::new();
        for entry in &mut self.entries {
            let message = entry.context.id();
            // A message that has begun is finished (9.1.3).
            if entry.fate != SendOutcome::Send || self.under_way == Some(message) {
                continue;
            }
            if !lapsed.contains(&message) && entry.deadline.is_none_or(|deadline| deadline > now) {
                next = [next, entry.deadline].into_iter().flatten().min();
                continue;
            }
            self.bytes -= entry.data.len();
            entry.set_fate(SendOutcome::Expired);
            _ = if entry.is_end {
                lapsed.remove(&message)
            } else {
                lapsed.insert(message)
            };
        }
        for message in lapsed {
            self.open.insert(message, SendOutcome::Expired);
        }
        next
    }

    /// Takes the next entry; `None` if the queue is empty, or if the next part of the message under way is
    /// missing.
    pub(super) fn take(&mut self) -> Option<QueuedSend> {
        let place = self.next()?;
        let entry = self.entries.remove(place)?;
        self.bytes -= entry.data.len();
        if entry.fate == SendOutcome::Send {
            self.under_way = (!entry.is_end).then(|| entry.context.id());
        }
        Some(entry)
    }

    /// Returns all entries in order.
    pub(super) fn into_entries(self) -> VecDeque<QueuedSend> {
        self.entries
    }

    /// Records that the last taken part of this message could not be sent: its other parts are not sent
    /// either.
    pub(super) fn refuse(&mut self, message: MessageId, why: &SendError) {
        if self.under_way != Some(message) {
            return;
        }
        self.under_way = None;
        let refused = SendOutcome::Refused(why.clone());
        for entry in self
            .entries
            .iter_mut()
            .filter(|entry| entry.context.id() == message)
        {
            self.bytes -= entry.data.len();
            entry.set_fate(refused.clone());
            if entry.is_end {
                return;
            }
        }
        self.open.insert(message, refused);
    }

    /// Limits the number of remembered open messages.
    fn forget(&mut self) {
        if self.open.len() <= MAX_OPEN {
            return;
        }
        let oldest = self
            .open
            .iter()
            .find(|(_, fate)| **fate != SendOutcome::Send)
            .map(|(message, _)| *message);
        oldest.map(|message| self.open.remove(&message));
    }

    fn first_of(&self, message: MessageId) -> Option<usize> {
        self.entries
            .iter()
            .position(|entry| entry.context.id() == message)
    }

    fn next(&self) -> Option<usize> {
        // Its parts need not all be in front: it may have overtaken others.
        if let Some(message) = self.under_way {
            return self.first_of(message);
        }
        let front = self.entries.front()?;
        if front.fate != SendOutcome::Send {
            return Some(0);
        }
        let overtakes = |(place, entry): &(usize, &QueuedSend)| {
            *place > 0 && entry.is_unordered() && entry.context.priority() < front.context.priority()
        };
        let most_urgent = self
            .entries
            .iter()
            .enumerate()
            .filter(overtakes)
            .min_by_key(|(place, entry)| (entry.context.priority(), *place));
        Some(most_urgent.map_or(0, |(place, _)| place))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn entry(id: u64, context: &MessageContext, is_end: bool) -> QueuedSend {
        let data = Bytes::from_static(b"four");
        let (context, id) = (context.clone(), SendId(id));
        QueuedSend {
            id,
            context,
            data,
            is_end,
            deadline: None,
            fate: SendOutcome::Send,
            is_quiet: false,
        }
    }

    fn order(queue: &mut SendQueue) -> Vec<u64> {
        std::iter::from_fn(|| queue.take())
            .map(|entry| entry.id.0)
            .collect()
    }

    fn urgent(priority: u64, is_ordered: bool) -> MessageContext {
        let mut context = MessageContext::new();
        context.add(Property::MsgPriority, priority).expect("a priority");
        context.add(Property::MsgOrdered, is_ordered).expect("an order");
        context
    }

    #[test]
    fn ordered_messages_keep_their_order_despite_priorities() {
        let mut queue = SendQueue::default();
        for (id, priority) in [(0, 100), (1, 0), (2, 50)] {
            queue.push(entry(id, &urgent(priority, true), true));
        }
        assert_eq!(order(&mut queue), [0, 1, 2]);
    }

    #[test]
    fn unordered_messages_overtake_less_urgent_ones() {
        let mut queue = SendQueue::default();
        for (id, priority, is_ordered) in [(0, 100, true), (1, 7, false), (2, 5, false), (3, 0, true)] {
            queue.push(entry(id, &urgent(priority, is_ordered), true));
        }
        assert_eq!(order(&mut queue), [2, 1, 0, 3]);
    }

    #[test]
    fn parts_of_a_message_follow_one_another() {
        let mut queue = SendQueue::default();
        let (whole, other) = (MessageContext::new(), MessageContext::new());
        queue.push(entry(0, &whole, false));
        queue.push(entry(1, &other, true));
        assert_eq!(queue.take().map(|entry| entry.id.0), Some(0));
        assert!(
            queue.take().is_none() && queue.wants(whole.id()),
            "the rest of the first is missing"
        );
        queue.push(entry(2, &whole, false));
        queue.push(entry(3, &whole, true));
        assert_eq!(order(&mut queue), [2, 3, 1]);
        assert_eq!(queue.bytes(), 0);
    }

    #[test]
    fn a_partial_message_overtakes_as_a_whole() {
        let mut queue = SendQueue::default();
        let (slow, fast) = (urgent(100, true), urgent(5, false));
        queue.push(entry(0, &slow, true));
        queue.push(entry(1, &fast, false));
        queue.push(entry(2, &fast, false));
        queue.push(entry(3, &urgent(0, true), true));
        assert_eq!(order(&mut queue), [1, 2]);
        assert!(queue.wants(fast.id()), "its end is missing, whatever else waits");
        queue.push(entry(4, &fast, true));
        assert_eq!(order(&mut queue), [4, 0, 3]);
    }

    #[test]
    fn an_expired_message_is_removed_whole_and_in_order() {
        let mut queue = SendQueue::default();
        let (now, whole) = (Instant::now(), MessageContext::new());
        queue.push(entry(0, &MessageContext::new(), true));
        queue.push(QueuedSend { deadline: Some(now), ..entry(1, &whole, false) });
        let later = now + Duration::from_secs(1);
        queue.push(QueuedSend { deadline: Some(later), ..entry(2, &MessageContext::new(), true) });
        assert_eq!(queue.expire(now), Some(later));
        queue.push(QueuedSend { deadline: Some(later), ..entry(3, &whole, true) });
        assert_eq!(queue.bytes(), 8, "what has expired is freed");
        let fates: Vec<_> = std::iter::from_fn(|| queue.take())
            .map(|entry| (entry.id.0, entry.fate))
            .collect();
        assert_eq!(
            fates,
            [
                (0, SendOutcome::Send),
                (1, SendOutcome::Expired),
                (3, SendOutcome::Expired),
                (2, SendOutcome::Send)
            ]
        );
    }

    #[test]
    fn a_refused_message_is_refused_to_its_end() {
        let mut queue = SendQueue::default();
        let (whole, why) = (MessageContext::new(), SendError::Closing);
        queue.push(entry(0, &whole, false));
        queue.push(entry(1, &whole, false));
        assert_eq!(queue.take().map(|entry| entry.id.0), Some(0));
        queue.refuse(whole.id(), &why);
        queue.push(entry(2, &whole, true));
        // With the same context, but after the end of the first message.
        queue.push(entry(3, &whole, true));
        let fates: Vec<_> = std::iter::from_fn(|| queue.take())
            .map(|entry| (entry.id.0, entry.fate))
            .collect();
        let refused = SendOutcome::Refused(why);
        assert_eq!(
            fates,
            [(1, refused.clone()), (2, refused), (3, SendOutcome::Send)]
        );
        assert_eq!(queue.bytes(), 0);
    }

    #[test]
    fn parts_that_wait_expire_with_their_message() {
        let mut queue = SendQueue::default();
        let (now, whole) = (Instant::now(), MessageContext::new());
        queue.push(QueuedSend { deadline: Some(now), ..entry(0, &whole, false) });
        let later = now + Duration::from_secs(1);
        queue.push(QueuedSend { deadline: Some(later), ..entry(1, &whole, true) });
        assert_eq!(queue.expire(now), None);
        assert!(std::iter::from_fn(|| queue.take()).all(|entry| entry.fate == SendOutcome::Expired));
    }

    #[test]
    fn messages_that_never_end_are_forgotten() {
        let mut queue = SendQueue::default();
        let now = Instant::now();
        for id in 0..2 * MAX_OPEN as u64 {
            queue.push(QueuedSend { deadline: Some(now), ..entry(id, &MessageContext::new(), false) });
            queue.expire(now);
            assert!(
                queue
                    .take()
                    .is_some_and(|entry| entry.fate == SendOutcome::Expired)
            );
        }
        assert_eq!(queue.open.len(), MAX_OPEN);
    }
}
