//! `hawser sim trace`: its output is compared with the source itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use hawser_testing::{Need, has};
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn trace(args: &[&str]) -> (String, String, Option<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hawser"));
    let output = command
        .args(["sim", "trace"])
        .args(args)
        .current_dir(root())
        .output()
        .expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

/// Returns the events of a run as objects.
pub(crate) fn events(args: &[&str]) -> Vec<Value> {
    let (out, error, code) = trace(&[args, &["--json"]].concat());
    assert_eq!(code, Some(0), "{error}");
    out.lines()
        .map(|line| serde_json::from_str(line).expect("an object a line"))
        .collect()
}

/// Lines of the source, read from its files on demand.
#[derive(Default)]
struct Source(BTreeMap<String, Vec<String>>);

impl Source {
    /// Returns the text of the line that an item of a trace names.
    fn line(&mut self, place: &Value) -> &str {
        let file = place["file"].as_str().expect("a file");
        let lines = self.0.entry(file.to_owned()).or_insert_with(|| {
            let places = [root().join("transports").join(file), root().join(file)];
            let found = places.iter().find(|path| path.exists());
            let text =
                std::fs::read_to_string(found.unwrap_or_else(|| panic!("no file {file}"))).expect("text");
            text.lines().map(str::to_owned).collect()
        });
        let number = place["line"].as_u64().expect("a number") as usize;
        &lines[number - 1]
    }

    /// Returns the first line of the function that contains this line.
    fn function(&mut self, place: &Value) -> &str {
        self.line(place);
        let lines = &self.0[place["file"].as_str().expect("a file")];
        let number = place["line"].as_u64().expect("a number") as usize;
        let begins = |line: &&String| line.starts_with(char::is_alphabetic) && line.contains('(');
        lines[..number].iter().rev().find(begins).expect("a function")
    }
}

const LOSSY: &str = "examples/scenarios/tcp-lossy.toml";

#[test]
fn each_instruction_names_a_line_that_has_it() {
    let mut source = Source::default();
    let mut seen = BTreeMap::<String, usize>::new();
    for event in events(&[LOSSY, "--to", "1s"]) {
        for instruction in event["instructions"].as_array().expect("a list") {
            let name = instruction["instruction"].as_str().expect("a name");
            let line = source.line(instruction);
            assert!(line.contains(name), "{name} is not in `{line}`: {instruction}");
            *seen.entry(name.to_owned()).or_default() += 1;
        }
    }
    for name in [
        "new_ctx",
        "new_tx_ordered_data",
        "new_rx_ordered_data",
        "add_tx_data",
        "add_rx_data_seg",
        "rx_flush_and_notify",
        "tx_flush_and_notify",
        "pkt_gen",
        "timer_start",
        "timer_stop",
        "notify",
        "raise",
    ] {
        assert!(seen.contains_key(name), "no {name} among {seen:?}");
    }
}

#[test]
fn each_processor_names_the_line_that_it_begins_in() {
    let mut source = Source::default();
    for event in events(&[LOSSY, "--to", "500ms"]) {
        for processor in event["processors"].as_array().expect("a list") {
            let name = processor["processor"].as_str().expect("a name");
            let line = source.line(processor);
            assert!(line.contains(name), "{name} is not in `{line}`");
        }
    }
}

#[test]
fn a_change_of_the_congestion_window_names_a_line_that_sets_it() {
    let mut source = Source::default();
    let events = events(&[LOSSY, "--field", "cc.cwnd"]);
    assert!(events.len() > 10, "{} events", events.len());
    for event in &events {
        let changes = event["changes"].as_array().expect("a list");
        let change = changes
            .iter()
            .find(|change| change["field"] == "cc.cwnd")
            .expect("the field");
        assert_ne!(change["old"], change["new"]);
        let line = source.line(change);
        assert!(line.contains("cwnd") && line.contains('='), "`{line}`");
    }
}

#[test]
fn interpreter_and_machine_code_have_the_same_trace() {
    let of = |engine| trace(&[LOSSY, "--engine", engine, "--to", "2s"]).0;
    let (interpreted, native) = (of("interp"), of("native"));
    assert!(interpreted.len() > 10_000);
    assert_eq!(interpreted, native);
}

#[test]
fn options_choose_events() {
    let seconds = |event: &Value| event["at_ns"].as_u64().expect("a time") as f64 / 1e9;
    let all = events(&[LOSSY, "--to", "1s"]);
    let hosts: Vec<&str> = all.iter().filter_map(|event| event["host"].as_str()).collect();
    let host = hosts[0];
    assert!(hosts.iter().any(|other| *other != host), "both hosts have events");
    let of_host = events(&[LOSSY, "--to", "1s", "--host", host]);
    assert_eq!(
        of_host.len(),
        hosts.iter().filter(|other| **other == host).count()
    );
    let later = events(&[LOSSY, "--from", "200ms", "--to", "1s"]);
    assert_eq!(
        later,
        all.iter()
            .filter(|event| seconds(event) >= 0.2)
            .cloned()
            .collect::<Vec<_>>()
    );
    let of_flow = events(&[LOSSY, "--to", "1s", "--flow", "0"]);
    assert!(!of_flow.is_empty() && of_flow.len() <= all.len());
}

#[test]
fn a_name_absent_from_the_scenario_is_a_usage_error() {
    let (_, error, code) = trace(&[LOSSY, "--host", "nobody"]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("no host `nobody`; it has: "), "{error}");
    let (_, error, code) = trace(&[LOSSY, "--flow", "99"]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("the first is 0"), "{error}");
    let (_, error, code) = trace(&[LOSSY, "--packet", "0"]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("the first packet of a run is 1"), "{error}");
    let (out, error, code) = trace(&[LOSSY, "--field", "no.such.field"]);
    assert_eq!((out.as_str(), code), ("", Some(2)));
    assert!(error.contains("no.such.field"), "{error}");
}

#[test]
fn counters_of_the_engine_are_shown_and_explained() {
    let (out, ..) = trace(&[LOSSY]);
    let ignored = out
        .lines()
        .filter(|line| line.contains("not run  [no_context]"))
        .count();
    assert!(ignored > 0);
    let meaning = out
        .lines()
        .filter(|line| line.starts_with("[no_context] Events without a context"));
    assert_eq!(meaning.count(), 1);
}

/// A TCP packet over IPv4 in a capture of a run.
struct Segment {
    /// The time, in nanoseconds.
    at: u64,
    /// The source and destination ports.
    ports: [u16; 2],
    seq: u32,
    flags: u8,
    window: u16,
    /// The length of the payload, in bytes.
    payload: usize,
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// Parses the packets of a capture, in order (draft-ietf-opsawg-pcap; LINKTYPE_RAW).
fn segments(capture: &[u8]) -> Vec<Segment> {
    let number = |at: usize| u32::from_le_bytes(capture[at..at + 4].try_into().expect("4 bytes"));
    let (mut at, mut found) = (24, Vec::new());
    while at < capture.len() {
        let len = number(at + 8) as usize;
        let packet = &capture[at + 16..at + 16 + len];
        let tcp = &packet[usize::from(packet[0] & 15) * 4..];
        let short = |at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
        found.push(Segment {
            at: u64::from(number(at)) * 1_000_000_000 + u64::from(number(at + 4)),
            ports: [short(0), short(2)],
            seq: u32::from_be_bytes(tcp[4..8].try_into().expect("4 bytes")),
            flags: tcp[13],
            window: short(14),
            payload: tcp.len() - usize::from(tcp[12] >> 4) * 4,
        });
        at += 16 + len;
    }
    found
}

/// A kind of TCP packet: its name, the index of an example, the function that sends it, and the event that
/// causes it.
type Kind = (&'static str, usize, &'static str, &'static str);

/// Runs a scenario and returns its packets.
fn captured(scenario: &str) -> Vec<Segment> {
    let folder = hawser_documents::temporary::Folder::new().expect("a folder");
    let capture = folder.join("run.pcap");
    let mut command = Command::new(env!("CARGO_BIN_EXE_hawser"));
    command
        .args(["sim", "run", scenario, "--pcap"])
        .arg(&capture)
        .current_dir(root());
    command.output().expect("it runs");
    segments(&std::fs::read(&capture).expect("a capture"))
}

/// Finds the first packet that satisfies a condition on its index, the packets before it, and itself.
fn first(segments: &[Segment], kind: &str, wanted: impl Fn(usize, &[Segment], &Segment) -> bool) -> usize {
    let found = segments
        .iter()
        .enumerate()
        .find(|(index, segment)| wanted(*index, &segments[..*index], segment));
    found.unwrap_or_else(|| panic!("no {kind} in the run")).0
}

/// Checks that each of these packets leads to the line that sent it. Sequence numbers show that the event
/// belongs to the packet.
fn each_leads_to_its_line(scenario: &str, segments: &[Segment], kinds: &[Kind]) {
    let mut source = Source::default();
    for (kind, index, function, event) in kinds {
        let number = (index + 1).to_string();
        let events = events(&[scenario, "--packet", &number]);
        assert_eq!(events.len(), 1, "{kind}");
        assert!(
            events[0]["event"].as_str().expect("a name").contains(event),
            "{kind}: {}",
            events[0]
        );
        let instructions = events[0]["instructions"].as_array().expect("a list");
        let sender = instructions
            .iter()
            .find(|instruction| instruction["packet"] == index + 1);
        let sender = sender.unwrap_or_else(|| panic!("{kind}: {:?}", events[0]));
        assert_eq!(sender["instruction"], "pkt_gen", "{kind}");
        assert!(source.function(sender).contains(function), "{kind}: {sender}");
        assert!(source.line(sender).contains("pkt_gen"), "{kind}: {sender}");
        let arguments = sender["arguments"].as_array().expect("a list");
        let (image, rule) = (
            &arguments[0][1],
            arguments.iter().find(|one| one[0] == "next_seq"),
        );
        let seq = rule.map_or(&image["seq"], |rule| &rule[1][0]);
        let seq = seq.as_u64().expect("a sequence number") as u32;
        // One instruction may generate several packets.
        let distance = segments[*index].seq.wrapping_sub(seq);
        let len = image["data"]["len"].as_u64().unwrap_or(0) as u32;
        assert!(distance <= len, "{kind}: {seq} and {}", segments[*index].seq);
    }
}

/// Returns whether the same bytes were sent before.
fn is_repeated(before: &[Segment], segment: &Segment) -> bool {
    let same =
        |other: &Segment| other.ports == segment.ports && other.seq == segment.seq && other.payload > 0;
    segment.payload > 0 && before.iter().any(same)
}

/// Covers each kind of TCP packet in a lossy transfer.
#[test]
fn a_packet_leads_to_the_line_that_sent_it() {
    let segments = captured(LOSSY);
    let of = |kind, wanted: &dyn Fn(usize, &[Segment], &Segment) -> bool| first(&segments, kind, wanted);
    let is_syn = |flags: u8| flags & (SYN | ACK) == SYN;
    let kinds = [
        (
            "SYN",
            of("SYN", &|_, _, s| is_syn(s.flags)),
            "send_syn",
            "options_known",
        ),
        (
            "SYN and ACK",
            of("SYN and ACK", &|_, _, s| s.flags & (SYN | ACK) == SYN | ACK),
            "answer_syn",
            "tcp_seg",
        ),
        ("data", of("data", &|_, _, s| s.payload > 0), "transmit", "tcp_"),
        (
            "retransmission",
            of("retransmission", &|_, before, s| is_repeated(before, s)),
            "transmit",
            "",
        ),
        (
            "acknowledgement",
            of("acknowledgement", &|i, _, s| {
                i > 10 && s.payload == 0 && s.flags == ACK
            }),
            "send_ack",
            "tcp_seg",
        ),
        ("FIN", of("FIN", &|_, _, s| s.flags & FIN > 0), "transmit", ""),
    ];
    each_leads_to_its_line(LOSSY, &segments, &kinds);
}

/// A message is lost at the tail. Then both ends are idle, and the link goes down for good. A second flow has
/// an application that reads slowly.
const IDLE: &str = r#"
name = "idle"
duration = "9s"
program = "tcp"
params = { KEEPALIVE = "1s", KEEPALIVE_INTERVAL = "300ms", KEEPALIVE_COUNT = 2, RCV_BUF = 16384 }

[[host]]
name = "a"

[[host]]
name = "b"

[[link]]
name = "wire"
between = ["a", "b"]
both = { rate = "50Mbit/s", delay = "10ms" }

[[flow]]
from = "a"
to = "b"
close = "never"
messages = { count = 2, size = 1000, interval = "3s" }

[[flow]]
from = "a"
to = "b"
read_rate = "4kbit/s"
bulk = { bytes = "256KiB" }

[[at]]
time = "2990ms"
link = "wire"
state = "down"

[[at]]
time = "3060ms"
link = "wire"
state = "up"

[[at]]
time = "5s"
link = "wire"
state = "down"
"#;

/// Covers the other kinds: a window probe, a tail loss probe, a keepalive, and a reset.
#[test]
fn a_probe_and_a_reset_lead_to_the_line_that_sent_them() {
    let folder = hawser_documents::temporary::Folder::new().expect("a folder");
    let scenario = folder.join("idle.toml");
    std::fs::write(&scenario, IDLE).expect("a file");
    let scenario = scenario.to_str().expect("a path");
    let segments = captured(scenario);
    let of = |kind, wanted: &dyn Fn(usize, &[Segment], &Segment) -> bool| first(&segments, kind, wanted);
    let is_of_messages = |s: &Segment| s.ports.contains(&7001);
    let end = |s: &Segment| s.seq.wrapping_add(s.payload as u32);
    let closed = |before: &[Segment], s: &Segment| {
        let peer = before
            .iter()
            .rfind(|other| other.ports == [s.ports[1], s.ports[0]]);
        peer.is_some_and(|peer| peer.window == 0)
    };
    // RFC 9293, 3.8.4: the sequence number is one below the next one, and there is no data.
    let asks = |before: &[Segment], s: &Segment| {
        let same = before
            .iter()
            .rfind(|other| other.ports == s.ports && other.payload > 0);
        s.flags == ACK && s.payload == 0 && same.is_some_and(|last| end(last) == s.seq.wrapping_add(1))
    };
    // RFC 8985, 7: earlier than a retransmission timeout, which is at least 1 s.
    let is_soon = |before: &[Segment], s: &Segment| {
        let same = before
            .iter()
            .find(|other| other.ports == s.ports && other.seq == s.seq && other.payload > 0);
        same.is_some_and(|earlier| s.at - earlier.at < 1_000_000_000)
    };
    let kinds = [
        (
            "window probe",
            of("window probe", &|_, before, s| {
                s.payload == 1 && closed(before, s)
            }),
            "transmit",
            "persist_timeout",
        ),
        (
            "tail loss probe",
            of("tail loss probe", &|_, before, s| {
                is_of_messages(s) && is_repeated(before, s) && is_soon(before, s)
            }),
            "transmit",
            "retransmit_timeout",
        ),
        (
            "keepalive",
            of("keepalive", &|_, before, s| is_of_messages(s) && asks(before, s)),
            "send_probe",
            "keepalive_timeout",
        ),
        (
            "reset",
            of("reset", &|_, _, s| s.flags & RST > 0),
            "send_reset",
            "keepalive_timeout",
        ),
    ];
    each_leads_to_its_line(scenario, &segments, &kinds);
}

/// A host receives a segment for a connection that it has given up: RFC 9293, 3.5.2, group 1.
#[test]
fn a_reset_for_no_connection_leads_to_the_line_that_sent_it() {
    let folder = hawser_documents::temporary::Folder::new().expect("a folder");
    let scenario = folder.join("forgotten.toml");
    // The link comes up after the reader has given up, and before the writer's next window probe.
    let mended = "[[at]]\ntime = \"7s\"\nlink = \"wire\"\nstate = \"up\"\n";
    let text = IDLE.replace("duration = \"9s\"", "duration = \"30s\"") + mended;
    std::fs::write(&scenario, text).expect("a file");
    let scenario = scenario.to_str().expect("a path");
    let segments = captured(scenario);
    // A reset that answers a segment with ACK takes its sequence number from it, and has no ACK itself.
    let reset = first(&segments, "reset for no connection", |_, _, s| {
        s.ports.contains(&7002) && s.flags & RST > 0 && s.flags & ACK == 0
    });
    let kinds = [("reset for no connection", reset, "reset_sender", "tcp_seg")];
    each_leads_to_its_line(scenario, &segments, &kinds);
}

/// Packets that no parser accepted are counted as in the report of the same run.
#[test]
fn a_rejected_packet_is_shown_with_its_parser() {
    let folder = hawser_documents::temporary::Folder::new().expect("a folder");
    let scenario = folder.join("corrupt.toml");
    let text = std::fs::read_to_string(root().join(LOSSY)).expect("a scenario");
    std::fs::write(&scenario, text.replace("loss = 0.01", "corrupt = 0.02")).expect("a file");
    let scenario = scenario.to_str().expect("a path");
    let report = Command::new(env!("CARGO_BIN_EXE_hawser"))
        .args(["sim", "run", scenario, "--json"])
        .output();
    let report: Value = serde_json::from_slice(&report.expect("it runs").stdout).expect("a report");
    let hosts = report["hosts"].as_array().expect("a list");
    let counted = |name: &str| {
        hosts
            .iter()
            .filter_map(|host| host["counters"][name].as_u64())
            .sum::<u64>()
    };
    let mut source = Source::default();
    let mut refused = 0;
    for event in events(&[scenario])
        .iter()
        .filter(|event| event["outcome"] == "not parsed")
    {
        let (parser, count) = (&event["processors"][0], &event["counted"][0]);
        assert_eq!(
            (&event["source"], &count["by"]),
            (&Value::from("packet"), &Value::from(1))
        );
        assert!(
            source
                .line(parser)
                .contains(parser["processor"].as_str().expect("a name")),
            "{parser}"
        );
        refused += u64::from(count["counter"] == "parse_checksum");
    }
    assert!(refused > 20, "{refused}");
    assert_eq!(refused, counted("parse_checksum"));
}

#[test]
fn an_event_has_the_number_of_its_flow() {
    let folder = hawser_documents::temporary::Folder::new().expect("a folder");
    let scenario = folder.join("two.toml");
    let text = std::fs::read_to_string(root().join("examples/scenarios/tcp-clean.toml")).expect("a scenario");
    let more = "[[flow]]\nfrom = \"b\"\nto = \"a\"\nbulk = { bytes = \"10KiB\" }\n";
    let text = text.replace("16MiB", "200KiB");
    std::fs::write(&scenario, format!("{text}\n{more}")).expect("a file");
    let scenario = scenario.to_str().expect("a path");
    let all = events(&[scenario]);
    let ports = |event: &Value| {
        let ends = ["context", "created"].map(|of| ["local", "remote"].map(|end| event[of][end].clone()));
        let port = |end: &Value| {
            end.as_str()
                .and_then(|end| end.rsplit(':').next()?.parse::<u64>().ok())
        };
        ends.as_flattened().iter().map(port).collect::<Vec<_>>()
    };
    let mut seen = [0; 2];
    for event in &all {
        let flow = [7001, 7002]
            .iter()
            .position(|port| ports(event).contains(&Some(*port)));
        assert_eq!(event["flow"].as_u64(), flow.map(|flow| flow as u64), "{event}");
        flow.into_iter().for_each(|flow| seen[flow] += 1);
    }
    assert!(seen.iter().all(|count| *count > 10), "{seen:?}");
    assert_eq!(events(&[scenario, "--flow", "1"]).len(), seen[1]);
}

/// The events are the same for every command that runs the scenario.
#[test]
fn a_replay_writes_the_events_a_trace_prints() {
    let folder = hawser_documents::temporary::Folder::new().expect("a folder");
    let file = folder.join("events.jsonl");
    let replay = Command::new(env!("CARGO_BIN_EXE_hawser"))
        .args(["sim", "replay", LOSSY, "--seed", "3", "--trace"])
        .arg(&file)
        .current_dir(root())
        .output();
    assert!(replay.expect("it runs").status.success());
    let written = std::fs::read_to_string(&file).expect("a trace");
    assert!(written.len() > 100_000);
    assert!(written == trace(&[LOSSY, "--seed", "3", "--json"]).0);
}

/// The packets that a script expects are those that the trace's instructions sent.
#[test]
fn a_script_writes_its_trace() {
    let folder = hawser_documents::temporary::Folder::new().expect("a folder");
    let file = folder.join("events.jsonl");
    let script = "transports/tcp/scripts";
    let run = Command::new(env!("CARGO_BIN_EXE_hawser"))
        .args(["test", script, "--trace"])
        .arg(&file)
        .current_dir(root())
        .output();
    assert!(run.expect("it runs").status.success());
    let written = std::fs::read_to_string(&file).expect("a trace");
    let mut source = Source::default();
    let mut resets = 0;
    for line in written.lines() {
        let event: Value = serde_json::from_str(line).expect("an object a line");
        let host = event["host"].as_str().expect("a name");
        assert!(host.starts_with(script), "{host}");
        for instruction in event["instructions"].as_array().expect("a list") {
            let name = instruction["instruction"].as_str().expect("a name");
            assert!(source.line(instruction).contains(name), "{instruction}");
            resets += usize::from(source.function(instruction).contains("reset_sender"));
        }
    }
    assert!(
        resets > 0,
        "a segment for a closed port is answered in some script"
    );
}

/// A capture that is parsed independently of the program's headers equals the packets decoded in a trace.
#[test]
fn captured_packets_equal_the_traced_headers() {
    let segments = captured(LOSSY);
    let mut sent = 0;
    let mut received = 0;
    for row in events(&[LOSSY, "--packets", "--to", "500ms"]) {
        if let Some(number) = row["sent"].as_u64() {
            let segment = &segments[number as usize - 1];
            let (name, fields) = (&row["headers"][0][0], &row["headers"][0][1]);
            assert_eq!(name, "TCPBP");
            assert_eq!(fields["seq"], segment.seq);
            assert_eq!(fields["source_port"], segment.ports[0]);
            assert_eq!(fields["window"], segment.window);
            assert_eq!(fields["syn"], segment.flags & SYN > 0);
            assert_eq!(fields["data"]["len"], segment.payload);
            assert_eq!(segment.at - 1_000_000_000, row["at_ns"].as_u64().expect("a time"));
            sent += 1;
        } else if row["event"] == "tcp_seg" && row["source"] == "packet" {
            let packet = &row["packet"]["headers"][0][1];
            let field = |name: &str| {
                let fields = row["fields"].as_array().expect("a list");
                fields.iter().find(|field| field[0] == name).expect("a field")[1].clone()
            };
            assert_eq!((&packet["seq"], &packet["ack"]), (&field("seq"), &field("ack")));
            received += 1;
        }
    }
    assert!(sent > 100 && received > 100, "{sent} {received}");
}

/// tshark shows the source line of a packet as its comment.
#[test]
fn a_capture_has_the_line_that_sent_a_packet_as_its_comment() {
    let test = "a_capture_has_the_line_that_sent_a_packet_as_its_comment";
    if !has(test, &[Need::Tshark]) {
        return;
    }
    let folder = hawser_documents::temporary::Folder::new().expect("a folder");
    let capture = folder.join("run.pcapng");
    let path = capture.to_str().expect("a path");
    let (out, error, code) = trace(&[LOSSY, "--pcapng", path, "--to", "1s"]);
    assert_eq!((out.as_str(), code), ("", Some(0)), "{error}");
    let shown = Command::new("tshark")
        .args([
            "-r",
            path,
            "-T",
            "fields",
            "-e",
            "frame.comment",
            "-e",
            "tcp.flags.syn",
        ])
        .output()
        .expect("tshark starts");
    let shown = String::from_utf8(shown.stdout).expect("text");
    assert_eq!(shown.lines().count(), captured(LOSSY).len());
    let (comment, syn) = shown
        .lines()
        .next()
        .and_then(|line| line.split_once('\t'))
        .expect("a packet");
    assert_eq!(syn, "1");
    let (place, rest) = comment.split_once(' ').expect("a place");
    assert_eq!(rest, "in event 2 of a, raise options_known");
    let (file, line) = place.split_once(':').expect("a line");
    let place = serde_json::json!({ "file": file, "line": line.parse::<u64>().expect("a number") });
    assert!(Source::default().line(&place).contains("pkt_gen"), "{place}");
    assert!(shown.lines().filter(|line| line.contains(".mtp:")).count() > 100);
}

/// A download from a server over a TUN device, a packet that no parser accepts, and a download to a client.
const REAL: &str = r#"
set -eu
head -c 300000 /dev/zero > data
"$HAWSER" serve . --dev tun:h0 --kernel-addr 10.9.0.1/24 --addr 10.9.0.2/24 --trace served.jsonl > served &
SERVER=$!
python3 -m http.server 8000 2> log &
OTHER=$!
trap 'kill $SERVER $OTHER' EXIT
until grep -q listening served; do sleep 0.05; done
curl -s --max-time 5 http://10.9.0.2/data -o /dev/null -w '%{local_port}' > port
python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("10.9.0.2", 9))'
until grep -q no_parser served.jsonl; do sleep 0.05; done
until ss -Hltn | grep -q ':8000 '; do sleep 0.05; done
"$HAWSER" get http://10.9.1.1:8000/data -o got --trace got.jsonl --dev tun:h1 --kernel-addr 10.9.1.1/24 --addr 10.9.1.2/24
cmp data got
"#;

/// The expected ports and byte counts come from the kernel's TCP.
#[test]
fn a_server_and_a_client_write_their_traces() {
    let test = "a_server_and_a_client_write_their_traces";
    if !has(
        test,
        &[Need::Netns, Need::Tun, Need::Curl, Need::Python, Need::Ss],
    ) {
        return;
    }
    let folder = hawser_documents::temporary::Folder::new().expect("a folder");
    let output = Command::new("timeout")
        .args(["30", "unshare", "-Urn", "sh", "-c", REAL])
        .current_dir(&*folder)
        .env("HAWSER", env!("CARGO_BIN_EXE_hawser"))
        .output()
        .expect("a shell");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("a file");
    let port = read("port");
    let rows = |name: &str| -> Vec<Value> {
        let text = read(name);
        text.lines()
            .map(|line| serde_json::from_str(line).expect("an object a line"))
            .collect()
    };
    // The sum of an instruction's argument over the events of the connection with this remote end.
    let sum = |rows: &[Value], remote: &str, name: &str, argument: &str| -> u64 {
        let of_it = rows.iter().filter(|row| row["context"]["remote"] == remote);
        let instructions = of_it.flat_map(|row| row["instructions"].as_array().expect("a list"));
        let named = instructions.filter(|one| one["instruction"] == name);
        let values = named.flat_map(|one| one["arguments"].as_array().expect("a list"));
        let values = values.filter(|pair| pair[0] == argument);
        values.filter_map(|pair| pair[1].as_u64()).sum()
    };
    let served = rows("served.jsonl");
    let sent = sum(&served, &format!("10.9.0.1:{port}"), "add_tx_data", "len");
    assert!((300_000..301_000).contains(&sent), "{sent}");
    assert!(
        served
            .iter()
            .any(|row| row["counted"][0]["counter"] == "no_parser")
    );
    let got = rows("got.jsonl");
    let received = sum(&got, "10.9.1.1:8000", "rx_flush_and_notify", "len");
    assert!((300_000..301_000).contains(&received), "{received}");
    assert!(got.iter().all(|row| row["host"] == "10.9.1.2"));
    let mut source = Source::default();
    for row in &got {
        for instruction in row["instructions"].as_array().expect("a list") {
            let name = instruction["instruction"].as_str().expect("a name");
            assert!(source.line(instruction).contains(name), "{instruction}");
        }
    }
}

/// Traces a transfer of `mib` MiB over TCP. Returns the number of events and the process's peak memory, in
/// KiB.
#[cfg(target_os = "linux")]
fn events_and_peak(form: &[&str], mib: u64) -> (u64, u64) {
    use std::io::{BufRead, BufReader};

    let folder = hawser_documents::temporary::Folder::new().expect("a folder");
    let scenario = folder.join("long.toml");
    let text = format!(
        "program = 'tcp'\nduration = '60min'\nlinger = '5min'\nhost = [{{ name = 'a' }}, {{ name = 'b' }}]\n\
         link = [{{ between = ['a', 'b'], both = {{ rate = '1Gbit/s', delay = '1ms', queue_packets = 200 }} }}]\n\
         flow = [{{ from = 'a', to = 'b', close = 'both', bulk = {{ bytes = '{mib}MiB' }} }}]"
    );
    std::fs::write(&scenario, text).expect("a file");
    let mut child = Command::new(env!("CARGO_BIN_EXE_hawser"))
        .args(["sim", "trace"])
        .args(form)
        .arg(&scenario)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("it runs");
    let status = format!("/proc/{}/status", child.id());
    let peak = || {
        let status = std::fs::read_to_string(&status).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    let mut out = BufReader::with_capacity(1 << 20, child.stdout.take().expect("a pipe"));
    let (mut line, mut events, mut peak_kib) = (Vec::new(), 0, 0);
    while out.read_until(b'\n', &mut line).expect("it is readable") > 0 {
        // In text form, each event ends with an empty line.
        events += u64::from(form == ["--json"] || line == b"\n");
        if events % 1_000 == 1 {
            peak_kib = peak().unwrap_or(0).max(peak_kib);
        }
        line.clear();
    }
    assert!(child.wait().expect("it ends").success());
    (events, peak_kib)
}

/// `cargo xtask long trace` covers a million events.
#[cfg(target_os = "linux")]
#[test]
fn a_trace_ten_times_as_long_takes_no_more_memory() {
    let is_long = std::env::var_os("HAWSER_LONG_TRACE").is_some();
    let (short, long, min_events) = if is_long {
        (56, 560, 1_000_000)
    } else {
        (3, 36, 50_000)
    };
    for form in [&["--json"][..], &[]] {
        let (few, before) = events_and_peak(form, short);
        let (many, after) = events_and_peak(form, long);
        assert!(many >= min_events && many > 8 * few, "{few} and {many} events");
        println!("{few} events in {before} KiB, {many} in {after} KiB");
        assert!(
            before > 10_000 && after < before + before / 10 + 2_048,
            "{few} events took {before} KiB, {many} took {after} KiB"
        );
    }
}
