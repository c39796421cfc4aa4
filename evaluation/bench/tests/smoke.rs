//! Runs every bench for a moment. Its output has the right form, and all rows that can be measured on this
//! machine were measured. The tests check no figures except counts, which do not depend on other users of the
//! machine.

use std::collections::HashSet;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hawser_testing::{Need, has, skip};
use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hawser-bench"));
    command
        .args(arguments)
        .args(["--quick", "--runs", "1"])
        .output()
        .expect("it starts")
}

/// The words in the name of a row that may be skipped, and what it needs. The first word that occurs counts.
const ROWS: [(&str, Need); 7] = [
    ("testpmd", Need::Testpmd),
    ("gVisor", Need::Long),
    ("memif", Need::Dpdk),
    ("TUN", Need::Tun),
    ("TAP", Need::Tun),
    ("nginx", Need::Nginx),
    ("Hawser", Need::Hawser),
];

/// Returns the report of a bench between network namespaces, or `None` if this machine has none.
fn report_of_networks(arguments: &[&str]) -> Option<Value> {
    has(arguments[0], &[Need::Netns]).then(|| report(arguments))
}

/// Returns the report of a bench.
fn report(arguments: &[&str]) -> Value {
    let mut arguments = arguments.to_vec();
    arguments.push("--json");
    let output = bench(&arguments);
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {words}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON alone");
    assert_eq!(report["version"], 1);
    assert_eq!(report["bench"], arguments[0]);
    for name in ["revision", "kernel", "processor", "governor"] {
        assert!(report["environment"][name].is_string(), "{name}");
    }
    for row in rows(&report) {
        if let Some(why) = row["skipped"].as_str() {
            let name = row["name"].as_str().expect("a name");
            let need = ROWS.iter().find(|(word, _)| name.contains(word));
            let (_, need) = need.unwrap_or_else(|| panic!("{name}: {why}"));
            skip(*need, format_args!("{}, {name}", arguments[0]), why);
        }
        for metric in row["metrics"].as_array().expect("a list") {
            let [min, median, max] = ["min", "median", "max"].map(|n| metric[n].as_f64().expect("a number"));
            assert!(0.0 <= min && min <= median && median <= max, "{metric}");
            assert_eq!(metric["runs"].as_array().map(Vec::len), Some(1));
        }
    }
    report
}

fn rows(report: &Value) -> &[Value] {
    report["rows"].as_array().expect("a list")
}

/// Returns the rows that were measured. If a device is missing, its rows were not.
fn measured(report: &Value) -> Vec<&str> {
    let names = rows(report).iter().filter(|row| row["skipped"].is_null());
    names.map(|row| row["name"].as_str().expect("a name")).collect()
}

/// Returns the number of rows that must be measured even on a machine without TUN and TAP.
fn without_devices(report: &Value) -> usize {
    rows(report)
        .iter()
        .filter(|row| {
            !["TUN", "TAP"]
                .iter()
                .any(|d| row["name"].as_str().unwrap().contains(d))
        })
        .count()
}

/// Returns whether TUN and TAP devices can be opened on this machine.
fn has_devices() -> bool {
    let mut both = std::fs::File::options();
    both.read(true).write(true).open("/dev/net/tun").is_ok()
}

#[test]
fn bulk_runs_in_every_constellation_and_all_bytes_arrive() {
    // With --verify, a wrong byte is an error of its row; checksums are verified in any case. The measurement
    // is longer than Linux's minimum RTO (200 ms), so that a retransmission timeout does not leave it empty.
    let Some(report) = report_of_networks(&["bulk", "--seconds", "0.5", "--warm-up", "0.05", "--verify"])
    else {
        return;
    };
    assert_eq!((rows(&report).len(), without_devices(&report)), (11, 6));
    let measured = measured(&report);
    let devices = has_devices();
    assert_eq!(measured.len(), if devices { 11 } else { 6 }, "{measured:?}");
    assert_eq!(rows(&report)[0]["metrics"][0]["ratio"], 1.0);
}

/// Returns the largest number of cores that the threads of a process with two shards were pinned to, sampled
/// until `is_over` is set.
fn cores_of_shards(is_over: &AtomicBool) -> usize {
    let mut cores_seen = 0;
    while !is_over.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(10));
        let processes = std::fs::read_dir("/proc").expect("it is mounted").flatten();
        for process in processes.map(|entry| entry.path()) {
            // The process may have ended meanwhile.
            let command = std::fs::read_to_string(process.join("cmdline")).unwrap_or_default();
            if !command.starts_with(env!("CARGO_BIN_EXE_hawser-bench")) || !command.contains("\"shards\":2") {
                continue;
            }
            let threads = std::fs::read_dir(process.join("task")).into_iter().flatten();
            let status = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("status"));
            let kept: HashSet<String> = threads
                .flatten()
                .filter_map(|thread| status(thread).ok())
                .filter_map(|status| {
                    status
                        .split_once("Cpus_allowed_list:")
                        .map(|(_, cores)| cores.to_owned())
                })
                .filter_map(|cores| Some(cores.lines().next()?.trim().to_owned()))
                .filter(|cores| cores.bytes().all(|byte| byte.is_ascii_digit()))
                .collect();
            cores_seen = cores_seen.max(kept.len());
        }
    }
    cores_seen
}

#[test]
fn several_flows_run_in_one_shard_and_in_two() {
    let arguments = [
        "bulk",
        "--flows",
        "8",
        "--shards",
        "2",
        "--seconds",
        "0.5",
        "--warm-up",
        "0.05",
        "--verify",
    ];
    let is_over = &AtomicBool::new(false);
    let (report, cores) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| cores_of_shards(is_over));
        let report = report_of_networks(&arguments);
        is_over.store(true, Ordering::Release);
        (report, watcher.join().expect("no panic"))
    });
    let Some(report) = report else {
        return;
    };
    assert_eq!((rows(&report).len(), without_devices(&report)), (9, 5));
    let measured = measured(&report);
    let devices = has_devices();
    assert_eq!(measured.len(), if devices { 9 } else { 5 }, "{measured:?}");
    // If there are enough cores, each shard has its own.
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    assert_eq!(cores, available.min(2), "cores that two shards ran on");
    let compared = report["comparisons"].as_array().expect("a list");
    assert_eq!(
        compared.len(),
        measured.len() - 1,
        "rate and efficiency of each pair"
    );
    assert_eq!(compared[0]["row"], "Hawser in 2 shards → Linux, AF_PACKET");
}

#[test]
fn round_trips_are_timed_spinning_and_asleep() {
    let Some(report) = report_of_networks(&["rr", "--rounds", "8"]) else {
        return;
    };
    let measured = measured(&report);
    assert_eq!(measured.len(), 8, "{report}");
    assert_eq!(measured.iter().filter(|name| name.ends_with("asleep")).count(), 4);
    // Ratios refer to Linux in the same manner.
    for row in rows(&report)
        .iter()
        .filter(|row| row["name"].as_str().unwrap().ends_with("asleep"))
    {
        assert_eq!(row["baseline"], "Linux → Linux, veth, asleep");
    }
}

#[test]
fn programs_over_sockets_are_measured_beside_their_peers() {
    let Some(report) = report_of_networks(&["sockets", "--seconds", "0.5", "--rounds", "8", "--verify"])
    else {
        return;
    };
    let measured = measured(&report);
    assert_eq!(measured.len(), 9, "{report}");
    // Ratios refer to quinn in the same measurement.
    for row in rows(&report) {
        let (_, kind) = row["name"].as_str().unwrap().split_once(", ").unwrap();
        assert_eq!(row["baseline"], format!("quinn, {kind}"));
    }
    assert_eq!(report["comparisons"][0]["with"], "Linux, bulk");
}

#[test]
fn shared_memory_is_measured_beside_its_peers() {
    let Some(report) = report_of_networks(&["dpdk", "--verify"]) else {
        return;
    };
    assert_eq!(rows(&report).len(), 14);
    // A quick run does not build gVisor, and testpmd is a package of its own.
    let measured = measured(&report);
    let in_memory = measured
        .iter()
        .filter(|name| name.contains("memif") && !name.contains("testpmd"));
    let expected = if cfg!(feature = "dpdk") { 7 } else { 0 };
    assert_eq!(in_memory.count(), expected, "{report}");
    assert_eq!(rows(&report)[0]["name"], "bare loop, memif");
}

#[test]
fn files_are_fetched_from_hawser_and_from_nginx() {
    let Some(report) = report_of_networks(&["http", "--seconds", "0.2", "--warm-up", "0.1"]) else {
        return;
    };
    assert_eq!(rows(&report).len(), 16);
    let is_there = |folders: &[&std::path::Path], name: &str| folders.iter().any(|f| f.join(name).is_file());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path: Vec<_> = std::env::split_paths(&path).collect();
    let mut folders: Vec<&std::path::Path> = path.iter().map(AsRef::as_ref).collect();
    folders.extend(std::path::Path::new(env!("CARGO_BIN_EXE_hawser-bench")).parent());
    folders.push("/usr/sbin".as_ref());
    for (server, program) in [("nginx", "nginx"), ("Hawser", "hawser")] {
        let measured: Vec<_> = measured(&report)
            .into_iter()
            .filter(|row| row.starts_with(server))
            .collect();
        assert_eq!(
            measured.len(),
            if is_there(&folders, program) { 8 } else { 0 },
            "{report}"
        );
    }
    // Rows with cross traffic have some, and the others have none.
    for row in rows(&report).iter().filter(|row| row["skipped"].is_null()) {
        let name = row["name"].as_str().unwrap();
        let (_, file) = name.split_once(", ").unwrap();
        assert_eq!(row["baseline"], format!("nginx, {file}"));
        let metrics = row["metrics"].as_array().unwrap();
        assert_eq!(
            metrics.len(),
            if name.ends_with("no line limit") { 5 } else { 7 },
            "{row}"
        );
        if let Some(cross) = metrics.get(6) {
            assert_eq!(
                cross["median"].as_f64().unwrap() > 5.0,
                !name.ends_with("traffic 0 %"),
                "{row}"
            );
        }
    }
}

#[test]
fn closed_connections_leave_no_state() {
    let Some(report) = report_of_networks(&["connect", "--connections", "30", "--at-once", "10"]) else {
        return;
    };
    assert_eq!(measured(&report).len(), 8, "{report}");
    for row in rows(&report)
        .iter()
        .filter(|row| row["name"].as_str().unwrap().contains("Hawser"))
    {
        assert_eq!(row["facts"], serde_json::json!([["left over", 0]]), "{row}");
    }
}

#[test]
fn requests_are_answered_on_all_of_many_connections() {
    let Some(report) = report_of_networks(&["requests", "--connections", "100,2000", "--seconds", "0.2"])
    else {
        return;
    };
    assert_eq!(measured(&report).len(), 8, "{report}");
    for row in rows(&report) {
        let name = row["name"].as_str().unwrap();
        let (pair, connections) = name.rsplit_once(", ").unwrap();
        assert_eq!(row["baseline"], format!("Linux → Linux, veth, {connections}"));
        let answered = connections.parse::<u64>().unwrap();
        assert_eq!(
            row["facts"],
            serde_json::json!([["answered in the end", answered]])
        );
        // The memory of Linux's TCP is in the kernel.
        let ends = pair.matches("Hawser").count();
        assert_eq!(row["metrics"].as_array().unwrap().len(), 5 + ends, "{row}");
    }
    assert_eq!(report["comparisons"].as_array().unwrap().len(), 4);
}

#[test]
fn the_stack_alone_runs_beside_its_peer() {
    let report = report(&["stack", "--seconds", "0.05"]);
    assert_eq!(measured(&report), ["Hawser, native", "smoltcp"]);
}

#[test]
fn many_flows_take_their_turn() {
    let report = report(&["flows", "--connections", "10,200"]);
    assert_eq!(measured(&report).len(), 2);
    // Rates can be compared only if a packet is the same work: one acknowledgement answers two packets.
    for row in rows(&report) {
        assert_eq!(row["metrics"][2]["median"], 50.0, "{row}");
    }
}

#[test]
fn idle_connections_are_measured() {
    let report = report(&["idle", "--connections", "100"]);
    // Both ends of each connection, and a listener.
    assert_eq!(rows(&report)[0]["facts"], serde_json::json!([["contexts", 201]]));
    assert!(rows(&report)[0]["metrics"][0]["median"].as_f64().unwrap() > 100.0);
    assert_eq!(
        rows(&report)[0]["metrics"][1]["median"],
        0.0,
        "all was read and acknowledged"
    );
}

#[test]
fn checking_of_programs_is_measured() {
    let report = report(&["check"]);
    assert_eq!(measured(&report).len(), 5, "{report}");
}

#[test]
fn instructions_are_counted_where_valgrind_is() {
    if !has("callgrind", &[Need::Valgrind]) {
        let output = bench(&["callgrind"]);
        assert_eq!(output.status.code(), Some(4));
        assert!(String::from_utf8_lossy(&output.stderr).contains("valgrind"));
        return;
    }
    let engines = "native,handwritten";
    let report = report(&["callgrind", "--size", "1", "--engines", engines]);
    let rows = ["Hawser, native", "Hawser, handwritten", "smoltcp"];
    assert_eq!(measured(&report), rows);
    let report = self::report(&["callgrind", "--round-trips", "--engines", engines]);
    assert_eq!(measured(&report), rows);
}

#[test]
fn rankings_and_selections_are_measured() {
    let report = report(&["policy"]);
    assert_eq!(measured(&report).len(), 2);
    let report = self::report(&["race"]);
    assert_eq!(measured(&report), ["warm selection", "cold selection"]);
}

#[test]
fn packets_of_a_fabric_cross_four_links_each() {
    let report = report(&["fabric", "--transports", "homa,tcp"]);
    let names = ["homa, 8 hosts", "tcp, 8 hosts", "homa, 16 hosts", "tcp, 16 hosts"];
    assert_eq!(measured(&report), names);
    for row in rows(&report) {
        let [ends, links] = [0, 1].map(|n| row["facts"][n][1].as_f64().expect("a count"));
        // Some packets are still in flight when the time is over.
        assert!(ends > 100.0 && links >= 4.0 * ends && links < 5.0 * ends, "{row}");
        // Each host has a stack with its tables.
        assert!(row["metrics"][2]["median"].as_f64().expect("KiB") > 10.0, "{row}");
    }
}

#[test]
fn the_cost_of_the_program_interface_is_measured() {
    let report = report(&["abi"]);
    assert_eq!(measured(&report), ["records, then carried out", "direct calls"]);
}

#[test]
fn a_table_and_a_drawing_are_made() {
    let folder = hawser_documents::temporary::Folder::new().expect("a folder");
    let file = folder.join("bench.svg");
    let output = bench(&["check", "--markdown", "--svg", file.to_str().expect("a path")]);
    let drawing = std::fs::read_to_string(&file);
    assert!(drawing.unwrap().starts_with("<svg"));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("|  | per 1,000 lines [ms] |"));
}

#[test]
fn an_unknown_engine_is_refused_by_its_name() {
    let output = bench(&["stack", "--engine", "steam"]);
    assert_eq!(output.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&output.stderr).contains("unknown engine `steam`"));
}
