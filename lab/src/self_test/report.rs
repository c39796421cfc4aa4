//! What a self-test found.

use std::fmt;

use serde::Serialize;

/// The whole report.
#[derive(Clone, Debug, Serialize)]
pub struct SelfTest {
    /// Whether everything was within its bounds.
    pub ok: bool,
    /// The matrix.
    pub rows: Vec<Row>,
    /// What this machine adds by itself.
    pub floor: Floor,
}

/// One case.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What carries the link: `kernel` or `cell`.
    pub through: &'static str,
    /// Configured bits per second; `None`: no limit.
    pub rate: Option<f64>,
    /// Measured.
    pub measured_rate: Option<f64>,
    /// Configured delay in microseconds.
    pub delay_us: f64,
    /// Measured, idle; it has the delay configured in it.
    pub delays: Option<Delays>,
    /// Configured share of frames lost.
    pub loss: f64,
    /// Measured.
    pub measured_loss: Option<f64>,
    /// What was out of bounds.
    pub faults: Vec<String>,
    /// How often it was measured; what is reported is the last time.
    pub tries: u32,
}

/// One-way delays in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Delays {
    /// The smallest.
    pub min: f64,
    /// What half of them do not exceed.
    pub p50: f64,
    /// What nine of ten do not.
    pub p90: f64,
    /// What 99 of a hundred do not.
    pub p99: f64,
    /// By how much the sender of the probes, which sleeps between them, woke up late at most in 99 of a hundred
    /// cases: what the machine itself adds each time that somebody waits, whatever carries the link.
    pub wake_p99: f64,
}

/// What this machine adds by itself.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Floor {
    /// A cable without a cell.
    pub kernel: Delays,
    /// A cell that does nothing, idle.
    pub cell: Delays,
    /// A cell of 1 Gbit/s with 500 Mbit/s going through it.
    pub busy: Delays,
    /// What one TCP stream carries through a cell without a rate: bits per second of frames.
    pub bits_per_second: f64,
    /// The share of frames that the machine was too slow to take meanwhile.
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
