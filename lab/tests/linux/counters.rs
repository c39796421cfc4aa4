//! What links say of themselves, and when.

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
        assert_eq!((after.sent - before.sent, after.delivered - before.delivered), (50, 50), "{lines}");
        assert_eq!(after.delivered_bytes - before.delivered_bytes, 50 * (958 + HEADERS) as u64, "{lines}");
        assert_eq!((after.queued, after.queued_bytes), (0, 0), "{lines}");
        assert!(after.lost.is_empty(), "{lines}: {after:?}");
        // Fifty frames at 0.2 ms take 9.8 ms at least.
        assert!(after.at - before.at >= Duration::from_micros(9_800), "{:?}", after.at - before.at);
    }
    Ok(())
}

pub(crate) fn queues_are_seen_to_fill() -> TestResult {
    for through in ["kernel", "cell"] {
        let rules = "{ rate = \"100kbit/s\", queue = 10000 }";
        let lab = pair(&format!("through = \"{through}\"\nforward = {rules}"))?;
        let link = lab.link("link")?;
        // 1000 bytes take 80 ms.
        let probe = Probe::v4(&lab)?;
        probe.send(30, 958)?;
        let full = link.statistics(Direction::Forward)?;
        assert!((7..=10).contains(&full.queued), "{through}: {full:?}");
        assert_eq!(full.queued_bytes, 1000 * full.queued, "{through}");
        assert!(full.lost["queue"] >= 15, "{through}: {full:?}");
        assert_eq!(full.sent, 30, "{through}: {full:?}");
        assert_eq!(full.delivered + full.queued + full.lost["queue"], 30, "{through}: {full:?}");
        // Without a rate the queue is gone; what was counted stays.
        link.set(Direction::Forward, &Rules { rate: Some("0bit/s".parse()?), ..Rules::default() })?;
        let later = link.statistics(Direction::Forward)?;
        assert!(later.sent >= full.sent && later.delivered >= full.delivered, "{through}: {later:?}");
        probe.send(5, 958)?;
        assert_eq!(link.statistics(Direction::Forward)?.sent, later.sent + 5, "{through}");
    }
    Ok(())
}

pub(crate) fn throughput_over_time() -> TestResult {
    let lab = pair("through = \"cell\"\nforward = { rate = \"20Mbit/s\", queue = \"1MB\" }")?;
    let stop = AtomicBool::new(false);
    let mut samples = Vec::new();
    std::thread::scope(|scope| -> TestResult {
        let watcher = scope.spawn(|| lab.watch(Duration::from_millis(50), &stop, |s| samples.push(s)));
        // 600 ms at the line's rate, at once.
        Probe::v4(&lab)?.run(1000, 1458, Duration::ZERO)?;
        stop.store(true, Ordering::Relaxed);
        Ok(watcher.join().map_err(|_| "the watcher panicked")??)
    })?;
    let rates = samples.windows(2).map(|pair| pair[1][0].forward.bits_per_second_since(&pair[0][0].forward));
    let busy = rates.filter(|rate| (rate / 20e6 - 1.0).abs() < 0.05).count();
    assert!(busy >= 6, "{busy} of {} looks", samples.len());
    assert!(samples.iter().any(|sample| sample[0].forward.queued > 100), "the queue was full once");
    Ok(())
}
