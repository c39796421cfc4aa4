//! A report as a drawing: for each metric, a bar for each row, with the spread of the runs.

use std::fmt::Write as _;

use hawser::interact::svg::{document, escape};

use crate::report::{Better, Metric, Report, Row};
use crate::table::number;

const WIDTH: f64 = 860.0;
/// The start of the bars; names are to the left.
const LEFT: f64 = 250.0;
/// The room for figures at the right.
const RIGHT: f64 = 130.0;
const BAR: f64 = 16.0;
const STEP: f64 = 24.0;
const HEAD: f64 = 40.0;

/// Returns the drawing as a complete document.
#[must_use]
pub(crate) fn render(report: &Report) -> String {
    let rows: Vec<&Row> = report.rows.iter().filter(|row| row.skipped.is_none()).collect();
    let mut names: Vec<&str> = Vec::new();
    for metric in rows.iter().flat_map(|row| &row.metrics) {
        if !names.contains(&metric.name) {
            names.push(metric.name);
        }
    }
    let baselines: Vec<&str> = rows.iter().filter_map(|row| row.baseline.as_deref()).collect();
    let mut body = String::new();
    let mut y = 30.0;
    let _ = writeln!(
        body,
        r#"<text x="12" y="{y}" font-size="16" font-weight="600">{}</text>"#,
        escape(&report.title)
    );
    for name in names {
        y += HEAD;
        let bars: Vec<(&str, &Metric)> = rows
            .iter()
            .filter_map(|row| Some((row.name.as_str(), row.metric(name)?)))
            .collect();
        chart(&mut body, &mut y, &bars, &baselines);
    }
    let height = y + 36.0;
    let e = &report.environment;
    let foot = format!(
        "revision {}, Linux {}, {}, {} cores",
        e.revision, e.kernel, e.processor, e.cores
    );
    let _ = writeln!(
        body,
        r##"<text x="12" y="{:.0}" font-size="11" fill="#666">{}</text>"##,
        height - 10.0,
        escape(&foot)
    );
    document(WIDTH, height, 13, &body)
}

fn chart(body: &mut String, y: &mut f64, bars: &[(&str, &Metric)], baselines: &[&str]) {
    let Some((_, first)) = bars.first() else { return };
    let better = match first.better {
        Better::Higher => "more is better",
        Better::Lower => "less is better",
    };
    let title = format!("{}, {} ({better})", first.name, first.unit);
    let _ = writeln!(
        body,
        r#"<text x="12" y="{y}" font-weight="600">{}</text>"#,
        escape(&title)
    );
    let max = bars
        .iter()
        .map(|(_, metric)| metric.max)
        .fold(f64::MIN_POSITIVE, f64::max);
    let scale = (WIDTH - LEFT - RIGHT) / max;
    *y += 10.0;
    for (name, metric) in bars {
        let colour = match (
            baselines.contains(name),
            name.starts_with("Hawser") || name.contains("→ Hawser"),
        ) {
            (true, _) => "#8a8f98",
            (false, true) => "#2563a8",
            (false, false) => "#b7bcc4",
        };
        let (length, middle) = (metric.median * scale, *y + BAR / 2.0);
        let _ = writeln!(
            body,
            r#"<text x="{}" y="{}" text-anchor="end">{}</text>"#,
            LEFT - 8.0,
            middle + 4.5,
            escape(name)
        );
        let _ = writeln!(
            body,
            r#"<rect x="{LEFT}" y="{y}" width="{length:.1}" height="{BAR}" fill="{colour}"/>"#
        );
        let (from, to) = (LEFT + metric.min * scale, LEFT + metric.max * scale);
        let _ = writeln!(
            body,
            r##"<path d="M{from:.1} {middle}H{to:.1}" stroke="#111" stroke-width="1.5"/>"##
        );
        let ratio = metric
            .ratio
            .map_or_else(String::new, |ratio| format!(" ({}×)", number(ratio)));
        let figure = format!("{}{ratio}", number(metric.median));
        let _ = writeln!(
            body,
            r#"<text x="{:.1}" y="{}">{figure}</text>"#,
            LEFT + metric.max.max(metric.median) * scale + 6.0,
            middle + 4.5
        );
        *y += STEP;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_its_bar() {
        let rate = |run| Metric::new("rate", "Gbit/s", Better::Higher, vec![run]);
        let mut report = Report::new("bulk", "A < B");
        report.rows = vec![
            Row::new("a", [rate(1.0)]),
            Row::new("b", [rate(2.0)]),
            Row::skipped("c", "none"),
        ];
        let svg = render(&report);
        assert_eq!(svg.matches("<rect x=").count(), 2);
        assert!(svg.contains("A &lt; B") && svg.ends_with("</svg>\n"));
        // The longest bar fills the room between names and figures.
        assert!(
            svg.contains(&format!("width=\"{:.1}\"", WIDTH - LEFT - RIGHT)),
            "{svg}"
        );
    }
}
