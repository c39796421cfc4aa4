//! The leases on flows: the values that this process sets, and their ends.
//!
//! The programs judge by their own clock whether a lease holds, and a lease ends without an act of this
//! process. This table is used to rebuild a lease that is renewed. Its size is bounded; leases that are over
//! make room.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::KernelError;
use crate::abi::{RawLease, RawTerm};
use crate::subscriptions::nanoseconds;

/// The maximum length of a lease: a process that wants to continue renews it.
pub const MAX_LEASE: Duration = Duration::from_secs(60);

/// The lowest pacing rate, in bytes per second: a super-segment of 64 KiB in 100 ms. The kernel computes the
/// departure of the next segment from the rate and the length of the last one. The end of a lease does not
/// revise that time (`tcp_update_skb_after_send` in net/ipv4/tcp_output.c).
const MIN_PACE: u64 = (64 << 10) * 10;
/// The largest window that a lease can set, in bytes: above any that TCP can have (RFC 7323, 2.3).
const MAX_WINDOW: u64 = 1 << 30;

/// The variables that can be modified, of flows that our congestion control runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Variable {
    /// The congestion window, in bytes. The kernel counts it in segments: it is rounded down to whole
    /// segments, one at least, and bounded by the clamp of the socket.
    Cwnd,
    /// The slow start threshold, in bytes; two segments at least.
    Ssthresh,
    /// The pacing rate, in bytes per second; a super-segment of 64 KiB in 100 ms at least.
    PacingRate,
}

impl Variable {
    /// All variables.
    pub const ALL: [Variable; 3] = [Variable::Cwnd, Variable::Ssthresh, Variable::PacingRate];

    /// Returns its name, without the provider's (`kernel.tcp`) before it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Variable::Cwnd => "conn.cc.cwnd",
            Variable::Ssthresh => "conn.cc.ssthresh",
            Variable::PacingRate => "conn.cc.pacing_rate",
        }
    }

    /// Returns the values that a lease can set. Within these bounds, a flow has its earlier rate again within
    /// a second of the end of the lease.
    #[must_use]
    pub fn bounds(self) -> RangeInclusive<u64> {
        match self {
            Variable::Cwnd | Variable::Ssthresh => 1..=MAX_WINDOW,
            Variable::PacingRate => MIN_PACE..=u64::MAX,
        }
    }
}

/// The counts of a flow's leases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseCounts {
    /// The number of times that the process began to decide for the flow.
    pub granted: u64,
    /// The number of times that a lease ended and the flow's own congestion controller continued.
    pub fallbacks: u64,
}

/// The leases that have been granted.
#[derive(Debug)]
pub(crate) struct Leases {
    of: HashMap<u64, RawLease>,
    max_flows: usize,
    /// Flows whose current leases have not been written to the programs.
    staged: Vec<u64>,
}

impl Leases {
    pub(crate) fn new(max_flows: usize) -> Self {
        Self { of: HashMap::new(), max_flows, staged: Vec::new() }
    }

    /// Sets one variable from now on, and stages the flow's lease. Returns the flows whose leases were
    /// removed because they were over and the table was full.
    pub(crate) fn grant(
        &mut self,
        flow: u64,
        variable: Variable,
        value: u64,
        lease: Duration,
    ) -> Result<Vec<u64>, KernelError> {
        self.grant_at(now(), flow, variable, value, lease)
    }

    fn grant_at(
        &mut self,
        now: u64,
        flow: u64,
        variable: Variable,
        value: u64,
        lease: Duration,
    ) -> Result<Vec<u64>, KernelError> {
        if lease.is_zero() || lease > MAX_LEASE {
            return Err(KernelError::NoLease);
        }
        if !variable.bounds().contains(&value) {
            return Err(KernelError::Value { variable, value });
        }
        let mut expired = Vec::new();
        if !self.of.contains_key(&flow) && self.of.len() >= self.max_flows {
            self.of.retain(|&flow, lease| {
                let holds = lease.of.iter().any(|term| term.until > now);
                if !holds {
                    expired.push(flow);
                }
                holds
            });
            if self.of.len() >= self.max_flows {
                return Err(KernelError::Leases(self.max_flows));
            }
        }
        let whole = self
            .of
            .entry(flow)
            .or_insert(RawLease { flow, ..RawLease::default() });
        whole.of[variable as usize] = RawTerm { value, until: now + nanoseconds(lease) };
        self.stage(flow);
        Ok(expired)
    }

    /// Ends the hold of one variable, and stages the flow's lease.
    pub(crate) fn give_back(&mut self, flow: u64, variable: Variable) {
        if let Some(whole) = self.of.get_mut(&flow) {
            whole.of[variable as usize] = RawTerm::default();
            self.stage(flow);
        }
    }

    fn stage(&mut self, flow: u64) {
        if !self.is_staged(flow) {
            self.staged.push(flow);
        }
    }

    /// Returns whether a flow's lease waits to be written.
    pub(crate) fn is_staged(&self, flow: u64) -> bool {
        self.staged.contains(&flow)
    }

    /// Takes the next staged flow, with its whole lease, or `None` for the lease if no variable is held.
    pub(crate) fn next_staged(&mut self) -> Option<(u64, Option<RawLease>)> {
        self.next_staged_at(now())
    }

    fn next_staged_at(&mut self, now: u64) -> Option<(u64, Option<RawLease>)> {
        let flow = self.staged.pop()?;
        let whole = self.of.get(&flow).copied();
        let whole = whole.filter(|whole| whole.of.iter().any(|term| term.until > now));
        if whole.is_none() {
            self.of.remove(&flow);
        }
        Some((flow, whole))
    }

    pub(crate) fn forget(&mut self, flow: u64) {
        self.of.remove(&flow);
        self.staged.retain(|staged| *staged != flow);
    }
}

/// Returns CLOCK_MONOTONIC, the clock of the programs, in nanoseconds.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_modification_without_a_lease_is_refused() {
        let mut leases = Leases::new(4);
        for lease in [Duration::ZERO, MAX_LEASE + Duration::from_nanos(1)] {
            let refused = leases.grant_at(0, 1, Variable::Cwnd, 1000, lease);
            assert!(matches!(refused, Err(KernelError::NoLease)), "{lease:?}");
        }
    }

    #[test]
    fn a_value_outside_of_its_bounds_is_refused() {
        let mut leases = Leases::new(4);
        for variable in Variable::ALL {
            let bounds = variable.bounds();
            let beyond = [bounds.start().checked_sub(1), bounds.end().checked_add(1)];
            for value in beyond.into_iter().flatten() {
                let refused = leases.grant_at(0, 1, variable, value, SECOND);
                assert!(
                    matches!(refused, Err(KernelError::Value { .. })),
                    "{variable:?} {value}"
                );
            }
            for value in [*bounds.start(), *bounds.end()] {
                leases
                    .grant_at(0, 1, variable, value, SECOND)
                    .expect("it is granted");
            }
        }
        let refused = leases.grant_at(0, 1, Variable::PacingRate, 1, SECOND);
        assert_eq!(
            refused.expect_err("it is below the lowest pace").to_string(),
            "1 is not a value for conn.cc.pacing_rate: it must be from 655360 to 18446744073709551615"
        );
    }

    #[test]
    fn each_variable_has_its_own_lease_end() {
        let mut leases = Leases::new(4);
        leases
            .grant_at(0, 1, Variable::Cwnd, 1000, SECOND)
            .expect("granted");
        leases
            .grant_at(5, 1, Variable::PacingRate, 700_000, 2 * SECOND)
            .expect("granted");
        let (flow, whole) = leases.next_staged_at(6).expect("it is staged");
        let whole = whole.expect("it holds");
        assert_eq!(
            (flow, leases.next_staged_at(6)),
            (1, None),
            "both are written at once"
        );
        assert_eq!(
            whole.of[Variable::Cwnd as usize],
            RawTerm { value: 1000, until: 1_000_000_000 }
        );
        assert_eq!(
            whole.of[Variable::PacingRate as usize],
            RawTerm { value: 700_000, until: 2_000_000_005 }
        );
        assert_eq!(whole.of[Variable::Ssthresh as usize], RawTerm::default());
    }

    #[test]
    fn expired_leases_make_room_for_new_ones() {
        let mut leases = Leases::new(2);
        leases.grant_at(0, 1, Variable::Cwnd, 1, SECOND).expect("granted");
        leases
            .grant_at(0, 2, Variable::Cwnd, 1, 2 * SECOND)
            .expect("granted");
        let refused = leases.grant_at(10, 3, Variable::Cwnd, 1, SECOND);
        assert!(matches!(refused, Err(KernelError::Leases(2))));
        let expired = leases
            .grant_at(1_500_000_000, 3, Variable::Cwnd, 1, SECOND)
            .expect("granted");
        assert_eq!(expired, [1]);
    }

    #[test]
    fn values_are_released_singly_and_the_last_ends_the_lease() {
        let mut leases = Leases::new(2);
        leases
            .grant_at(0, 1, Variable::Cwnd, 1000, SECOND)
            .expect("granted");
        leases
            .grant_at(0, 1, Variable::Ssthresh, 1000, SECOND)
            .expect("granted");
        leases.give_back(1, Variable::Cwnd);
        let (_, whole) = leases.next_staged_at(1).expect("it is staged");
        let whole = whole.expect("the threshold holds");
        assert_eq!(whole.of[Variable::Cwnd as usize], RawTerm::default());
        assert_eq!(whole.of[Variable::Ssthresh as usize].value, 1000);
        leases.give_back(1, Variable::Ssthresh);
        assert_eq!(leases.next_staged_at(1), Some((1, None)));
        leases.give_back(1, Variable::Ssthresh);
        assert!(!leases.is_staged(1), "there is nothing to give back");
    }
}
