//! The state machine as a table: `states.txt`.

use crate::bench::{Bench, Connection, PEER_ISS, SECOND, State};
use crate::segment::Segment;

const NAMES: [(&str, Option<State>); 10] = [
    ("syn-sent", Some(State::SynSent)),
    ("syn-received", Some(State::SynReceived)),
    ("established", Some(State::Established)),
    ("fin-wait-1", Some(State::FinWait1)),
    ("fin-wait-2", Some(State::FinWait2)),
    ("close-wait", Some(State::CloseWait)),
    ("closing", Some(State::Closing)),
    ("last-ack", Some(State::LastAck)),
    ("time-wait", Some(State::TimeWait)),
    ("closed", None),
];

/// Brings a connection into a state. Returns it with the count of the host's numbers (SYN, FIN) that wait for
/// an acknowledgement.
fn reach(state: &str) -> (Connection, u32) {
    if state == "syn-sent" || state == "syn-received" {
        let mut bench = Bench::new(&[]);
        let handle = bench.connect();
        let syn = bench.one();
        let next = PEER_ISS;
        let mut c = Connection { bench, handle, next, host: syn.seq, window: 65535, timestamps: false };
        if state == "syn-received" {
            let simultaneous = Segment { ack: None, ..c.segment().syn() };
            c.bench.inject(&simultaneous);
            c.next = c.next.wrapping_add(1);
        }
        return (c, 1);
    }
    let mut c = Connection::plain(&[]);
    let peer_closes = |c: &mut Connection| {
        let fin = c.segment().fin();
        c.bench.inject(&fin);
        c.next = c.next.wrapping_add(1);
    };
    let mut outstanding = 0;
    let mut closes = |c: &mut Connection| {
        c.bench.close(c.handle);
        outstanding = 1;
    };
    match state {
        "established" => {}
        "fin-wait-1" => closes(&mut c),
        "fin-wait-2" | "time-wait" => {
            c.bench.close(c.handle);
            c.acknowledge(1);
            if state == "time-wait" {
                peer_closes(&mut c);
            }
        }
        "close-wait" => peer_closes(&mut c),
        "last-ack" => {
            peer_closes(&mut c);
            closes(&mut c);
        }
        "closing" => {
            closes(&mut c);
            peer_closes(&mut c);
        }
        _ => panic!("no state {state}"),
    }
    (c, outstanding)
}

/// Applies an event to a connection.
fn happen(c: &mut Connection, outstanding: u32, what: &str) {
    let all = c.host.wrapping_add(outstanding);
    let (plain, next) = (c.segment(), c.next);
    let segment = match what {
        "close" => return c.bench.close(c.handle),
        "wait" => return c.bench.advance(60 * SECOND),
        "ack" => plain.acks(all),
        "data" => plain.payload([1; 10]),
        "data+ack" => plain.payload([1; 10]).acks(all),
        "noack" => Segment { ack: None, ..plain.payload([1; 10]) },
        "fin" => plain.fin(),
        "fin+ack" => plain.fin().acks(all),
        "fin-again" => plain.fin().at(next.wrapping_sub(1)),
        "beyond" => plain.acks(all.wrapping_add(1000)),
        "old" => plain.at(next.wrapping_sub(1)),
        "syn" => Segment { ack: None, ..plain.syn() },
        "syn+ack" => plain.syn().acks(all),
        "syn-old" | "syn-again" => Segment { ack: None, ..plain.syn().at(next.wrapping_sub(1)) },
        "syn-new" => Segment { ack: None, ..plain.syn().at(next.wrapping_add(100_000)) },
        "rst" => Segment { ack: None, ..plain.rst() },
        "rst+ack" => plain.rst().acks(all),
        "rst+1" => plain.rst().at(next.wrapping_add(1)),
        "rst-far" => plain.rst().at(next.wrapping_add(1 << 30)),
        _ => panic!("no event {what}"),
    };
    c.bench.inject(&segment);
}

fn name(segment: &Segment) -> &'static str {
    match (segment.rst, segment.syn, segment.fin) {
        (true, ..) => "rst",
        (_, true, _) => "synack",
        (.., true) => "fin",
        _ => "ack",
    }
}

#[test]
fn every_state_handles_every_segment_as_tabulated() {
    let mut wrong = Vec::new();
    let mut rows = 0;
    let lines = include_str!("states.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    for line in lines {
        let [state, what, answer, then] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        rows += 1;
        let (mut c, outstanding) = reach(state);
        assert_eq!(c.bench.stack.contexts(), 1);
        let in_state = |c: &Connection| {
            let number = c.bench.stack.observe(c.handle, "state");
            NAMES.iter().find(|(_, s)| s.map(|s| s as u64) == number).map_or("?", |(name, _)| *name)
        };
        assert_eq!(in_state(&c), state, "could not be reached");
        let _ = c.bench.sent();
        happen(&mut c, outstanding, what);
        let sent: Vec<_> = c.bench.sent().iter().map(name).collect();
        let sent = if sent.is_empty() { "-".to_owned() } else { sent.join("+") };
        let ended = in_state(&c);
        if (sent.as_str(), ended) != (answer, then) {
            wrong.push(format!("{line}    but: {sent} {ended}"));
        }
        assert!(c.bench.stack.contexts() == usize::from(ended != "closed"), "{line}");
    }
    assert!(rows > 80, "{rows}");
    assert!(wrong.is_empty(), "{rows} rows; wrong:\n{}", wrong.join("\n"));
}
