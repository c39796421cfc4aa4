//! Draws a scenario's network, or writes it as a graph for Graphviz.

use std::fmt::Write as _;
use std::path::Path;

use hawser::interact::svg::{document, escape};
use hawser::runs::{NetworkMap, Scenario};

use crate::exit::{Exit, Outcome};
use crate::terminal::write_text;

/// The distance between rows, in pixels, and the minimum distance between nodes.
const ROW: f64 = 110.0;
const STEP: f64 = 56.0;
const MARGIN: f64 = 60.0;
/// The minimum width, in pixels.
const WIDTH: f64 = 480.0;

/// Writes the network in the form that the file's ending selects.
pub(super) fn write(scenario: &Scenario, path: &Path) -> Outcome {
    let map = NetworkMap::from_scenario(scenario);
    let text = match path.extension().and_then(|ending| ending.to_str()) {
        Some("dot" | "gv") => map.dot(),
        Some("svg") => svg(&map),
        _ => {
            let message = format!(
                "{}: a topology is written as .svg, or as .dot for Graphviz",
                path.display()
            );
            return Err(Exit::input(message));
        }
    };
    write_text(path, &text)
}

/// Draws the hosts at the bottom and the switches above them, each row spread over the width.
fn svg(map: &NetworkMap) -> String {
    let widest = (0..map.rows()).map(|row| map.width(row)).max().unwrap_or(1);
    let width = (widest as f64 * STEP + 2.0 * MARGIN).max(WIDTH);
    let height = map.rows() as f64 * ROW + MARGIN;
    let at = |number: usize| {
        let node = &map.nodes[number];
        let step = (width - 2.0 * MARGIN) / map.width(node.row) as f64;
        let x = MARGIN + (node.place as f64 + 0.5) * step;
        (x, height - (node.row as f64 + 0.5) * ROW)
    };
    let mut body = format!(
        "<text x=\"12\" y=\"26\" font-size=\"17\" font-weight=\"600\">{}</text>\n",
        escape(&map.name)
    );
    for link in &map.links {
        let [(x1, y1), (x2, y2)] = link.ends.map(at);
        let names = link.ends.map(|end| map.nodes[end].name.as_str()).join(" - ");
        let title = escape(&format!("{names} {}", link.label));
        let _ = writeln!(
            body,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#8aa\"><title>{title}</title></line>"
        );
    }
    for (number, node) in map.nodes.iter().enumerate() {
        let (x, y) = at(number);
        let shape = if node.is_host {
            format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"9\" fill=\"#2a7f7f\"/>")
        } else {
            let (left, top) = (x - 14.0, y - 10.0);
            format!(
                "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"28\" height=\"20\" rx=\"3\" fill=\"#33506b\"/>"
            )
        };
        let below = y + 26.0;
        let _ = writeln!(
            body,
            "{shape}<text x=\"{x:.1}\" y=\"{below:.1}\" text-anchor=\"middle\">{}</text>",
            escape(&node.name)
        );
    }
    document(width, height, 12, &body)
}
