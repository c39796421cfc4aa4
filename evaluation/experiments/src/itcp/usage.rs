//! The processor time of this process's threads and of the machine, as `/proc` reports it.

use std::fs::read_to_string;

use serde::Serialize;

use crate::Error;

/// Processor time and context switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Usage {
    /// The processor time in seconds, to the nanosecond (`schedstat`).
    pub(super) cpu: f64,
    /// The parts of it in user mode and in the kernel, at the resolution of clock ticks (`stat`).
    pub(super) user: f64,
    pub(super) system: f64,
    pub(super) voluntary: u64,
    pub(super) forced: u64,
}

impl Usage {
    /// Adds up all threads whose names begin with one of these.
    pub(super) fn from_names(names: &[&str]) -> Result<Self, Error> {
        let mut sum = Self::default();
        for task in std::fs::read_dir("/proc/self/task")? {
            let path = task?.path();
            let read = |file: &str| read_to_string(path.join(file));
            // A thread can end between two samples.
            let Ok(name) = read("comm") else { continue };
            if names.iter().any(|begin| name.starts_with(begin))
                && let (Ok(stat), Ok(schedstat), Ok(status)) =
                    (read("stat"), read("schedstat"), read("status"))
            {
                sum.add(&stat, &schedstat, &status);
            }
        }
        Ok(sum)
    }

    /// Adds a thread's usage (proc_pid_stat(5), proc_pid_status(5)).
    fn add(&mut self, stat: &str, schedstat: &str, status: &str) {
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        // Fields 3 and on follow the name, which may contain any character.
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        let time = |field: usize| {
            fields
                .get(field - 3)
                .and_then(|t| t.parse::<f64>().ok())
                .unwrap_or(0.0)
        };
        self.user += time(14) / ticks;
        self.system += time(15) / ticks;
        let nanos = schedstat
            .split(' ')
            .next()
            .and_then(|time| time.parse::<f64>().ok());
        self.cpu += nanos.unwrap_or(0.0) / 1e9;
        let number = |name: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(name));
            value
                .and_then(|value| value.trim().parse::<u64>().ok())
                .unwrap_or(0)
        };
        self.voluntary += number("voluntary_ctxt_switches:");
        self.forced += number("nonvoluntary_ctxt_switches:");
    }

    /// Returns the usage from `then` to now.
    pub(super) fn since(&self, then: &Self) -> Self {
        Self {
            cpu: self.cpu - then.cpu,
            user: self.user - then.user,
            system: self.system - then.system,
            voluntary: self.voluntary.saturating_sub(then.voluntary),
            forced: self.forced.saturating_sub(then.forced),
        }
    }
}

/// Returns the ticks in which the machine was busy, and all ticks (proc_stat(5)).
pub(super) fn machine() -> Result<[u64; 2], Error> {
    Ok(ticks(&read_to_string("/proc/stat")?))
}

fn ticks(stat: &str) -> [u64; 2] {
    let line = stat.lines().next().unwrap_or_default();
    let all: Vec<u64> = line
        .split_whitespace()
        .skip(1)
        .take(8)
        .filter_map(|t| t.parse().ok())
        .collect();
    let sum: u64 = all.iter().sum();
    // The fourth and fifth columns are the time idle and waiting for input.
    [sum - all.iter().skip(3).take(2).sum::<u64>(), sum]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usage_in_proc_is_read() {
        let mut usage = Usage::default();
        let stat = "7 (a) b) S 1 1 1 0 -1 64 0 0 0 0 250 125 0 0 20 0 3";
        usage.add(
            stat,
            "3760000001 5 9\n",
            "Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n",
        );
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let wanted = Usage {
            cpu: 3.760000001,
            user: 250.0 / ticks,
            system: 125.0 / ticks,
            voluntary: 12,
            forced: 3,
        };
        assert_eq!(usage, wanted);
        assert_eq!(ticks_of("cpu  10 1 5 100 20 2 3 4 50 0\ncpu0 1"), [25, 145]);
    }

    fn ticks_of(stat: &str) -> [u64; 2] {
        ticks(stat)
    }
}
