//! Drawings in plain SVG: lines over time, bars side by side, distributions.

use std::fmt::Write as _;

use super::{document, escape};

const WIDTH: f64 = 860.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 56.0;

/// Colours that people with red-green colour blindness can distinguish (Okabe and Ito 2008).
const COLOURS: [&str; 7] = [
    "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#7f7f7f",
];

/// A line with its name.
#[derive(Clone, Debug)]
pub struct PlotLine {
    /// The name in the legend.
    pub name: String,
    /// The points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// The texts around a drawing.
#[derive(Clone, Copy, Debug)]
pub struct Axes<'a> {
    /// The title above the drawing.
    pub title: &'a str,
    /// The label of the horizontal axis, with its unit.
    pub x: &'a str,
    /// The label of the vertical axis, with its unit.
    pub y: &'a str,
}

/// Returns a round step of which about five make `span`.
fn step(span: f64) -> f64 {
    let rough = (span / 5.0).max(f64::MIN_POSITIVE);
    let power = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|times| times * power)
        .into_iter()
        .find(|step| *step >= rough)
        .unwrap_or(rough)
}

fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

struct Frame {
    body: String,
    height: f64,
    x: (f64, f64),
    y: (f64, f64),
}

impl Frame {
    fn new(axes: &Axes<'_>, height: f64, x: (f64, f64), y: (f64, f64)) -> Self {
        let mut frame = Self { body: String::new(), height, x, y };
        let middle = height / 2.0;
        let _ = writeln!(
            frame.body,
            "<text x=\"12\" y=\"24\" font-size=\"16\" font-weight=\"600\">{}</text>\n\
             <text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>\n\
             <text transform=\"translate(16 {middle:.0}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            escape(axes.title),
            f64::midpoint(LEFT, WIDTH - RIGHT),
            height - 12.0,
            escape(axes.x),
            escape(axes.y)
        );
        let step = step(y.1 - y.0);
        let mut tick = (y.0 / step).ceil() * step;
        while tick <= y.1 + step / 1e6 {
            let at = frame.down(tick);
            let _ = writeln!(
                frame.body,
                "<line x1=\"{LEFT}\" x2=\"{:.0}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>\
                 <text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                at + 4.0,
                number(tick)
            );
            tick += step;
        }
        frame
    }

    fn across(&self, x: f64) -> f64 {
        LEFT + (x - self.x.0) / (self.x.1 - self.x.0).max(f64::MIN_POSITIVE) * (WIDTH - LEFT - RIGHT)
    }

    fn down(&self, y: f64) -> f64 {
        let share = (y - self.y.0) / (self.y.1 - self.y.0).max(f64::MIN_POSITIVE);
        self.height - BOTTOM - share * (self.height - TOP - BOTTOM)
    }

    fn ticks(&mut self) {
        let step = step(self.x.1 - self.x.0);
        let mut tick = (self.x.0 / step).ceil() * step;
        while tick <= self.x.1 + step / 1e6 {
            let (at, bottom) = (self.across(tick), self.height - BOTTOM);
            let _ = writeln!(
                self.body,
                "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{bottom:.0}\" y2=\"{:.0}\" stroke=\"#999\"/>\
                 <text x=\"{at:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>",
                bottom + 4.0,
                bottom + 18.0,
                number(tick)
            );
            tick += step;
        }
    }

    fn legend(&mut self, names: &[String]) {
        let mut x = LEFT;
        for (number, name) in names.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let _ = writeln!(
                self.body,
                "<rect x=\"{x:.0}\" y=\"38\" width=\"12\" height=\"12\" fill=\"{colour}\"/>\
                 <text x=\"{:.0}\" y=\"48\">{}</text>",
                x + 16.0,
                escape(name)
            );
            x += 32.0 + 7.0 * name.chars().count() as f64;
        }
    }

    fn finish(self) -> String {
        document(WIDTH, self.height, 12, &self.body)
    }
}

/// Draws lines over a common axis, from 0 up.
#[must_use]
pub fn lines(axes: &Axes<'_>, lines: &[PlotLine]) -> String {
    let points = || lines.iter().flat_map(|line| &line.points);
    let low = points().map(|(x, _)| *x).fold(f64::INFINITY, f64::min);
    let low = if low.is_finite() { low } else { 0.0 };
    let right = points().map(|(x, _)| *x).fold(low, f64::max);
    let top = points().map(|(_, y)| *y).fold(0.0, f64::max);
    let bottom = points().map(|(_, y)| *y).fold(0.0, f64::min);
    let mut frame = Frame::new(axes, 380.0, (low, right), (bottom, top * 1.05));
    frame.ticks();
    frame.legend(&lines.iter().map(|line| line.name.clone()).collect::<Vec<_>>());
    for (number, line) in lines.iter().enumerate() {
        let mut path = String::new();
        for (x, y) in &line.points {
            let _ = write!(path, "{:.1},{:.1} ", frame.across(*x), frame.down(*y));
        }
        let colour = COLOURS[number % COLOURS.len()];
        let _ = writeln!(
            frame.body,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.trim_end()
        );
    }
    frame.finish()
}

/// A group of bars, one of each kind.
#[derive(Clone, Debug)]
pub struct Group {
    /// The label below the group.
    pub name: String,
    /// The height, the minimum and the maximum of each bar, one bar for each kind.
    pub bars: Vec<(f64, f64, f64)>,
}

/// Draws bars side by side, with the minimum and the maximum of each.
#[must_use]
pub fn bars(axes: &Axes<'_>, kinds: &[String], groups: &[Group]) -> String {
    let top = groups
        .iter()
        .flat_map(|group| &group.bars)
        .map(|bar| bar.2)
        .fold(0.0, f64::max);
    let mut frame = Frame::new(axes, 380.0, (0.0, groups.len() as f64), (0.0, top * 1.05));
    frame.legend(kinds);
    let (bottom, width) = (frame.down(0.0), frame.across(0.8) - frame.across(0.0));
    for (place, group) in groups.iter().enumerate() {
        let left = frame.across(place as f64 + 0.1);
        let each = width / kinds.len().max(1) as f64;
        for (kind, (height, min, max)) in group.bars.iter().enumerate() {
            let colour = COLOURS[kind % COLOURS.len()];
            let (x, y) = (left + each * kind as f64, frame.down(*height));
            let middle = x + each / 2.0;
            let _ = writeln!(
                frame.body,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\">\
                 <title>{}: {}</title></rect>\
                 <line x1=\"{middle:.1}\" x2=\"{middle:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"#000\"/>",
                each * 0.9,
                (bottom - y).max(0.0),
                escape(&kinds[kind % kinds.len().max(1)]),
                number(*height),
                frame.down(*min),
                frame.down(*max)
            );
        }
        let _ = writeln!(
            frame.body,
            "<text x=\"{:.1}\" y=\"{:.0}\" text-anchor=\"middle\" font-size=\"{}\">{}</text>",
            left + width / 2.0,
            bottom + 18.0,
            if groups.len() > 8 { 9 } else { 12 },
            escape(&group.name)
        );
    }
    frame.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const AXES: Axes<'_> = Axes { title: "A < B", x: "seconds", y: "Mbit/s" };

    #[test]
    fn steps_are_round() {
        assert_eq!(step(10.0), 2.0);
        assert_eq!(step(1_000.0), 200.0);
        assert_eq!(step(0.3), 0.1);
    }

    #[test]
    fn lines_are_drawn_within_the_frame() {
        let line = PlotLine { name: "tcp".into(), points: vec![(0.0, 0.0), (10.0, 100.0)] };
        let svg = lines(&AXES, &[line]);
        assert!(svg.contains("A &lt; B") && svg.ends_with("</svg>\n"));
        // From the lower left corner to the right edge, one twentieth below the top.
        let top = 380.0 - 56.0 - (380.0 - 64.0 - 56.0) / 1.05;
        assert!(
            svg.contains(&format!("points=\"64.0,324.0 836.0,{top:.1}\"")),
            "{svg}"
        );
    }

    #[test]
    fn there_is_a_bar_for_each_kind_of_each_group() {
        let group = |name: &str| Group { name: name.into(), bars: vec![(1.0, 0.5, 2.0), (3.0, 3.0, 3.0)] };
        let svg = bars(
            &AXES,
            &["bare".into(), "session".into()],
            &[group("a"), group("b")],
        );
        assert_eq!(svg.matches("<title>").count(), 4);
    }
}
