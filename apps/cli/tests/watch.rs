//! `hawser watch` from outside: a download with losses over a TUN device is watched, steered and recorded,
//! and the recording is exported. The tests need a user's own network namespace and are skipped without one.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use hawser_testing::{Need, has};
use serde_json::Value;

const HAWSER: &str = env!("CARGO_BIN_EXE_hawser");
const SCHEMA: &str = include_str!("../../../docs/schemas/qlog.json");

/// A queue of 25 kB at 20 Mbit/s and 40 ms overflows in slow start.
const SCRIPT: &str = r#"
set -eu
"$HAWSER" serve www --dev tun:h0 --kernel-addr 10.9.0.1/24 --addr 10.9.0.2/24 \
    --faults rate=20Mbit/s,delay=20ms,queue=25kB --interact="$PWD/socket" > served 2>&1 &
SERVER=$!
trap 'kill $SERVER' EXIT
until [ -S socket ] && grep -q listening served; do sleep 0.05; done
"$HAWSER" watch --socket socket --json --for 3s --every 50ms \
    --record recording --qlog out.sqlog --diagram live.svg > lines &
WATCH=$!
until [ -s lines ]; do sleep 0.05; done
curl -s --max-time 5 http://10.9.0.2/file -o copy > fetched 2>&1 &
FLOW=
until FLOW=$("$HAWSER" bus probe --socket socket | awk '$2 == "tcp.conn" { print $1 }') && [ -n "$FLOW" ]; do
    sleep 0.02
done
sleep 0.8
"$HAWSER" bus modify --socket socket "$FLOW" tcp.conn.cc.cwnd 20000 --lease 500ms > modified
wait $WATCH
"$HAWSER" watch --replay recording --qlog out.qlog --diagram again.svg
"#;

/// A folder that is removed with the test.
struct Folder(hawser_documents::temporary::Folder);

impl Folder {
    fn new() -> Folder {
        let path = hawser_documents::temporary::Folder::new().expect("a folder");
        std::fs::create_dir_all(path.join("www")).expect("a folder");
        std::fs::write(path.join("www/file"), vec![7; 8 << 20]).expect("a file");
        Folder(path)
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

/// Runs the script in a network namespace of its own. Returns `None` if that is impossible.
fn run(folder: &Path) -> Option<Output> {
    if !has("watch", &[Need::Netns, Need::Tun, Need::Curl]) {
        return None;
    }
    let mut command = Command::new("unshare");
    command
        .args(["-Urn", "sh", "-c", SCRIPT])
        .current_dir(folder)
        .env("HAWSER", HAWSER);
    Some(command.output().expect("a shell"))
}

/// Counts the signals in the lines, by event.
fn counts(lines: &[Value]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for event in lines.iter().filter_map(|line| line["signal"]["event"].as_str()) {
        *counts.entry(event.to_owned()).or_default() += 1;
    }
    counts
}

/// Returns the diagram's transitions: from, event, to, count.
fn transitions(picture: &str) -> Vec<(u64, String, u64, u64)> {
    let text = picture
        .split("<metadata>")
        .nth(1)
        .and_then(|rest| rest.split("</metadata>").next());
    let all: Value = serde_json::from_str(text.expect("metadata")).expect("JSON");
    let number = |t: &Value, key: &str| t[key].as_u64().expect("a number");
    let one = |t: &Value| {
        let event = t["event"].as_str().expect("a name").to_owned();
        (number(t, "from"), event, number(t, "to"), number(t, "count"))
    };
    all["transitions"]
        .as_array()
        .expect("a list")
        .iter()
        .map(one)
        .collect()
}

#[test]
fn a_download_is_watched() {
    let folder = Folder::new();
    let Some(output) = run(&folder.0) else { return };
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}\n{}", folder.text("served"));
    let lines: Vec<Value> = folder
        .text("lines")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    seen(&lines);
    assert_eq!(
        folder.text("lines"),
        folder.text("recording"),
        "one form for both"
    );
    let counts = counts(&lines);
    followed(&folder, &counts);
    exported(&folder);
}

/// Checks the connection, the names of its states, its events, and the holder of its window.
fn seen(lines: &[Value]) {
    assert_eq!(lines[0]["header"]["schema"], "hawser-watch/1");
    let flows = lines.iter().filter_map(|line| line["flows"].as_array()).flatten();
    let connection = flows
        .into_iter()
        .find(|flow| flow["kind"] == "conn")
        .expect("a connection");
    assert_eq!(connection["local"], "10.9.0.2:80");
    let offers = lines
        .iter()
        .filter_map(|line| line["offers"].as_array())
        .flatten();
    let mut variables = offers.filter_map(|offer| offer["variables"].as_array()).flatten();
    let state = variables
        .find(|variable| variable["name"] == "tcp.conn.state")
        .expect("a state");
    assert_eq!(
        state["values"][2],
        serde_json::json!({ "name": "ESTABLISHED", "value": 3 })
    );
    let windows: Vec<_> = lines
        .iter()
        .filter(|line| line["sample"]["flow"] == connection["flow"])
        .filter_map(|line| line["sample"]["values"]["tcp.conn.cc.cwnd"].as_u64())
        .collect();
    assert!(windows.len() > 10, "a sample every 50 ms: {windows:?}");
    assert!(windows.contains(&20_000), "the window was held: {windows:?}");
    let acts: Vec<_> = lines
        .iter()
        .filter_map(|line| line["audit"].as_array())
        .flatten()
        .collect();
    let set = acts
        .iter()
        .find(|act| act["act"] == "set")
        .expect("somebody set something");
    assert_eq!(
        (&set["variable"], &set["value"]),
        (&"tcp.conn.cc.cwnd".into(), &20_000.into())
    );
    let statistics = lines
        .iter()
        .rev()
        .find(|line| line["statistics"].is_object())
        .expect("statistics");
    assert_eq!(statistics["statistics"]["lost"], 0, "the queue had room");
}

/// Each signal that is a transition of the figure was counted once, both live and from the recording.
fn followed(folder: &Folder, counts: &BTreeMap<String, u64>) {
    let live = transitions(&folder.text("live.svg"));
    assert_eq!(live, transitions(&folder.text("again.svg")));
    let taken = |event: &str| live.iter().filter(|t| t.1 == event).map(|t| t.3).sum::<u64>();
    let count = |event: &str| counts.get(&format!("tcp.{event}")).copied().unwrap_or(0);
    for (label, event) in [
        ("TCP_init", "established"),
        ("New seg send", "sent"),
        ("Rexmt", "retransmitted"),
        ("Time out", "timeout"),
        ("Win=ssthresh", "avoidance_began"),
        ("new ACK", "recovery_ended"),
    ] {
        assert_eq!(taken(label), count(event), "{label}: {live:?}");
    }
    assert_eq!(count("established"), 1);
    assert!(count("retransmitted") > 0 && count("acked") > 100, "{counts:?}");
    let into = |to: u64| {
        live.iter()
            .filter(|t| t.2 == to && t.0 != to)
            .map(|t| t.3)
            .sum::<u64>()
    };
    assert!(
        into(4) >= count("recovery_began").min(1),
        "fast retransmit was entered: {live:?}"
    );
}

fn exported(folder: &Folder) {
    let schema: Value = serde_json::from_str(SCHEMA).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let assert_valid = |value: &Value| {
        let wrong: Vec<_> = validator
            .iter_errors(value)
            .take(3)
            .map(|error| error.to_string())
            .collect();
        assert!(wrong.is_empty(), "{wrong:?}");
    };
    let document: Value = serde_json::from_str(&folder.text("out.qlog")).expect("JSON");
    assert_valid(&document);
    let traces = document["traces"].as_array().expect("traces");
    let events: Vec<_> = traces
        .iter()
        .filter_map(|trace| trace["events"].as_array())
        .flatten()
        .collect();
    let named = |name: &str| events.iter().filter(|event| event["name"] == name).count();
    for name in [
        "connectivity:connection_started",
        "recovery:metrics_updated",
        "recovery:packet_lost",
        "recovery:marked_for_retransmit",
        "recovery:congestion_state_updated",
        "transport:packet_sent",
        "hawser:modification",
    ] {
        assert!(named(name) > 0, "{name}");
    }
    let sequence = folder.text("out.sqlog");
    let records: Vec<Value> = sequence
        .split('\u{1e}')
        .skip(1)
        .map(|record| serde_json::from_str(record).expect("a record of JSON"))
        .collect();
    records.iter().for_each(assert_valid);
    assert_eq!(records.len(), events.len() + 1, "both forms have the same events");
}

/// The example Go-back-N has no signals.
const WITHOUT_SIGNALS: &str = r#"
set -eu
grep -q '^signal' "$PROGRAM" && exit 1
"$HAWSER" serve www --program "$PROGRAM" --dev tun:h0 --kernel-addr 10.9.0.1/24 --addr 10.9.0.2/24 \
    --interact="$PWD/socket" > served 2>&1 &
SERVER=$!
trap 'kill $SERVER' EXIT
until [ -S socket ] && grep -q listening served; do sleep 0.05; done
"$HAWSER" watch --socket socket --json --for 1s > lines
"#;

#[test]
fn a_program_without_signals_shows_its_variables() {
    let test = "a_program_without_signals_shows_its_variables";
    if !has(test, &[Need::Netns, Need::Tun]) {
        return;
    }
    let folder = Folder::new();
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/go-back-n.mtp");
    let mut command = Command::new("unshare");
    command
        .args(["-Urn", "sh", "-c", WITHOUT_SIGNALS])
        .current_dir(&*folder.0);
    let output = command.env("HAWSER", HAWSER).env("PROGRAM", program).output();
    let output = output.expect("a shell");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}\n{}", folder.text("served"));
    let lines: Vec<Value> = folder
        .text("lines")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let offers = lines
        .iter()
        .filter_map(|line| line["offers"].as_array())
        .flatten();
    let offered: Vec<&Value> = offers
        .filter_map(|offer| offer["variables"].as_array())
        .flatten()
        .collect();
    assert!(!offered.is_empty(), "{lines:?}");
}
