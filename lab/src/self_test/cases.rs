//! The matrix of cases, and their bounds.

use std::time::Duration;

use crate::LabError;

use super::pair;
use super::probe;
use super::report::Row;

/// The permitted relative deviation of the measured rate from the configured one. It covers the clock of the
/// measuring thread, which may wake up late.
const RATE: f64 = 0.02;
/// The permitted deviation at 1 Gbit/s, and for kernel shapers, which let a burst through after a pause.
const RATE_COARSE: f64 = 0.04;
/// The largest number of measurements of a case. Other load on the machine occasionally puts a case out of
/// its bounds; a faulty link is out of them each time.
const TRIES: u32 = 3;
/// The delay that the machine may add to half of the frames, and to 99 of a hundred, in microseconds.
const ADDED_P50: f64 = 300.0;
const ADDED_P99: f64 = 3000.0;
/// The number of threads that have to wake up for a probe: its sender, the cell, its receiver. Each adds the
/// machine's wake-up delay to the slowest of a hundred.
const WAKES: f64 = 3.0;
/// The permitted deviation of the measured loss, in standard deviations of the binomial distribution.
const DEVIATIONS: f64 = 4.0;

/// One link and its measurements.
pub(super) struct Case {
    pub(super) name: String,
    through: &'static str,
    rate: Option<f64>,
    delay_us: f64,
    loss: f64,
    quick: bool,
}

/// Returns all cases. The quick ones are a few of them, shorter.
pub(super) fn matrix(quick: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |through: &'static str, rate: Option<f64>, delay_us: f64, loss: f64| {
        let rate_text = rate.map_or("no limit".to_owned(), |rate| format!("{} Mbit/s", rate / 1e6));
        let name = format!(
            "{through}, {rate_text}, {} ms, {} % loss",
            delay_us / 1e3,
            loss * 100.0
        );
        cases.push(Case { name, through, rate, delay_us, loss, quick });
    };
    let rates: &[f64] = if quick {
        &[10e6, 1e9]
    } else {
        &[1e6, 10e6, 100e6, 1e9]
    };
    let delays: &[f64] = if quick {
        &[0.0, 25e3]
    } else {
        &[0.0, 1e3, 25e3, 100e3, 400e3]
    };
    for rate in rates {
        add("kernel", Some(*rate), 0.0, 0.0);
    }
    for rate in rates {
        for delay in delays {
            add("cell", Some(*rate), *delay, 0.0);
        }
    }
    let losses: &[f64] = if quick { &[0.1] } else { &[0.001, 0.01, 0.1] };
    for loss in losses {
        add("cell", None, 1e3, *loss);
    }
    cases
}

impl Case {
    /// Measures the case until it is within its bounds, at most `TRIES` times.
    pub(super) fn run(&self) -> Result<Row, LabError> {
        let mut row = self.measure()?;
        for tries in 2..=TRIES {
            if row.faults.is_empty() {
                break;
            }
            row = Row { tries, ..self.measure()? };
        }
        Ok(row)
    }

    fn measure(&self) -> Result<Row, LabError> {
        let lab = pair(&self.lines())?;
        let mut row = Row {
            through: self.through,
            rate: self.rate,
            measured_rate: None,
            delay_us: self.delay_us,
            delays: None,
            loss: self.loss,
            measured_loss: None,
            faults: Vec::new(),
            tries: 1,
        };
        if self.loss > 0.0 {
            let count = if self.quick { 5_000 } else { 40_000 };
            let lost = probe::loss(&lab, count)?;
            row.measured_loss = Some(lost);
            self.judge_loss(&mut row, lost, count);
        } else {
            row.delays = Some(probe::delays(&lab, if self.quick { 100 } else { 300 }, None)?);
            self.judge_delays(&mut row);
        }
        if let Some(rate) = self.rate {
            let seconds = if self.quick { 0.3 } else { 0.6 };
            let measured = probe::rate(&lab, rate, Duration::from_secs_f64(self.delay_us / 1e6), seconds)?;
            row.measured_rate = Some(measured);
            let share = if self.through == "kernel" || rate >= 1e9 {
                RATE_COARSE
            } else {
                RATE
            };
            if (measured / rate - 1.0).abs() > share {
                row.faults
                    .push(format!("the rate is more than {} % off", share * 100.0));
            }
        }
        Ok(row)
    }

    fn lines(&self) -> String {
        let mut rules = vec![
            format!("delay = \"{}us\"", self.delay_us),
            format!("loss = {}", self.loss),
        ];
        if self.through == "kernel" {
            rules.clear();
        }
        if let Some(rate) = self.rate {
            rules.push(format!("rate = \"{rate}bit/s\""));
            // The queue holds a tenth of a second, so that bursts of the sender are not lost.
            rules.push(format!(
                "queue = {}, queue_packets = 100000",
                (rate / 80.0).max(100e3) as u64
            ));
        }
        format!(
            "through = \"{}\"\nforward = {{ {} }}",
            self.through,
            rules.join(", ")
        )
    }

    fn judge_delays(&self, row: &mut Row) {
        let Some(delays) = row.delays else { return };
        // The probe, 100 bytes and headers, passes an empty link.
        let line = self.rate.filter(|_| self.through == "cell");
        let min = self.delay_us + line.map_or(0.0, |rate| probe::PROBE_BITS / rate * 1e6);
        if delays.min < min {
            row.faults
                .push(format!("a frame came {:.1} us too early", min - delays.min));
        }
        for (name, value, bound) in [
            ("half", delays.p50, ADDED_P50),
            ("99 of a hundred", delays.p99, ADDED_P99 + WAKES * delays.wake_p99),
        ] {
            if value - min > bound {
                row.faults.push(format!(
                    "{name} of the frames: {:.0} us late, more than {bound:.0}",
                    value - min
                ));
            }
        }
    }

    fn judge_loss(&self, row: &mut Row, lost: f64, count: u64) {
        let deviation = (self.loss * (1.0 - self.loss) / count as f64).sqrt();
        if (lost - self.loss).abs() > DEVIATIONS * deviation {
            row.faults
                .push(format!("the loss is more than {DEVIATIONS} deviations off"));
        }
    }
}
