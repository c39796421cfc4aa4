//! The results of a bench: rows of metrics, the same for all benches. Their form as JSON is stable
//! (evaluation/bench/README.md describes it).

use serde::Serialize;

use crate::sys;

/// The version of the JSON's form. It grows when a field is removed or changes its meaning.
pub(crate) const VERSION: u32 = 1;

/// The results of one bench.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    /// The version of the form, [`VERSION`].
    pub(crate) version: u32,
    /// The name of the sub-command.
    pub(crate) bench: &'static str,
    /// A sentence that describes the measurement.
    pub(crate) title: String,
    /// The machine that it ran on.
    pub(crate) environment: Environment,
    /// Settings that the figures depend on: name and value.
    pub(crate) settings: Vec<(String, String)>,
    /// The measurements.
    pub(crate) rows: Vec<Row>,
    /// Comparisons in addition to those with the baselines.
    pub(crate) comparisons: Vec<Comparison>,
}

/// The ratio of two rows in one metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Comparison {
    /// The name of the compared row.
    pub(crate) row: String,
    /// The name of the row that it is compared with.
    pub(crate) with: String,
    /// The metric compared.
    pub(crate) metric: &'static str,
    /// The ratio of the medians.
    pub(crate) ratio: f64,
}

/// The measurement of one subject.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// The name in the table.
    pub(crate) name: String,
    /// The name of the row that its ratios refer to.
    pub(crate) baseline: Option<String>,
    /// The reason why it was not measured.
    pub(crate) skipped: Option<String>,
    /// The measured metrics.
    pub(crate) metrics: Vec<Metric>,
    /// Further values that are not metrics, such as counts.
    pub(crate) facts: Vec<(String, u64)>,
}

/// The better direction of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    /// A rate: higher is better.
    Higher,
    /// A time or a cost: lower is better.
    Lower,
}

/// One metric of a row, with a value for each run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Metric {
    /// The name, the same in all rows.
    pub(crate) name: &'static str,
    /// The unit.
    pub(crate) unit: &'static str,
    /// The better direction.
    pub(crate) better: Better,
    /// The values in the order of the runs.
    pub(crate) runs: Vec<f64>,
    /// The smallest value.
    pub(crate) min: f64,
    /// The median; of an even number of values, the mean of the two in the middle.
    pub(crate) median: f64,
    /// The largest value.
    pub(crate) max: f64,
    /// The ratio of the median to the baseline's; `None` without a baseline.
    pub(crate) ratio: Option<f64>,
}

impl Metric {
    /// Makes a metric of these runs, or `None` if there are none.
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
    /// Makes a row of these metrics.
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

    /// Makes a row that could not be measured.
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

    /// Returns a metric by its name.
    #[must_use]
    pub(crate) fn metric(&self, name: &str) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.name == name)
    }
}

impl Report {
    /// Makes a report without rows.
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

    /// Adds the comparison of two rows, if both were measured.
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

    /// Adds a setting.
    pub(crate) fn setting(&mut self, name: &str, value: impl ToString) {
        self.settings.push((name.to_owned(), value.to_string()));
    }

    /// Sets the ratio of every metric to the same metric of the row that `baseline` names.
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

/// The machine and the conditions of a bench.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Environment {
    /// The revision that was built, with `-dirty` if files had been changed; or `unknown`.
    pub(crate) revision: String,
    /// The kernel's version, from `/proc/sys/kernel/osrelease`.
    pub(crate) kernel: String,
    /// The processor's name.
    pub(crate) processor: String,
    /// The number of cores that this process may use.
    pub(crate) cores: usize,
    /// The frequency governor of the first core; `unknown` on most virtual machines.
    pub(crate) governor: String,
    /// The load average over one minute when the bench began, because other load disturbs the figures.
    pub(crate) load: f64,
    /// True if Hawser and its peers were compiled with debug assertions and overflow checks.
    pub(crate) debug_assertions: bool,
    /// The time at which the bench began, in seconds since 1970.
    pub(crate) time: u64,
}

impl Environment {
    /// Reads the properties of this machine now.
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
    fn a_metric_has_minimum_median_and_maximum() {
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
