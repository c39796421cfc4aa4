//! `hawser sim picture FILE.toml`: draws a run as a page, a drawing, and tables.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::ArgGroup;
use hawser::interact::parse_span;
use hawser::interact::svg::{document, escape};
use hawser::runs::{DrawingLimits, Picture, Report, Series, Window};

use super::trace::in_order;
use super::{record, scenario, slowdown, topology};
use crate::exit::{Exit, Outcome};
use crate::terminal::write_text;

/// Draw a simulated run, or its network
///
/// The run is that of `hawser sim run`, whose report is printed. Its packets, fields, timers and queues become
/// a page, a drawing or tables (docs/pictures.md).
#[derive(clap::Args)]
#[command(group = ArgGroup::new("output").args(["html", "svg", "csv", "record", "show_topology"]).required(true).multiple(true))]
pub(crate) struct Args {
    /// Draw the run as one page for a browser: packets between the hosts and over time, fields, timers, queues
    #[arg(long, value_name = "OUT")]
    html: Option<PathBuf>,
    /// Draw the run as one SVG
    #[arg(long, value_name = "OUT")]
    svg: Option<PathBuf>,
    /// Write the drawn data as tables: packets.csv, fields.csv, windows.csv, timers.csv, signals.csv,
    /// queues.csv and, if the scenario asks for it, slowdown.csv in this folder
    #[arg(long, value_name = "FOLDER")]
    csv: Option<PathBuf>,
    /// Write fields of contexts over time, and signals, as a recording, which `hawser watch --replay` plays
    #[arg(long, value_name = "OUT")]
    record: Option<PathBuf>,
    /// Draw the network instead of running anything: as an SVG, or as a graph for Graphviz if OUT ends in
    /// .dot
    #[arg(long, value_name = "OUT", conflicts_with_all = ["html", "svg", "csv", "record", "json", "pcap", "trace"])]
    show_topology: Option<PathBuf>,
    /// Draw from this time after the start: 1.5s, 200ms
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    from: Option<Duration>,
    /// Draw up to this time after the start
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    to: Option<Duration>,
    /// The maximum number of packets to draw
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    max_packets: usize,
    #[command(flatten)]
    run: scenario::Args,
}

pub(crate) fn run(args: &Args) -> Outcome {
    if let Some(path) = &args.show_topology {
        return topology::write(&args.run.scenario()?, path);
    }
    in_order(args.from, args.to)?;
    let limits = DrawingLimits {
        from: args.from.unwrap_or_default(),
        to: args.to.unwrap_or(Duration::MAX),
        packets: args.max_packets,
        ..DrawingLimits::default()
    };
    scenario::run_and(&args.run, Some(limits), |picture, report| {
        args.write(picture, report)
    })
}

impl Args {
    fn write(&self, picture: &Picture, report: &Report) -> Outcome {
        if let Some(path) = &self.html {
            write_text(path, &picture.page().map_err(Exit::failed)?)?;
        }
        if let Some(path) = &self.svg {
            write_text(path, &svg(picture, report))?;
        }
        if let Some(path) = &self.record {
            write_text(path, &record::recording(picture)?)?;
        }
        if let Some(folder) = &self.csv {
            std::fs::create_dir_all(folder)
                .map_err(|error| Exit::environment(format!("cannot make {}: {error}", folder.display())))?;
            for (name, table) in picture.tables() {
                write_text(&folder.join(name), &table)?;
            }
            if let Some(table) = hawser::runs::slowdown_table(report) {
                write_text(&folder.join("slowdown.csv"), &table)?;
            }
        }
        Ok(())
    }
}

const WIDTH: f64 = 960.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 24.0;
/// The height of a panel's drawing, and of a panel with its title and its axis.
const PANEL: f64 = 200.0;
const STEP: f64 = PANEL + 64.0;
/// The maximum number of panels for fields, and for queues.
const PANELS: usize = 6;

/// Colours that colour-blind people can distinguish (Okabe and Ito 2008).
const COLOURS: [&str; 3] = ["#0072b2", "#d55e00", "#009e73"];
/// The colours of windows that the congestion control sets, and of others.
const WINDOWS: [&str; 2] = ["#009e73", "#8a6d00"];
const LOST: &str = "#b3261e";

/// A drawing over a horizontal time axis.
struct Panel<'a> {
    body: &'a mut String,
    top: f64,
    from: u64,
    to: u64,
    max: f64,
}

impl Panel<'_> {
    fn x(&self, at: u64) -> f64 {
        let share = at.saturating_sub(self.from) as f64 / (self.to - self.from).max(1) as f64;
        LEFT + share.min(1.0) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        self.top + PANEL - value / self.max * PANEL
    }

    fn frame(&mut self, title: &str, unit: &str) {
        let bottom = self.top + PANEL;
        let _ = writeln!(
            self.body,
            r#"<text x="{LEFT}" y="{:.0}" font-weight="600">{}</text>"#,
            self.top - 10.0,
            escape(title)
        );
        for part in 0..=4 {
            let share = f64::from(part) / 4.0;
            let (value, y) = (self.max * share, bottom - share * PANEL);
            let at = self.from + ((self.to - self.from) as f64 * share) as u64;
            let x = self.x(at);
            let _ = writeln!(
                self.body,
                "<path d=\"M{LEFT} {y:.1}H{:.1}\" stroke=\"#ddd\"/><text x=\"{:.0}\" y=\"{:.1}\" \
                 text-anchor=\"end\">{}{unit}</text><text x=\"{x:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{:.4} s</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                y + 4.0,
                short(value),
                bottom + 18.0,
                at as f64 / 1e9
            );
        }
    }

    fn stairs(&mut self, points: &[(u64, u64)], colour: &str) {
        let mut path = String::new();
        for (at, value) in points.iter().filter(|(at, _)| (self.from..=self.to).contains(at)) {
            let (x, y) = (self.x(*at), self.y((*value as f64).min(self.max)));
            let _ = match path.is_empty() {
                true => write!(path, "M{x:.1} {y:.1}"),
                false => write!(path, "H{x:.1}V{y:.1}"),
            };
        }
        let _ = writeln!(self.body, r#"<path d="{path}" fill="none" stroke="{colour}"/>"#);
    }
}

/// Formats a number with at most four digits.
fn short(value: f64) -> String {
    let (scaled, unit) = match value {
        1e6.. => (value / 1e6, " M"),
        1e4.. => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let text = format!("{scaled:.2}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Draws the panels one below the other: the numbers of each flow, then windows, queues, and slowdown.
fn svg(picture: &Picture, report: &Report) -> String {
    let mut body = String::new();
    let first = picture.packets.first().map_or(0, |packet| packet.at_ns);
    let last = picture.packets.iter().map(|packet| packet.end_ns).max();
    let (from, to) = (first, last.unwrap_or(picture.end_ns).max(first + 1));
    let mut top = 70.0;
    let _ = writeln!(
        body,
        r#"<text x="12" y="26" font-size="17" font-weight="600">{}</text>"#,
        escape(&format!(
            "{}: {}, seed {}",
            picture.name, picture.program, picture.seed
        ))
    );
    let name = picture.number.unwrap_or(0);
    for (number, flow) in picture.flows.iter().enumerate() {
        let numbers = picture.numbers(number, name);
        let max = numbers.iter().map(|(_, value)| *value).max().unwrap_or(1).max(1);
        let windows = || picture.windows.iter().filter(|window| window.flow == number);
        // Windows far beyond the sent data are clipped, so that the packets stay readable.
        let edges = windows().flat_map(|window| window.points.points());
        let max = edges
            .map(|(_, edge)| (*edge).min(max * 3 / 2))
            .fold(max, u64::max);
        let mut panel = Panel { body: &mut body, top, from, to, max: max as f64 * 1.05 };
        let word = picture.names.get(name).map_or("number", String::as_str);
        panel.frame(
            &format!("flow {number}, {}: {word}; lost packets as crosses", flow.name),
            "",
        );
        for window in windows() {
            panel.stairs(window.points.points(), window_colour(window));
        }
        for (packet, value) in numbers {
            let (x, y) = (panel.x(packet.at_ns), panel.y(value as f64));
            let is_lost = !matches!(packet.fate, "delivered" | "under way");
            let _ = if is_lost {
                writeln!(
                    panel.body,
                    r#"<path d="M{:.1} {:.1}l8 8m0 -8l-8 8" stroke="{LOST}" stroke-width="1.5"/>"#,
                    x - 4.0,
                    y - 4.0
                )
            } else {
                let colour = COLOURS[usize::from(packet.from != flow.hosts[0])];
                writeln!(
                    panel.body,
                    r#"<circle cx="{x:.1}" cy="{y:.1}" r="1.8" fill="{colour}"/>"#
                )
            };
        }
        top += STEP;
    }
    let windows = picture.fields.iter().filter(|field| field.is_window());
    for field in windows.take(PANELS) {
        let host = picture.hosts.get(field.host).map_or("", String::as_str);
        let title = format!("{host}, {} {}", field.context, field.name);
        line(&mut body, top, (from, to), (&title, &[&field.points], ""));
        top += STEP;
    }
    for queue in picture.deepest_queues(PANELS) {
        let title = format!("queue, {}: the most bytes, and the mean", queue.name);
        line(
            &mut body,
            top,
            (from, to),
            (&title, &[&queue.points, &queue.mean], " B"),
        );
        top += STEP;
    }
    if let Some(drawing) = slowdown::drawing(report) {
        let _ = write!(
            body,
            "<svg y=\"{:.0}\"{}",
            top - 40.0,
            drawing.trim_start_matches("<svg")
        );
        top += slowdown::HEIGHT;
    }
    document(WIDTH, top, 12, &body)
}

fn window_colour(window: &Window) -> &'static str {
    let name = window.name.split(' ').next().unwrap_or_default();
    WINDOWS[usize::from(!name.ends_with("cwnd"))]
}

/// Draws a panel with series over time, the first in front of the others.
fn line(body: &mut String, top: f64, (from, to): (u64, u64), (title, all, unit): (&str, &[&Series], &str)) {
    let points = all.iter().flat_map(|series| series.points());
    let max = points.map(|(_, value)| *value).max().unwrap_or(1).max(1);
    let mut panel = Panel { body, top, from, to, max: max as f64 * 1.05 };
    panel.frame(title, unit);
    for (series, colour) in all.iter().zip(COLOURS).rev() {
        panel.stairs(series.points(), colour);
    }
}
