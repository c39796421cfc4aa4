//! Draws the debugger's current state as lines of a terminal. It is a pure function of that state and the
//! terminal's size.

use std::collections::BTreeSet;

use hawser::lang::OneLine;
use hawser::runs::debug::{BreakCondition, Debugger, HostView, SourceLine, Stop};
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier};
use ratatui_core::text::{Line, Span};

use crate::screen::{Palette, faint, strong};

/// The maximum number of packets in flight that are shown.
const MAX_PACKETS: usize = 3;
/// An answer takes at most this fraction of the height: one third.
const ANSWER: usize = 3;

/// The state that is shown besides the debugger's own.
pub(super) struct ViewState<'a> {
    /// The last stop.
    pub(super) stop: &'a Stop,
    /// The answer to the last command.
    pub(super) answer: &'a str,
    /// The input line being typed.
    pub(super) input: &'a str,
}

/// Draws the whole view.
pub(super) fn draw(
    debugger: &Debugger,
    shown: &ViewState<'_>,
    palette: Palette,
    area: Rect,
    buffer: &mut Buffer,
) {
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let foot = foot(debugger, shown, palette, height);
    let room = height.saturating_sub(1 + foot.len());
    let upper = room / 2;
    let left = width * 3 / 5;
    put(buffer, area, (0, 0), width, vec![head(shown.stop, palette)]);
    put(
        buffer,
        area,
        (1, 0),
        left.saturating_sub(1),
        code(debugger, palette, upper),
    );
    let mut beside = functions(debugger);
    beside.truncate(upper);
    put(buffer, area, (1, left), width - left, beside);
    let hosts = debugger.contexts();
    let column = width / hosts.len().max(1);
    for (number, host) in hosts.iter().enumerate() {
        let mut lines = host_lines(host, shown.stop, palette);
        let more = lines.len() > room - upper;
        lines.truncate(room - upper);
        if let (true, Some(last)) = (more, lines.last_mut()) {
            *last = Line::styled("  … more: `contexts`", faint());
        }
        put(
            buffer,
            area,
            (1 + upper, number * column),
            column.saturating_sub(1),
            lines,
        );
    }
    put(buffer, area, (1 + room, 0), width, foot);
}

/// Draws lines below each other, cut to the width. Control sequences in them are escaped.
fn put(buffer: &mut Buffer, area: Rect, (row, column): (usize, usize), width: usize, lines: Vec<Line<'_>>) {
    let rows = usize::from(area.height).saturating_sub(row);
    for (number, mut line) in lines.into_iter().take(rows).enumerate() {
        for span in &mut line.spans {
            span.content = OneLine(&span.content).to_string().into();
        }
        let (x, y) = (area.x + column as u16, area.y + (row + number) as u16);
        buffer.set_line(x, y, &line, width as u16);
    }
}

/// The reason and place of the last stop.
fn head(stop: &Stop, palette: Palette) -> Line<'static> {
    let text = stop.to_string();
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default().to_owned();
    if first.starts_with('#') || stop.place.is_none() {
        return Line::styled(first, strong());
    }
    let second = lines.next().unwrap_or_default().to_owned();
    Line::from(vec![
        Span::styled(first, palette.tint(Color::Yellow).add_modifier(Modifier::BOLD)),
        Span::raw("  "),
        Span::styled(second, strong()),
    ])
}

/// The source around the line about to run, with breakpoints marked.
fn code(debugger: &Debugger, palette: Palette, height: usize) -> Vec<Line<'static>> {
    let (file, lines) = debugger.source(0, height as u32);
    let stops: BTreeSet<u32> = debugger
        .breakpoints()
        .filter_map(|breakpoint| match &breakpoint.what {
            BreakCondition::Line { file: Some(of), line } if *of == file => Some(*line),
            _ => None,
        })
        .collect();
    let here = lines.iter().position(|line| line.is_current).unwrap_or(0);
    let room = height.saturating_sub(1);
    let first = here
        .saturating_sub(room / 2)
        .min(lines.len().saturating_sub(room));
    let line = |line: &SourceLine| {
        let stop = if stops.contains(&line.line) { '*' } else { ' ' };
        let sign = if line.is_current { '>' } else { ' ' };
        let text = format!("{stop}{sign}{:>4} {}", line.line, line.text);
        if line.is_current {
            Line::styled(text, palette.tint(Color::Yellow).add_modifier(Modifier::BOLD))
        } else {
            Line::raw(text)
        }
    };
    let title = Line::styled(file.clone(), faint());
    std::iter::once(title)
        .chain(lines.iter().skip(first).take(room).map(line))
        .collect()
}

/// The call stack, the chain's processors, and the local variables of the innermost function.
fn functions(debugger: &Debugger) -> Vec<Line<'static>> {
    let mut lines = vec![Line::styled(
        format!("chain: {}", debugger.processors().join(" ")),
        faint(),
    )];
    for frame in debugger.frames() {
        lines.push(Line::raw(format!(
            "in {} line {}",
            frame.function, frame.line.line
        )));
    }
    let scopes = debugger.scopes(0);
    for scope in scopes
        .iter()
        .filter(|scope| scope.context.is_none() && !scope.variables.is_empty())
    {
        lines.push(Line::styled(scope.name.clone(), strong()));
        let variables = scope.variables.iter();
        lines.extend(variables.map(|(name, value)| Line::raw(format!("  {name} {value}"))));
    }
    lines
}

/// The contexts of a host. Values that changed since the last stop are highlighted, with the old value.
fn host_lines(host: &HostView, stop: &Stop, palette: Palette) -> Vec<Line<'static>> {
    let mut lines = vec![Line::styled(format!("host {}", host.host), strong())];
    for view in &host.contexts {
        let changed = |field: &str| {
            stop.changed.iter().find(|changed| {
                changed.host == host.host
                    && changed.context == view.context
                    && changed.field.as_deref() == Some(field)
            })
        };
        let sign = if view.is_current { '>' } else { ' ' };
        lines.push(Line::styled(format!("{sign} {}", view.context), faint()));
        for (name, value) in &view.fields {
            match changed(name).and_then(|changed| changed.old.as_ref()) {
                Some(old) => lines.push(Line::styled(
                    format!("  {name} {old} -> {value}"),
                    palette.tint(Color::Green).add_modifier(Modifier::BOLD),
                )),
                None if value.is_zero() => {}
                None => lines.push(Line::raw(format!("  {name} {value}"))),
            }
        }
    }
    lines
}

/// Packets in flight, the last answer, and the input line.
fn foot(debugger: &Debugger, shown: &ViewState<'_>, palette: Palette, height: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let flight = debugger.flight();
    for packet in flight.iter().take(MAX_PACKETS) {
        lines.push(Line::styled(packet.to_string(), palette.tint(Color::Cyan)));
    }
    if flight.len() > MAX_PACKETS {
        lines.push(Line::styled(
            format!("… {} packets in flight: `flight`", flight.len()),
            faint(),
        ));
    }
    let room = (height / ANSWER).max(1);
    let answer: Vec<&str> = shown.answer.lines().collect();
    lines.extend(answer.iter().take(room).map(|line| Line::raw((*line).to_owned())));
    if answer.len() > room {
        lines.push(Line::styled(
            format!("… {} more lines", answer.len() - room),
            faint(),
        ));
    }
    let keys =
        "  right step, left back, PgDn event, PgUp back event, F5 continue, F6 reverse, F10 next, `help`";
    let mut prompt = vec![
        Span::styled("> ", strong()),
        Span::raw(format!("{}_", shown.input)),
    ];
    if shown.input.is_empty() {
        prompt.push(Span::styled(keys, faint()));
    }
    lines.push(Line::from(prompt));
    lines
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use hawser::programs::Programs;
    use hawser::runs;
    use hawser::runs::debug::{Move, begin};

    use super::*;

    /// The picture in docs/debugger.md.
    #[test]
    fn debugger_screen_matches_the_documentation() {
        // The path is relative, so that the picture names the file independently of the checkout's place.
        let scenario = Path::new("../../examples/scenarios/stop-and-wait.toml");
        let scenario = runs::load(scenario).expect("the example");
        let mut debugger = begin(Programs::default(), scenario, None).expect("it begins");
        let line = BreakCondition::Line { file: None, line: 111 };
        debugger.add(line, Some("a"), None).expect("a breakpoint");
        let mut go = |to: Move| debugger.go(&to, &mut || false).expect("a stop");
        for _ in 0..3 {
            go(Move::Continue);
        }
        go(Move::Next);
        let stop = go(Move::Next);
        let shown = ViewState { stop: &stop, answer: "", input: "print ev.now - c.sent_at" };
        let area = Rect::new(0, 0, 118, 36);
        let mut buffer = Buffer::empty(area);
        draw(&debugger, &shown, Palette { colour: false }, area, &mut buffer);
        let rows = (0..area.height).map(|y| {
            let row: String = (0..area.width).map(|x| buffer[(x, y)].symbol()).collect();
            row.trim_end().to_owned() + "\n"
        });
        let picture = rows.collect::<String>();
        let file = "../../examples/scenarios/../stop-and-wait.mtp";
        let picture = picture.replace(file, &format!("{:<w$}", &file[6..], w = file.len()));
        let page = std::fs::read_to_string("../../docs/debugger.md").expect("the page");
        let blocks: Vec<&str> = page.split("```").collect();
        let expected = blocks
            .iter()
            .find_map(|block| block.strip_prefix("text screen\n"));
        if expected != Some(picture.as_str()) {
            panic!("docs/debugger.md has another picture than\n{picture}");
        }
    }
}
