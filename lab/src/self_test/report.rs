//! The report of a self-test.

use std::fmt;

use serde::Serialize;

/// The report of a self-test.
#[derive(Clone, Debug, Serialize)]
pub struct SelfTest {
    /// True if all cases were within their bounds.
    pub ok: bool,
    /// The cases of the matrix.
    pub rows: Vec<Row>,
    /// The machine's own share of the delays, and its throughput.
    pub floor: Floor,
}

/// The result of one case.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The carrier of the link: `kernel` or `cell`.
    pub through: &'static str,
    /// The configured rate, in bits per second. `None` is no limit.
    pub rate: Option<f64>,
    /// The measured rate, in bits per second.
    pub measured_rate: Option<f64>,
    /// The configured delay, in microseconds.
    pub delay_us: f64,
    /// The measured delays of an idle link. They include the configured delay.
    pub delays: Option<Delays>,
    /// The configured share of lost frames.
    pub loss: f64,
    /// The measured share of lost frames.
    pub measured_loss: Option<f64>,
    /// Descriptions of the values that were out of bounds.
    pub faults: Vec<String>,
    /// The number of measurements. The report has the last one.
    pub tries: u32,
}

/// One-way delays in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Delays {
    /// The smallest delay.
    pub min: f64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99th percentile of the wake-up delay of the probes' sender, which sleeps between them. The machine
    /// adds this delay for each thread that waits, independent of the carrier of the link.
    pub wake_p99: f64,
}

/// The machine's own share of the delays, and its throughput.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Floor {
    /// The delays of a cable without a cell.
    pub kernel: Delays,
    /// The delays of an idle cell without rules.
    pub cell: Delays,
    /// The delays of a cell of 1 Gbit/s that carries 500 Mbit/s.
    pub busy: Delays,
    /// The throughput of one TCP stream through a cell without a rate, in bits per second of frames.
    pub bits_per_second: f64,
    /// The share of frames that the machine was too slow to take during that stream.
    pub lost: f64,
}

impl fmt::Display for Delays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>9.3} {:>9.3} {:>9.3}",
            self.p50 / 1e3,
            self.p90 / 1e3,
            self.p99 / 1e3
        )
    }
}

impl fmt::Display for SelfTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<7} {:>10} {:>10} {:>9} {:>9} {:>9} {:>9} {:>7} {:>7}",
            "through", "Mbit/s", "measured", "delay ms", "p50", "p90", "p99", "loss %", "got"
        )?;
        for row in &self.rows {
            write!(f, "{row}")?;
        }
        let Floor { kernel, cell, busy, bits_per_second, lost } = &self.floor;
        writeln!(
            f,
            "\nthis machine's floor, ms                   p50       p90       p99"
        )?;
        writeln!(f, "  a cable of the kernel         {kernel}")?;
        writeln!(f, "  a cell that does nothing      {cell}")?;
        writeln!(f, "  the same, half of 1 Gbit/s    {busy}")?;
        writeln!(
            f,
            "  one TCP stream through a cell {:>9.0} Mbit/s, {:.3} % of frames came too fast",
            bits_per_second / 1e6,
            lost * 100.0
        )?;
        f.write_str(if self.ok {
            "\nwithin all bounds"
        } else {
            "\nOUT OF BOUNDS"
        })
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |value: Option<f64>, unit: f64, digits: usize| {
            value.map_or("-".to_owned(), |value| format!("{:.digits$}", value / unit))
        };
        let delays = self
            .delays
            .map_or(format!("{:>9} {:>9} {:>9}", "-", "-", "-"), |d| d.to_string());
        let again = if self.tries > 1 {
            format!("  {} tries", self.tries)
        } else {
            String::new()
        };
        writeln!(
            f,
            "{:<7} {:>10} {:>10} {:>9.3} {delays} {:>7.2} {:>7}{again}",
            self.through,
            number(self.rate, 1e6, 0),
            number(self.measured_rate, 1e6, 2),
            self.delay_us / 1e3,
            self.loss * 100.0,
            number(self.measured_loss, 0.01, 2),
        )?;
        self.faults
            .iter()
            .try_for_each(|fault| writeln!(f, "        ! {fault}"))
    }
}
