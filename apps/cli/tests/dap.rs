//! `hawser sim debug --dap`: every movement that an editor offers. The expected lines are looked up in the source
//! file.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::debug::{Client, STOP_AND_WAIT, example, line_of, root};

/// Returns the current line of the innermost function.
fn line(client: &mut Client, stop: &Value) -> u64 {
    let stack = client.obeyed("stackTrace", json!({ "threadId": stop["threadId"] }));
    stack["stackFrames"][0]["line"].as_u64().expect("a line")
}

/// Moves the debugger. Returns the reason for the stop and the line.
fn go(client: &mut Client, command: &str) -> (String, u64) {
    let (stop, frame) = client.go(command);
    let reason = stop["reason"].as_str().expect("a reason").to_owned();
    (reason, frame["line"].as_u64().unwrap_or(0))
}

fn stop_at(client: &mut Client, path: &Path, breakpoints: &Value) {
    let arguments = json!({ "source": { "path": path }, "breakpoints": breakpoints });
    let set = client.obeyed("setBreakpoints", arguments);
    for breakpoint in set["breakpoints"].as_array().expect("a list") {
        assert_eq!(breakpoint["verified"], true, "{breakpoint}");
    }
}

/// Returns a client stopped at the entry of a run.
fn at_entry() -> (Client, PathBuf, String) {
    let mut client = Client::launched();
    client.obeyed("configurationDone", json!({}));
    assert_eq!(client.event("stopped")["reason"], "entry");
    let (path, text) = example();
    (client, path, text)
}

/// Writes a modified copy of the example, with its scenario, for one test.
fn scenario(name: &str, program: impl Fn(String) -> String, scenario: impl Fn(String) -> String) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dap").join(name);
    fs::create_dir_all(folder.join("scenarios")).expect("a folder");
    let (path, text) = example();
    let changed = program(text.clone());
    fs::write(folder.join(path.file_name().expect("a name")), changed).expect("a program");
    let text = fs::read_to_string(root().join(STOP_AND_WAIT)).expect("a scenario");
    let path = folder.join("scenarios/own.toml");
    fs::write(&path, scenario(text)).expect("a scenario");
    path
}

/// Returns a client that has launched this scenario.
fn launched(scenario: &Path) -> Client {
    let mut client = Client::start();
    client.obeyed("initialize", json!({ "adapterID": "hawser" }));
    client.obeyed("launch", json!({ "scenario": scenario }));
    client.event("initialized");
    client
}

#[test]
fn next_steps_over_calls_and_step_in_enters_them() {
    let (mut client, path, text) = at_entry();
    let called = line_of(&text, "transmit(c, c.flight == 0 ? FIN : DATA");
    let inside = line_of(&text, "ip.src_ip = c.lip;") as u64;
    let behind = called as u64 + 1;
    assert!(
        text.lines()
            .nth(called)
            .expect("a line")
            .contains("emit timer_start(c.rtx")
    );
    stop_at(&mut client, &path, &json!([{ "line": called }]));
    let step = |reason: &str, line: u64| (reason.to_owned(), line);
    assert_eq!(go(&mut client, "continue"), step("breakpoint", called as u64));
    assert_eq!(go(&mut client, "next"), step("step", behind));

    // Backwards over everything that the call did, to the call again.
    stop_at(&mut client, &path, &json!([{ "line": called }]));
    assert_eq!(
        go(&mut client, "reverseContinue"),
        step("breakpoint", called as u64)
    );
    assert_eq!(go(&mut client, "stepIn"), step("step", inside));
    let stack = client.obeyed("stackTrace", json!({ "threadId": 1 }));
    let functions: Vec<&Value> = (0..2).map(|frame| &stack["stackFrames"][frame]["name"]).collect();
    assert_eq!(functions, ["transmit", "next"]);
    assert_eq!(stack["stackFrames"][1]["line"], called);
    assert_eq!(go(&mut client, "stepOut"), step("step", behind));

    // The preceding statement is the last one of the called function.
    let last = line_of(&text, "emit pkt_gen(ip, h);") as u64;
    assert_eq!(go(&mut client, "stepBack"), step("step", last));
    client.obeyed("disconnect", json!({}));
}

#[test]
fn a_run_is_paused_and_goes_on() {
    let endless = |text: String| {
        text.replace("\"1MiB\"", "\"1GiB\"")
            .replace("\"5min\"", "\"9000min\"")
    };
    let path = scenario("paused", |text| text, endless);
    let mut client = launched(&path);
    client.obeyed("configurationDone", json!({}));
    client.event("stopped");
    for _ in 0..2 {
        client.obeyed("continue", json!({ "threadId": 1 }));
        client.send("pause", json!({ "threadId": 1 }));
        let stop = client.event("stopped");
        assert_eq!(
            (&stop["reason"], &stop["allThreadsStopped"]),
            (&json!("pause"), &json!(true))
        );
        client.answer("pause");
        // The debugger is at a definite place and answers requests.
        let threads = client.obeyed("threads", json!({}));
        assert_eq!(threads["threads"].as_array().map(Vec::len), Some(2));
        let value = client.obeyed("evaluate", json!({ "expression": "MSS", "context": "repl" }));
        assert_ne!(value["result"], "0");
    }
    // A run backwards also ends, and the client can leave during a run.
    client.obeyed("reverseContinue", json!({ "threadId": 1 }));
    assert_eq!(client.event("stopped")["reason"], "entry");
    client.obeyed("continue", json!({ "threadId": 1 }));
    client.send("disconnect", json!({}));
    assert!(client.child.wait().expect("it ends").success());
}

#[test]
fn breakpoints_hold_where_their_condition_is_true() {
    let (mut client, path, text) = at_entry();
    let third = line_of(&text, "c.retransmissions += 1");
    let value = |client: &mut Client, text: &str| {
        let stack = client.obeyed("stackTrace", json!({ "threadId": 1 }));
        let frame = &stack["stackFrames"][0]["id"];
        let arguments = json!({ "expression": text, "frameId": frame, "context": "watch" });
        client.obeyed("evaluate", arguments)["result"].clone()
    };
    stop_at(
        &mut client,
        &path,
        &json!([{ "line": third, "condition": "c.retransmissions == 3" }]),
    );
    assert_eq!(
        go(&mut client, "continue"),
        ("breakpoint".to_owned(), third as u64)
    );
    assert_eq!(value(&mut client, "c.retransmissions"), "3");

    // A breakpoint on an event, counted from here: it stops at the fifth retransmission.
    stop_at(&mut client, &path, &json!([]));
    let event = json!({ "name": "sw_timeout", "condition": "retransmissions == 5" });
    let set = client.obeyed("setFunctionBreakpoints", json!({ "breakpoints": [event] }));
    assert_eq!(set["breakpoints"][0]["verified"], true);
    assert_eq!(go(&mut client, "continue").0, "breakpoint");
    assert_eq!(value(&mut client, "c.retransmissions"), "5");
    client.obeyed("setFunctionBreakpoints", json!({ "breakpoints": [] }));

    // A breakpoint on a field, backwards: the second retransmission set it to 2.
    let field = json!({ "dataId": "sw_conn.retransmissions", "condition": "retransmissions == 2" });
    client.obeyed("setDataBreakpoints", json!({ "breakpoints": [field] }));
    assert_eq!(go(&mut client, "reverseContinue").0, "breakpoint");
    assert_eq!(value(&mut client, "retransmissions"), "2");

    // A condition that cannot be evaluated stops the run, and the console shows the reason.
    client.obeyed("setDataBreakpoints", json!({ "breakpoints": [] }));
    let wrong = json!([{ "line": third, "condition": "nothing > 1" }]);
    stop_at(&mut client, &path, &wrong);
    client.obeyed("continue", json!({ "threadId": 1 }));
    let message = loop {
        let body = client.event("output");
        let output = body["output"].as_str().expect("a text").to_owned();
        if output.contains("nothing") {
            break output;
        }
    };
    assert!(message.contains("`nothing` is unknown"), "{message}");
    assert_eq!(client.event("stopped")["reason"], "breakpoint");
    client.obeyed("disconnect", json!({}));
}

#[test]
fn a_false_assertion_stops_where_the_filter_asks_for_it() {
    let first = "    c.retransmissions += 1;";
    let checked = |text: String| text.replace(first, &format!("    assert(c.retransmissions < 3);\n{first}"));
    let path = scenario("assertion", checked, |text| text);
    for filters in [json!(["assert"]), json!([])] {
        let mut client = launched(&path);
        client.obeyed("setExceptionBreakpoints", json!({ "filters": filters }));
        client.obeyed("configurationDone", json!({}));
        client.event("stopped");
        let (_, text) = example();
        let (reason, line) = go(&mut client, "continue");
        if filters == json!(["assert"]) {
            let expected = line_of(&text, first) as u64;
            assert_eq!((reason.as_str(), line), ("exception", expected));
        } else {
            assert_eq!((reason.as_str(), line), ("step", 0), "the end");
        }
        client.obeyed("disconnect", json!({}));
    }
}

#[test]
fn a_finished_run_can_be_stepped_back() {
    let (mut client, _, text) = at_entry();
    let (stop, frame) = client.go("continue");
    assert_eq!(
        (&stop["reason"], &frame["name"]),
        (&json!("step"), &json!("no event here now"))
    );
    let description = stop["description"].as_str().expect("a text");
    assert!(description.starts_with("the run is over"), "{description}");
    // The debugger is now at the last statement that ran.
    assert_ne!(go(&mut client, "stepBack").1, 0);
    assert_eq!(go(&mut client, "reverseContinue").0, "entry");
    assert_eq!(go(&mut client, "continue").0, "step");
    client.obeyed("continue", json!({ "threadId": 1 }));
    client.event("terminated");
    // After the end the debugger still accepts requests.
    let set = json!({ "breakpoints": [{ "name": "sw_timeout" }] });
    client.obeyed("setFunctionBreakpoints", set);
    let expected = line_of(&text, "c.retransmissions += 1") as u64;
    assert_eq!(
        go(&mut client, "reverseContinue"),
        ("breakpoint".to_owned(), expected)
    );
    client.obeyed("terminate", json!({}));
    client.event("terminated");
    assert!(client.child.wait().expect("it ends").success());
}

#[test]
fn a_launch_takes_a_seed_and_need_not_stop_at_the_entry() {
    let mut first_losses = Vec::new();
    for seed in [1, 7] {
        let mut client = Client::start();
        client.obeyed(
            "initialize",
            json!({ "adapterID": "hawser", "linesStartAt1": false }),
        );
        let launch = json!({ "scenario": STOP_AND_WAIT, "seed": seed, "stopOnEntry": false });
        client.obeyed("launch", launch);
        client.event("initialized");
        let (path, text) = example();
        // This client counts lines from 0.
        let repeats = line_of(&text, "c.retransmissions += 1") - 1;
        stop_at(&mut client, &path, &json!([{ "line": repeats }]));
        client.obeyed("configurationDone", json!({}));
        let stop = client.event("stopped");
        assert_eq!(stop["reason"], "breakpoint");
        assert_eq!(line(&mut client, &stop), repeats as u64);
        let trace = client.obeyed("evaluate", json!({ "expression": "trace", "context": "repl" }));
        let trace = trace["result"].as_str().expect("a text").to_owned();
        assert!(trace.contains("sw_timeout"), "{trace}");
        first_losses.push(trace);

        // The other host has no current event, but its contexts are visible.
        let stack = client.obeyed("stackTrace", json!({ "threadId": 2 }));
        let idle = &stack["stackFrames"][0];
        assert_eq!(idle["name"], "no event here now");
        let scopes = client.obeyed("scopes", json!({ "frameId": idle["id"] }));
        let names = scopes["scopes"].as_array().expect("a list").iter();
        let names: Vec<&str> = names
            .map(|scope| scope["name"].as_str().expect("a name"))
            .collect();
        assert!(
            names.iter().any(|name| name.starts_with("sw_listener")),
            "{names:?}"
        );
        client.obeyed("disconnect", json!({}));
    }
    assert_ne!(first_losses[0], first_losses[1], "other packets are lost");
}
