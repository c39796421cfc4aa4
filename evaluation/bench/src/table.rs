//! A report for people: a plain table, or one in Markdown.

use std::fmt::Write as _;

use crate::report::{Metric, Report, Row};

/// The style of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Columns of equal width, for terminals.
    Plain,
    /// For documents.
    Markdown,
}

/// Returns the report's table, followed by the settings that the figures depend on.
#[must_use]
pub(crate) fn render(report: &Report, style: Style) -> String {
    let cells = cells(report);
    let mut text = match style {
        Style::Plain => format!("{}\n\n{}", report.title, plain(&cells)),
        Style::Markdown => markdown(&cells),
    };
    text.push('\n');
    for row in report.rows.iter().filter(|row| row.skipped.is_some()) {
        let _ = writeln!(
            text,
            "skipped: {}: {}",
            row.name,
            row.skipped.as_deref().unwrap_or_default()
        );
    }
    for comparison in &report.comparisons {
        let crate::report::Comparison { row, with, metric, ratio } = comparison;
        let _ = writeln!(text, "{row}: {metric} {}× that of {with}", number(*ratio));
    }
    let settings: Vec<_> = report
        .settings
        .iter()
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    let e = &report.environment;
    let checks = if e.debug_assertions { "with" } else { "without" };
    let _ = writeln!(text, "{}", settings.join("; "));
    let _ = writeln!(
        text,
        "revision {}; Linux {}; {} ({} cores, governor {}); load {:.1} at the start; {checks} debug assertions",
        e.revision, e.kernel, e.processor, e.cores, e.governor, e.load,
    );
    text
}

/// Returns the table: its head, then a line for each row.
fn cells(report: &Report) -> Vec<Vec<String>> {
    let rows: Vec<&Row> = report.rows.iter().filter(|row| row.skipped.is_none()).collect();
    let mut columns: Vec<&Metric> = Vec::new();
    for metric in rows.iter().flat_map(|row| &row.metrics) {
        if !columns.iter().any(|known| known.name == metric.name) {
            columns.push(metric);
        }
    }
    let with_ratio = |name: &str| {
        rows.iter()
            .any(|r| r.metric(name).is_some_and(|m| m.ratio.is_some()))
    };
    let facts: Vec<&String> = {
        let mut names: Vec<&String> = Vec::new();
        for (name, _) in rows.iter().flat_map(|row| &row.facts) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    };
    let mut head = vec![String::new()];
    for column in &columns {
        head.push(format!("{} [{}]", column.name, column.unit));
        if with_ratio(column.name) {
            head.push("ratio".to_owned());
        }
    }
    head.extend(facts.iter().map(|name| (*name).clone()));
    let mut table = vec![head];
    for row in &rows {
        let mut line = vec![row.name.clone()];
        for column in &columns {
            let metric = row.metric(column.name);
            line.push(metric.map_or_else(String::new, spread));
            if with_ratio(column.name) {
                let ratio = metric.and_then(|m| m.ratio);
                line.push(ratio.map_or_else(String::new, |r| format!("{}×", number(r))));
            }
        }
        line.extend(facts.iter().map(|name| {
            let fact = row.facts.iter().find(|(n, _)| n == *name);
            fact.map_or_else(String::new, |(_, value)| value.to_string())
        }));
        table.push(line);
    }
    table
}

/// Returns the median, and if the runs differ, the smallest and the largest value.
fn spread(metric: &Metric) -> String {
    if metric.runs.len() == 1 {
        return number(metric.median);
    }
    format!(
        "{} ({}–{})",
        number(metric.median),
        number(metric.min),
        number(metric.max)
    )
}

/// Formats a value with three significant digits.
#[must_use]
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 10_000.0 => {
            let digits = format!("{value:.0}");
            let mut grouped = String::new();
            for (i, c) in digits.chars().enumerate() {
                if i > 0 && c.is_ascii_digit() && (digits.len() - i) % 3 == 0 && !grouped.ends_with('-') {
                    grouped.push(',');
                }
                grouped.push(c);
            }
            grouped
        }
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 0.1 || v == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

fn plain(table: &[Vec<String>]) -> String {
    let columns = table.first().map_or(0, Vec::len);
    let width = |c: usize| {
        table
            .iter()
            .map(|line| line[c].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in table {
        let mut out = String::new();
        for (c, cell) in line.iter().enumerate() {
            let pad = " ".repeat(widths[c] - cell.chars().count());
            // Names on the left, figures on the right.
            let _ = if c == 0 {
                write!(out, "{cell}{pad}")
            } else {
                write!(out, "  {pad}{cell}")
            };
        }
        let _ = writeln!(text, "{}", out.trim_end());
    }
    text
}

fn markdown(table: &[Vec<String>]) -> String {
    let mut text = String::new();
    for (i, line) in table.iter().enumerate() {
        let _ = writeln!(text, "| {} |", line.join(" | "));
        if i == 0 {
            let rule: Vec<_> = (0..line.len())
                .map(|c| if c == 0 { "---" } else { "---:" })
                .collect();
            let _ = writeln!(text, "|{}|", rule.join("|"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Better;

    #[test]
    fn numbers_have_three_significant_digits() {
        for (value, text) in [
            (0.0, "0.00"),
            (1.234, "1.23"),
            (17.26, "17.3"),
            (123.4, "123"),
            (1_234_567.0, "1,234,567"),
            (0.012_34, "0.0123"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn tables_have_a_line_for_each_row() {
        let rate = |runs: Vec<f64>| Metric::new("rate", "Gbit/s", Better::Higher, runs);
        let mut report = Report::new("bulk", "Bulk");
        report.rows = vec![
            Row::new("a", [rate(vec![1.0, 3.0])]),
            Row::new("b", [rate(vec![4.0])]),
            Row::skipped("c", "none"),
        ];
        report.against(|_| Some("a".to_owned()));
        let text = render(&report, Style::Markdown);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "|  | rate [Gbit/s] | ratio |");
        assert_eq!(lines[2], "| a | 2.00 (1.00–3.00) | 1.00× |");
        assert_eq!(lines[3], "| b | 4.00 | 2.00× |");
        assert!(text.contains("skipped: c: none"), "{text}");
        assert!(render(&report, Style::Plain).contains("a  2.00 (1.00–3.00)"));
    }
}
