//! Points in time, as all machines of Hawser use them.
//!
//! No machine reads a clock: its driver passes in the time. An [`Instant`] is such a point, on a clock of the
//! driver's choice, in the simulator as well as on a real device. A span between two points is the standard
//! library's [`Duration`].

#![warn(missing_docs)]
#![forbid(unsafe_code)]

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A point in time: whole nanoseconds since the origin of its clock.
///
/// The driver chooses the origin: the start of a simulation, of a process, or of the machine. Points of
/// different clocks must not be compared.
///
/// Arithmetic on points saturates: a point after [`Instant::NEVER`] becomes `NEVER`, a point before
/// [`Instant::ORIGIN`] becomes `ORIGIN`, and the span since a later point is zero. The clock lasts 584 years.
///
/// ```
/// # use std::time::Duration;
/// # use hawser_time::Instant;
/// let sent = Instant::after(Duration::from_millis(5));
/// let acknowledged = sent + Duration::from_millis(40);
/// assert_eq!(acknowledged - sent, Duration::from_millis(40));
/// assert_eq!(sent - acknowledged, Duration::ZERO);
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The origin of the clock.
    pub const ORIGIN: Instant = Instant(0);
    /// A point that no clock reaches: a deadline that never passes.
    pub const NEVER: Instant = Instant(u64::MAX);

    /// Returns the point `nanos` nanoseconds after the origin.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Instant {
        Instant(nanos)
    }

    /// Returns the point `span` after the origin.
    #[inline]
    pub const fn after(span: Duration) -> Instant {
        Instant(nanos(span))
    }

    /// Returns the nanoseconds since the origin.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the point `nanos` nanoseconds later. It is meant for code that runs for each packet, where
    /// [`Duration`] costs a division.
    #[inline]
    pub const fn plus_nanos(self, nanos: u64) -> Instant {
        Instant(self.0.saturating_add(nanos))
    }

    /// Returns the nanoseconds since an earlier point, as [`Instant::plus_nanos`] takes them.
    #[inline]
    pub const fn nanos_since(self, earlier: Instant) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns the span since the origin.
    #[inline]
    pub const fn since_origin(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

/// Returns the whole nanoseconds of a span; the largest number for a span longer than 584 years.
#[inline]
pub const fn nanos(span: Duration) -> u64 {
    let nanos = span.as_nanos();
    if nanos > u64::MAX as u128 {
        u64::MAX
    } else {
        nanos as u64
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    #[inline]
    fn add(self, span: Duration) -> Instant {
        self.plus_nanos(nanos(span))
    }
}

impl AddAssign<Duration> for Instant {
    #[inline]
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    #[inline]
    fn sub(self, span: Duration) -> Instant {
        Instant(self.0.saturating_sub(nanos(span)))
    }
}

impl Sub for Instant {
    type Output = Duration;

    #[inline]
    fn sub(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.nanos_since(earlier))
    }
}

/// Formatted as the span since the origin, so that a failing test reads `1.5s` and not `1500000000`.
impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Instant::NEVER => f.write_str("never"),
            at => at.since_origin().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends_of_the_clock() {
        let second = Duration::from_secs(1);
        assert_eq!(Instant::NEVER + second, Instant::NEVER);
        assert_eq!(Instant::ORIGIN - second, Instant::ORIGIN);
        assert_eq!(Instant::ORIGIN - Instant::NEVER, Duration::ZERO);
        assert_eq!(Instant::after(Duration::MAX), Instant::NEVER);
        assert_eq!(nanos(Duration::MAX), u64::MAX);
    }

    #[test]
    fn an_instant_equals_its_span_since_the_origin() {
        let span = Duration::new(3, 5);
        assert_eq!(Instant::after(span), Instant::from_nanos(3_000_000_005));
        assert_eq!(Instant::after(span).since_origin(), span);
        assert_eq!(Instant::ORIGIN + span - span, Instant::ORIGIN);
        assert_eq!(
            format!(
                "{:?} {:?}",
                Instant::after(Duration::from_millis(1_500)),
                Instant::NEVER
            ),
            "1.5s never"
        );
    }
}
