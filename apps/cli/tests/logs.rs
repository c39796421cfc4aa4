//! Logs of a server over a TUN device, as selected by `RUST_LOG` and `--log`. The tests need a user's own
//! network namespace and are skipped without one.

use std::process::Command;

use hawser_testing::{Need, has};
use serde_json::Value;

/// One download, and one datagram for a protocol that the server does not speak.
const SCRIPT: &str = r#"
set -eu
"$HAWSER" $OPTIONS serve . --dev tun:h0 --kernel-addr 10.9.0.1/24 --addr 10.9.0.2/24 > served 2> log &
SERVER=$!
trap 'kill $SERVER' EXIT
until grep -q listening served; do sleep 0.05; done
curl -s --max-time 5 http://10.9.0.2/log -o /dev/null
python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("10.9.0.2", 9))'
sleep 0.5
"#;

/// Returns the lines that the server logs, or `None` if the server cannot run here.
fn logged(test: &str, filter: Option<&str>, options: &str) -> Option<Vec<String>> {
    if !has(test, &[Need::Netns, Need::Tun, Need::Curl, Need::Python]) {
        return None;
    }
    let folder = hawser_documents::temporary::Folder::new().expect("a folder");
    let mut command = Command::new("unshare");
    command
        .args(["-Urn", "sh", "-c", SCRIPT])
        .current_dir(&*folder)
        .env("HAWSER", env!("CARGO_BIN_EXE_hawser"))
        .env("OPTIONS", options)
        .env_remove("RUST_LOG")
        .envs(filter.map(|filter| ("RUST_LOG", filter)));
    let output = command.output().expect("a shell");
    let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
    assert!(
        output.status.success(),
        "{}\n{log}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(log.lines().map(str::to_owned).collect())
}

#[test]
fn connection_states_and_drop_reasons_are_logged_at_debug() {
    let Some(lines) = logged("logs", Some("hawser_sockets=debug"), "") else {
        return;
    };
    for what in [
        "listen address=10.9.0.2:80",
        "accepted local=",
        "close local=",
        "count=",
    ] {
        assert!(
            lines.iter().any(|line| line.contains(what)),
            "no `{what}` in {lines:#?}"
        );
    }
    let reason = |line: &&String| line.contains("reason=\"no_parser\" count=1");
    assert_eq!(lines.iter().filter(reason).count(), 1, "{lines:#?}");
}

#[test]
fn lines_of_a_log_in_json_are_objects() {
    let Some(lines) = logged("logs in JSON", Some("hawser_sockets=debug"), "--log json") else {
        return;
    };
    let lines: Vec<Value> = lines
        .iter()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let accepted = lines.iter().find(|line| line["fields"]["message"] == "accepted");
    let accepted = accepted.unwrap_or_else(|| panic!("no connection in {lines:#?}"));
    assert_eq!(accepted["level"], "DEBUG");
    assert!(
        accepted["fields"]["peer"]
            .as_str()
            .is_some_and(|peer| peer.contains("10.9.0.1:"))
    );
}

#[test]
fn a_working_server_logs_no_lines_by_default() {
    if let Some(lines) = logged("no logs", None, "") {
        assert!(lines.is_empty(), "{lines:#?}");
    }
}
