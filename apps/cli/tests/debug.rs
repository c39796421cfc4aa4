//! `hawser sim debug`: its output is compared with that of `hawser sim trace` for the same run, and with the source.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs the command with `input` as standard input.
fn hawser(args: &[&str], input: &str) -> (String, String, Option<i32>) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_hawser"))
        .args(args)
        .current_dir(root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_owned();
    // The command may answer before it has read all input.
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(input.as_bytes());
    });
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("all is written");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

fn objects(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).expect("an object a line"))
        .collect()
}

/// Returns the answers to commands as objects. The first is the stop at the entry.
fn answers(file: &str, commands: &str) -> Vec<Value> {
    let (out, error, code) = hawser(&["sim", "debug", file, "--json"], commands);
    assert_eq!(code, Some(0), "{error}\n{out}");
    objects(&out)
}

pub(super) const STOP_AND_WAIT: &str = "examples/scenarios/stop-and-wait.toml";
const LOSSY: &str = "examples/scenarios/tcp-lossy.toml";

#[test]
fn debugger_events_equal_the_trace() {
    for file in [STOP_AND_WAIT, LOSSY] {
        let (traced, error, _) = hawser(&["sim", "trace", file, "--to", "1s", "--json"], "");
        let traced = objects(&traced);
        assert!(traced.len() > 100, "{error}");
        let answers = answers(file, &"trace\nevent\n".repeat(traced.len()));
        let events = answers.iter().filter_map(|answer| answer.get("event"));
        let events: Vec<&Value> = events.collect();
        assert_eq!(events.len(), traced.len());
        for (event, traced) in events.into_iter().zip(&traced) {
            assert_eq!(event, traced);
        }
    }
}

#[test]
fn a_packet_is_made_by_the_line_that_the_trace_names() {
    let (traced, ..) = hawser(&["sim", "trace", LOSSY, "--packet", "9", "--json"], "");
    let event = &objects(&traced)[0];
    let instructions = event["instructions"].as_array().expect("a list");
    let sender = instructions.iter().find(|instruction| instruction["packet"] == 9);
    let sender = sender.expect("one of them sent it");
    let answers = answers(LOSSY, "goto packet 9\nlist 0\n");
    let stop = &answers[1]["stop"];
    assert_eq!(
        stop["line"],
        json!({ "file": sender["file"], "line": sender["line"] })
    );
    assert_eq!(stop["at_ns"], event["at_ns"]);
    let text = answers[2]["source"]["lines"][0]["text"].as_str().expect("a line");
    let path = root()
        .join("transports")
        .join(sender["file"].as_str().expect("a file"));
    let source = std::fs::read_to_string(path).expect("the source");
    let line = sender["line"].as_u64().expect("a number") as usize;
    assert_eq!(Some(text), source.lines().nth(line - 1));
}

#[test]
fn a_packet_is_in_flight_until_the_last_switch_has_forwarded_it() {
    const BOTTLENECK: &str = "examples/scenarios/tcp-bottleneck.toml";
    // The first packet is sent by host a, and takes 12 ms to host c through two switches.
    let (traced, ..) = hawser(
        &[
            "sim", "trace", BOTTLENECK, "--host", "c", "--to", "20ms", "--json",
        ],
        "",
    );
    let arrival = objects(&traced);
    let arrival = arrival
        .iter()
        .find(|event| event["source"] == "packet")
        .expect("it arrives");
    let answers = answers(BOTTLENECK, "goto 12ms\nflight\nevent\nflight\n");
    let numbers = |answer: &Value| -> Vec<u64> {
        let packets = answer["flight"].as_array().expect("a list").iter();
        packets.filter_map(|packet| packet["number"].as_u64()).collect()
    };
    let stop = &answers[1]["stop"];
    assert_eq!((&stop["at_ns"], &stop["host"]), (&arrival["at_ns"], &json!("c")));
    // This packet has arrived. The one of host b, which is 14 ms away, has not.
    assert_eq!(numbers(&answers[2]), [2], "{answers:?}");
}

#[test]
fn a_conversation_is_answered_line_by_line() {
    let commands =
        "break field cc.cwnd on a\ncontinue\nprint cc.cwnd > 0\nback\nreverse\nquit\nprint never\n";
    let (out, error, code) = hawser(&["sim", "debug", LOSSY], commands);
    assert_eq!(code, Some(0), "{error}");
    assert!(
        out.contains("breakpoint 2: field cc.cwnd on a\nbreakpoint 2\n#"),
        "{out}"
    );
    assert!(out.contains("\ntrue\n"), "{out}");
    assert!(out.contains("the beginning of the run"), "{out}");
    assert!(!out.contains("never"), "{out}");
}

#[test]
fn wrong_commands_end_the_debugger_with_the_usage_code() {
    let (out, _, code) = hawser(&["sim", "debug", STOP_AND_WAIT], "go\nevent\nprint ctx.flihgt\n");
    assert_eq!(code, Some(2));
    assert!(out.contains("error: unknown command `go`"), "{out}");
    assert!(out.contains("[E0204]") && out.contains("did you mean"), "{out}");
    assert!(out.contains("\n#2 "), "it goes on: {out}");
}

#[test]
fn a_run_that_fails_is_debugged_to_its_end() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("debug-fails.toml");
    let program = root().join("examples/stop-and-wait.mtp");
    let scenario = format!(
        "program = '{}'\nduration = '1s'\nhost = [{{ name = 'a' }}, {{ name = 'b' }}]\n\
         link = [{{ between = ['a', 'b'], both = {{ loss = 1.0, delay = '1ms' }} }}]\n\
         flow = [{{ from = 'a', to = 'b', bulk = {{ bytes = 100 }} }}]\n",
        program.display()
    );
    std::fs::write(&file, scenario).expect("it is written");
    let file = file.to_string_lossy();
    let answers = answers(&file, "continue\nback\n");
    let end = &answers[1]["stop"]["end"];
    assert_eq!(
        (&answers[1]["stop"]["reason"], &end["ok"]),
        (&json!("end"), &json!(false))
    );
    assert!(!end["failures"].as_array().expect("a list").is_empty());
    assert_eq!(answers[2]["stop"]["event"], end["events"], "the last event");
}

#[test]
fn an_unreadable_scenario_ends_with_the_input_code() {
    let (_, error, code) = hawser(&["sim", "debug", "no/such/file.toml"], "");
    assert_eq!(code, Some(3));
    assert!(error.contains("cannot read no/such/file.toml"), "{error}");
}

/// A client of the debug adapter.
pub(super) struct Client {
    pub(super) child: std::process::Child,
    out: std::io::BufReader<std::process::ChildStdout>,
    sequence: u64,
    /// Events received while waiting for an answer.
    events: Vec<Value>,
}

impl Client {
    pub(super) fn start() -> Client {
        let mut child = Command::new(env!("CARGO_BIN_EXE_hawser"))
            .args(["sim", "debug", "--dap"])
            .current_dir(root())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs");
        let out = std::io::BufReader::new(child.stdout.take().expect("a pipe"));
        Client { child, out, sequence: 0, events: Vec::new() }
    }

    pub(super) fn read(&mut self) -> Value {
        use std::io::{BufRead, Read};
        let mut header = String::new();
        self.out.read_line(&mut header).expect("a header");
        let length = header.trim().strip_prefix("Content-Length: ").expect("a length");
        let mut body = vec![0; 2 + length.parse::<usize>().expect("a number")];
        self.out.read_exact(&mut body).expect("a body");
        serde_json::from_slice(&body[2..]).expect("JSON")
    }

    /// Sends a request and returns the answer.
    pub(super) fn ask(&mut self, command: &str, arguments: Value) -> Value {
        self.send(command, arguments);
        self.answer(command)
    }

    /// Returns the answer to the last request.
    pub(super) fn answer(&mut self, command: &str) -> Value {
        loop {
            let message = self.read();
            if message["type"] == "event" {
                self.events.push(message);
                continue;
            }
            assert_eq!(
                (&message["request_seq"], &message["command"]),
                (&json!(self.sequence), &json!(command))
            );
            return message;
        }
    }

    /// Sends a request without waiting for the answer.
    pub(super) fn send(&mut self, command: &str, arguments: Value) {
        self.sequence += 1;
        let body = json!({
            "seq": self.sequence, "type": "request", "command": command, "arguments": arguments,
        });
        let body = body.to_string();
        let stdin = self.child.stdin.as_mut().expect("a pipe");
        write!(stdin, "Content-Length: {}\r\n\r\n{body}", body.len()).expect("it is written");
    }

    /// Sends a request that must succeed, and returns the body of the answer.
    pub(super) fn obeyed(&mut self, command: &str, arguments: Value) -> Value {
        let answer = self.ask(command, arguments);
        assert_eq!(answer["success"], true, "{answer}");
        answer["body"].clone()
    }

    /// Returns the body of the next event with this name.
    pub(super) fn event(&mut self, name: &str) -> Value {
        loop {
            let message = if self.events.is_empty() {
                self.read()
            } else {
                self.events.remove(0)
            };
            if message["event"] == name {
                return message["body"].clone();
            }
        }
    }

    /// Moves the debugger. Returns the stop and its innermost frame.
    pub(super) fn go(&mut self, command: &str) -> (Value, Value) {
        self.obeyed(command, json!({ "threadId": 1 }));
        let stop = self.event("stopped");
        let stack = self.obeyed("stackTrace", json!({ "threadId": stop["threadId"] }));
        (stop, stack["stackFrames"][0].clone())
    }

    /// Returns a client that has launched a run of stop-and-wait.
    pub(super) fn launched() -> Client {
        let mut client = Client::start();
        let able = client.obeyed(
            "initialize",
            json!({ "adapterID": "hawser", "linesStartAt1": true }),
        );
        assert_eq!(able["supportsStepBack"], true);
        client.obeyed(
            "launch",
            json!({ "scenario": STOP_AND_WAIT, "stopOnEntry": true }),
        );
        client.event("initialized");
        client
    }
}

/// Returns the path and the text of the example.
pub(super) fn example() -> (PathBuf, String) {
    let path = root().join("examples/stop-and-wait.mtp");
    let path = path.canonicalize().expect("the example");
    let text = std::fs::read_to_string(&path).expect("the example");
    (path, text)
}

pub(super) fn line_of(text: &str, part: &str) -> usize {
    text.lines().position(|line| line.contains(part)).expect(part) + 1
}

#[test]
fn an_editor_debugs_by_the_protocol() {
    let mut client = Client::launched();
    let (path, text) = example();
    let repeats = line_of(&text, "c.retransmissions += 1");
    let set = client.obeyed(
        "setBreakpoints",
        json!({ "source": { "path": path }, "breakpoints": [
            { "line": repeats, "condition": "c.retransmissions >= 2" }, { "line": 99999 },
        ]}),
    );
    assert_eq!(
        (&set["breakpoints"][0]["verified"], &set["breakpoints"][0]["line"]),
        (&json!(true), &json!(repeats))
    );
    assert_eq!(set["breakpoints"][1]["verified"], false);
    client.obeyed("setExceptionBreakpoints", json!({ "filters": ["assert"] }));
    client.obeyed("configurationDone", json!({}));
    assert_eq!(client.event("stopped")["reason"], "entry");
    let threads = client.obeyed("threads", json!({}));
    assert_eq!(
        threads["threads"],
        json!([{ "id": 1, "name": "host a" }, { "id": 2, "name": "host b" }])
    );

    let (stop, frame) = client.go("continue");
    assert_eq!(
        (&stop["reason"], &frame["line"]),
        (&json!("breakpoint"), &json!(repeats))
    );
    assert_eq!(frame["source"]["path"], json!(path));
    assert_eq!(frame["name"], "timeout");
    let print = |client: &mut Client, text: &str, frame: &Value| {
        let value = client.obeyed(
            "evaluate",
            json!({ "expression": text, "frameId": frame["id"], "context": "watch" }),
        );
        value["result"].as_str().expect("a value").to_owned()
    };
    assert_eq!(print(&mut client, "c.retransmissions", &frame), "2");

    // Forwards over the statement, and back again.
    let (_, after) = client.go("stepIn");
    assert_eq!(print(&mut client, "c.retransmissions", &after), "3");
    let (_, before) = client.go("stepBack");
    assert_eq!(before["line"], json!(repeats));
    assert_eq!(print(&mut client, "c.retransmissions", &before), "2");

    let scopes = client.obeyed("scopes", json!({ "frameId": before["id"] }));
    let scope = |name: &str| {
        let scopes = scopes["scopes"].as_array().expect("a list");
        let found = scopes.iter().find(|scope| {
            scope["name"]
                .as_str()
                .is_some_and(|known| known.starts_with(name))
        });
        found.unwrap_or_else(|| panic!("no {name} in {scopes:?}")).clone()
    };
    scope("event sw_timeout");
    scope("packets in flight");
    let context = scope("sw_conn 10.0.0.1");
    let number = context["variablesReference"].clone();
    let variables = client.obeyed("variables", json!({ "variablesReference": number }));
    let variables = variables["variables"].as_array().expect("a list").clone();
    let field = variables
        .iter()
        .find(|variable| variable["name"] == "retransmissions")
        .expect("a field");
    assert_eq!(field["value"], "2");
    let info = client.obeyed(
        "dataBreakpointInfo",
        json!({ "variablesReference": number, "name": "next_out" }),
    );
    assert_eq!(info["dataId"], "sw_conn.next_out");
    client.obeyed("disconnect", json!({}));
    assert!(client.child.wait().expect("it ends").success());
}

#[test]
fn an_editor_goes_back_to_fields_and_events() {
    let mut client = Client::launched();
    let (_, text) = example();
    client.obeyed("configurationDone", json!({}));
    client.event("stopped");
    let field = json!({ "dataId": "sw_conn.next_out" });
    client.obeyed("setDataBreakpoints", json!({ "breakpoints": [field] }));
    client.go("continue");
    let (_, frame) = client.go("stepBack");
    let line = frame["line"].as_u64().expect("a line") as usize;
    assert!(
        text.lines()
            .nth(line - 1)
            .expect("a line")
            .contains("next_out += 1")
    );

    client.obeyed("setDataBreakpoints", json!({ "breakpoints": [] }));
    let set = client.obeyed(
        "setFunctionBreakpoints",
        json!({ "breakpoints": [{ "name": "sw_listen" }, { "name": "no" }] }),
    );
    assert_eq!(set["breakpoints"][1]["verified"], false);
    let (_, frame) = client.go("reverseContinue");
    assert_eq!(frame["line"], json!(line_of(&text, "void listen(")));
    let (stop, _) = client.go("reverseContinue");
    assert_eq!(stop["reason"], "entry", "the beginning");

    let wrong = client.ask("evaluate", json!({ "expression": "ev.lenn", "context": "watch" }));
    assert_eq!(wrong["success"], false);
    assert!(
        wrong["message"]
            .as_str()
            .expect("a reason")
            .contains("known names: lip, rip, lport, rport"),
        "{wrong}"
    );
    assert_eq!(client.ask("goto", json!({}))["success"], false, "not supported");
    client.obeyed("disconnect", json!({}));
}

/// Built-in programs are not files on this machine.
#[test]
fn an_editor_gets_the_text_of_a_built_in_program() {
    let mut client = Client::start();
    client.obeyed("initialize", json!({}));
    client.obeyed("launch", json!({ "scenario": LOSSY }));
    let line = json!({ "source": { "path": "/elsewhere/tcp/open.mtp" }, "breakpoints": [{ "line": 91 }] });
    let set = client.obeyed("setBreakpoints", line);
    assert_eq!(set["breakpoints"][0]["verified"], true, "{set}");
    client.obeyed("configurationDone", json!({}));
    client.event("stopped");
    let stack = client.obeyed("stackTrace", json!({ "threadId": 1 }));
    let source = &stack["stackFrames"][0]["source"];
    let answer = client.obeyed(
        "source",
        json!({ "source": source, "sourceReference": source["sourceReference"] }),
    );
    let file = root()
        .join("transports")
        .join(source["path"].as_str().expect("a name"));
    assert_eq!(
        answer["content"],
        json!(std::fs::read_to_string(file).expect("the source"))
    );
    client.obeyed("disconnect", json!({}));
}

#[test]
fn an_adapter_ends_with_an_error_on_malformed_input() {
    for (input, expected) in [
        ("Content-Length: 99999999999\r\n\r\n", "the limit is"),
        ("Content-Length: 5\r\n\r\n{}", "2 of 5 bytes"),
        ("Content-Length: 2\r\n\r\n{]", "standard input: "),
        ("GET / HTTP/1.1\r\n\r\n", "no header"),
        (&"x".repeat(1 << 20), "a header's line does not end"),
    ] {
        let (_, error, code) = hawser(&["sim", "debug", "--dap"], input);
        assert_eq!(code, Some(3), "{error}");
        assert!(error.contains(expected), "{expected}: {error}");
    }
    let (out, error, code) = hawser(&["sim", "debug", "--dap"], "");
    assert_eq!((out.as_str(), error.as_str(), code), ("", "", Some(0)));
}

#[test]
fn a_failed_launch_is_answered_with_the_reason() {
    let mut client = Client::start();
    let answer = client.ask("threads", json!({}));
    assert_eq!(
        (&answer["success"], &answer["body"]["error"]["showUser"]),
        (&json!(false), &json!(true))
    );
    let answer = client.ask("launch", json!({ "scenario": "no/such/file.toml" }));
    assert!(
        answer["message"]
            .as_str()
            .expect("a reason")
            .contains("cannot read no/such/file.toml"),
        "{answer}"
    );
    client.obeyed("disconnect", json!({}));
}
