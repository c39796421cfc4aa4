//! The table of a sweep: a row for each task, a column for each figure.

use hawser_syntax::OneLine;
use std::fmt::Write as _;

use hawser_sim::ScenarioError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::task::{Task, TaskResult};

/// A `[[column]]` of a sweep's file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ColumnSpec {
    name: String,
    of: String,
    by: Option<By>,
}

/// A selection of one figure from several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum By {
    Sum,
    Mean,
    Min,
    Max,
    P50,
    P99,
}

/// A figure to take from each report.
#[derive(Debug)]
pub(super) struct Column {
    /// The number in the sweep's file; absent if that has no columns.
    number: Option<usize>,
    name: String,
    of: String,
    by: Option<By>,
}

pub(super) fn columns(written: Vec<ColumnSpec>) -> Result<Vec<Column>, ScenarioError> {
    if written.is_empty() {
        let usual = [
            ("seconds", "seconds", None),
            (
                "bits_per_second",
                "flows.*.forward.bits_per_second",
                Some(By::Mean),
            ),
            ("retransmissions", "flows.*.retransmissions", Some(By::Sum)),
            ("slowdown_p50", "slowdown.all.p50", None),
            ("slowdown_p99", "slowdown.all.p99", None),
        ];
        let column = |(name, of, by): (&str, &str, _)| Column {
            number: None,
            name: name.to_owned(),
            of: of.to_owned(),
            by,
        };
        return Ok(usual.map(column).into());
    }
    let mut columns = Vec::<Column>::new();
    for (number, one) in written.into_iter().enumerate() {
        let wrong = |message: &str| ScenarioError::new(format!("column[{number}]"), message);
        if columns.iter().any(|other| other.name == one.name) {
            return Err(wrong(&format!("the column `{}` already exists", one.name)));
        }
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
        if one.name.is_empty() || !one.name.chars().all(is_plain) {
            return Err(wrong(
                "the name of a column, which names a drawing, consists of letters, digits, `_` and `-`",
            ));
        }
        if one.of.split('.').any(|step| step == "*") && one.by.is_none() {
            return Err(wrong("`*` means several figures")
                .with_hint("`by` makes one of them: sum, mean, min, max, p50, p99"));
        }
        columns.push(Column { number: Some(number), name: one.name, of: one.of, by: one.by });
    }
    Ok(columns)
}

impl Column {
    /// Returns an error if the column is one of the file's, and no report of the table has it.
    pub(super) fn missing(&self, table: &Table) -> Option<ScenarioError> {
        let number = self.number.filter(|_| !table.columns.contains(&self.name))?;
        let message = format!("no report has a figure `{}`", self.of);
        let error = ScenarioError::new(format!("column[{number}].of"), message);
        Some(error.with_hint("the figures are those that `hawser sim --json` prints"))
    }

    /// Returns the column's figure in a report, if the report has it.
    pub(super) fn figure(&self, report: &Value) -> Option<f64> {
        let mut found = vec![report];
        for step in self.of.split('.') {
            found = found.into_iter().flat_map(|value| below(value, step)).collect();
        }
        let mut figures: Vec<f64> = found.into_iter().filter_map(number).collect();
        figures.sort_by(f64::total_cmp);
        let (first, last) = (*figures.first()?, *figures.last()?);
        let (sum, count) = (figures.iter().sum::<f64>(), figures.len());
        // The smallest value that at least this percentage does not exceed.
        let share = |percent: usize| figures[(count * percent).div_ceil(100).max(1) - 1];
        match self.by {
            None => Some(first),
            Some(By::Sum) => Some(sum),
            Some(By::Mean) => Some(sum / count as f64),
            Some(By::Min) => Some(first),
            Some(By::Max) => Some(last),
            Some(By::P50) => Some(share(50)),
            Some(By::P99) => Some(share(99)),
        }
    }
}

fn below<'a>(value: &'a Value, step: &str) -> Vec<&'a Value> {
    match (value, step) {
        (Value::Array(values), "*") => values.iter().collect(),
        (Value::Object(values), "*") => values.values().collect(),
        (Value::Array(values), _) => step
            .parse()
            .ok()
            .and_then(|step: usize| values.get(step))
            .into_iter()
            .collect(),
        (value, _) => value.get(step).into_iter().collect(),
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
        value => value.as_f64(),
    }
}

/// The results of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// The names of the axes.
    pub axes: Vec<String>,
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The tasks, by number.
    pub rows: Vec<Row>,
}

/// A task and its result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The task's number.
    pub number: usize,
    /// The task's id.
    pub id: String,
    /// The task's choices, one for each axis.
    pub choices: Vec<String>,
    /// The task's seed.
    pub seed: u64,
    /// True if its run met its expectations; absent if it has not run.
    pub ok: Option<bool>,
    /// The figure for each column, if the report has it.
    pub figures: Vec<Option<f64>>,
}

/// The tasks that differ only in their seeds.
#[derive(Clone, Debug, PartialEq)]
pub struct Group<'a> {
    /// The choices of these tasks.
    pub choices: &'a [String],
    /// The number of tasks that have run.
    pub runs: usize,
    /// The mean, minimum and maximum for each column, if any run has it.
    pub figures: Vec<Option<[f64; 3]>>,
}

pub(super) fn table<'a>(
    axes: impl Iterator<Item = &'a str>,
    columns: &[Column],
    tasks: &[Task],
    result: &dyn Fn(&Task) -> Option<TaskResult>,
) -> Table {
    let row = |task: &Task| {
        let done = result(task);
        let figure = |column: &Column| column.figure(&done.as_ref()?.report);
        Row {
            number: task.number,
            id: task.id.clone(),
            choices: task.choices.clone(),
            seed: task.seed,
            ok: done.as_ref().map(TaskResult::is_ok),
            figures: columns.iter().map(figure).collect(),
        }
    };
    let mut table = Table {
        axes: axes.map(str::to_owned).collect(),
        columns: columns.iter().map(|column| column.name.clone()).collect(),
        rows: tasks.iter().map(row).collect(),
    };
    table.narrow();
    table
}

impl Table {
    /// Removes columns without any figure.
    fn narrow(&mut self) {
        let is_there = |place: usize| self.rows.iter().any(|row| row.figures[place].is_some());
        let kept: Vec<bool> = (0..self.columns.len()).map(is_there).collect();
        let mut keep = kept.iter();
        self.columns.retain(|_| keep.next() == Some(&true));
        for row in &mut self.rows {
            let mut keep = kept.iter();
            row.figures.retain(|_| keep.next() == Some(&true));
        }
    }

    /// Returns the rows as CSV (RFC 4180), after a line of names.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut head: Vec<String> = self.axes.iter().map(|name| field(name)).collect();
        head.extend(["seed".into(), "ok".into()]);
        head.extend(self.columns.iter().map(|name| field(name)));
        head.push("id".into());
        let mut text = head.join(",") + "\r\n";
        for row in &self.rows {
            let mut fields: Vec<String> = row.choices.iter().map(|choice| field(choice)).collect();
            fields.push(row.seed.to_string());
            fields.push(row.ok.map_or_else(String::new, |ok| ok.to_string()));
            fields.extend(
                row.figures
                    .iter()
                    .map(|figure| figure.map_or_else(String::new, |figure| figure.to_string())),
            );
            fields.push(row.id.clone());
            let _ = write!(text, "{}\r\n", fields.join(","));
        }
        text
    }

    /// Returns the groups of tasks that differ only in their seeds, in order.
    #[must_use]
    pub fn groups(&self) -> Vec<Group<'_>> {
        let same = |one: &Row, other: &Row| one.choices == other.choices;
        let group = |rows: &'_ [Row]| {
            let of_column = |place: usize| {
                let figures: Vec<f64> = rows.iter().filter_map(|row| row.figures[place]).collect();
                let low = figures.iter().copied().min_by(f64::total_cmp)?;
                let high = figures.iter().copied().max_by(f64::total_cmp)?;
                Some([figures.iter().sum::<f64>() / figures.len() as f64, low, high])
            };
            (
                rows.iter().filter(|row| row.ok.is_some()).count(),
                (0..self.columns.len()).map(of_column).collect(),
            )
        };
        let chunks = self.rows.chunk_by(same);
        chunks
            .map(|rows| {
                let (runs, figures) = group(rows);
                Group { choices: &rows[0].choices, runs, figures }
            })
            .collect()
    }
}

/// Quotes a field if needed.
fn field(text: &str) -> String {
    let text = OneLine(text).to_string();
    match text.contains(['"', ',', '\r', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}
