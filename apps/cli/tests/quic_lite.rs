//! QUIC-Lite between two processes in a lab, observed and modified through the interactive layer.

use std::process::{Command, Stdio};

use hawser_documents::temporary::Folder;
use hawser_testing::{Need, has};
use serde_json::Value;

const HAWSER: &str = env!("CARGO_BIN_EXE_hawser");
/// The maximum time of a script, in seconds. A faulty script may wait for ever.
const LIMIT: &str = "60";

/// A file, and a lab with a client and a server for it.
struct Transfer {
    folder: Folder,
}

impl Transfer {
    /// Creates a file of `bytes` bytes, and a lab file with these `links`.
    fn new(bytes: u32, links: &str) -> Transfer {
        let folder = Folder::new().expect("a folder");
        let content: Vec<u8> = (0..bytes)
            .map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8)
            .collect();
        std::fs::write(folder.join("file"), content).expect("a file");
        let lab = format!(
            r#"
[[host]]
name = "client"
[[host]]
name = "server"
serve = "cd '{}' && exec {HAWSER} serve . --program quic-lite --dev udp:0.0.0.0:4433 --interact=socket"
{links}
"#,
            folder.display()
        );
        std::fs::write(folder.join("lab.toml"), lab).expect("a file");
        Transfer { folder }
    }

    /// Runs a shell script on the client. Returns its output, or `None` if this machine allows no labs. `H`
    /// stands for this command, and `get` downloads the file from the server.
    fn run(&self, script: &str) -> Option<String> {
        if !has("a transfer by QUIC-Lite", &[Need::Netns]) {
            return None;
        }
        let begin = r#"
            until [ -S socket ]; do sleep 0.05; done
            get() { H get http://10.77.0.2:4433/file --program quic-lite --dev udp:0.0.0.0:0 -o got "$@"; }
        "#;
        let script = format!("{begin}{script}").replace("H ", &format!("{HAWSER} "));
        let mut command = Command::new(HAWSER);
        command.args([
            "lab", "up", "lab.toml", "--", "timeout", LIMIT, "sh", "-ec", &script,
        ]);
        let output = command
            .current_dir(&*self.folder)
            .stdin(Stdio::null())
            .output()
            .expect("hawser starts");
        let error = String::from_utf8_lossy(&output.stderr);
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{printed}{error}");
        Some(printed)
    }

    /// Parses the file `watched`, which `hawser watch` has written.
    fn watched(&self) -> Vec<Value> {
        let written = std::fs::read_to_string(self.folder.join("watched")).expect("what was watched");
        let lines = written.lines();
        lines
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    }
}

/// Returns the number after this word at the beginning of a line.
fn number(printed: &str, word: &str) -> u64 {
    let rest = printed.lines().find_map(|line| line.strip_prefix(word));
    let number = rest.and_then(|rest| rest.trim().parse().ok());
    number.unwrap_or_else(|| panic!("no {word} in {printed}"))
}

/// A queue of 100 kB at 20 Mbit/s and 40 ms overflows in slow start, and a NAT drops the client's mapping.
const WATCHED: &str = r#"
[[link]]
name = "line"
between = ["client", "server"]
both = { rate = "20Mbit/s", queue = "100kB", delay = "20ms" }
nat = { inside = "client" }
[[at]]
time = "4500ms"
link = "line"
rebind = true
"#;

/// The server's window is held at 12,000 bytes, which gives 300 kB/s at this round-trip time, where the link
/// carries 2.5 MB/s.
#[test]
fn quic_lite_is_watched_probed_and_modified() {
    let transfer = Transfer::new(14_000_000, WATCHED);
    let script = r#"
        S="--socket socket"
        H watch $S --json --for 6s > watched & WATCH=$!
        until [ -s watched ]; do sleep 0.02; done
        get & GET=$!
        until H bus probe $S | grep -q 'quic.conn'; do sleep 0.05; done
        sleep 0.8
        F=$(H bus probe $S | grep 'quic.conn' | cut -d' ' -f1)
        value() { H bus probe $F quic.conn.$1 $S | sed 's/.*= //'; }
        measure() { BEFORE=$(value largest_acked); sleep 1; echo "$1 $(($(value largest_acked) - BEFORE))"; }
        H bus probe $F $S
        measure free
        H bus modify $F quic.conn.cc.cwnd 12000 --lease 30s $S > modified & HOLDER=$!
        until [ "$(value cc.cwnd)" = 12000 ]; do sleep 0.02; done
        measure held
        kill -KILL $HOLDER; sleep 0.5
        echo "after $(value cc.cwnd)"
        wait $GET; cmp file got; wait $WATCH
    "#;
    let Some(printed) = transfer.run(script) else {
        return;
    };
    for observable in ["in_flight", "largest_acked", "min_rtt", "piece", "cc.ssthresh"] {
        let line = format!("quic.conn.{observable} = ");
        assert!(printed.contains(&line), "{line}: {printed}");
    }
    let (free, held) = (number(&printed, "free"), number(&printed, "held"));
    assert!(held > 0 && held * 3 < free, "{printed}");
    assert!(number(&printed, "after") > 12_000, "{printed}");
    let watched = std::fs::read_to_string(transfer.folder.join("watched")).expect("what was watched");
    let lines: Vec<Value> = watched
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let of = |event: &str| {
        let signals = lines.iter().map(|line| &line["signal"]);
        signals.filter(|signal| signal["event"] == event).count()
    };
    assert_eq!(of("quic.path_changed"), 1);
    assert!(of("quic.packet_lost") > 0);
    let windows = lines
        .iter()
        .map(|line| &line["sample"]["values"]["quic.conn.cc.cwnd"]);
    assert!(windows.filter(|window| **window == 12_000).count() > 2);
}

/// Two links, the second with twice the delay.
const TWO_LINKS: &str = r#"
[[link]]
name = "wifi"
between = ["client", "server"]
interfaces = ["wlan0", "eth0"]
both = { rate = "20Mbit/s", queue = "200kB", delay = "10ms" }
[[link]]
name = "mobile"
between = ["client", "server"]
interfaces = ["wwan0", "eth1"]
both = { rate = "20Mbit/s", queue = "200kB", delay = "20ms" }
"#;

/// The client is the receiver, so it probes the server after a quarter of the idle time. After three probes
/// it tries another path, and the server follows.
#[test]
fn a_client_moves_to_another_link_when_its_link_fails() {
    let transfer = Transfer::new(8_000_000, TWO_LINKS);
    let script = r#"
        H watch quic.path_changed --socket socket --json --for 8s > watched & WATCH=$!
        until [ -s watched ]; do sleep 0.02; done
        get --param IDLE=4s & GET=$!
        part() { cat .hawser-*.part 2>/dev/null | wc -c; }
        until [ "$(part)" -gt 0 ]; do sleep 0.02; done
        sleep 0.5; ip addr flush dev wlan0; ip link set wlan0 down
        echo "gone $(part)"
        wait $GET; cmp file got; wait $WATCH
    "#;
    let Some(printed) = transfer.run(script) else {
        return;
    };
    let arrived = number(&printed, "gone");
    assert!((1..6_000_000).contains(&arrived), "{printed}");
    let lines = transfer.watched();
    let moves = lines
        .iter()
        .filter(|line| line["signal"]["event"] == "quic.path_changed");
    assert_eq!(moves.count(), 1);
}
