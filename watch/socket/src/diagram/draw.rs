//! The figure as SVG, laid out by hand: the upper part above, the lower part below, the timeout between them.
//!
//! Transitions from all states of a part to the same target are one edge, from the part's frame. The figure
//! is complete: transitions without an edge are listed in the last line, and all counts are in `<metadata>`
//! as JSON.

use std::fmt::Write as _;

use super::{Diagram, DiagramEvent, DiagramState, Transition};
use crate::svg::escape;

const UPPER: &[DiagramState] = &[
    DiagramState::Established,
    DiagramState::SlowStart,
    DiagramState::Avoidance,
];
const MIDDLE: &[DiagramState] = &[DiagramState::TimedOut, DiagramState::Dropped];
const LOWER: &[DiagramState] = &[
    DiagramState::FirstDuplicate,
    DiagramState::SecondDuplicate,
    DiagramState::FastRetransmit,
    DiagramState::FastRecovery,
    DiagramState::Shrunk,
];

/// The place of a state: the upper left corner of its box, its width, and its text.
struct StateBox(DiagramState, f64, f64, f64, [&'static str; 2]);

const HEIGHT: f64 = 58.0;

const PLACES: [StateBox; 11] = [
    StateBox(DiagramState::Closed, 24.0, 124.0, 112.0, ["closed", ""]),
    StateBox(
        DiagramState::Established,
        232.0,
        124.0,
        128.0,
        ["established", ""],
    ),
    StateBox(
        DiagramState::SlowStart,
        520.0,
        124.0,
        152.0,
        ["slow start", "doubles each RTT"],
    ),
    StateBox(
        DiagramState::Avoidance,
        880.0,
        124.0,
        184.0,
        ["congestion avoidance", "one segment each RTT"],
    ),
    StateBox(
        DiagramState::Dropped,
        520.0,
        302.0,
        152.0,
        ["window dropped", "to one segment"],
    ),
    StateBox(DiagramState::TimedOut, 770.0, 302.0, 128.0, ["timed out", ""]),
    StateBox(
        DiagramState::FirstDuplicate,
        224.0,
        500.0,
        112.0,
        ["first", "duplicate ACK"],
    ),
    StateBox(
        DiagramState::SecondDuplicate,
        414.0,
        500.0,
        112.0,
        ["second", "duplicate ACK"],
    ),
    StateBox(
        DiagramState::FastRetransmit,
        604.0,
        500.0,
        112.0,
        ["fast", "retransmit"],
    ),
    StateBox(
        DiagramState::FastRecovery,
        784.0,
        500.0,
        112.0,
        ["fast", "recovery"],
    ),
    StateBox(DiagramState::Shrunk, 976.0, 500.0, 112.0, ["window", "halved"]),
];

/// An edge: the transitions that it stands for, its path, the start of its label, and the label's anchor.
struct TransitionEdge {
    from: &'static [DiagramState],
    events: &'static [DiagramEvent],
    to: &'static [DiagramState],
    path: &'static str,
    label: (f64, f64),
    anchor: &'static str,
}

const fn edge(
    from: &'static [DiagramState],
    events: &'static [DiagramEvent],
    to: &'static [DiagramState],
    path: &'static str,
    label: (f64, f64),
    anchor: &'static str,
) -> TransitionEdge {
    TransitionEdge { from, events, to, path, label, anchor }
}

const GROWTH: &[DiagramState] = &[DiagramState::SlowStart, DiagramState::Avoidance];

#[rustfmt::skip]
const EDGES: [TransitionEdge; 24] = [
    edge(&[DiagramState::Closed], &[DiagramEvent::Opened], &[DiagramState::Established], "M136 146H228", (182.0, 124.0), "middle"),
    edge(UPPER, &[DiagramEvent::Closed], &[DiagramState::Closed], "M200 168H140", (168.0, 184.0), "middle"),
    edge(LOWER, &[DiagramEvent::Closed], &[DiagramState::Closed], "M200 540H58V186", (66.0, 532.0), "start"),
    edge(MIDDLE, &[DiagramEvent::Closed], &[DiagramState::Closed], "M516 344H104V186", (112.0, 336.0), "start"),
    edge(&[DiagramState::Established], &[DiagramEvent::Acked, DiagramEvent::Sent], &[DiagramState::SlowStart], "M360 153H516", (438.0, 129.0), "middle"),
    edge(&[DiagramState::SlowStart], &[DiagramEvent::Acked], &[DiagramState::SlowStart], "M548 124V104Q548 98 554 98H568Q574 98 574 104V120", (561.0, 90.0), "end"),
    edge(&[DiagramState::SlowStart], &[DiagramEvent::Sent], &[DiagramState::SlowStart], "M618 124V104Q618 98 624 98H638Q644 98 644 104V120", (604.0, 90.0), "start"),
    edge(&[DiagramState::SlowStart], &[DiagramEvent::Threshold], &[DiagramState::Avoidance], "M672 153H876", (774.0, 129.0), "middle"),
    edge(&[DiagramState::Avoidance], &[DiagramEvent::Acked], &[DiagramState::Avoidance], "M914 124V104Q914 98 920 98H934Q940 98 940 104V120", (927.0, 90.0), "end"),
    edge(&[DiagramState::Avoidance], &[DiagramEvent::Sent], &[DiagramState::Avoidance], "M1004 124V104Q1004 98 1010 98H1024Q1030 98 1030 104V120", (948.0, 90.0), "start"),
    edge(UPPER, &[DiagramEvent::Timeout], &[DiagramState::TimedOut], "M812 216V298", (820.0, 250.0), "start"),
    edge(LOWER, &[DiagramEvent::Timeout], &[DiagramState::TimedOut], "M834 438V364", (842.0, 408.0), "start"),
    edge(MIDDLE, &[DiagramEvent::Timeout], &[DiagramState::TimedOut], "M898 316H920Q926 316 926 322V340Q926 346 920 346H902", (934.0, 335.0), "start"),
    edge(&[DiagramState::TimedOut], &[DiagramEvent::Retransmitted], &[DiagramState::Dropped], "M770 331H676", (722.0, 307.0), "middle"),
    edge(&[DiagramState::Dropped], &[DiagramEvent::Acked, DiagramEvent::Sent], &[DiagramState::SlowStart], "M596 302V186", (604.0, 246.0), "start"),
    edge(UPPER, &[DiagramEvent::First], &[DiagramState::FirstDuplicate], "M262 216V496", (270.0, 260.0), "start"),
    edge(&[DiagramState::FirstDuplicate], &[DiagramEvent::Second], &[DiagramState::SecondDuplicate], "M336 529H410", (373.0, 476.0), "middle"),
    edge(&[DiagramState::SecondDuplicate, DiagramState::FirstDuplicate], &[DiagramEvent::Third], &[DiagramState::FastRetransmit], "M526 529H600", (563.0, 476.0), "middle"),
    edge(&[DiagramState::FirstDuplicate, DiagramState::SecondDuplicate, DiagramState::FastRetransmit], &[DiagramEvent::Acked], GROWTH, "M430 500V220", (422.0, 260.0), "end"),
    edge(&[], &[DiagramEvent::LossFound], &[DiagramState::FastRetransmit], "M484 216V462Q484 468 490 468H624Q630 468 630 474V496", (492.0, 416.0), "start"),
    edge(&[DiagramState::FastRetransmit], &[DiagramEvent::Retransmitted], &[DiagramState::FastRecovery], "M716 529H780", (748.0, 476.0), "middle"),
    edge(&[DiagramState::FastRecovery], &[DiagramEvent::First, DiagramEvent::Second, DiagramEvent::Third, DiagramEvent::Further, DiagramEvent::Acked, DiagramEvent::Sent, DiagramEvent::Retransmitted], &[DiagramState::FastRecovery],
         "M810 558V580Q810 586 816 586H864Q870 586 870 580V562", (840.0, 604.0), "middle"),
    edge(&[DiagramState::FastRecovery, DiagramState::FastRetransmit], &[DiagramEvent::NewAck], &[DiagramState::Shrunk], "M896 529H972", (934.0, 476.0), "middle"),
    edge(&[DiagramState::Shrunk], &[DiagramEvent::Threshold, DiagramEvent::Acked, DiagramEvent::Sent], &[DiagramState::Avoidance], "M1032 500V186", (1024.0, 260.0), "end"),
];

impl TransitionEdge {
    fn takes(&self, (from, event, to): &Transition) -> bool {
        let fits = |set: &[DiagramState], state| set.is_empty() || set.contains(state);
        fits(self.from, from) && self.events.contains(event) && fits(self.to, to)
    }

    /// Returns the lines of its label: each of its events that occurred, or else the first, grey. Duplicate
    /// ACKs are one line if the edge does not distinguish them.
    fn lines(&self, diagram: &Diagram) -> Vec<(String, u64)> {
        let mut taken: Vec<(&str, u64)> = Vec::new();
        for event in self.events {
            let is_any = self.events.contains(&DiagramEvent::Further);
            let label = match event {
                DiagramEvent::First | DiagramEvent::Second | DiagramEvent::Third | DiagramEvent::Further
                    if is_any =>
                {
                    "DACK"
                }
                event => event.label(),
            };
            let count = diagram.count(self.from, &[*event], self.to);
            match taken.last_mut() {
                Some((last, sum)) if *last == label => *sum += count,
                _ => taken.push((label, count)),
            }
        }
        let first = taken.first().map_or("", |(label, _)| *label).to_owned();
        taken.retain(|(_, count)| *count > 0);
        if taken.is_empty() {
            return vec![(first, 0)];
        }
        taken
            .into_iter()
            .map(|(label, count)| (format!("{label} × {count}"), count))
            .collect()
    }
}

const HEAD: &str = r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1120 740" width="1120" height="740" role="img"
     aria-labelledby="title" font-family="system-ui, 'DejaVu Sans', sans-serif" font-size="13">
  <title id="title">States of congestion control, and how often each transition was taken</title>
"##;

const STYLE: &str = r##"  <defs>
    <marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse"
            orient="auto"><path d="M0 0 8 4 0 8z" fill="#31566e"/></marker>
    <marker id="idle-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"
            markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0 8 4 0 8z" fill="#c3cbd1"/></marker>
    <style>
      .part { rx: 14px; fill: #f1f4f6; stroke: #d5dce1 }
      .state { rx: 9px; stroke: #5b6b7a; stroke-width: 1.2 }
      .name { font-weight: 600; fill: #14212b; text-anchor: middle }
      .what { fill: #33434f; font-size: 11.5px; text-anchor: middle }
      .number { fill: #5b6b7a; font-size: 11px }
      .note { fill: #5b6b7a; font-style: italic }
      .edge { stroke: #31566e; fill: none; marker-end: url(#tip) }
      .idle { stroke: #c3cbd1; stroke-width: 1.2; marker-end: url(#idle-tip) }
      .label { fill: #14364c; font-size: 12px; paint-order: stroke; stroke: #fbfaf7; stroke-width: 3px }
      .grey { fill: #aeb8bf }
    </style>
  </defs>
  <rect width="1120" height="740" rx="12" fill="#fbfaf7"/>
"##;

/// Draws the figure with the counts of a diagram, under a title.
#[must_use]
pub fn draw(diagram: &Diagram, title: &str) -> String {
    let mut out = String::from(HEAD);
    let _ = writeln!(out, "  <metadata>{}</metadata>", metadata(diagram));
    out.push_str(STYLE);
    let _ = writeln!(
        out,
        "  <text x=\"24\" y=\"34\" font-size=\"16\" font-weight=\"600\">{}</text>",
        escape(title)
    );
    for (y, height, note, at) in [
        (54.0, 162.0, "slow start and congestion avoidance", 74.0),
        (438.0, 230.0, "fast retransmit and fast recovery", 654.0),
    ] {
        let _ = writeln!(
            out,
            "  <rect class=\"part\" x=\"200\" y=\"{y}\" width=\"900\" height=\"{height}\"/>\n  \
             <text class=\"note\" x=\"216\" y=\"{at}\">{note}</text>"
        );
    }
    let max_count = EDGES
        .iter()
        .map(|edge| diagram.count(edge.from, edge.events, edge.to))
        .max()
        .unwrap_or(0);
    EDGES
        .iter()
        .for_each(|edge| draw_edge(&mut out, edge, diagram, max_count));
    PLACES
        .iter()
        .for_each(|place| draw_state(&mut out, place, diagram));
    EDGES.iter().for_each(|edge| draw_label(&mut out, edge, diagram));
    draw_rest(&mut out, diagram);
    out.push_str("</svg>\n");
    out
}

fn metadata(diagram: &Diagram) -> String {
    let one = |((from, event, to), count): (&Transition, &u64)| {
        format!(
            r#"{{"from":{},"event":"{}","to":{},"count":{count}}}"#,
            from.number(),
            event.label(),
            to.number()
        )
    };
    let all: Vec<_> = diagram.counts().iter().map(one).collect();
    format!(r#"{{"transitions":[{}]}}"#, all.join(","))
}

fn draw_edge(out: &mut String, edge: &TransitionEdge, diagram: &Diagram, max_count: u64) {
    let count = diagram.count(edge.from, edge.events, edge.to);
    if count == 0 {
        let _ = writeln!(out, "  <path class=\"edge idle\" d=\"{}\"/>", edge.path);
        return;
    }
    // The width grows with the logarithm, so that one loss is visible beside a million acknowledgements.
    let width = 1.3 + 2.2 * (count as f64).ln_1p() / (max_count as f64).ln_1p();
    let _ = writeln!(
        out,
        "  <path class=\"edge\" stroke-width=\"{width:.1}\" d=\"{}\"/>",
        edge.path
    );
}

fn draw_label(out: &mut String, edge: &TransitionEdge, diagram: &Diagram) {
    let (x, y) = edge.label;
    let lines = edge.lines(diagram);
    // Labels above a horizontal edge grow upwards, the others downwards.
    let flat = edge.anchor == "middle" && edge.path.contains('H') && !edge.path.contains('V');
    for (row, (text, count)) in lines.iter().enumerate() {
        let class = if *count == 0 { "label grey" } else { "label" };
        let rise = if flat && lines.len() == 1 { 14.0 } else { 0.0 };
        let y = y + rise + 15.0 * row as f64;
        let _ = writeln!(
            out,
            "  <text class=\"{class}\" x=\"{x}\" y=\"{y}\" text-anchor=\"{}\">{}</text>",
            edge.anchor,
            escape(text)
        );
    }
}

fn draw_state(out: &mut String, StateBox(state, x, y, width, text): &StateBox, diagram: &Diagram) {
    let visited = diagram
        .counts()
        .keys()
        .any(|(from, _, to)| from == state || to == state);
    let fill = match state {
        _ if !visited => "#fbfaf7",
        state if UPPER.contains(state) => "#dbe8ef",
        state if LOWER.contains(state) => "#f3dcd6",
        state if MIDDLE.contains(state) => "#f6e7cf",
        _ => "#e3efdc",
    };
    let middle = x + width / 2.0;
    let _ = writeln!(
        out,
        "  <rect class=\"state\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{HEIGHT}\" fill=\"{fill}\"/>\n  \
         <text class=\"number\" x=\"{}\" y=\"{}\">{}</text>",
        x + 8.0,
        y + 15.0,
        state.number()
    );
    let two = !text[1].is_empty();
    let _ = writeln!(
        out,
        "  <text class=\"name\" x=\"{middle}\" y=\"{}\">{}</text>",
        y + if two { 29.0 } else { 35.0 },
        text[0]
    );
    if two {
        let _ = writeln!(
            out,
            "  <text class=\"what\" x=\"{middle}\" y=\"{}\">{}</text>",
            y + 46.0,
            text[1]
        );
    }
}

/// Lists the transitions that have no edge.
fn draw_rest(out: &mut String, diagram: &Diagram) {
    let rest = diagram
        .counts()
        .iter()
        .filter(|(taken, _)| !EDGES.iter().any(|edge| edge.takes(taken)));
    let text: Vec<_> = rest
        .map(|((from, event, to), count)| {
            format!("{} → {} {} × {count}", from.number(), to.number(), event.label())
        })
        .collect();
    for (row, line) in text.chunks(7).take(3).enumerate() {
        let begin = if row == 0 { "also: " } else { "" };
        let y = 694.0 + 16.0 * row as f64;
        let _ = writeln!(
            out,
            "  <text class=\"note\" x=\"24\" y=\"{y}\" font-size=\"12\">{begin}{}</text>",
            escape(&line.join(", "))
        );
    }
}
