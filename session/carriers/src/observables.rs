//! The figures that a session reads from the variables that a connection's program declares `observable`.
//!
//! The names are those of RFC 9293, RFC 6298 and RFC 5681, as Hawser's own TCP uses them. A program of
//! another transport declares the same names so that its sessions are scheduled well (docs/sessions.md). A
//! variable that is not declared counts as 0, which means unknown.

use std::time::Duration;

use crate::Statistics;

/// The variables, in the order of [`statistics`]'s argument.
pub const VARIABLES: [&str; 12] = [
    "srtt",
    "rttvar",
    "smss",
    "cc.cwnd",
    "cc.ssthresh",
    "flight",
    "iss",
    "snd_una",
    "snd_nxt",
    "snd_end",
    "snd_wnd",
    "retransmissions",
];

/// Computes a connection's figures from the values of these variables.
#[must_use]
pub fn statistics(values: [Option<u64>; VARIABLES.len()]) -> Statistics {
    let [
        srtt,
        rttvar,
        smss,
        cwnd,
        ssthresh,
        flight,
        iss,
        snd_una,
        snd_nxt,
        snd_end,
        snd_wnd,
        retransmissions,
    ] = values.map(Option::unwrap_or_default);
    let queued = snd_end.saturating_sub(snd_nxt);
    Statistics {
        srtt: Duration::from_nanos(srtt),
        rttvar: Duration::from_nanos(rttvar),
        mss: smss as usize,
        window: cwnd,
        slow_start: cwnd < ssthresh,
        in_flight: flight,
        queued,
        // The SYN occupies one sequence number (RFC 9293, 3.4).
        acked: snd_una.saturating_sub(iss.saturating_add(1)),
        retransmitted: retransmissions.saturating_mul(smss),
        // If the rate is unknown, the window per round trip counts.
        rate: 0,
        blocked: flight == 0 && queued > 0 && snd_wnd < smss,
        // The program itself discovers the maximum packet length (RFC 8899, RFC 4821).
        oversized: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_a_connection_are_its_figures() {
        let values = [
            20_000_000,
            5_000_000,
            1_448,
            14_480,
            1 << 30,
            4_344,
            1_000,
            11_001,
            15_345,
            20_000,
            65_535,
            2,
        ];
        let figures = statistics(values.map(Some));
        assert_eq!(
            (figures.srtt, figures.rttvar),
            (Duration::from_millis(20), Duration::from_millis(5))
        );
        assert_eq!(
            (figures.mss, figures.window, figures.slow_start),
            (1_448, 14_480, true)
        );
        assert_eq!(
            (figures.in_flight, figures.queued, figures.acked),
            (4_344, 4_655, 10_000)
        );
        assert_eq!((figures.retransmitted, figures.blocked), (2_896, false));
    }

    #[test]
    fn a_closed_window_marks_the_transport_as_blocked() {
        let mut values = [Some(0); VARIABLES.len()];
        (values[2], values[9]) = (Some(1_448), Some(100));
        assert!(statistics(values).blocked);
    }

    /// A program may declare any values under these names.
    #[test]
    fn values_beyond_all_bounds_do_not_overflow() {
        assert_eq!(
            statistics([Some(u64::MAX); VARIABLES.len()]).retransmitted,
            u64::MAX
        );
    }

    #[test]
    fn a_program_without_known_variables_has_default_statistics() {
        assert_eq!(statistics([None; VARIABLES.len()]), Statistics::default());
    }
}
