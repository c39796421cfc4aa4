//! What a bench has measured: rows of metrics, the same for all benches; as JSON its shape is
//! stable (tools/bench/README.md describes it).

use serde::Serialize;

use crate::sys;

/// The version of the JSON's shape; it grows when a field changes its meaning or goes.
pub(crate) const VERSION: u32 = 1;

/// A whole bench.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    /// [`VERSION`].
    pub(crate) version: u32,
    /// The sub-command.
    pub(crate) bench: &'static str,
    /// What it measures, in a sentence.
    pub(crate) title: String,
    /// Where it ran.
    pub(crate) environment: Environment,
    /// Settings that the figures depend on: name and value.
    pub(crate) settings: Vec<(String, String)>,
    /// What was measured.
    pub(crate) rows: Vec<Row>,
    /// Rows that are compared beside their baseline.
    pub(crate) comparisons: Vec<Comparison>,
}

/// Two rows' ratio in one metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Comparison {
    /// The row in question.
    pub(crate) row: String,
    /// The row that it is compared with.
    pub(crate) with: String,
    /// Of which metric.
    pub(crate) metric: &'static str,
    /// The medians' ratio.
    pub(crate) ratio: f64,
}

/// One thing that was measured.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// The row's name in the table.
    pub(crate) name: String,
    /// The row that its ratios are to, by name.
    pub(crate) baseline: Option<String>,
    /// Why it was not measured after all.
    pub(crate) skipped: Option<String>,
    /// How much.
    pub(crate) metrics: Vec<Metric>,
    /// What goes with it and is no measure: counts, for instance.
    pub(crate) facts: Vec<(String, u64)>,
}

/// Whether more is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    /// A rate.
    Higher,
    /// A time or a cost.
    Lower,
}

/// One measure of a row, once for each run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Metric {
    /// Its name, the same in all rows.
    pub(crate) name: &'static str,
    /// Its unit.
    pub(crate) unit: &'static str,
    /// Whether more is better.
    pub(crate) better: Better,
    /// In the order of the runs.
    pub(crate) runs: Vec<f64>,
    /// The least.
    pub(crate) min: f64,
    /// The one in the middle; of an even number, the mean of the two there.
    pub(crate) median: f64,
    /// The greatest.
    pub(crate) max: f64,
    /// The median's ratio to the baseline's; `None` without a baseline.
    pub(crate) ratio: Option<f64>,
}

impl Metric {
    /// A metric of these runs; nothing when there is none.
    #[must_use]
    pub(crate) fn new(
        name: &'static str,
        unit: &'static str,
        better: Better,
        runs: Vec<f64>,
    ) -> Option<Metric> {
        let mut sorted = runs.clone();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
            _ => sorted[middle],
        };
        Some(Metric { name, unit, better, runs, min, median, max, ratio: None })
    }
}

impl Row {
    /// A row of these metrics.
    #[must_use]
    pub(crate) fn new(name: impl Into<String>, metrics: impl IntoIterator<Item = Option<Metric>>) -> Row {
        let metrics = metrics.into_iter().flatten().collect();
        Row {
            name: name.into(),
            baseline: None,
            skipped: None,
            metrics,
            facts: Vec::new(),
        }
    }

    /// A row that could not be measured.
    #[must_use]
    pub(crate) fn skipped(name: impl Into<String>, why: impl ToString) -> Row {
        Row {
            name: name.into(),
            baseline: None,
            skipped: Some(why.to_string()),
            metrics: Vec::new(),
            facts: Vec::new(),
        }
    }

    /// A metric by name.
    #[must_use]
    pub(crate) fn metric(&self, name: &str) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.name == name)
    }
}

impl Report {
    /// A report without rows yet.
    #[must_use]
    pub(crate) fn new(bench: &'static str, title: impl Into<String>) -> Report {
        Report {
            version: VERSION,
            bench,
            title: title.into(),
            environment: Environment::read(),
            settings: Vec::new(),
            rows: Vec::new(),
            comparisons: Vec::new(),
        }
    }

    /// Compares two rows beside their baseline, where both were measured.
    pub(crate) fn compare(&mut self, row: &str, with: &str, metric: &'static str) {
        let median = |name: &str| {
            let row = self.rows.iter().find(|row| row.name == name)?;
            row.metric(metric)
                .map(|metric| metric.median)
                .filter(|median| *median > 0.0)
        };
        if let (Some(one), Some(other)) = (median(row), median(with)) {
            let (row, with) = (row.to_owned(), with.to_owned());
            self.comparisons
                .push(Comparison { row, with, metric, ratio: one / other });
        }
    }

    /// Notes a setting.
    pub(crate) fn setting(&mut self, name: &str, value: impl ToString) {
        self.settings.push((name.to_owned(), value.to_string()));
    }

    /// Gives every metric its ratio to the same metric of the row that `baseline` names for its row.
    pub(crate) fn against(&mut self, baseline: impl Fn(&str) -> Option<String>) {
        let known = self.rows.clone();
        for row in &mut self.rows {
            let Some(other) = baseline(&row.name).and_then(|name| known.iter().find(|r| r.name == name))
            else {
                continue;
            };
            row.baseline = Some(other.name.clone());
            for metric in &mut row.metrics {
                let base = other.metric(metric.name).map(|m| m.median).filter(|m| *m > 0.0);
                metric.ratio = base.map(|base| metric.median / base);
            }
        }
    }
}

/// Where a bench ran.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Environment {
    /// The revision that was built, with `-dirty` where files had been changed; or `unknown`.
    pub(crate) revision: String,
    /// `/proc/sys/kernel/osrelease`.
    pub(crate) kernel: String,
    /// The processor's name.
    pub(crate) processor: String,
    /// Cores that this process may use.
    pub(crate) cores: usize,
    /// The governor of the first core; `unknown` on most virtual machines.
    pub(crate) governor: String,
    /// The load average over one minute when the bench began: others disturb the figures.
    pub(crate) load: f64,
    /// Whether Hawser and its peers were compiled with debug assertions and overflow checks.
    pub(crate) debug_assertions: bool,
    /// Seconds since 1970 when the bench began.
    pub(crate) time: u64,
}

impl Environment {
    /// This machine, now.
    #[must_use]
    pub(crate) fn read() -> Environment {
        let file = |path: &str| {
            std::fs::read_to_string(path)
                .ok()
                .map(|text| text.trim().to_owned())
        };
        let unknown = || "unknown".to_owned();
        let processor = file("/proc/cpuinfo").and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        });
        let load = file("/proc/loadavg").and_then(|text| text.split(' ').next()?.parse().ok());
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Environment {
            revision: env!("HAWSER_REVISION").to_owned(),
            kernel: file("/proc/sys/kernel/osrelease").unwrap_or_else(unknown),
            processor: processor.unwrap_or_else(unknown),
            cores: sys::cores().map_or(0, |cores| cores.len()),
            governor: file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").unwrap_or_else(unknown),
            load: load.unwrap_or(0.0),
            debug_assertions: cfg!(debug_assertions),
            time: since.map_or(0, |since| since.as_secs()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(runs: &[f64]) -> Option<Metric> {
        Metric::new("rate", "Gbit/s", Better::Higher, runs.to_vec())
    }

    #[test]
    fn a_metric_is_summed_up() {
        let odd = rate(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!((odd.min, odd.median, odd.max), (1.0, 2.0, 3.0));
        assert_eq!(rate(&[4.0, 1.0]).unwrap().median, 2.5);
        assert!(rate(&[]).is_none());
    }

    #[test]
    fn ratios_are_to_the_baseline_of_the_same_metric() {
        let mut report = Report::new("bulk", "");
        report.rows = vec![
            Row::new("a", [rate(&[2.0])]),
            Row::new("b", [rate(&[3.0])]),
            Row::skipped("c", "no"),
        ];
        report.against(|_| Some("a".to_owned()));
        let ratios: Vec<_> = report
            .rows
            .iter()
            .map(|r| r.metric("rate").and_then(|m| m.ratio))
            .collect();
        assert_eq!(ratios, [Some(1.0), Some(1.5), None]);
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["rows"][1]["metrics"][0]["ratio"], 1.5);
        assert_eq!(json["rows"][1]["baseline"], "a");
    }

    #[test]
    fn two_rows_are_compared_if_both_were_measured() {
        let mut report = Report::new("bulk", "");
        report.rows = vec![
            Row::new("a", [rate(&[2.0])]),
            Row::new("b", [rate(&[3.0])]),
            Row::skipped("c", "no"),
        ];
        report.compare("b", "a", "rate");
        report.compare("b", "c", "rate");
        report.compare("b", "a", "delay");
        let (row, with) = ("b".to_owned(), "a".to_owned());
        assert_eq!(
            report.comparisons,
            [Comparison { row, with, metric: "rate", ratio: 1.5 }]
        );
    }
}
