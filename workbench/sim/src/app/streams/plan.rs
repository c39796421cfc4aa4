//! The streams of a connection: drawn from the seed, and known to both ends.

use std::collections::BTreeSet;

use super::content::{HEAD, StreamContent};
use crate::app::FlowSide;
use crate::rng::Rng;

/// The maximum number of bits in reasons of resets and stops: as many as a variable-length integer has in
/// protocols.
const REASON_BITS: u64 = 62;

/// The parameters from which streams are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The number of streams that the client opens, and that the server opens.
    pub counts: [u64; 2],
    /// The minimum and maximum number of bytes from the opener of a stream.
    pub size: (u64, u64),
    /// The minimum and maximum number of bytes from the other end.
    pub back: (u64, u64),
    /// The maximum number of its own streams that an end has open at a time.
    pub concurrent: usize,
    /// The share of streams on which only the opener sends.
    pub one_way: f64,
    /// The share of directions that their sender resets.
    pub reset: f64,
    /// The share of directions that their reader stops.
    pub stop: f64,
}

/// All streams of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The streams that the client opens, and those that the server opens.
    pub(super) of: [Vec<PlannedStream>; 2],
    pub(super) concurrent: usize,
    /// Distinguishes these streams from those of other connections.
    pub(super) key: u64,
}

/// A planned stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlannedStream {
    /// The opener's data: the bytes that identify the stream, and then its own.
    pub(super) there: Half,
    /// The other end's data, if it sends any.
    pub(super) back: Option<Half>,
}

/// One direction of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Half {
    /// The number of bytes, including those that identify the stream.
    pub(super) total: u64,
    pub(super) fate: DirectionEnd,
    pub(super) text: StreamContent,
}

/// The manner in which a direction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DirectionEnd {
    /// It is closed after its last byte.
    Whole,
    /// Its sender resets it with a reason, once it has handed over this many bytes. After the last byte, it
    /// closes the stream first.
    Reset { after: u64, reason: u64 },
    /// Its reader stops it once it has read this many bytes. If `waits` is set, the sender keeps its last
    /// byte back until then. Otherwise the sender may be done before the stop reaches it.
    Stop { after: u64, reason: u64, waits: bool },
}

impl Half {
    /// Returns the maximum number of bytes that its reader can read.
    pub(super) fn limit(&self) -> u64 {
        match self.fate {
            DirectionEnd::Reset { after, .. } => after,
            DirectionEnd::Whole | DirectionEnd::Stop { .. } => self.total,
        }
    }

    /// Returns the maximum number of bytes that its sender hands over.
    pub(super) fn to_send(self) -> u64 {
        match self.fate {
            DirectionEnd::Stop { waits: true, .. } => self.total - 1,
            DirectionEnd::Whole | DirectionEnd::Reset { .. } | DirectionEnd::Stop { .. } => self.limit(),
        }
    }

    pub(super) fn is_reset(&self) -> bool {
        matches!(self.fate, DirectionEnd::Reset { .. })
    }

    pub(super) fn is_stopped(&self) -> bool {
        matches!(self.fate, DirectionEnd::Stop { .. })
    }
}

impl Agreed {
    /// Draws the streams of the connection called `label`.
    #[must_use]
    pub fn draw(settings: &Settings, seed: u64, label: &str) -> Agreed {
        let rng = &mut Rng::new(seed, &format!("{label}/streams"));
        let key = rng.bits();
        let mut reasons = BTreeSet::new();
        let of = [FlowSide::Client, FlowSide::Server].map(|opener| {
            let count = settings.counts[opener as usize];
            let each = 0..count;
            each.map(|index| {
                // The last stream shows the other end that no more follow.
                let is_last = index + 1 == count;
                let is_one_way = rng.chance(settings.one_way);
                let mut half = |(min, max), text: StreamContent| {
                    let total = rng.between(min, max) + text.head_len();
                    let fate = fate(settings, (total, text.head_len()), rng, &mut reasons);
                    let fate = if is_last { DirectionEnd::Whole } else { fate };
                    Half { total, fate, text }
                };
                let there = half(settings.size, StreamContent::with_head(key, opener, index));
                let back = (!is_one_way)
                    .then(|| half(settings.back, StreamContent::without_head(key, opener, index)));
                PlannedStream { there, back }
            })
            .collect()
        });
        Agreed { of, concurrent: settings.concurrent, key }
    }

    /// Returns the stream that begins with these bytes.
    pub(super) fn named(&self, head: [u8; HEAD]) -> Option<(FlowSide, usize)> {
        let (opener, index) = StreamContent::opener(self.key, head)?;
        let index = usize::try_from(index).ok()?;
        (index < self.of[opener as usize].len()).then_some((opener, index))
    }

    /// Returns the stream that its opener resets with this reason.
    pub(super) fn reset_for(&self, opener: FlowSide, wanted: u64) -> Option<usize> {
        let is_it = |planned: &PlannedStream| match planned.there.fate {
            DirectionEnd::Reset { reason, .. } => reason == wanted,
            DirectionEnd::Whole | DirectionEnd::Stop { .. } => false,
        };
        self.of[opener as usize].iter().position(is_it)
    }
}

/// Draws the manner in which a direction ends. It has `total` bytes, of which the first `head` identify the
/// stream.
fn fate(
    settings: &Settings,
    (total, head): (u64, u64),
    rng: &mut Rng,
    reasons: &mut BTreeSet<u64>,
) -> DirectionEnd {
    let mut reason = |rng: &mut Rng| loop {
        // Small and large reasons, each used once.
        let bits = rng.between(4, REASON_BITS);
        let reason = rng.below(1 << bits);
        if reasons.insert(reason) {
            return reason;
        }
    };
    if rng.chance(settings.reset) {
        let after = if rng.chance(0.2) {
            total
        } else {
            rng.between(0, total)
        };
        let reason = reason(rng);
        return DirectionEnd::Reset { after, reason };
    }
    if rng.chance(settings.stop) {
        let waits = total > head && rng.chance(0.6);
        let after = rng.between(head, total - u64::from(waits));
        return DirectionEnd::Stop { after, reason: reason(rng), waits };
    }
    DirectionEnd::Whole
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: Settings = Settings {
        counts: [300, 200],
        size: (0, 1000),
        back: (10, 10),
        concurrent: 4,
        one_way: 0.25,
        reset: 0.2,
        stop: 0.1,
    };

    #[test]
    fn both_ends_draw_the_same_streams_with_distinct_reasons() {
        let agreed = Agreed::draw(&SETTINGS, 1, "x");
        assert_eq!(agreed, Agreed::draw(&SETTINGS, 1, "x"));
        assert_ne!(agreed, Agreed::draw(&SETTINGS, 1, "y"));
        let all: Vec<&PlannedStream> = agreed.of.iter().flatten().collect();
        let halves: Vec<Half> = all
            .iter()
            .flat_map(|planned| [Some(planned.there), planned.back])
            .flatten()
            .collect();
        let count = |is: &dyn Fn(&Half) -> bool| halves.iter().filter(|half| is(half)).count();
        let one_way = all.iter().filter(|planned| planned.back.is_none()).count();
        assert!((80..170).contains(&one_way), "{one_way} of 500");
        assert!((100..250).contains(&count(&Half::is_reset)));
        assert!((30..120).contains(&count(&Half::is_stopped)));
        let reasons: BTreeSet<u64> = halves
            .iter()
            .filter_map(|half| match half.fate {
                DirectionEnd::Reset { reason, .. } | DirectionEnd::Stop { reason, .. } => Some(reason),
                DirectionEnd::Whole => None,
            })
            .collect();
        assert_eq!(
            reasons.len(),
            halves.len() - count(&|half| half.fate == DirectionEnd::Whole)
        );
        assert!(
            agreed
                .of
                .iter()
                .all(|of| of[of.len() - 1].there.fate == DirectionEnd::Whole)
        );
    }

    #[test]
    fn streams_are_identified_by_first_bytes_or_reset_reason() {
        let agreed = Agreed::draw(&SETTINGS, 1, "x");
        let mut resets = 0;
        for opener in [FlowSide::Client, FlowSide::Server] {
            for (index, planned) in agreed.of[opener as usize].iter().enumerate() {
                let mut head = [0; HEAD];
                planned.there.text.fill(0, &mut head);
                assert_eq!(agreed.named(head), Some((opener, index)));
                if let DirectionEnd::Reset { reason, .. } = planned.there.fate {
                    assert_eq!(agreed.reset_for(opener, reason), Some(index));
                    assert_eq!(agreed.reset_for(opener.other(), reason), None);
                    resets += 1;
                }
            }
        }
        assert!(resets > 0);
        let other = Agreed::draw(&SETTINGS, 2, "x");
        let mut head = [0; HEAD];
        other.of[0][0].there.text.fill(0, &mut head);
        assert_eq!(agreed.named(head), None, "of another connection");
    }
}
