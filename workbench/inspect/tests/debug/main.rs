//! Runs of the examples under a debugger. The expected values come from the programs' texts and from the
//! order of their statements.

#![allow(clippy::disallowed_methods)] // Tests read the repository; the crate itself does not.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use hawser_inspect::debug::{
    Answer, BreakCondition, Command, Debugger, DebuggerInput, Move, Reason, RunTarget, Stop, StopPosition,
};
use hawser_inspect::trace::TraceValue;
use hawser_load::Engine;
use hawser_load::programs::resolve_with_on;
use hawser_sim::world::FrameFate;
use hawser_sim::{Options, START, Scenario};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn debugger_of(text: &str) -> Debugger {
    let mut scenario = Scenario::parse(text).unwrap_or_else(|error| panic!("{error} in\n{text}"));
    scenario.relative_to(&root().join("examples/scenarios"));
    let begin = DebuggerInput {
        scenario,
        seed: None,
        flows: std::sync::Arc::default(),
        resolve: Box::new(|name, settings| Ok(resolve_with_on(Some(Engine::Interp), name, settings)?)),
    };
    Debugger::begin(begin).unwrap_or_else(|error| panic!("{error}"))
}

/// Sets up stop-and-wait with this many bytes from a to b, on a link that loses some packets.
fn stop_and_wait(bytes: u32) -> Debugger {
    stop_and_wait_over("delay = '2ms', loss = 0.2", bytes)
}

fn stop_and_wait_over(link: &str, bytes: u32) -> Debugger {
    debugger_of(&format!(
        "program = '../stop-and-wait.mtp'\nhost = [{{ name = 'a' }}, {{ name = 'b' }}]\n\
         link = [{{ between = ['a', 'b'], both = {{ {link} }} }}]\n\
         flow = [{{ from = 'a', to = 'b', bulk = {{ bytes = {bytes} }} }}]"
    ))
}

fn text_of(place: &StopPosition) -> String {
    let line = place.line.as_ref().expect("a line");
    let text = fs::read_to_string(root().join("examples/stop-and-wait.mtp")).expect("the example");
    text.lines()
        .nth(line.line as usize - 1)
        .expect("that line")
        .to_owned()
}

fn go(debugger: &mut Debugger, step: Move) -> Stop {
    debugger
        .go(&step, &mut || false)
        .unwrap_or_else(|error| panic!("{error}"))
}

fn place(stop: &Stop) -> &StopPosition {
    stop.place.as_ref().expect("a place in the run")
}

fn stop_at(debugger: &mut Debugger, what: BreakCondition) {
    debugger
        .add(what, None, None)
        .unwrap_or_else(|error| panic!("{error}"));
}

fn obey(debugger: &mut Debugger, text: &str) -> Result<Answer, String> {
    let command = Command::parse(text)
        .map_err(|error| error.to_string())?
        .expect("a command");
    debugger
        .obey(&command, &mut || false)
        .map_err(|error| error.to_string())
}

fn print(debugger: &mut Debugger, text: &str) -> TraceValue {
    debugger
        .print(text)
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Shows all visible state at the debugger's position.
fn sight(debugger: &Debugger) -> String {
    format!(
        "{:?}\n{:?}\n{:?}\n{:?}\n{:?}",
        debugger.place(),
        debugger.frames(),
        debugger.scopes(0),
        debugger.contexts(),
        debugger.flight()
    )
}

#[test]
fn every_event_looks_the_same_when_it_is_reached_backwards() {
    let mut debugger = stop_and_wait(6000);
    let mut seen = vec![sight(&debugger)];
    while go(&mut debugger, Move::Event).reason != Reason::End {
        seen.push(sight(&debugger));
    }
    assert!(seen.len() > 20, "{} events", seen.len());
    for expected in seen.iter().rev() {
        go(&mut debugger, Move::BackEvent);
        assert_eq!(sight(&debugger), *expected);
    }
    assert_eq!(go(&mut debugger, Move::BackEvent).reason, Reason::Beginning);
}

#[test]
fn every_statement_looks_the_same_when_it_is_reached_backwards() {
    let mut debugger = stop_and_wait(2000);
    let mut seen = vec![sight(&debugger)];
    while go(&mut debugger, Move::Step).reason != Reason::End {
        seen.push(sight(&debugger));
    }
    assert!(seen.len() > 100, "{} statements", seen.len());
    for expected in seen.iter().rev() {
        go(&mut debugger, Move::Back);
        assert_eq!(sight(&debugger), *expected);
    }
}

#[test]
fn a_line_breakpoint_stops_at_the_same_places_in_reverse() {
    let mut debugger = stop_and_wait(6000);
    let text = fs::read_to_string(root().join("examples/stop-and-wait.mtp")).expect("the example");
    let line = text
        .lines()
        .position(|line| line.contains("c.retransmissions += 1"))
        .expect("that line")
        + 1;
    let line = line as u32;
    stop_at(&mut debugger, BreakCondition::Line { file: None, line });
    let mut places = Vec::new();
    loop {
        let stop = go(&mut debugger, Move::Continue);
        if stop.reason == Reason::End {
            break;
        }
        assert_eq!((stop.reason, place(&stop).statement), (Reason::Breakpoint, 0));
        assert!(text_of(place(&stop)).contains("c.retransmissions += 1"));
        // The statement is about to run, so that there are as many repetitions as earlier stops.
        assert_eq!(
            print(&mut debugger, "ctx.retransmissions"),
            TraceValue::Number(places.len() as u64)
        );
        places.push(place(&stop).clone());
    }
    assert!(places.len() > 1, "some packets are lost: {}", places.len());
    for expected in places.iter().rev() {
        assert_eq!(place(&go(&mut debugger, Move::Reverse)), expected);
    }
    assert_eq!(go(&mut debugger, Move::Reverse).reason, Reason::Beginning);
}

#[test]
fn a_field_stops_after_the_statement_that_changed_it() {
    let mut debugger = stop_and_wait(3000);
    stop_at(
        &mut debugger,
        BreakCondition::Field("sw_conn.next_out".to_owned()),
    );
    // Both contexts are new at the first stop.
    go(&mut debugger, Move::Continue);
    let stop = go(&mut debugger, Move::Continue);
    let changed = stop
        .changed
        .iter()
        .find(|changed| changed.field.as_deref() == Some("next_out"));
    let changed = changed.unwrap_or_else(|| panic!("{stop}"));
    assert_eq!(
        (&changed.old, &changed.new),
        (&Some(TraceValue::Number(1)), &Some(TraceValue::Number(2)))
    );
    let before = go(&mut debugger, Move::Back);
    assert!(text_of(place(&before)).contains("c.next_out += 1"));
    assert_eq!(print(&mut debugger, "next_out"), TraceValue::Number(1));
}

#[test]
fn a_packet_stops_at_the_instruction_that_makes_it() {
    let mut debugger = stop_and_wait(3000);
    stop_at(&mut debugger, BreakCondition::Packet(Some(1)));
    let stop = go(&mut debugger, Move::Continue);
    assert!(text_of(place(&stop)).contains("emit pkt_gen(ip, h);"));
    assert_eq!(place(&stop).function.as_deref(), Some("transmit"));
    let functions: Vec<String> = debugger
        .frames()
        .into_iter()
        .map(|frame| frame.function)
        .collect();
    assert_eq!(functions, ["transmit", "next"]);
    assert_eq!(print(&mut debugger, "h.dport"), TraceValue::Number(7001));
    // The caller sees its own variables.
    assert!(debugger.select_frame(1));
    assert!(debugger.print("h.dport").is_err());
    assert_eq!(print(&mut debugger, "c.una"), TraceValue::Number(0));
}

#[test]
fn a_condition_about_a_packet_sees_its_header() {
    let mut debugger = stop_and_wait(3000);
    let condition = Some("kind == FIN && seq == 3".to_owned());
    debugger
        .add(BreakCondition::Packet(None), Some("a"), condition)
        .expect("a breakpoint");
    let stop = go(&mut debugger, Move::Continue);
    // 3000 bytes are packets 0, 1 and 2 of at most 1400; the end of the stream comes next.
    assert_eq!(print(&mut debugger, "h.seq"), TraceValue::Number(3));
    assert_eq!(print(&mut debugger, "kind"), TraceValue::Text("FIN".to_owned()));
    assert_eq!(place(&stop).host, "a");
}

#[test]
fn a_false_assertion_stops_where_it_stands() {
    let folder = root().join("examples/stop-and-wait.mtp");
    let text = fs::read_to_string(folder).expect("the example");
    let line = "        c.next_out += 1;\n";
    let broken = text.replace(line, &format!("{line}        assert(c.next_out < 2);\n"));
    assert_ne!(broken, text);
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("false-assertion.mtp");
    fs::write(&file, broken).expect("it is written");
    let mut debugger = debugger_of(&format!(
        "program = '{}'\nduration = '1s'\nhost = [{{ name = 'a' }}, {{ name = 'b' }}]\n\
         link = [{{ between = ['a', 'b'], both = {{ delay = '2ms' }} }}]\n\
         flow = [{{ from = 'a', to = 'b', bulk = {{ bytes = 6000 }} }}]",
        file.display()
    ));
    stop_at(&mut debugger, BreakCondition::Assert);
    assert_eq!(go(&mut debugger, Move::Continue).reason, Reason::Assert);
    assert_eq!(print(&mut debugger, "next_out"), TraceValue::Number(2));
    let (_, lines) = debugger.source(0, 0);
    assert_eq!(lines[0].text.trim(), "assert(c.next_out < 2);");
    while go(&mut debugger, Move::Continue).reason != Reason::End {}
    let end = go(&mut debugger, Move::Continue).end.expect("the run is over");
    assert!(
        !end.ok
            && end
                .failures
                .iter()
                .any(|failure| failure.contains("c.next_out < 2")),
        "{end:?}"
    );
}

#[test]
fn next_steps_over_a_function_and_out_leaves_it() {
    let mut debugger = stop_and_wait(3000);
    stop_at(&mut debugger, BreakCondition::Event("sw_pkt".to_owned()));
    go(&mut debugger, Move::Continue);
    debugger.clear_all();
    let mut stop = go(&mut debugger, Move::Next);
    while !text_of(place(&stop)).contains("transmit(") {
        stop = go(&mut debugger, Move::Next);
    }
    let before = place(&stop).clone();
    let inside = go(&mut debugger, Move::Step);
    assert_eq!(place(&inside).function.as_deref(), Some("transmit"));
    let after = go(&mut debugger, Move::Out);
    assert_ne!(place(&after).function.as_deref(), Some("transmit"));
    while debugger.place() != Some(before.clone()) {
        go(&mut debugger, Move::Back);
    }
    assert_eq!(place(&go(&mut debugger, Move::Next)), place(&after));
}

#[test]
fn another_host_is_inspected_by_name() {
    let mut debugger = stop_and_wait(6000);
    obey(&mut debugger, "break field next_out if next_out == 2").expect("a breakpoint");
    let stop = go(&mut debugger, Move::Continue);
    assert_eq!(place(&stop).host, "a");
    // Host a received the acknowledgement of packet 1, so b expects packet 2.
    obey(&mut debugger, "host b").expect("there is one");
    assert_eq!(print(&mut debugger, "next_in"), TraceValue::Number(2));
    assert_eq!(print(&mut debugger, "sw_conn.rcvd"), TraceValue::Number(2800));
}

#[test]
fn goto_reaches_times_and_events() {
    let mut debugger = stop_and_wait_over("delay = '2ms'", 6000);
    let Ok(Answer::Stop(stop)) = obey(&mut debugger, "goto 104ms") else {
        panic!("a stop");
    };
    // The packet that opened the connection is repeated after 100 ms. The answer takes 2 ms each way.
    assert_eq!(
        (place(&stop).at_ns, place(&stop).host.as_str()),
        (104_000_000, "a")
    );
    let number = place(&stop).event;
    let Ok(Answer::Stop(back)) = obey(&mut debugger, &format!("goto {}", number - 1)) else {
        panic!("a stop");
    };
    assert!(place(&back).at_ns < 104_000_000 && place(&back).event == number - 1);
}

#[test]
fn packets_are_in_flight_from_their_sending_to_their_arrival() {
    let mut debugger = stop_and_wait_over("delay = '2ms'", 6000);
    let mut flights = Vec::new();
    while go(&mut debugger, Move::Event).reason != Reason::End {
        let place = debugger.place().expect("a place");
        flights.push((place, debugger.flight()));
    }
    let mut largest = 0;
    for (place, flight) in &flights {
        for packet in flight {
            let age = place.at_ns - packet.sent_at_ns;
            assert!(age <= 2_000_000, "packet {} is {age} ns old", packet.number);
        }
        largest = largest.max(flight.len());
    }
    // At most one packet or its acknowledgement is in flight, and none is while either is processed.
    assert_eq!(largest, 1);
    let arrival = flights
        .iter()
        .find(|(place, _)| place.host == "b" && place.source == "packet");
    assert!(arrival.is_some_and(|(_, flight)| flight.is_empty()));
}

#[test]
fn a_pause_stops_the_run_without_changing_it() {
    let mut whole = stop_and_wait(400_000);
    let end = go(&mut whole, Move::Continue).end.expect("the run is over");
    let mut paused = stop_and_wait(400_000);
    let mut pauses = 0;
    let stop = loop {
        let stop = paused.go(&Move::Continue, &mut || true).expect("a stop");
        if stop.reason == Reason::End {
            break stop;
        }
        assert_eq!(stop.reason, Reason::Pause);
        pauses += 1;
    };
    assert!(pauses > 1, "{} events", end.events);
    assert_eq!(stop.end, Some(end));
    // Also backwards, to some earlier place.
    stop_at(&mut paused, BreakCondition::Event("sw_listen".to_owned()));
    let stop = paused.go(&Move::Reverse, &mut || true).expect("a stop");
    assert_eq!(stop.reason, Reason::Pause);
}

/// A packet with a wrong checksum gives no event, but the debugger can still stop at it.
#[test]
fn a_rejected_packet_is_an_event_without_statements() {
    let mut debugger = stop_and_wait_over("delay = '2ms', corrupt = 0.4", 6000);
    stop_at(&mut debugger, BreakCondition::Assert);
    stop_at(&mut debugger, BreakCondition::Packet(None));
    let mut refused = 0;
    while go(&mut debugger, Move::Event).reason != Reason::End {
        if debugger
            .event()
            .is_some_and(|event| event.outcome == "not parsed")
        {
            refused += 1;
            assert_eq!(debugger.place().map(|place| place.statements), Some(0));
            assert!(debugger.print("una").is_err());
            assert_eq!(print(&mut debugger, "MSS"), TraceValue::Number(1400));
            obey(&mut debugger, "host a").expect("there is one");
            print(&mut debugger, "una");
        }
    }
    assert!(refused > 0);
    while go(&mut debugger, Move::Reverse).reason != Reason::Beginning {}
}

#[test]
fn unknown_names_are_refused_with_suggestions() {
    let mut debugger = stop_and_wait(1000);
    for (command, hint) in [
        ("break field una2", "did you mean `una`?"),
        ("break event sw_sent", "did you mean `sw_send`?"),
        ("break tcp.mtp:5", "stop-and-wait.mtp"),
        ("break 9999", "no chain has a statement"),
        ("break packet 9999", "fewer than 9999 packets"),
        ("break assert on c", "the hosts are: a, b"),
        ("host c", "the hosts are: a, b"),
        ("clear 7", "unknown breakpoint 7"),
        ("frame 9", "`stack` lists them"),
        ("print una +", "expected an expression"),
    ] {
        let error = obey(&mut debugger, command).expect_err(command);
        assert!(error.contains(hint), "{command}: {error}");
    }
    // A condition is checked when it is needed.
    obey(&mut debugger, "break event sw_send if len").expect("a breakpoint");
    let stop = go(&mut debugger, Move::Continue);
    assert!(!stop.problems.is_empty(), "{stop:?}");
}

#[test]
fn stepping_back_replays_only_the_earlier_events() {
    let mut debugger = stop_and_wait(1 << 20);
    go(&mut debugger, Move::To(RunTarget::Event(500)));
    assert_eq!(debugger.played(), 500);
    go(&mut debugger, Move::Step);
    go(&mut debugger, Move::Back);
    go(&mut debugger, Move::Step);
    go(&mut debugger, Move::BackEvent);
    assert_eq!(debugger.played(), 500, "nothing runs again within an event");
    let stop = go(&mut debugger, Move::BackEvent);
    assert_eq!(place(&stop).event, 499);
    assert_eq!(debugger.played(), 500 + 499);
}

/// Host b goes down for a second while it receives.
const FALL: &str = "program = 'selective-repeat'\nduration = '1min'\nhost = [{ name = 'a' }, { name = 'b' }]\n\
    link = [{ between = ['a', 'b'], both = { rate = '1Mbit/s', delay = '10ms' } }]\n\
    flow = [{ from = 'a', to = 'b', again = 1, send_buffer = '32KiB', bulk = { bytes = '64KiB' } }]\n\
    at = [{ time = '100ms', host = 'b', state = 'down' }, { time = '1100ms', host = 'b', state = 'up' }]\n";

#[test]
fn a_restarted_host_begins_empty_and_is_observed() {
    let mut debugger = debugger_of(FALL);
    let contexts = |debugger: &Debugger| {
        let hosts = debugger.contexts();
        let of_b = hosts.iter().find(|view| view.host == "b");
        of_b.expect("host b").contexts.len()
    };
    let Ok(Answer::Stop(stop)) = obey(&mut debugger, "goto 90ms") else {
        panic!("a stop");
    };
    assert!(place(&stop).at_ns < 100_000_000);
    let before = contexts(&debugger);
    assert!(before > 1, "a listener and a connection: {before}");
    // The first event of its second life: its application listens again.
    let mut again = None;
    let mut last = place(&stop).event;
    while again.is_none() && go(&mut debugger, Move::Event).reason != Reason::End {
        let at = debugger.place().expect("a place");
        assert_eq!(at.event, last + 1);
        last = at.event;
        again = (at.host == "b" && at.at_ns >= 1_100_000_000).then_some(at);
    }
    let again = again.expect("an event of b");
    assert_eq!(again.source, "request");
    assert_eq!(contexts(&debugger), 0);
}

#[test]
fn a_packet_number_includes_the_life_of_its_host() {
    // The packets that the simulator reports without an observer of events.
    let sent = Rc::new(RefCell::new(Vec::new()));
    let into = Rc::clone(&sent);
    let options = Options {
        packets: Some(Box::new(move |sight| {
            if sight.fate == FrameFate::Sent && sight.from == 1 {
                let at = (sight.at - START).as_nanos();
                into.borrow_mut().push((sight.frame.number, at as u64));
            }
        })),
        ..Options::default()
    };
    let scenario = Scenario::parse(FALL).expect("a scenario");
    let resolve =
        |name: &str, settings: &[String]| Ok(resolve_with_on(Some(Engine::Interp), name, settings)?);
    hawser_sim::run(&scenario, &resolve, options).expect("it runs");
    let sent = sent.borrow();
    let later = sent.iter().position(|(_, at)| *at >= 1_100_000_000);
    let later = later.expect("b sends again");
    assert!(later > 2, "and did before");
    let mut debugger = debugger_of(FALL);
    for (number, at) in sent[..2].iter().chain(&sent[later..later + 2]) {
        let Ok(Answer::Stop(stop)) = obey(&mut debugger, &format!("goto packet {number}")) else {
            panic!("a stop");
        };
        assert_eq!(
            (place(&stop).host.as_str(), place(&stop).at_ns),
            ("b", *at),
            "packet {number}"
        );
    }
}
