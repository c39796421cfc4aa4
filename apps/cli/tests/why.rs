//! Explanations of failed runs: the story that `sim`, `replay` and `swarm` print is compared with the source
//! of programs with planted bugs.

use std::path::Path;
use std::process::Command;

use hawser_documents::temporary::Folder;
use serde_json::Value;

/// Writes a copy of Go-back-N in which `wrong` replaces the only occurrence of `right`.
pub(crate) fn planted(folder: &Path, right: &str, wrong: &str) -> String {
    let original = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/go-back-n.mtp");
    let text = std::fs::read_to_string(original).expect("the example");
    assert_eq!(text.matches(right).count(), 1, "{right}");
    let text = text.replace(right, wrong);
    std::fs::write(folder.join("planted.mtp"), &text).expect("write");
    text
}

/// Writes a scenario with one flow over a link whose forward direction has these rules.
fn scenario(folder: &Path, forward: &str, flow: &str) {
    let text = format!(
        "program = 'planted.mtp'\nhost = [{{ name = 'a' }}, {{ name = 'b' }}]\n\
         link = [{{ between = ['a', 'b'], both = {{ delay = '1ms' }}, forward = {{ {forward} }} }}]\n\
         [[flow]]\nfrom = 'a'\nto = 'b'\n{flow}\n"
    );
    std::fs::write(folder.join("run.toml"), text).expect("write");
}

pub(crate) fn hawser(folder: &Path, arguments: &[&str]) -> (String, String, Option<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hawser"));
    let output = command
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (text(output.stdout), text(output.stderr), output.status.code())
}

/// Returns the number of the only line that contains a text.
pub(crate) fn line_with(source: &str, text: &str) -> usize {
    let mut found = source.lines().enumerate().filter(|(_, line)| line.contains(text));
    let (index, _) = found.next().expect(text);
    assert!(found.next().is_none(), "{text}");
    index + 1
}

/// Extracts the story from a report.
fn story(printed: &str) -> Vec<&str> {
    printed
        .lines()
        .skip_while(|line| !line.starts_with("why: "))
        .collect()
}

const TIMER_STARTS: &str = "if (c.nxt > c.una && !c.rtx.armed) emit timer_start";

#[test]
fn a_timer_that_was_not_started_is_named_with_its_last_line() {
    let folder = Folder::new().expect("a folder");
    // The FIN occupies one sequence number, so the planted bug does not wait for it alone.
    let source = planted(
        &folder,
        TIMER_STARTS,
        "if (c.nxt > c.una + 1 && !c.rtx.armed) emit timer_start",
    );
    // The packets are OPEN, the acknowledgement of the returned data, and FIN. The third is lost.
    scenario(&folder, "drop = [3]", "bulk = { back = 1000 }");
    let (out, error, code) = hawser(&folder, &["sim", "run", "run.toml"]);
    assert_eq!(code, Some(1), "{error}");
    let story = story(&out);
    assert!(story.len() <= 30, "{out}");
    let has = |what: &str| {
        assert!(
            story.iter().any(|line| line.contains(what)),
            "no `{what}` in {out}"
        )
    };
    has("why: flow 0 (bulk a -> b:7001): client: the end of the stream did not come");
    has("0 of 0 bytes handed over, 1000 of 1000 received, closed; waits for the end of the stream");
    has("1000 of 1000 bytes handed over, 0 of 0 received; waits for the end of the stream");
    has("no timer is armed: only a packet can wake it");
    has("no further event could occur");
    let stop = line_with(&source, "if (c.una == c.nxt) emit timer_stop(c.rtx)");
    has(&format!(
        "timer rtx is not armed: stopped at 0.003000000 s by planted.mtp:{stop}"
    ));
    has(
        "link a-b a -> b: up, 0 under way; 3 packets sent, 1 lost, the last at 0.002000000 s (packet 5, by `drop`)",
    );
    let sent = line_with(&source, "emit pkt_gen");
    has(&format!("planted.mtp:{sent}"));
    assert!(
        story
            .iter()
            .any(|line| line.contains("pkt_gen: packet 5 lost by `drop`")
                && line.ends_with(&format!(":{sent}"))),
        "{out}"
    );
    let trace = error.lines().last().expect("how to go on");
    let command = trace
        .strip_prefix("see its last events with: hawser ")
        .expect(trace);
    let (events, ..) = hawser(&folder, &command.split(' ').collect::<Vec<_>>());
    assert!(
        events.contains("request gbn_close") && !events.contains("request gbn_connect"),
        "{events}"
    );
}

#[test]
fn the_json_story_equals_the_text_and_is_absent_on_success() {
    let folder = Folder::new().expect("a folder");
    planted(
        &folder,
        TIMER_STARTS,
        "if (c.nxt > c.una + 1 && !c.rtx.armed) emit timer_start",
    );
    scenario(&folder, "drop = [3]", "bulk = { back = 1000 }");
    let object = |arguments: &[&str]| -> Value {
        serde_json::from_str(&hawser(&folder, arguments).0).expect("an object")
    };
    let report = object(&["sim", "replay", "run.toml", "--seed", "7", "--json"]);
    let why = &report["why"];
    assert_eq!(why["failure"], report["failures"][0]);
    assert_eq!(
        (&why["flow"], &why["end"]),
        (&Value::from(0), &Value::from("idle"))
    );
    let client = &why["ends"][0];
    assert_eq!(
        (&client["host"], &client["side"]),
        (&Value::from("a"), &Value::from("client"))
    );
    assert_eq!(client["timers"][0]["fires"], Value::Null);
    assert_eq!(client["set"]["rtx"]["fires"], Value::Null, "stopped");
    assert_eq!(why["links"][0]["last_lost"]["packet"], 5);
    let events = why["events"].as_array().expect("a list");
    let sent = events
        .iter()
        .flat_map(|event| event["packets"].as_array().expect("a list"));
    assert!(
        sent.clone()
            .any(|sent| sent[1]["packet"] == 5 && sent[1]["fate"] == "drop"),
        "{events:?}"
    );
    scenario(&folder, "", "bulk = { bytes = 1000 }");
    let report = object(&["sim", "run", "run.toml", "--json"]);
    assert_eq!(
        (&report["ok"], &report["why"]),
        (&Value::Bool(true), &Value::Null)
    );
    assert_eq!(report["flows"][0]["ends"], Value::Null);
}

#[test]
fn a_story_ends_where_a_run_went_wrong() {
    let folder = Folder::new().expect("a folder");
    // With this bug, repeated data is delivered again.
    planted(
        &folder,
        "unwrap(ev.seq, c.rcvd) == c.rcvd",
        "unwrap(ev.seq, c.rcvd) <= c.rcvd",
    );
    scenario(&folder, "duplicate = 1.0", "bulk = { bytes = '20KiB' }");
    let (out, error, code) = hawser(&folder, &["sim", "run", "run.toml", "--json"]);
    assert_eq!(code, Some(1), "{error}");
    let report: Value = serde_json::from_str(&out).expect("an object");
    let why = &report["why"];
    let failed = why["failed"].as_f64().expect("a time");
    assert!(failed < report["seconds"].as_f64().expect("a time"), "{why}");
    let events = why["events"].as_array().expect("a list");
    let last = events.last().expect("the event that did it");
    assert_eq!(last["at_ns"].as_u64().map(|at| at as f64 / 1e9), Some(failed));
    let delivers = |event: &Value| {
        let instructions = event["instructions"].as_array().expect("a list");
        instructions
            .iter()
            .any(|one| one["instruction"] == "rx_flush_and_notify")
    };
    assert!(
        events
            .iter()
            .any(|event| delivers(event) && event["at_ns"] == last["at_ns"]),
        "{events:?}"
    );
}

#[test]
fn a_false_assert_is_the_last_event_of_the_story() {
    let folder = Folder::new().expect("a folder");
    planted(
        &folder,
        "void received(gbn_pkt ev, gbn_conn c) {",
        "void received(gbn_pkt ev, gbn_conn c) {\n    assert(ev.kind != FIN);",
    );
    scenario(&folder, "", "bulk = { bytes = 1000 }");
    let (out, ..) = hawser(&folder, &["sim", "run", "run.toml"]);
    let story = story(&out);
    let last = story.last().expect("a story");
    assert!(
        last.contains("assert") && last.contains("ev.kind != FIN"),
        "{out}"
    );
}

/// A scenario with many flows and faults, in which the last packet of one flow is lost.
const LARGE: &str = "program = 'planted.mtp'\nduration = '10min'\nseed = 2\n\
    host = [{ name = 'a' }, { name = 'b', mtu = 9000 }]\n\
    link = [{ between = ['a', 'b'], both = { rate = '7Mbit/s', delay = '17ms', queue_packets = 90 }, \
              forward = { loss = 0.1, jitter = '3ms', duplicate = 0.05 }, backward = { loss = 0.04 } }]\n\
    [[flow]]\nfrom = 'a'\nto = 'b'\nbulk = { bytes = '40KiB' }\n\
    [[flow]]\nfrom = 'b'\nto = 'a'\nrequest = { count = 20, size = [1, 900], response = [1, 3000] }\n\
    [[flow]]\nfrom = 'b'\nto = 'a'\nat = '1s'\nmessages = { count = 30, size = [1, 900], interval = '20ms' }\n\
    [[at]]\ntime = '300ms'\nlink = 'a-b'\nstate = 'down'\n\
    [[at]]\ntime = '400ms'\nlink = 'a-b'\nstate = 'up'\n";

#[test]
fn a_scenario_is_shrunk_to_one_flow_and_one_lost_packet() {
    let folder = Folder::new().expect("a folder");
    planted(
        &folder,
        TIMER_STARTS,
        "if (c.nxt > c.una + 1 && !c.rtx.armed) emit timer_start",
    );
    std::fs::write(folder.join("large.toml"), LARGE).expect("write");
    let (_, error, code) = hawser(&folder, &["sim", "run", "large.toml"]);
    assert_eq!(code, Some(1), "{error}");
    let (out, error, code) = hawser(
        &folder,
        &["sim", "shrink", "large.toml", "--out", "small.toml", "--json"],
    );
    assert_eq!(code, Some(0), "{error}");
    let result: Value = serde_json::from_str(&out).expect("an object");
    assert_eq!(
        (&result["minimal"], &result["seed"]),
        (&Value::Bool(true), &Value::from(2))
    );
    let small = std::fs::read_to_string(folder.join("small.toml")).expect("the result");
    assert_eq!(small.matches("[[flow]]").count(), 1, "{small}");
    assert!(
        !small.contains("[[at]]") && !small.contains("loss") && !small.contains("rate"),
        "{small}"
    );
    let drops: Vec<&str> = small
        .lines()
        .filter(|line| line.starts_with("drop = ["))
        .collect();
    assert_eq!((drops.len(), drops[0].matches(',').count()), (1, 0), "{small}");
    let (out, _, code) = hawser(&folder, &["sim", "run", "small.toml"]);
    assert_eq!(code, Some(1), "{out}");
    assert!(out.contains("the end of the stream did not come"), "{out}");
    scenario(&folder, "", "bulk = { bytes = 1000 }");
    let (_, error, code) = hawser(&folder, &["sim", "shrink", "run.toml"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("run.toml with seed 1 does not fail"), "{error}");
}

#[test]
fn a_swarm_shrinks_its_first_failure_and_prints_why() {
    let folder = Folder::new().expect("a folder");
    planted(
        &folder,
        TIMER_STARTS,
        "if (c.nxt > c.una + 1 && !c.rtx.armed) emit timer_start",
    );
    let swarm = |more: &[&str]| {
        let (_, error, code) = hawser(
            &folder,
            &[&["sim", "swarm", "planted.mtp", "--plain", "--runs", "20"], more].concat(),
        );
        assert_eq!(code, Some(1), "{error}");
        let saved = std::fs::read_to_string(folder.join("swarm-failure.toml")).expect("the scenario");
        (error, saved)
    };
    let (error, whole) = swarm(&["--no-shrink"]);
    assert!(error.contains("why: ") && !error.contains("shrunk by"), "{error}");
    let (error, small) = swarm(&[]);
    assert!(small.lines().count() < whole.lines().count() / 2, "{small}");
    for part in [
        "shrunk by ",
        "no smaller scenario fails",
        "why: ",
        "only a packet can wake it",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let trace = error
        .lines()
        .find_map(|line| line.strip_prefix("see its last events with: hawser "));
    let (events, error, _) = hawser(
        &folder,
        &trace.expect("how to go on").split(' ').collect::<Vec<_>>(),
    );
    assert!(
        events.contains("pkt_gen") && error.contains("the run failed"),
        "{error}"
    );
}

#[test]
fn packets_lost_in_a_downed_switch_name_their_sending_line() {
    let folder = Folder::new().expect("a folder");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("examples/scenarios/tcp-bottleneck.toml");
    let text = std::fs::read_to_string(path).expect("the example");
    let fall = "\n[[at]]\ntime = \"500ms\"\nswitch = \"s2\"\nstate = \"down\"\n";
    std::fs::write(folder.join("run.toml"), text + fall).expect("write");
    let (out, error, code) = hawser(&folder, &["sim", "run", "run.toml"]);
    assert_eq!(code, Some(1), "{error}");
    let story = story(&out);
    assert!(
        story[0].starts_with("why: flow 0 (bulk a -> c:7001): client: not done"),
        "{out}"
    );
    // Each direction of each link is reported, including those between switches.
    let links = story.iter().filter(|line| line.starts_with("  link "));
    assert_eq!(links.count(), 8, "{out}");
    // The last event retransmits, and the packet is lost at the switch.
    let sender = std::fs::read_to_string(root.join("transports/tcp/output.mtp")).expect("the program");
    let (_, last) = out.split_once("the last events:").expect("events");
    let lost = last
        .lines()
        .find(|line| line.contains("lost by `down`"))
        .expect("a lost packet");
    let (_, line) = lost.rsplit_once("tcp/output.mtp:").expect("a line");
    let line: usize = line.trim().parse().expect("a number");
    assert!(
        sender
            .lines()
            .nth(line - 1)
            .expect("that line")
            .contains("emit pkt_gen")
    );
}
