//! Draws the overview as lines of text. It is a pure function of the overview and the terminal's size.

use hawser::interact::overview::{Overview, Series, Watched};
use hawser::interact::record::{Named, Signal};
use hawser::lang::OneLine;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::text::{Line, Span};

use crate::screen::{Palette, faint, strong};

/// Bars in steps of an eighth of a line's height.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Well-known variables in display order: the last component of their names, and the label in the view. A
/// flow without any of them shows all of its variables.
const KNOWN: [(&str, &str); 9] = [
    ("cwnd", "cwnd"),
    ("ssthresh", "ssthresh"),
    ("srtt", "srtt"),
    ("rttvar", "±"),
    ("min_rtt", "min"),
    ("flight", "flight"),
    ("delivered", "delivered"),
    ("retransmissions", "retrans"),
    ("lost_bytes", "lost"),
];

/// Draws the whole view.
pub(super) fn draw(model: &Overview, is_paused: bool, palette: Palette, area: Rect, buffer: &mut Buffer) {
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let head = head(model, is_paused, palette);
    let foot = foot(model, palette, width);
    let room = height.saturating_sub(1 + foot.len());
    let mut lines = vec![head];
    lines.extend(body(model, palette, width, room));
    lines.resize_with((1 + room).min(height), Line::default);
    lines.extend(foot);
    for (row, line) in lines.iter_mut().take(height).enumerate() {
        for span in &mut line.spans {
            span.content = OneLine(&span.content).to_string().into();
        }
        buffer.set_line(area.x, area.y + row as u16, line, area.width);
    }
}

fn head(model: &Overview, is_paused: bool, palette: Palette) -> Line<'static> {
    let flows = model
        .flows
        .values()
        .filter(|watched| watched.gone.is_none())
        .count();
    let providers = if model.providers.is_empty() {
        "nothing".into()
    } else {
        model.providers.join(", ")
    };
    let mut spans = vec![
        Span::styled(
            format!("{providers} in process {}", model.header.process),
            strong(),
        ),
        Span::raw(format!(
            "   {:.1} s   {flows} flow{}   by {}",
            model.now as f64 / 1e9,
            if flows == 1 { "" } else { "s" },
            model.order.name()
        )),
    ];
    if is_paused {
        spans.push(Span::styled(
            "   paused",
            palette.tint(Color::Yellow).add_modifier(Modifier::BOLD),
        ));
    }
    Line::from(spans)
}

/// Draws the flows that fit, always including the selected one.
fn body(model: &Overview, palette: Palette, width: usize, room: usize) -> Vec<Line<'static>> {
    let names = model.ordered();
    let is_selected = |name: &str| model.selected.as_deref() == Some(name);
    let blocks: Vec<_> = names
        .iter()
        .map(|name| block(model, &model.flows[*name], is_selected(name), palette, width))
        .collect();
    let selected = names.iter().position(|name| is_selected(name)).unwrap_or(0);
    let mut first = 0;
    while first < selected && blocks[first..=selected].iter().map(Vec::len).sum::<usize>() > room {
        first += 1;
    }
    let mut lines: Vec<_> = blocks.into_iter().skip(first).flatten().collect();
    if lines.len() > room && room > 0 {
        lines.truncate(room - 1);
        lines.push(Line::styled("  … more flows: ↓", faint()));
    }
    lines
}

fn block(
    model: &Overview,
    watched: &Watched,
    is_selected: bool,
    palette: Palette,
    width: usize,
) -> Vec<Line<'static>> {
    let mut lines = vec![title(model, watched, is_selected, palette)];
    let known: Vec<_> = KNOWN
        .iter()
        .filter_map(|(end, label)| known(model, watched, end, label))
        .collect();
    if known.is_empty() {
        lines.extend(wrapped(
            all(model, watched),
            width,
            if is_selected { 8 } else { 2 },
        ));
        return lines;
    }
    let mut items = known;
    if let Some(rate) = watched.rate.last() {
        items.insert(items.len().min(6), format!("rate {}", bits(rate)));
    }
    lines.extend(wrapped(items, width, 2));
    lines.extend(sparklines(watched, model.now, width, palette));
    if is_selected {
        let rest: Vec<_> = all(model, watched);
        lines.extend(
            wrapped(rest, width, 8)
                .into_iter()
                .map(|line| line.style(faint())),
        );
    }
    lines
}

fn title(model: &Overview, watched: &Watched, is_selected: bool, palette: Palette) -> Line<'static> {
    let flow = &watched.flow;
    let ends = match (&flow.local, &flow.remote) {
        (Some(local), Some(remote)) => format!(" {local} > {remote}"),
        (Some(local), None) => format!(" {local}"),
        (None, Some(remote)) => format!(" > {remote}"),
        (None, None) => String::new(),
    };
    let label = if flow.label.is_empty() {
        String::new()
    } else {
        format!(" {}", flow.label)
    };
    let style = if is_selected {
        strong().add_modifier(Modifier::REVERSED)
    } else {
        strong()
    };
    let mark = if is_selected { '▸' } else { ' ' };
    let mut spans = vec![Span::styled(
        format!("{mark}{} {}.{}{ends}{label}", flow.flow, flow.provider, flow.kind),
        style,
    )];
    if let Some((name, value)) = watched.value("state") {
        spans.push(Span::styled(
            format!("  {}", shown(model.kind(name), value)),
            palette.tint(Color::Green),
        ));
    }
    if watched.gone.is_some() {
        spans.push(Span::styled("  ended", palette.tint(Color::Red)));
    }
    Line::from(spans)
}

fn known(model: &Overview, watched: &Watched, end: &str, label: &str) -> Option<String> {
    let (name, value) = watched.value(end)?;
    let kind = model.kind(name);
    let is_number = kind.is_none_or(|kind| kind.kind == "number");
    let text = match end {
        "retransmissions" => value.to_string(),
        _ if is_number => bytes(value),
        _ => shown(kind, value),
    };
    Some(format!("{label} {text}"))
}

fn all(model: &Overview, watched: &Watched) -> Vec<String> {
    let prefix = format!("{}.{}.", watched.flow.provider, watched.flow.kind);
    let one = |(name, value): (&String, &u64)| {
        let short = name.strip_prefix(&prefix).unwrap_or(name);
        format!("{short} {}", shown(model.kind(name), *value))
    };
    watched.values.iter().map(one).collect()
}

/// Joins items with two spaces between them, in at most `max` lines.
fn wrapped(items: Vec<String>, width: usize, max: usize) -> Vec<Line<'static>> {
    let mut lines: Vec<String> = Vec::new();
    for item in items {
        let length = item.chars().count();
        let is_full = lines.len() == max;
        match lines.last_mut() {
            Some(line) if line.chars().count() + 2 + length <= width => {
                line.push_str("  ");
                line.push_str(&item);
            }
            _ if is_full => break,
            _ => lines.push(format!("   {item}")),
        }
    }
    lines.into_iter().map(Line::from).collect()
}

fn sparklines(watched: &Watched, now: u64, width: usize, palette: Palette) -> Option<Line<'static>> {
    let all: [(&str, &Series, Color); 3] = [
        ("window", &watched.window, Color::Cyan),
        ("rtt", &watched.round_trip, Color::Yellow),
        ("rate", &watched.rate, Color::Green),
    ];
    let there: Vec<_> = all
        .into_iter()
        .filter(|(_, series, _)| series.last().is_some())
        .collect();
    let labels: usize = there.iter().map(|(name, ..)| name.len() + 3).sum();
    let columns = width.saturating_sub(2 + labels).checked_div(there.len())?.min(60);
    let mut spans = vec![Span::raw("  ")];
    for (name, series, colour) in there {
        spans.push(Span::styled(format!(" {name} "), faint()));
        spans.push(Span::styled(
            sparkline(series, now, columns),
            palette.tint(colour),
        ));
    }
    Some(Line::from(spans))
}

fn sparkline(series: &Series, now: u64, columns: usize) -> String {
    let values = series.columns(now, columns);
    let max = values.iter().flatten().fold(f64::MIN_POSITIVE, |a, b| a.max(*b));
    let bar = |value: Option<f64>| match value {
        Some(value) => BARS[((value / max * 8.0).ceil() as usize).clamp(1, 8) - 1],
        None => ' ',
    };
    values.into_iter().map(bar).collect()
}

fn foot(model: &Overview, palette: Palette, width: usize) -> Vec<Line<'static>> {
    let mut lines = vec![Line::styled("─".repeat(width), faint())];
    for ((flow, variable), (value, who)) in model.held.iter().take(4) {
        let value = shown(model.kind(variable), *value);
        lines.push(Line::from(vec![
            Span::styled(
                "held    ",
                palette.tint(Color::Magenta).add_modifier(Modifier::BOLD),
            ),
            Span::raw(format!("{variable} of {flow} = {value} by {who}")),
        ]));
    }
    let mut counts: Vec<_> = model.counts.iter().collect();
    counts.sort_by(|a, b| b.1.cmp(a.1));
    let counts: Vec<_> = counts
        .iter()
        .map(|(name, count)| format!("{} {count}", last(name)))
        .collect();
    if !counts.is_empty() {
        lines.push(labelled("events  ", counts.join("  ")));
    }
    if let Some(signal) = model.latest.back() {
        lines.push(labelled("latest  ", event(model, signal)));
    }
    let queue = &model.statistics;
    let lost = queue.lost + queue.crowded;
    let style = if lost > 0 {
        palette.tint(Color::Red)
    } else {
        Style::new()
    };
    lines.push(Line::from(vec![
        Span::styled("queue   ", faint()),
        Span::raw(format!(
            "{} happened, {} passed the filters, ",
            queue.events, queue.passed
        )),
        Span::styled(format!("{lost} lost"), style),
    ]));
    lines.push(Line::styled(
        "q quit   ↑↓ select a flow   p pause   s sort",
        faint(),
    ));
    lines
}

fn labelled(label: &'static str, text: String) -> Line<'static> {
    Line::from(vec![Span::styled(label, faint()), Span::raw(text)])
}

fn event(model: &Overview, signal: &Signal) -> String {
    let field = |(name, value): (&String, &u64)| {
        format!(
            " {name} {}",
            shown(model.kind(&format!("{} {name}", signal.event)), *value)
        )
    };
    let fields: String = signal.fields.iter().map(field).collect();
    format!("{} of {}{fields}", signal.event, signal.flow)
}

fn last(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Formats a value for people.
fn shown(kind: Option<&Named>, value: u64) -> String {
    match kind.map(|kind| kind.kind.as_str()) {
        Some("duration") => duration(value),
        Some("time") => format!("{:.3} s", value as f64 / 1e9),
        Some("bool") => if value == 0 { "no" } else { "yes" }.to_owned(),
        Some("enum") => kind
            .and_then(|kind| kind.label(value))
            .map_or_else(|| value.to_string(), str::to_owned),
        _ if value >= UNLIMITED => "∞".to_owned(),
        _ => value.to_string(),
    }
}

/// The value from which numbers mean "no limit", which programs express by the largest numbers.
const UNLIMITED: u64 = 1 << 53;

fn duration(nanos: u64) -> String {
    match nanos {
        0..1_000_000 => format!("{:.0} µs", nanos as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", nanos as f64 / 1e6),
        UNLIMITED.. => "∞".to_owned(),
        _ => format!("{:.2} s", nanos as f64 / 1e9),
    }
}

fn bytes(value: u64) -> String {
    match value {
        UNLIMITED.. => "∞".to_owned(),
        _ => scaled(value as f64, "B"),
    }
}

fn bits(value: f64) -> String {
    scaled(value, "bit/s")
}

/// Formats a value with a decimal prefix and three digits.
fn scaled(value: f64, unit: &str) -> String {
    let (value, prefix) = match value {
        ..1e3 => return format!("{value:.0} {unit}"),
        ..1e6 => (value / 1e3, "k"),
        ..1e9 => (value / 1e6, "M"),
        _ => (value / 1e9, "G"),
    };
    let digits = if value < 10.0 {
        2
    } else {
        usize::from(value < 100.0)
    };
    format!("{value:.digits$} {prefix}{unit}")
}
