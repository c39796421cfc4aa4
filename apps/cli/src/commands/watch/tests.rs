//! Compares drawn models with screens in files. `UPDATE_EXPECT=1` rewrites them; review the difference.

use hawser::interact::overview::{Key, Overview};
use hawser::interact::record::{Counts, Header, LineContent, RecordLine, Signal, parse};
use ratatui_core::backend::TestBackend;
use ratatui_core::style::Color;
use ratatui_core::terminal::Terminal;
use serde_json::json;

use super::view::draw;
use crate::screen::Palette;

const MS: u64 = 1_000_000;

fn line(value: &serde_json::Value) -> RecordLine {
    parse(&value.to_string()).expect("a line")
}

fn offers() -> RecordLine {
    let states = json!([{ "value": 2, "name": "SYN_RECEIVED" }, { "value": 3, "name": "ESTABLISHED" }]);
    line(&json!({ "at": 0, "offers": [
        { "source": 0, "provider": "tcp",
          "events": [{ "name": "tcp.acked", "fields": [
              { "name": "bytes", "kind": "number" }, { "name": "rtt", "kind": "duration" }] }],
          "variables": [
              { "name": "tcp.conn.state", "kind": "enum", "values": states },
              { "name": "tcp.conn.srtt", "kind": "duration" },
              { "name": "tcp.conn.rttvar", "kind": "duration" },
              { "name": "tcp.conn.rack.min_rtt", "kind": "duration" },
              { "name": "tcp.conn.recovering", "kind": "bool" }] },
        { "source": 1, "provider": "link", "events": [], "variables": [
              { "name": "link.queue.delay", "kind": "duration" }] },
    ] }))
}

fn flows(at: u64, with_second: bool) -> RecordLine {
    let mut all = vec![
        json!({ "flow": "0:100000001", "provider": "tcp", "kind": "listener", "local": "10.9.0.2:80", "label": "" }),
        json!({ "flow": "0:100000002", "provider": "tcp", "kind": "conn", "local": "10.9.0.2:80",
                "remote": "10.9.0.1:50412", "label": "" }),
        json!({ "flow": "1:1", "provider": "link", "kind": "queue", "label": "client-server, forward" }),
    ];
    if with_second {
        all.push(
            json!({ "flow": "0:200000003", "provider": "tcp", "kind": "conn", "local": "10.9.0.2:80",
                         "remote": "10.9.0.1:50999", "label": "" }),
        );
    }
    line(&json!({ "at": at, "flows": all }))
}

fn sample(at: u64, flow: &str, cwnd: u64, delivered: u64) -> RecordLine {
    line(
        &json!({ "at": at, "sample": { "flow": flow, "time": at, "values": {
        "tcp.conn.cc.cwnd": cwnd, "tcp.conn.cc.ssthresh": u64::MAX, "tcp.conn.srtt": 40_000_000 + cwnd * 50,
        "tcp.conn.rttvar": 1_500_000, "tcp.conn.rack.min_rtt": 40_100_000, "tcp.conn.flight": cwnd / 2,
        "tcp.conn.delivered": delivered, "tcp.conn.retransmissions": 3, "tcp.conn.state": 3,
        "tcp.conn.recovering": 0, "tcp.conn.snd_wnd": 65535,
    } } }),
    )
}

/// A model with a sawtooth of twenty seconds, a listener, a link, and a held window.
fn model() -> Overview {
    let header = Header { process: 4242, pattern: "*".into(), ..Header::default() };
    let mut model = Overview::new(header);
    model.line(&offers());
    model.line(&flows(0, true));
    let mut delivered = 0;
    for step in 0..100 {
        let at = step * 200 * MS;
        let cwnd = 20_000 + step % 25 * 4_000;
        delivered += cwnd;
        model.line(&sample(at, "0:100000002", cwnd, delivered));
        model.line(&sample(at, "0:200000003", 14_600, step * 1000));
        model.line(&line(
            &json!({ "at": at, "signal": { "event": "tcp.acked", "flow": "0:100000002", "time": at,
            "fields": { "bytes": 1448, "rtt": 40_250_000 } } }),
        ));
    }
    let end = 100 * 200 * MS;
    model.line(&line(
        &json!({ "at": end, "sample": { "flow": "1:1", "time": end, "values": {
        "link.queue.bytes": 120_000, "link.queue.delay": 48_000_000, "link.queue.drops": 17 } } }),
    ));
    model.line(&line(
        &json!({ "at": end, "sample": { "flow": "0:100000001", "time": end, "values": {
        "tcp.listener.backlog": 128, "tcp.listener.dropped": 0, "tcp.listener.embryonic": 1 } } }),
    ));
    model.line(&line(
        &json!({ "at": end, "audit": [{ "first": 1, "last": 1, "count": 1, "who": "cap",
        "flow": "0:200000003", "variable": "tcp.conn.cc.cwnd", "act": "set", "value": 14_600 }] }),
    ));
    model.line(&line(&json!({ "at": end, "statistics":
        { "events": 250, "passed": 102, "lost": 2, "crowded": 0 } })));
    model
}

fn screen(model: &Overview, is_paused: bool, colour: bool, width: u16, height: u16) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    let drawn = terminal.draw(|frame| {
        let area = frame.area();
        draw(model, is_paused, Palette { colour }, area, frame.buffer_mut());
    });
    drawn.expect("it is drawn");
    terminal
}

fn assert_screen(name: &str, terminal: &Terminal<TestBackend>) {
    let buffer = terminal.backend().buffer();
    let row = |y| {
        let cells = (0..buffer.area.width).map(|x| buffer.cell((x, y)).expect("a cell").symbol());
        cells.collect::<String>().trim_end().to_owned() + "\n"
    };
    let text: String = (0..buffer.area.height).map(row).collect();
    let path = format!(
        "{}/src/commands/watch/screens/{name}.txt",
        env!("CARGO_MANIFEST_DIR")
    );
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &text).expect("it is written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{path}\n{text}");
}

#[test]
fn the_view_shows_flows_of_every_provider() {
    assert_screen("wide", &screen(&model(), false, false, 120, 24));
}

#[test]
fn the_view_fits_a_narrow_terminal() {
    let mut model = model();
    model.key(Key::Down);
    model.key(Key::Down);
    assert_screen("narrow", &screen(&model, true, false, 80, 24));
}

#[test]
fn the_selected_flow_is_in_view() {
    let mut model = model();
    (0..9).for_each(|_| model.key(Key::Down));
    assert_eq!(model.selected.as_deref(), Some("1:1"));
    assert_screen("low", &screen(&model, false, false, 80, 14));
    // Even in a tiny area, drawing must not go out of bounds.
    for (width, height) in [(1, 1), (10, 3), (80, 2)] {
        screen(&model, false, false, width, height);
    }
}

#[test]
fn the_view_is_drawn_without_flows() {
    assert_screen(
        "empty",
        &screen(&Overview::new(Header::default()), false, false, 80, 6),
    );
}

#[test]
fn colours_appear_only_if_enabled() {
    let coloured = |colour| {
        let terminal = screen(&model(), true, colour, 120, 24);
        terminal
            .backend()
            .buffer()
            .content()
            .iter()
            .filter(|cell| cell.fg != Color::Reset)
            .count()
    };
    assert_eq!(coloured(false), 0);
    assert!(coloured(true) > 0);
}

#[test]
fn flows_are_sorted_by_the_chosen_column() {
    let mut model = model();
    assert_eq!(
        model.ordered(),
        ["0:100000001", "0:100000002", "0:200000003", "1:1"]
    );
    model.key(Key::Sort);
    assert_eq!(model.ordered()[..2], ["0:100000002", "0:200000003"], "by rate");
    model.key(Key::Sort);
    model.key(Key::Sort);
    model.key(Key::Sort);
    assert_eq!(model.ordered()[0], "0:100000001", "by name again");
}

#[test]
fn an_ended_flow_remains_visible_for_seconds() {
    let mut model = model();
    model.line(&flows(20_000 * MS, false));
    assert!(model.flows["0:200000003"].gone.is_some());
    model.line(&flows(24_000 * MS, false));
    assert!(model.flows.contains_key("0:200000003"));
    model.line(&flows(25_000 * MS, false));
    assert!(!model.flows.contains_key("0:200000003"));
    assert!(model.held.is_empty(), "what it held is gone with it");
}

#[test]
fn memory_is_bounded() {
    let mut model = Overview::new(Header::default());
    for number in 0..5000_u64 {
        let signal = Signal {
            event: format!("x.e{number}"),
            flow: "0:1".into(),
            time: number,
            fields: Default::default(),
            lost: 0,
        };
        model.line(&RecordLine { at: number, what: LineContent::Signal(signal) });
    }
    model.line(&RecordLine { at: 1, what: LineContent::Statistics(Counts::default()) });
    assert!(model.counts.len() <= 1024 && model.latest.len() <= 8);
    model.line(&flows(0, false));
    (0..5000).for_each(|step| model.line(&sample(step * MS, "0:100000002", 1, 1)));
    assert!(
        model.flows["0:100000002"]
            .window
            .columns(5000 * MS, 10)
            .iter()
            .all(Option::is_some)
    );
}
