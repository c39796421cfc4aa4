//! Bulk transfers over a drop-tail bottleneck. Slow start's overshoot is repaired within a few round trips,
//! and no retransmission timer fires (RFC 6675, 6937, 8985, 9406).


use hawser_time::Instant;

use crate::bench::{MS, SECOND};
use crate::testbed::{Link, SHORT, Testbed};

/// The outcome of a transfer.
#[derive(Debug)]
struct Outcome {
    took: u64,
    timeouts: u32,
    retransmissions: u64,
    /// The longest time without an acknowledgement of new data.
    pause: u64,
}

/// Lets one client send `len` bytes to the host.
fn transfer(link: Link, len: u64) -> Outcome {
    let mut stage = Testbed::over(link, &["MIN_RTO=200ms"]);
    stage.listen(80);
    let client = stage.connect(80);
    stage.run(500 * MS, |_| {});
    let server = *stage.accepted().last().expect("accepted");
    let (data, mut room) = ([7; 65_536], [0; 65_536]);
    let (mut offered, mut read, mut acked) = (0, 0, 0);
    let (began, mut ended, mut progress) = (stage.now, None, stage.now);
    let (mut timeouts, mut row, mut pause) = (0, 0, 0);
    stage.run(60 * SECOND, |stage| {
        let now = stage.now;
        loop {
            let len = (len - offered).min(65_536) as usize;
            match stage.stacks[1].send(Instant::from_nanos(now), client, &data[..len]).expect("open") {
                0 => break,
                n => offered += n as u64,
            }
        }
        loop {
            match stage.stacks[0].recv(Instant::from_nanos(now), server, &mut room).expect("open") {
                0 => break,
                n => read += n as u64,
            }
        }
        if read == len && ended.is_none() {
            ended = Some(now);
        }
        let see = |field| stage.stacks[1].observe(client, field).expect("observable");
        timeouts += u32::from(see("timeouts") > row);
        row = see("timeouts");
        if see("snd_una") > acked {
            pause = pause.max(now - progress);
            (acked, progress) = (see("snd_una"), now);
        }
    });
    let retransmissions = stage.stacks[1].observe(client, "retransmissions").expect("observable");
    let took = ended.expect("all arrived within a minute") - began;
    Outcome { took, timeouts, retransmissions, pause }
}

/// Returns the share of the link's rate, in percent.
fn share(link: Link, len: u64, outcome: &Outcome) -> u64 {
    len * link.byte_time * 100 / outcome.took
}

/// Queues from an eighth of the path's round trip to many times that. If losses come from slow start alone,
/// its overshoot loses half a window.
#[test]
fn an_overshoot_costs_no_timeout() {
    let link = |delay: u64, queue: u64| Link { delay: delay * MS, queue: queue * MS, ..SHORT };
    let lossy = Link { lost: 10, ..SHORT };
    // Each link with the minimum share of its rate, in percent, that a transfer of 10 MB gets.
    let cases = [
        (SHORT, 94),
        (lossy, 90),
        (link(10, 120), 92),
        (link(10, 200), 90),
        (link(50, 80), 76),
        (link(50, 100), 74),
        (link(50, 120), 70),
        (link(50, 200), 77),
    ];
    for (link, min_share) in cases {
        let outcome = transfer(link, 10_000_000);
        let share = share(link, 10_000_000, &outcome);
        println!("{link:?}: {share} % of the rate, {outcome:?}");
        assert_eq!(outcome.timeouts, 0, "{link:?}");
        assert!(outcome.retransmissions > 0, "{link:?}: nothing was lost");
        assert!(share >= min_share, "{link:?}: {share} %");
        assert!(outcome.pause <= 3 * (2 * link.delay + link.queue), "{link:?}: {outcome:?}");
    }
}

/// On a fast link, slow start leaves dozens of holes in sequence, each of which is repaired at another time.
/// These are more ranges than the send history keeps. Merging ranges must not hide a loss.
#[test]
fn dozens_of_holes_cost_no_timeout() {
    for delay in [MS / 2, MS, 2 * MS, 5 * MS] {
        for queue in [50 * MS, 60 * MS] {
            let link = Link { byte_time: 80, delay, queue, lost: 0 };
            let outcome = transfer(link, 3_000_000);
            let share = share(link, 3_000_000, &outcome);
            println!("{link:?}: {share} % of the rate, {outcome:?}");
            assert_eq!(outcome.timeouts, 0, "{link:?}");
            assert!(share >= 75, "{link:?}: {share} %");
            assert!(outcome.pause <= 2 * (2 * link.delay + link.queue), "{link:?}: {outcome:?}");
        }
    }
}
