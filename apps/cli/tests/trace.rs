//! `hawser trace`: what it says is compared with the source itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn trace(args: &[&str]) -> (String, String, Option<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hawser"));
    let output = command
        .arg("trace")
        .args(args)
        .current_dir(root())
        .output()
        .expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

/// The events of a run, as objects.
fn events(args: &[&str]) -> Vec<Value> {
    let (out, error, code) = trace(&[args, &["--json"]].concat());
    assert_eq!(code, Some(0), "{error}");
    out.lines()
        .map(|line| serde_json::from_str(line).expect("an object a line"))
        .collect()
}

/// Lines of the source, read from its files.
#[derive(Default)]
struct Source(BTreeMap<String, Vec<String>>);

impl Source {
    /// The text of the line that something of a trace names.
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

    /// The first line of the function that such a line stands in.
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
fn what_the_scenario_lacks_is_a_usage_error() {
    let (_, error, code) = trace(&[LOSSY, "--host", "nobody"]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("no host `nobody`; it has: "), "{error}");
    let (_, error, code) = trace(&[LOSSY, "--flow", "99"]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("the first is 0"), "{error}");
    let (out, error, code) = trace(&[LOSSY, "--field", "no.such.field"]);
    assert_eq!((out.as_str(), code), ("", Some(0)));
    assert!(error.contains("no event"), "{error}");
}

#[test]
fn what_the_engine_counted_is_shown_and_explained() {
    let (out, ..) = trace(&[LOSSY]);
    let ignored = out
        .lines()
        .filter(|line| line.contains("not run  [no_context]"))
        .count();
    assert!(ignored > 0);
    let meaning = out
        .lines()
        .filter(|line| line.starts_with("[no_context] Events for which no context was found"));
    assert_eq!(meaning.count(), 1);
}

/// A packet of TCP over IPv4 in a capture of a run: sequence number, flags, bytes of payload.
struct Segment {
    seq: u32,
    flags: u8,
    payload: usize,
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const ACK: u8 = 16;

/// The packets of a capture, in order (draft-ietf-opsawg-pcap; LINKTYPE_RAW).
fn segments(capture: &[u8]) -> Vec<Segment> {
    let number = |at: usize| u32::from_le_bytes(capture[at..at + 4].try_into().expect("4 bytes"));
    let (mut at, mut found) = (24, Vec::new());
    while at < capture.len() {
        let len = number(at + 8) as usize;
        let packet = &capture[at + 16..at + 16 + len];
        let tcp = &packet[usize::from(packet[0] & 15) * 4..];
        found.push(Segment {
            seq: u32::from_be_bytes(tcp[4..8].try_into().expect("4 bytes")),
            flags: tcp[13],
            payload: tcp.len() - usize::from(tcp[12] >> 4) * 4,
        });
        at += 16 + len;
    }
    found
}

/// Each kind of packet of TCP, and the function whose line sent it. Sequence numbers show that
/// the event is that of the packet.
#[test]
fn a_packet_leads_to_the_line_that_sent_it() {
    let folder = hawser_temporary::Folder::new().expect("a folder");
    let capture = folder.join("run.pcap");
    let mut command = Command::new(env!("CARGO_BIN_EXE_hawser"));
    command
        .args(["sim", LOSSY, "--pcap"])
        .arg(&capture)
        .current_dir(root());
    assert!(command.output().expect("it runs").status.success());
    let segments = segments(&std::fs::read(&capture).expect("a capture"));
    let first = |wanted: &dyn Fn(usize, &Segment) -> bool| {
        let found = segments
            .iter()
            .enumerate()
            .find(|(index, segment)| wanted(*index, segment));
        found.expect("each kind is in the run").0
    };
    let is_repeated = |index: usize, segment: &Segment| {
        let same = |other: &Segment| other.seq == segment.seq && other.payload > 0;
        segment.payload > 0 && segments[..index].iter().any(same)
    };
    let kinds = [
        ("SYN", first(&|_, s| s.flags & (SYN | ACK) == SYN), "send_syn"),
        (
            "SYN and ACK",
            first(&|_, s| s.flags & (SYN | ACK) == SYN | ACK),
            "answer_syn",
        ),
        ("data", first(&|_, s| s.payload > 0), "transmit"),
        ("retransmission", first(&is_repeated), "transmit"),
        (
            "acknowledgement",
            first(&|i, s| i > 10 && s.payload == 0 && s.flags == ACK),
            "send_ack",
        ),
        ("FIN", first(&|_, s| s.flags & FIN > 0), "transmit"),
    ];
    let mut source = Source::default();
    for (kind, index, function) in kinds {
        let number = (index + 1).to_string();
        let events = events(&[LOSSY, "--packet", &number]);
        assert_eq!(events.len(), 1, "{kind}");
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
        // One instruction may make several packets.
        let distance = segments[index].seq.wrapping_sub(seq);
        let len = image["data"]["len"].as_u64().unwrap_or(0) as u32;
        assert!(distance <= len, "{kind}: {seq} and {}", segments[index].seq);
    }
}
