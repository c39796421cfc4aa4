//! The counters of links, and the times of their readings.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hawser_lab::{Direction, Rules};

use crate::probe::{HEADERS, Probe};
use crate::{TestResult, pair};

pub(crate) fn every_kind_of_link_counts() -> TestResult {
    for lines in ["", "both = { rate = \"1Gbit/s\" }", "through = \"cell\""] {
        let lab = pair(lines)?;
        let link = lab.link("link")?;
        let before = link.statistics(Direction::Forward)?;
        Probe::v4(&lab)?.run(50, 958, Duration::from_micros(200))?;
        let after = link.statistics(Direction::Forward)?;
        // The kernel may report a multicast group meanwhile. Cells do not carry such reports.
        let more = if lines.contains("cell") { 0 } else { 2 };
        let (frames, bytes) = (
            after.delivered - before.delivered,
            after.delivered_bytes - before.delivered_bytes,
        );
        assert_eq!(after.sent - before.sent, frames, "{lines}");
        assert!((50..=50 + more).contains(&frames), "{lines}: {frames}");
        let expected = 50 * (958 + HEADERS) as u64;
        assert!(
            (expected..=expected + 150 * more).contains(&bytes),
            "{lines}: {bytes}"
        );
        assert_eq!((after.queued, after.queued_bytes), (0, 0), "{lines}");
        assert!(after.lost.is_empty(), "{lines}: {after:?}");
        // Fifty frames at intervals of 0.2 ms take at least 9.8 ms.
        assert!(
            after.at - before.at >= Duration::from_micros(9_800),
            "{:?}",
            after.at - before.at
        );
    }
    Ok(())
}

pub(crate) fn queues_are_seen_to_fill() -> TestResult {
    for through in ["kernel", "cell"] {
        let more = if through == "cell" { 0 } else { 2 };
        let rules = "{ rate = \"100kbit/s\", queue = 10000 }";
        let lab = pair(&format!("through = \"{through}\"\nforward = {rules}"))?;
        let link = lab.link("link")?;
        // 1000 bytes take 80 ms.
        let probe = Probe::v4(&lab)?;
        probe.send(30, 958)?;
        let full = link.statistics(Direction::Forward)?;
        assert!((7..=10).contains(&full.queued), "{through}: {full:?}");
        assert!(
            full.queued_bytes <= 1000 * full.queued && full.queued_bytes > 6000,
            "{through}: {full:?}"
        );
        assert!(full.lost["queue"] >= 15, "{through}: {full:?}");
        assert!((30..=30 + more).contains(&full.sent), "{through}: {full:?}");
        assert_eq!(
            full.delivered + full.queued + full.lost["queue"],
            full.sent,
            "{through}: {full:?}"
        );
        // Without a rate, the queue is removed, but the counters stay.
        link.set(
            Direction::Forward,
            &Rules { rate: Some("0bit/s".parse()?), ..Rules::default() },
        )?;
        let later = link.statistics(Direction::Forward)?;
        assert!(
            later.sent >= full.sent && later.delivered >= full.delivered,
            "{through}: {later:?}"
        );
        probe.send(5, 958)?;
        let sent = link.statistics(Direction::Forward)?.sent - later.sent;
        assert!((5..=5 + more).contains(&sent), "{through}: {sent}");
    }
    Ok(())
}

pub(crate) fn statistics_show_throughput_over_time() -> TestResult {
    let lab = pair("through = \"cell\"\nforward = { rate = \"20Mbit/s\", queue = \"1MB\" }")?;
    let stop = AtomicBool::new(false);
    let mut samples = Vec::new();
    std::thread::scope(|scope| -> TestResult {
        let watcher = scope.spawn(|| lab.watch(Duration::from_millis(50), &stop, |s| samples.push(s)));
        // 600 ms at the link's rate, sent at once.
        Probe::v4(&lab)?.run(1000, 1458, Duration::ZERO)?;
        stop.store(true, Ordering::Relaxed);
        Ok(watcher.join().map_err(|_| "the watcher panicked")??)
    })?;
    // The period from the first sample with a queue to the last.
    let busy: Vec<_> = samples
        .iter()
        .map(|links| &links[0].forward)
        .filter(|s| s.queued > 0)
        .collect();
    let [first, .., last] = busy[..] else {
        return Err(format!("{} samples", busy.len()).into());
    };
    let rate = last.bits_per_second_since(first);
    assert!(
        (rate / 20e6 - 1.0).abs() < 0.05,
        "{rate} in {:?}",
        last.at - first.at
    );
    assert!(
        samples.iter().any(|sample| sample[0].forward.queued > 100),
        "the queue was full once"
    );
    Ok(())
}
