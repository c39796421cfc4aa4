//! Signals: events in the form in which a subscriber receives them, as words.

use hawser_time::Instant;

use crate::flow::{FlowId, SourceFlow, SourceId};
use crate::schema::EventId;

/// The number of a subscription of a bus, which is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubscriptionId(pub u32);

/// The maximum number of values of a signal: an event's fields and the variables that the subscription asks
/// for.
pub const MAX_VALUES: usize = 24;
/// The number of words before the values.
pub(crate) const HEADER: usize = 4;
/// The maximum number of words of a signal.
pub(crate) const MAX_WORDS: usize = HEADER + MAX_VALUES;

/// A signal: an event of a flow and its time, with the event's fields and the variables that the subscription
/// asks for. The variables have their values after the event took effect.
///
/// In memory: `subscription | event << 32 | fields << 48 | values << 56`, `source | lost << 32`, flow, time,
/// values.
#[derive(Clone, Copy, Debug)]
pub struct Signal<'a>(&'a [u64]);

impl<'a> Signal<'a> {
    /// Makes a signal from words of an untrusted origin; `None` when they are not a valid signal.
    #[must_use]
    pub fn new(words: &'a [u64]) -> Option<Signal<'a>> {
        let first = *words.first()?;
        let (fields, values) = ((first >> 48) as u8, (first >> 56) as u8);
        let whole = HEADER + usize::from(values);
        (fields <= values && usize::from(values) <= MAX_VALUES && words.len() >= whole)
            .then(|| Signal(&words[..whole]))
    }

    /// Returns the subscription that it belongs to.
    #[must_use]
    pub fn subscription(&self) -> SubscriptionId {
        SubscriptionId(self.0[0] as u32)
    }

    #[must_use]
    pub fn event(&self) -> EventId {
        EventId((self.0[0] >> 32) as u16)
    }

    /// Returns the flow of the event, with its source.
    #[must_use]
    pub fn target(&self) -> SourceFlow {
        SourceFlow { source: SourceId(self.0[1] as u32), flow: FlowId(self.0[2]) }
    }

    /// Returns the number of signals of this subscription and source that were lost right before this one,
    /// because the queue was full.
    #[must_use]
    pub fn lost(&self) -> u32 {
        (self.0[1] >> 32) as u32
    }

    /// Returns the time of the event, by the provider's clock.
    #[must_use]
    pub fn time(&self) -> Instant {
        Instant::from_nanos(self.0[3])
    }

    /// Returns the event's fields, in the schema's order.
    #[must_use]
    pub fn fields(&self) -> &'a [u64] {
        &self.0[HEADER..HEADER + usize::from((self.0[0] >> 48) as u8)]
    }

    /// Returns the variables asked for, in the subscription's order.
    #[must_use]
    pub fn variables(&self) -> &'a [u64] {
        &self.0[HEADER + self.fields().len()..]
    }

    /// Returns all words of the signal.
    #[must_use]
    pub fn words(&self) -> &'a [u64] {
        self.0
    }
}

/// A buffer for one signal.
#[derive(Clone, Copy, Debug)]
pub struct SignalBuf {
    words: [u64; MAX_WORDS],
    len: usize,
}

impl Default for SignalBuf {
    fn default() -> SignalBuf {
        SignalBuf { words: [0; MAX_WORDS], len: HEADER }
    }
}

impl SignalBuf {
    /// Writes a signal, without its variables. Fields that do not fit are left out.
    pub(crate) fn begin(
        &mut self,
        subscription: SubscriptionId,
        target: SourceFlow,
        event: EventId,
        now: Instant,
        fields: &[u64],
    ) {
        let fields = &fields[..fields.len().min(MAX_VALUES)];
        let count = fields.len() as u64;
        self.words[0] = u64::from(subscription.0) | u64::from(event.0) << 32 | count << 48 | count << 56;
        self.words[1] = u64::from(target.source.0);
        self.words[2] = target.flow.0;
        self.words[3] = now.as_nanos();
        self.len = HEADER + fields.len();
        self.words[HEADER..self.len].copy_from_slice(fields);
    }

    /// Adds a variable's value; leaves it out when the buffer is full.
    pub(crate) fn push(&mut self, value: u64) {
        if let Some(word) = self.words.get_mut(self.len) {
            *word = value;
            self.len += 1;
            self.words[0] += 1 << 56;
        }
    }

    /// Sets the number of signals that were lost before it.
    pub(crate) fn set_lost(&mut self, lost: u32) {
        self.words[1] = self.words[1] & u64::from(u32::MAX) | u64::from(lost) << 32;
    }

    /// Copies words from elsewhere, such as from a ring; returns false when they are not a valid signal.
    pub fn take(&mut self, words: &[u64]) -> bool {
        let Some(signal) = Signal::new(words) else {
            return false;
        };
        self.len = signal.words().len();
        self.words[..self.len].copy_from_slice(signal.words());
        true
    }

    /// Copies another signal, and no words beyond its length.
    pub(crate) fn copy(&mut self, from: &SignalBuf) {
        self.len = from.len;
        self.words[..self.len].copy_from_slice(&from.words[..self.len]);
    }

    /// Returns the signal that was written.
    #[must_use]
    pub fn signal(&self) -> Signal<'_> {
        Signal(&self.words[..self.len])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_signal_is_read_back() {
        let mut buf = SignalBuf::default();
        let target = SourceFlow { source: SourceId(7), flow: FlowId(u64::MAX) };
        buf.begin(
            SubscriptionId(9),
            target,
            EventId(63),
            Instant::from_nanos(123),
            &[1, 2, 3],
        );
        buf.push(4);
        buf.set_lost(5);
        let mut other = SignalBuf::default();
        assert!(other.take(buf.signal().words()));
        let signal = other.signal();
        assert_eq!(signal.subscription(), SubscriptionId(9));
        assert_eq!((signal.target(), signal.event()), (target, EventId(63)));
        assert_eq!((signal.time().as_nanos(), signal.lost()), (123, 5));
        assert_eq!((signal.fields(), signal.variables()), (&[1, 2, 3][..], &[4][..]));
    }

    #[test]
    fn values_beyond_the_room_are_left_out() {
        let mut buf = SignalBuf::default();
        let target = SourceFlow { source: SourceId(0), flow: FlowId(0) };
        buf.begin(SubscriptionId(0), target, EventId(0), Instant::ORIGIN, &[1; 40]);
        (0..40).for_each(|n| buf.push(n));
        assert_eq!(buf.signal().fields().len(), MAX_VALUES);
        assert_eq!(buf.signal().words().len(), MAX_WORDS);
    }

    #[test]
    fn malformed_signal_words_are_refused() {
        assert!(Signal::new(&[]).is_none());
        assert!(Signal::new(&[1 << 56, 0, 0, 0]).is_none());
        assert!(Signal::new(&[1 << 48, 0, 0, 0, 0]).is_none());
        assert!(Signal::new(&[u64::MAX; 300]).is_none());
        assert!(Signal::new(&[0, 0, 0, 0]).is_some());
    }
}
