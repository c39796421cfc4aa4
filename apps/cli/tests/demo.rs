//! The demonstration at a small size: `hawser serve` and `hawser get` against Linux's own TCP, over TUN and
//! over AF_PACKET, over IPv4 and IPv6, clean and faulty.

use std::collections::BTreeSet;
use std::process::Command;

use hawser_testing::{Need, has};
use serde_json::Value;

use crate::everybody;

/// Runs the demonstration. Returns `None` if this machine lacks one of the needs.
fn demo(medium: &str, needs: &[Need]) -> Option<Value> {
    if !has(format_args!("demo over {medium}"), needs) {
        return None;
    }
    let mut hawser = Command::new(env!("CARGO_BIN_EXE_hawser"));
    let output = hawser
        .args([
            "demo",
            "--story",
            "transfers",
            "--json",
            "--size",
            "2",
            "--medium",
            medium,
        ])
        .output()
        .expect("hawser starts");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    let result = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{message}\n{result}");
    Some(serde_json::from_str(&result).expect("the result is JSON"))
}

/// Checks eight downloads: each has the whole file and the table's figures.
fn judge(result: &Value) {
    let rows = result["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 8);
    for row in rows {
        assert_eq!(row["same"], true, "{row}");
        assert_eq!(row["bytes"], 2 << 20, "{row}");
        assert!(row["bits_per_second"].as_f64().is_some_and(|r| r > 0.0), "{row}");
        assert!(row["srtt_ns"].as_u64().is_some_and(|ns| ns > 0), "{row}");
    }
    let resent = |network: &str| -> u64 {
        rows.iter()
            .filter(|r| r["network"] == network)
            .filter_map(|r| r["retransmissions"].as_u64())
            .sum()
    };
    // 1 % of about 1,500 segments in each of four downloads.
    assert!(resent("faulty") >= 10, "{result}");
}

#[test]
fn downloads_over_tun_are_complete() {
    if let Some(result) = demo("tun", &[Need::Netns, Need::Tun, Need::Curl]) {
        judge(&result);
    }
}

#[test]
fn downloads_over_af_packet_are_complete() {
    if let Some(result) = demo("packet", &[Need::Netns, Need::Curl]) {
        judge(&result);
    }
}

/// Homa's receiver finishes one message after the other, whereas TCP's senders share its line. On average
/// Homa takes half the time, and neither is faster than the line.
#[test]
fn an_incast_is_over_sooner_on_average_by_homa() {
    let mut hawser = Command::new(env!("CARGO_BIN_EXE_hawser"));
    let output = hawser
        .args(["demo", "--story", "incast", "--json"])
        .output()
        .expect("hawser starts");
    let result: Value = serde_json::from_slice(&output.stdout).expect("the result is JSON");
    let figure = |row: usize, key: &str| result["rows"][row][key].as_f64().expect("a figure");
    let line = result["line_ms"].as_f64().expect("a figure");
    assert_eq!(line, 32.0 * 500e3 * 8.0 / 10e9 * 1e3);
    for (row, name) in ["TCP", "Homa"].into_iter().enumerate() {
        assert_eq!(result["rows"][row]["transport"], name);
        assert!(
            figure(row, "last_ms") > line && figure(row, "last_ms") < line * 1.3,
            "{result}"
        );
    }
    assert!(figure(1, "mean_ms") < 0.7 * figure(0, "mean_ms"), "{result}");
}

/// Another user predicts the process id and plants a folder with that name, with a link in it.
#[test]
fn a_planted_folder_is_not_taken() {
    if !has("a_planted_folder_is_not_taken", &[Need::Netns, Need::Curl]) {
        return;
    }
    let folder = hawser_documents::temporary::Folder::new().expect("a folder");
    let victim = folder.join("victim");
    std::fs::write(&victim, "mine").expect("a file");
    // The shell's process becomes that of the command.
    let script = "for name in demo roaming browser; do
            mkdir \"$TMPDIR/hawser-$name-$$\" && ln -s \"$VICTIM\" \"$TMPDIR/hawser-$name-$$/file\"
        done
        exec \"$0\" demo --story transfers --json --size 1";
    let output = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_hawser")])
        .env("TMPDIR", &*folder)
        .env("VICTIM", &victim)
        .output()
        .expect("a shell");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(std::fs::read_to_string(&victim).expect("it is there"), "mine");
    let names = std::fs::read_dir(&folder).expect("a folder").count();
    assert_eq!(names, 4, "the victim and what was planted, and nothing of ours");
}

/// Runs the demo as an unprivileged user, from a copy of the command that every user can read.
#[test]
fn the_demo_runs_without_privilege() {
    let needs = [Need::Root, Need::Netns, Need::Curl];
    if !has("the_demo_runs_without_privilege", &needs) {
        return;
    }
    let (_folder, copy) = everybody::copy();
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&copy);
    command.args(["demo", "--story", "transfers", "--json", "--size", "1"]);
    let output = command.output().expect("setpriv starts");
    assert!(output.status.success(), "{output:?}");
    let result: Value = serde_json::from_slice(&output.stdout).expect("the result is JSON");
    let rows = result["rows"].as_array().expect("rows");
    assert!(
        rows.len() == 8 && rows.iter().all(|row| row["same"] == true),
        "{result}"
    );
}

/// Without curl and a browser, two of the five stories can be shown. The others are listed with the reason,
/// and the command succeeds.
#[test]
fn stories_without_their_tools_are_left_out_and_named() {
    if !has(
        "stories_without_their_tools_are_left_out_and_named",
        &[Need::Netns],
    ) {
        return;
    }
    let programs = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-curl");
    let _ = std::fs::remove_dir_all(&programs);
    std::fs::create_dir_all(&programs).expect("the folder for tests can be written");
    std::os::unix::fs::symlink("/bin/sh", programs.join("sh")).expect("a link");
    let mut hawser = Command::new(env!("CARGO_BIN_EXE_hawser"));
    let output = hawser
        .args(["demo", "--json"])
        .env("PATH", &programs)
        .output()
        .expect("hawser starts");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{message}");
    let result: Value = serde_json::from_slice(&output.stdout).expect(&message);
    assert_eq!(result["roaming"]["same"], true, "{result}");
    let left_out = result["left_out"].as_array().expect("what was left out");
    let stories: Vec<_> = left_out
        .iter()
        .map(|row| row["story"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(stories, ["transfers", "browser", "watching"], "{result}");
    assert!(
        left_out
            .iter()
            .all(|row| row["why"].as_str().is_some_and(|why| why.contains("curl"))),
        "{result}"
    );
}

/// SCTP is blocked, admitted and blocked again, and a session loses QUIC midway.
#[test]
fn a_browser_is_served_over_transports_the_network_admits() {
    let test = "a_browser_is_served_over_transports_the_network_admits";
    if !has(test, &[Need::Netns, Need::Curl, Need::Usrsctp]) {
        return;
    }
    let mut hawser = Command::new(env!("CARGO_BIN_EXE_hawser"));
    let output = hawser
        .args(["demo", "--story", "browser", "--size", "1", "--json"])
        .output()
        .expect("hawser starts");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{message}");
    let result: Value = serde_json::from_slice(&output.stdout).expect(&message);
    let rows = result["rows"].as_array().expect("rows");
    assert!(rows.iter().all(|row| row["error"].is_null()), "{result}");
    let transports: Vec<_> = rows
        .iter()
        .map(|row| row["transport"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(
        transports,
        ["tcp", "sctp", "tcp", "session", "session"],
        "{result}"
    );
}

/// A download starts on two paths, gains a third and loses the first two. Each path has another transport.
#[test]
fn a_session_roams() {
    if !has("a_session_roams", &[Need::Netns]) {
        return;
    }
    let mut hawser = Command::new(env!("CARGO_BIN_EXE_hawser"));
    let output = hawser
        .args(["demo", "--story", "roaming", "--json"])
        .env("RUST_LOG", "hawser_session=debug") // A failure shows the life of each carrier.
        .output()
        .expect("hawser starts");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    let result: Value = serde_json::from_slice(&output.stdout).expect(&message);
    assert_eq!(output.status.code(), Some(0), "{message}\n{result}");
    assert_eq!(result["same"], true, "{message}\n{result}");
    let mark = result["mark_seconds"].as_f64().expect("a mark");
    // The mean rate of a link between two times, in Mbit/s.
    let mean = |link: &str, from: f64, to: f64| -> f64 {
        let rates = result["mbit_per_second"][link].as_array().expect("rates");
        let marks: Vec<f64> = rates[(from / mark) as usize..(to / mark) as usize]
            .iter()
            .filter_map(Value::as_f64)
            .collect();
        marks.iter().sum::<f64>() / marks.len() as f64
    };
    assert!(
        mean("wifi", 1.0, 2.0) > 20.0 && mean("mobile", 1.0, 2.0) < 1.0,
        "{message}\n{result}"
    );
    assert!(
        mean("dock", 1.0, 2.0) > 10.0 && mean("dock", 4.0, 4.75) < 1.0,
        "{message}\n{result}"
    );
    assert!(
        mean("wifi", 4.0, 4.75) > 20.0 && mean("mobile", 4.0, 4.75) > 10.0,
        "{message}\n{result}"
    );
    assert!(
        mean("wifi", 5.5, 6.5) < 1.0 && mean("mobile", 5.5, 6.5) > 10.0,
        "{message}\n{result}"
    );
    let transport = |path: &Value| {
        Some((
            path["interface"].as_str()?.to_owned(),
            path["transport"].as_str()?.to_owned(),
        ))
    };
    let paths = result["received"]["paths"]
        .as_array()
        .expect("paths")
        .iter()
        .filter_map(transport);
    let expected = [("eth0", "mtp-tcp"), ("wlan0", "tcp"), ("wwan0", "quic")];
    let expected = expected.map(|(interface, transport)| (interface.to_owned(), transport.to_owned()));
    assert_eq!(
        paths.collect::<BTreeSet<_>>(),
        BTreeSet::from(expected),
        "{message}\n{result}"
    );
}

/// The window of a transfer is held below its own value for three of ten seconds.
#[test]
fn a_transfer_is_watched_and_steered() {
    if !has("a_transfer_is_watched_and_steered", &[Need::Netns, Need::Curl]) {
        return;
    }
    let mut hawser = Command::new(env!("CARGO_BIN_EXE_hawser"));
    let output = hawser
        .args(["demo", "--story", "watching", "--json"])
        .output()
        .expect("hawser starts");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    let result: Value = serde_json::from_slice(&output.stdout).expect(&message);
    assert_eq!(output.status.code(), Some(0), "{message}\n{result}");
    assert_eq!(result["same"], true, "{result}");
    let row = |name: &str| {
        result[name]
            .as_array()
            .unwrap_or_else(|| panic!("{name}: {result}"))
    };
    let set = result["set"].as_u64().expect("what it was set to");
    let windows: Vec<u64> = row("window_bytes").iter().filter_map(Value::as_u64).collect();
    let is_set = |window: &u64| *window == set;
    let first = windows.iter().position(is_set).expect("the window was held");
    let last = windows.iter().rposition(is_set).expect("as before");
    assert!(
        windows[first..=last].iter().all(is_set),
        "nothing was seen in between: {windows:?}"
    );
    let lease = result["lease_seconds"].as_f64().expect("a lease");
    let held = (last + 1 - first) as f64 * result["mark_seconds"].as_f64().expect("a mark");
    // A busy machine samples late, and then more often.
    assert!(
        (held - lease).abs() < 1.0,
        "held for {held} s instead of {lease} s: {windows:?}"
    );
    // The transfer's own congestion control may have seen losses at single marks, so the median counts.
    let median = |windows: &[u64]| {
        let mut sorted = windows.to_vec();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or(0)
    };
    assert!(median(&windows[..first]) > 2 * set, "before: {windows:?}");
    assert!(median(&windows[last + 1..]) > 2 * set, "after: {windows:?}");
    // A rate covers the time from one mark to the next, so the first one during the lease is at `first`.
    let rates: Vec<f64> = row("mbit_per_second").iter().filter_map(Value::as_f64).collect();
    let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len() as f64;
    let during = mean(&rates[first..last]);
    assert!(
        mean(&rates[..first]) > during && mean(&rates[last..]) > during,
        "{rates:?}"
    );
}
