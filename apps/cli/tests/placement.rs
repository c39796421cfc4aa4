//! `hawser check --target`: the places of chains, and the capabilities that a target lacks.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs `hawser check` in the repository's folder, so that file names are the same everywhere.
fn check(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hawser"));
    command.current_dir(root()).arg("check").args(args);
    command.output().expect("it runs")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("it ended by itself")
}

/// A program that calls an extern that no target has.
const ELSEWHERE: &str = "extern instr_t look_up(uint64 number) -> found;
event request : NET_EVENT { uint64 number; }
event found : EVENT { uint64 value; }
context total { uint64 n; }
pkt_bp head { uint64 number; }
void ask(request ev) { emit look_up(ev.number) -> found; }
void count(found ev, total t) { t.n += ev.value; }
list<event_t> parse(pkt_t p, IPheader i) {
    list<event_t> out;  head h;  p.extract(h);
    request e;  e.number = h.number;  out.add(e);
    return out;
}
dispatch d { request -> {ask}; found -> {count}; }
deploy { register_ep_chains(d);  register_ctx_spec(total, GLOBAL);  register_ev_parser(parse, ip(253)); }
";

#[test]
fn placement_tables_match_the_recorded_ones() {
    let tables = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/placement");
    let cases = trycmd::TestCases::new();
    cases.register_bin("hawser", Path::new(env!("CARGO_BIN_EXE_hawser")));
    for program in [
        "stop-and-wait",
        "selective-repeat",
        "tcp",
        "homa",
        "ndp",
        "quic-lite",
        "roce",
    ] {
        cases.case(tables.join(program).with_extension("toml"));
    }
    cases.run();
}

#[test]
fn every_program_that_comes_with_hawser_runs_on_host_and_sim() {
    for target in ["host", "sim"] {
        for name in ["tcp", "homa", "ndp", "quic-lite", "roce", "selective-repeat"] {
            let output = check(&["--target", target, &format!("transports/{name}/{name}.mtp")]);
            assert_eq!(code(&output), 0, "{name} on {target}");
            let text = String::from_utf8_lossy(&output.stdout);
            let kernel = text
                .lines()
                .find(|line| line.contains(" kernel ") || line.contains(" both "));
            assert_eq!(kernel, None, "{name} on {target}");
        }
    }
}

#[test]
fn a_program_that_lacks_a_capability_is_reported_with_its_line() {
    let roce = check(&["--target", "xdp", "transports/roce/roce.mtp"]);
    assert_eq!(code(&roce), 1);
    let error = String::from_utf8_lossy(&roce.stderr);
    for line in [
        "hawser: transports/roce/roce.mtp does not run on the target xdp:",
        "  the payload is checked, by the CRC-32 of `roce_packet` (transports/roce/parse.mtp:8)",
        "  the targets dpdk, host and sim take it",
    ] {
        assert!(error.lines().any(|found| found == line), "{error}");
    }
    let folder = hawser_documents::temporary::Folder::new().expect("a folder");
    let file = folder.join("elsewhere.mtp");
    std::fs::write(&file, ELSEWHERE).expect("a file");
    let file = file.to_str().expect("a path");
    let missing = check(&["--target", "sim", file]);
    assert_eq!(code(&missing), 1);
    let error = String::from_utf8_lossy(&missing.stderr);
    assert!(
        error.contains(&format!("the target has no extern `look_up` ({file}:6)")),
        "{error}"
    );
    assert!(error.contains("no target has that"), "{error}");
}

#[test]
fn an_unknown_target_is_usage_and_a_wrong_program_has_no_table() {
    let unknown = check(&["--target", "tofino", "examples/stop-and-wait.mtp"]);
    assert_eq!(code(&unknown), 2);
    let error = String::from_utf8_lossy(&unknown.stderr);
    assert!(
        error.contains("unknown target `tofino`: the targets are dpdk, host, sim, xdp"),
        "{error}"
    );
    assert_eq!(
        code(&check(&[
            "--target",
            "xdp",
            "--explain-offload",
            "examples/stop-and-wait.mtp"
        ])),
        2
    );
    assert_eq!(code(&check(&["--target", "xdp", "examples/absent.mtp"])), 3);
    let wrong = check(&["--target", "xdp", "lang/tests/fail/externs.mtp"]);
    assert_eq!(code(&wrong), 1);
    assert!(
        wrong.stdout.is_empty(),
        "{}",
        String::from_utf8_lossy(&wrong.stdout)
    );
}

#[test]
fn the_table_as_json_has_the_same_rows() {
    let json = |target, program| -> Value {
        let output = check(&["--json", "--target", target, program]);
        serde_json::from_slice(&output.stdout).expect("one value")
    };
    let found = json("xdp", "examples/stop-and-wait.mtp");
    assert_eq!(found["diagnostics"], serde_json::json!([]));
    let program = &found["programs"][0];
    assert_eq!(program["target"], "xdp");
    assert_eq!(program["lacks"], serde_json::json!([]));
    let chains = program["chains"].as_array().expect("a list");
    let places: Vec<_> = chains.iter().map(|row| (&row["chain"], &row["place"])).collect();
    assert_eq!(places.len(), 6);
    let packet = chains.iter().find(|row| row["chain"] == "sw_pkt").expect("a row");
    assert_eq!(packet["place"], "both");
    let reply = serde_json::json!({
        "text": "`SW` goes back to the frame's sender, unless it carries payload",
        "lines": [{ "file": "examples/stop-and-wait.mtp", "line": 59 }],
    });
    assert_eq!(packet["reasons"][0], reply);
    let lacking = json("xdp", "transports/roce/roce.mtp");
    assert_eq!(
        lacking["programs"][0]["instead"],
        serde_json::json!(["dpdk", "host", "sim"])
    );
}
