//! `--interact` on the commands that have no device: both ends of a session, the races of a proxy, the
//! sessions of a gateway, and the links of a lab.

use std::collections::BTreeMap;

use hawser_testing::{Need, has};
use serde_json::Value;

use crate::lab_folder::LabFolder;

/// Reads the lines that `hawser watch --json` has written.
fn lines(place: &LabFolder, name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(place.file(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// Returns the events of the signals with their flows, in order.
fn events(lines: &[Value]) -> Vec<(&str, &str)> {
    let signals = lines.iter().filter_map(|line| line.get("signal"));
    signals
        .filter_map(|signal| Some((signal["event"].as_str()?, signal["flow"].as_str()?)))
        .collect()
}

fn names<'a>(events: &[(&'a str, &str)]) -> Vec<&'a str> {
    events.iter().map(|(event, _)| *event).collect()
}

/// A shell fragment that waits for the server's output and extracts the certificate's SHA-256.
const PIN: &str = "until grep -q pin printed 2>/dev/null; do sleep 0.05; done; \
                   PIN=$(sed -n 's/.*\"pin\":\"\\([0-9a-f]*\\)\".*/\\1/p' printed); ";

/// Both processes end right after their sessions, and their last signals still arrive.
#[test]
fn both_ends_of_a_session_are_watched() {
    let place = LabFolder::new(
        "ends",
        "mkdir got && cd got && exec H recv --json --anyone --interact=../r.sock > ../printed",
    );
    std::fs::write(place.file("original"), vec![7; 12_000_000]).expect("a file");
    let script = format!(
        "{PIN} H watch 'session.*' --socket r.sock --json > r.lines & R=$!
        until [ -s r.lines ]; do sleep 0.02; done
        H send original server --pin $PIN --over tcp:wlan0,quic:wwan0 --json --interact=s.sock > sent & S=$!
        until [ -S s.sock ]; do sleep 0.02; done
        H watch 'session.*' --socket s.sock --json > s.lines & W=$!
        wait $S; wait $W; wait $R; cmp original got/original"
    );
    let Some(output) = place.run(&script) else { return };
    assert!(output.status.success(), "{output:?}");
    let (received, sent) = (lines(&place, "r.lines"), lines(&place, "s.lines"));
    let (far, near) = (events(&received), events(&sent));
    for (event, times) in [
        ("session.opened", 1),
        ("session.path.up", 2),
        ("session.stream_opened", 1),
        ("session.closed", 1),
    ] {
        assert_eq!(
            names(&far).iter().filter(|name| **name == event).count(),
            times,
            "{event}: {far:?}"
        );
    }
    assert_eq!(
        names(&near)
            .iter()
            .filter(|name| **name == "session.closed")
            .count(),
        1,
        "{near:?}"
    );
    // The samples show the amount of sent data per path.
    let mut carried: BTreeMap<&str, u64> = BTreeMap::new();
    for sample in sent.iter().filter_map(|line| line.get("sample")) {
        if let (Some(flow), Some(bytes)) = (
            sample["flow"].as_str(),
            sample["values"]["session.path.sent"].as_u64(),
        ) {
            carried.insert(flow, bytes);
        }
    }
    assert!(
        carried.values().filter(|bytes| **bytes > 100_000).count() == 2,
        "{carried:?}"
    );
}

#[test]
fn a_proxy_reports_its_races() {
    let place = LabFolder::new("races", "exec python3 -m http.server 8000 2> log");
    std::fs::write(place.file("file"), b"content").expect("a file");
    let script = "
        H proxy --listen 127.0.0.1:1080 --interact=p.sock > printed & P=$!
        until grep -q listening printed && [ -S p.sock ]; do sleep 0.05; done
        H watch 'race.*' --socket p.sock --json > lines & W=$!
        until [ -s lines ]; do sleep 0.02; done
        until curl -s -o ready http://server:8000/file; do sleep 0.1; done
        curl -s --proxy socks5h://127.0.0.1:1080 http://server:8000/file
        curl -s --proxy socks5h://127.0.0.1:1080 http://server:9/ || true
        kill -TERM $P; wait $P || true; wait $W";
    let Some(output) = place.run(script) else { return };
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"content");
    let lines = lines(&place, "lines");
    let events = events(&lines);
    let of = |event: &str| -> Vec<&str> {
        events
            .iter()
            .filter(|(name, _)| *name == event)
            .map(|(_, flow)| *flow)
            .collect()
    };
    let won = of("race.won");
    assert_eq!(won.len(), 1, "{events:?}");
    let by = lines
        .iter()
        .find(|line| line["signal"]["event"] == "race.won")
        .expect("it is there");
    assert_eq!(by["signal"]["fields"]["transport"], 1, "by TCP: {by}");
    assert!(
        of("race.began").contains(&won[0]) && of("race.started").contains(&won[0]),
        "{events:?}"
    );
    // No server listens there, so the last race failed. The signal of that failure is not missing.
    assert!(!of("race.all_failed").is_empty(), "{events:?}");
}

#[test]
fn a_gateway_reports_its_sessions() {
    let place = LabFolder::new(
        "gate",
        "(python3 -m http.server 8000 2> log &) ; H gateway token alice --out alice.token > clients && \
         exec H gateway --clients clients --allow server:8000 --allow 10.77.0.2:8000 --json --interact=g.sock > printed",
    );
    std::fs::write(place.file("file"), b"content").expect("a file");
    let script = format!(
        "{PIN} until [ -S g.sock ] && curl -s -o ready http://server:8000/file; do sleep 0.1; done
        H watch 'session.*' --socket g.sock --json > lines & W=$!
        until [ -s lines ]; do sleep 0.02; done
        printf 'GET /file HTTP/1.0\\r\\n\\r\\n' | \
            H gateway cat server --pin $PIN --token alice.token --to server:8000 | tail -n 1
        sleep 0.5; kill $W; wait $W || true"
    );
    let Some(output) = place.run(&script) else { return };
    assert_eq!(output.stdout, b"content", "{output:?}");
    let lines = lines(&place, "lines");
    let seen = names(&events(&lines));
    assert!(
        seen.contains(&"session.path.up") && seen.contains(&"session.stream_opened"),
        "{seen:?}"
    );
    assert!(seen.contains(&"session.closed"), "{seen:?}");
}

/// A lab whose timeline changes a held rate and cuts a link.
const LAB: &str = r#"
[[host]]
name = "phone"
[[host]]
name = "server"
[[link]]
name = "wifi"
between = ["phone", "server"]
both = { rate = "80Mbit/s", queue = "200kB", delay = "2ms", loss = "1%" }
[[link]]
name = "mobile"
between = ["phone", "server"]
both = { rate = "60Mbit/s", delay = "8ms" }
[[at]]
time = "1500ms"
link = "wifi"
forward = { rate = "5Mbit/s" }
[[at]]
time = "1600ms"
link = "mobile"
state = "down"
"#;

/// A held value overrides the timeline. Afterwards, the timeline's last value applies.
#[test]
fn links_of_a_lab_are_seen_and_steered() {
    if !has("links_of_a_lab_are_seen_and_steered", &[Need::Netns]) {
        return;
    }
    let place = LabFolder::new("links", "true");
    std::fs::write(place.file("links.toml"), LAB).expect("a file");
    let script = r#"
        S="--socket l.sock"
        value() { H bus probe $1 $2 $S | sed 's/.*= //'; }
        H watch 'lab.*' $S --json --for 4s > lines & W=$!
        until [ -s lines ]; do sleep 0.02; done
        H bus probe $S > flows
        echo "first $(value 0:0 lab.link.rate) $(value 0:0 lab.link.loss) $(value 0:0 lab.link.delay)"
        H bus modify 0:0 lab.link.rate 1000000 --lease 2500ms $S > held & M=$!
        until [ "$(value 0:0 lab.link.rate)" = 1000000 ]; do sleep 0.02; done
        H bus modify 0:0 lab.link.silent 1 --lease 600ms $S > silent & Q=$!
        until [ "$(value 0:0 lab.link.silent)" = yes ]; do sleep 0.02; done
        curl -s --max-time 0.4 http://server:1/ || true
        wait $Q
        until [ "$(value 0:2 lab.link.carrier)" = no ]; do sleep 0.02; done
        echo "during $(value 0:0 lab.link.rate)"
        wait $M
        echo "after $(value 0:0 lab.link.rate)"
        H bus modify 0:0 lab.link.sent 1 $S 2>&1 || true
        H bus modify 0:1 lab.link.carrier 0 $S 2>&1 || true
        wait $W
        H bus audit $S"#;
    let script = script.replace("H ", &format!("{} ", env!("CARGO_BIN_EXE_hawser")));
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_hawser"));
    command.args([
        "lab",
        "up",
        "links.toml",
        "--interact=l.sock",
        "--",
        "sh",
        "-ec",
        &script,
    ]);
    command.current_dir(place.file(""));
    let output = command.output().expect("hawser starts");
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{out}{err}");
    assert!(out.contains("first 80000000 10000000 2.000 ms"), "{out}");
    assert!(out.contains("during 1000000\nafter 5000000\n"), "{out}");
    assert!(out.contains("lab.link.sent is read-only"), "{out}");
    assert!(
        out.contains("both directions share the carrier: set it at `wifi forward`"),
        "{out}"
    );
    assert!(out.contains("lab.link.rate"), "{out}");
    let lines = lines(&place, "lines");
    let events = events(&lines);
    assert!(events.contains(&("lab.link.down", "0:2")) && events.contains(&("lab.link.down", "0:3")));
    assert!(events.contains(&("lab.link.changed", "0:0")), "{events:?}");
    let signals = lines.iter().filter_map(|line| line.get("signal"));
    let lost: Vec<&Value> = signals
        .filter(|signal| signal["event"] == "lab.link.lost")
        .collect();
    // The cause 3 is `silent`.
    assert!(
        lost.iter().any(|signal| signal["fields"]["cause"] == 3),
        "{lost:?}"
    );
    let labels: Vec<&str> = lines
        .iter()
        .filter_map(|line| line["flows"].as_array())
        .flatten()
        .filter_map(|flow| flow["label"].as_str())
        .collect();
    assert!(
        labels.contains(&"wifi forward") && labels.contains(&"mobile backward"),
        "{labels:?}"
    );
}
