//! Slowdown by the size of messages: the ratio of a call's time to its time alone.

use hawser::interact::svg::plot::{Axes, Group, PlotLine, bars, lines};
use hawser::runs::Report;

/// The height of a drawing, in pixels.
pub(super) const HEIGHT: f64 = 380.0;

/// The values drawn for each group of sizes.
const FIGURES: [&str; 3] = ["median", "99th percentile", "99.9th percentile"];

/// Draws a run whose scenario asks for slowdown. Lines run from the smallest messages to the largest, as in
/// `hawser experiment homa-workloads`. If all messages have one size, there are bars instead.
pub(super) fn drawing(report: &Report) -> Option<String> {
    let slowdown = report.slowdown.as_ref()?;
    let groups = &slowdown.by_size;
    let axes = Axes {
        title: &format!("slowdown by size, {} calls", slowdown.all.count),
        x: "bytes of the message, powers of ten",
        y: "times alone",
    };
    if slowdown.all.min_bytes == slowdown.all.max_bytes {
        let bars_of = |value: f64| (value, value, value);
        let group = Group {
            name: format!("{} bytes", slowdown.all.min_bytes),
            bars: [slowdown.all.p50, slowdown.all.p99, slowdown.all.p999]
                .map(bars_of)
                .into(),
        };
        return Some(bars(
            &Axes { x: "", ..axes },
            &FIGURES.map(str::to_owned),
            &[group],
        ));
    }
    let line = |figure: usize| {
        let points = groups.iter().map(|group| {
            let middle = f64::midpoint(group.min_bytes as f64, group.max_bytes as f64);
            (
                middle.max(1.0).log10(),
                [group.p50, group.p99, group.p999][figure],
            )
        });
        PlotLine { name: FIGURES[figure].to_owned(), points: points.collect() }
    };
    Some(lines(&axes, &[line(0), line(1), line(2)]))
}
