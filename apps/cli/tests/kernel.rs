//! `hawser kernel` from outside: Linux's own TCP sends a file to a Hawser stack, and is watched, steered and
//! recorded. This needs real root, because eBPF cannot be loaded in a user namespace, so the transfer has
//! only a network namespace. Without eBPF the tests are skipped.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use hawser_testing::{Need, has, skip};
use serde_json::Value;

use crate::everybody;

const HAWSER: &str = env!("CARGO_BIN_EXE_hawser");
const SCHEMA: &str = include_str!("../../../docs/schemas/qlog.json");

/// The size of the file, in bytes.
const BYTES: u64 = 24_000_000;
/// The modified window, in bytes: less than the path holds, and not a multiple of the segment size.
const WINDOW: u64 = 20_000;

/// Linux sends through a queue of 200 kB at 40 Mbit/s and 20 ms. Its window is held until the holder has
/// gone, and once more until the lease is over. It must grow again both times.
///
/// The first client that finds the socket also finds the sources.
///
/// Events come from the whole machine, but the flows are those of this namespace, so transfers of other tests
/// are out of scope. On a busy machine signals may be late, so the test does not depend on durations;
/// `timeout` ends it if a signal never arrives.
const SCRIPT: &str = r#"
set -eu
S="--socket k.sock"
echo reno > /proc/sys/net/ipv4/tcp_congestion_control
python3 -m http.server 8080 --bind 0.0.0.0 > server.log 2>&1 & ALL=$!
trap 'kill $ALL 2> /dev/null || true' EXIT
"$HAWSER" kernel --name "$NAME" --interact=k.sock --json > kernel & K=$!; ALL="$ALL $K"
until [ -S k.sock ]; do sleep 0.01; done
"$HAWSER" bus events 'kernel.tcp.*' --json $S > offers
"$HAWSER" watch 'kernel.tcp.*' $S --scope local.port=8080 --json --every 50ms \
    --record recording --qlog out.sqlog > lines & W=$!
ALL="$ALL $W"
until [ -s lines ]; do sleep 0.05; done
until ss -Hltn 'sport = :8080' | grep -q .; do sleep 0.05; done
"$HAWSER" get http://10.9.0.1:8080/file -o got --json --dev tun:h0 --kernel-addr 10.9.0.1/24 \
    --addr 10.9.0.2/24 --faults rate=40Mbit/s,delay=10ms,queue=200kB > result & G=$!; ALL="$ALL $G"
flows() { "$HAWSER" bus probe $S | awk '$3 == "10.9.0.1:8080" && $5 ~ /^10\.9\.0\.2:/ { print $1 }'; }
until F=$(flows) && [ -n "$F" ]; do sleep 0.05; done
cwnd() { "$HAWSER" bus probe $F kernel.tcp.conn.cc.cwnd $S | sed 's/.*= //'; }
grown() { until [ "$(cwnd)" -gt 40000 ]; do sleep 0.05; done; }
sleep 0.5; grown
"$HAWSER" bus probe --json $S > flows
"$HAWSER" bus probe "$F" --json $S > probed
ss -Htne state established 'sport = :8080' > socket

"$HAWSER" bus modify "$F" kernel.tcp.conn.cc.cwnd 20000 --lease 60s $S > modified & M=$!; ALL="$ALL $M"
until ss -Hti 'sport = :8080' | grep -q "$NAME" && [ "$(cwnd)" = 20000 ]; do sleep 0.05; done
sleep 0.5
ss -Hti state established 'sport = :8080' > held
"$HAWSER" bus probe "$F" --json $S > probed-held
kill $M; wait $M || true
grown
"$HAWSER" bus modify "$F" kernel.tcp.conn.cc.cwnd 20000 --lease 400ms $S > leased
grown
ss -Hti state established 'sport = :8080' > free
"$HAWSER" bus modify "$F" kernel.tcp.conn.srtt 1 $S 2> refused || echo "code $?"
"$HAWSER" bus audit $S > audit

wait $G; cmp file got; echo same
# The flow's end is reported once the server has closed it, too.
for i in 1 2 3 4 5 6 7 8 9 10; do grep -q kernel.tcp.closed lines && break; sleep 0.2; done
kill -INT $K; wait $K; wait $W; ALL=${ALL%% *}
"$HAWSER" watch --replay recording --qlog out.qlog
"#;

/// A folder that is removed with the test.
struct Folder(hawser_documents::temporary::Folder);

impl Folder {
    fn new() -> Folder {
        let path = hawser_documents::temporary::Folder::new().expect("a folder");
        // No two parts of the file are the same.
        let file: Vec<u8> = (0..BYTES / 8).flat_map(u64::to_le_bytes).collect();
        std::fs::write(path.join("file"), file).expect("a file");
        Folder(path)
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Reads a file with a JSON object per line.
    fn lines(&self, name: &str) -> Vec<Value> {
        self.text(name)
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    }
}

/// Returns a unique name for a congestion control, because such names are global to the machine.
fn name(letter: char) -> String {
    format!("hw_{letter}{}", std::process::id())
}

fn kernel(arguments: &[&str]) -> Output {
    Command::new(HAWSER)
        .arg("kernel")
        .args(arguments)
        .output()
        .expect("hawser starts")
}

/// Returns the capabilities of this machine's kernel by name, or `None` if eBPF cannot be loaded.
fn capabilities(test: &str, letter: char) -> Option<BTreeMap<String, Value>> {
    let output = kernel(&["--capabilities", "--json", "--name", &name(letter)]);
    let lines = table(&output);
    if output.status.code() == Some(0) && lines["load"]["given"] == true {
        return Some(lines);
    }
    let message = String::from_utf8_lossy(&output.stderr);
    let why = lines
        .get("load")
        .map_or(message.trim().into(), |load| load["why"].to_string());
    assert!(
        matches!(output.status.code(), Some(0 | 4)) && !why.is_empty(),
        "{output:?}"
    );
    skip(Need::Ebpf, test, why);
    None
}

/// Parses the output of `--capabilities --json` by name.
fn table(output: &Output) -> BTreeMap<String, Value> {
    let one = |line: &str| -> (String, Value) {
        let line: Value = serde_json::from_str(line).expect("JSON");
        (line["name"].as_str().expect("a name").to_owned(), line)
    };
    String::from_utf8_lossy(&output.stdout).lines().map(one).collect()
}

/// Runs the script in a network namespace of its own. Returns `None` if that is impossible, or a requirement
/// is missing.
fn run(test: &str, folder: &Path) -> Option<Output> {
    let given = capabilities(test, 'a')?;
    for needed in ["kernel.tcp.conn.cc.cwnd", "reach"] {
        if given[needed]["given"] != true {
            skip(Need::Ebpf, test, &given[needed]);
            return None;
        }
    }
    if !has(test, &[Need::Tun, Need::Python, Need::Ss]) {
        return None;
    }
    let output = Command::new("unshare")
        .args(["-n", "timeout", "-k", "5", "90", "sh", "-c", SCRIPT])
        .current_dir(folder)
        .env("HAWSER", HAWSER)
        .env("NAME", name('a'))
        .output();
    Some(output.expect("a shell"))
}

#[test]
fn a_transfer_of_linux_is_watched_and_steered() {
    let folder = Folder::new();
    let Some(output) = run("a_transfer_of_linux_is_watched_and_steered", &folder.0) else {
        return;
    };
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    assert_eq!(
        out, "code 1\nsame\n",
        "what can only be read is not set, and the file is the same: {err}"
    );
    assert_eq!(folder.lines("kernel")[0]["serving"], "kernel.tcp");
    offered(&folder.lines("offers"));
    let flow = agreed(&folder);
    steered(&folder);
    signals_cover_the_flow(&folder, &flow);
    exported(&folder);
}

fn offered(offers: &[Value]) {
    assert!(
        offers.len() == 1 && offers[0]["provider"] == "kernel.tcp",
        "{offers:?}"
    );
    let of = |list: &str, name: &str| -> Value {
        let list = offers[0][list].as_array().expect("a list");
        list.iter()
            .find(|offer| offer["name"] == name)
            .unwrap_or_else(|| panic!("{name}"))
            .clone()
    };
    for event in [
        "established",
        "acked",
        "sent",
        "retransmitted",
        "round_trip",
        "closed",
    ] {
        of("events", &format!("kernel.tcp.{event}"));
    }
    assert!(
        of("variables", "kernel.tcp.conn.cc.cwnd")["max"]
            .as_u64()
            .is_some(),
        "it may be set"
    );
    assert!(
        of("variables", "kernel.tcp.conn.srtt")["max"].is_null(),
        "it may be read only"
    );
}

/// Checks that the flow is the socket shown by `ss`, and that its values are plausible for this path. Returns
/// its name.
fn agreed(folder: &Folder) -> String {
    let flows = folder.lines("flows");
    let flow = flows
        .iter()
        .find(|flow| flow["local"] == "10.9.0.1:8080")
        .expect("the server's socket");
    let socket = folder.text("socket");
    let words: Vec<&str> = socket.split_whitespace().collect();
    assert_eq!(
        (&flow["local"], &flow["remote"]),
        (&words[2].into(), &words[3].into()),
        "{socket}"
    );
    let cookie = words
        .iter()
        .find_map(|word| word.strip_prefix("sk:"))
        .expect("a cookie");
    assert_eq!(
        flow["flow"],
        format!("0:{cookie}"),
        "a flow is its socket's cookie"
    );
    assert_eq!(flow["label"], "reno", "{flow}");

    let probed = &folder.lines("probed")[0];
    let value = |name: &str| -> u64 {
        let value = probed["values"][format!("kernel.tcp.conn.{name}")].as_u64();
        value.unwrap_or_else(|| panic!("{name}: {probed}"))
    };
    assert_eq!(value("state"), 3, "established: {probed}");
    assert!((500..1500).contains(&value("smss")), "{probed}");
    // The delay is 10 ms in each direction.
    assert!(
        value("rack.min_rtt") >= 20_000_000 && value("srtt") >= value("rack.min_rtt"),
        "{probed}"
    );
    assert!(value("rto") >= 200_000_000, "Linux's least: {probed}");
    assert!(
        value("cc.cwnd") > 2 * WINDOW && value("cc.cwnd").is_multiple_of(value("smss")),
        "{probed}"
    );
    assert!(
        value("snd_una") <= value("snd_nxt") && value("snd_nxt") <= BYTES + 1000,
        "{probed}"
    );
    assert!((10_000..=BYTES + 1000).contains(&value("delivered")), "{probed}");
    assert!((20..2000).contains(&value("received")), "a request: {probed}");
    flow["flow"].as_str().expect("a name").to_owned()
}

/// Checks that the window was held in the kernel itself, and not only in the reports, and that the flow then
/// regained control.
fn steered(folder: &Folder) {
    let segments = |file: &str| -> u64 {
        let text = folder.text(file);
        let window = text
            .split_whitespace()
            .find_map(|word| word.strip_prefix("cwnd:"));
        window
            .and_then(|window| window.parse().ok())
            .unwrap_or_else(|| panic!("{file}: {text}"))
    };
    let held = &folder.lines("probed-held")[0]["values"];
    let smss = held["kernel.tcp.conn.smss"].as_u64().expect("a segment's size");
    assert_eq!(held["kernel.tcp.conn.cc.cwnd"], WINDOW);
    assert_eq!(segments("held"), WINDOW / smss, "{}", folder.text("held"));
    assert!(segments("free") > WINDOW / smss, "{}", folder.text("free"));
    for (file, what) in [
        ("modified", "-> 20000 for 60s"),
        ("leased", "the lease has ended"),
        ("refused", "kernel.tcp.conn.srtt is read-only"),
        ("audit", "-> 20000"),
        ("audit", "its holder has gone"),
        ("audit", "the lease ended"),
    ] {
        assert!(folder.text(file).contains(what), "{file}: {}", folder.text(file));
    }
}

/// Checks that the signals of one flow, from its handshake to its end, name its process and the holder of its
/// window.
fn signals_cover_the_flow(folder: &Folder, flow: &str) {
    let lines = folder.lines("lines");
    assert_eq!(lines[0]["header"]["schema"], "hawser-watch/1");
    assert_eq!(
        folder.text("lines"),
        folder.text("recording"),
        "one form for both"
    );
    let signals: Vec<&Value> = lines
        .iter()
        .filter_map(|line| line.get("signal"))
        .filter(|signal| signal["flow"] == flow)
        .collect();
    let named = |event: &str| {
        signals
            .iter()
            .filter(|s| s["event"] == event)
            .copied()
            .collect::<Vec<_>>()
    };
    // A tracepoint's program does not always run (docs/interact-kernel.md), so one of the two may be missing.
    let (established, closed) = (named("kernel.tcp.established"), named("kernel.tcp.closed"));
    assert!(
        (1..=2).contains(&(established.len() + closed.len())),
        "{established:?} {closed:?}"
    );
    let rtts: Vec<u64> = established
        .iter()
        .filter_map(|s| s["fields"]["rtt"].as_u64())
        .collect();
    assert!(
        rtts.iter().all(|ns| *ns >= 20_000_000),
        "a handshake of {rtts:?} ns"
    );
    assert!(named("kernel.tcp.sent").len() > 100);
    // Without a cgroup, only Hawser's congestion control reports round trips.
    assert!(!named("kernel.tcp.round_trip").is_empty(), "it was given ours");
    // Acknowledgements missed on a busy machine are included in the next signal, but those before the
    // subscription are lost.
    let acked = named("kernel.tcp.acked");
    let acked: u64 = acked.iter().filter_map(|s| s["fields"]["bytes"].as_u64()).sum();
    assert!(
        (BYTES / 2..=BYTES + 1000).contains(&acked),
        "{acked} bytes were acknowledged"
    );

    let reported = |key: &str| -> Vec<&Value> {
        lines
            .iter()
            .filter_map(|line| line[key].as_array())
            .flatten()
            .filter(|o| o["flow"] == flow)
            .collect()
    };
    let labels: Vec<&str> = reported("flows")
        .iter()
        .filter_map(|flow| flow["label"].as_str())
        .collect();
    assert!(
        labels.contains(&"reno") && labels.contains(&name('a').as_str()),
        "{labels:?}"
    );
    let acts: Vec<&str> = reported("audit")
        .iter()
        .filter_map(|act| act["act"].as_str())
        .collect();
    assert!(
        acts.contains(&"set") && acts.contains(&"holder_gone") && acts.contains(&"expired"),
        "{acts:?}"
    );
    let samples = lines
        .iter()
        .filter_map(|line| line.get("sample"))
        .filter(|s| s["flow"] == flow);
    let windows: Vec<u64> = samples
        .filter_map(|sample| sample["values"]["kernel.tcp.conn.cc.cwnd"].as_u64())
        .collect();
    let held = windows
        .iter()
        .position(|window| *window == WINDOW)
        .expect("the window was held");
    let above = |windows: &[u64]| windows.iter().any(|window| *window > 2 * WINDOW);
    assert!(above(&windows[..held]) && above(&windows[held..]), "{windows:?}");
}

/// Checks that the recording and the live output become the same qlog.
fn exported(folder: &Folder) {
    let schema: Value = serde_json::from_str(SCHEMA).expect("JSON");
    let document: Value = serde_json::from_str(&folder.text("out.qlog")).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let wrong: Vec<_> = validator
        .iter_errors(&document)
        .take(3)
        .map(|error| error.to_string())
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    let traces = document["traces"].as_array().expect("traces");
    let events: Vec<_> = traces
        .iter()
        .filter_map(|trace| trace["events"].as_array())
        .flatten()
        .collect();
    for name in [
        "connectivity:connection_started",
        "recovery:metrics_updated",
        "transport:packet_sent",
        "hawser:modification",
    ] {
        assert!(events.iter().any(|event| event["name"] == name), "{name}");
    }
    let started = events
        .iter()
        .find(|event| event["name"] == "connectivity:connection_started");
    let ends = &started.expect("it is there")["data"];
    assert_eq!(
        (&ends["protocol"], &ends["src_port"]),
        (&"kernel.tcp".into(), &8080.into()),
        "{ends}"
    );
    let records = folder.text("out.sqlog").matches('\u{1e}').count();
    assert_eq!(records, events.len() + 1, "both forms have the same events");
}

/// The list has one line for each event, for each variable that can be set, and for the reach to live
/// sockets.
#[test]
fn capabilities_of_the_kernel_are_listed() {
    let Some(given) = capabilities("capabilities_of_the_kernel_are_listed", 'b') else {
        return;
    };
    let count = |prefix: &str| given.keys().filter(|name| name.starts_with(prefix)).count();
    assert_eq!(
        (count("kernel.tcp.conn.cc."), count("reach")),
        (3, 1),
        "{given:?}"
    );
    assert!(count("kernel.tcp.") > 3 + 10, "events: {given:?}");
    for (name, line) in &given {
        let is_given = line["given"].as_bool().unwrap_or_else(|| panic!("{line}"));
        assert_eq!(
            line["why"].is_null(),
            is_given,
            "{name} has the reason why it is not given: {line}"
        );
    }
    assert_eq!(
        given["kernel.tcp.acked"]["given"], true,
        "it takes nothing that loading does not: {given:?}"
    );

    // Without a congestion control no variable can be set, but events remain.
    let watched = table(&kernel(&["--capabilities", "--json", "--watch-only"]));
    assert_eq!(
        watched.keys().collect::<Vec<_>>(),
        given.keys().collect::<Vec<_>>()
    );
    for (name, is_given) in [
        ("load", true),
        ("kernel.tcp.acked", true),
        ("kernel.tcp.conn.cc.cwnd", false),
    ] {
        assert_eq!(watched[name]["given"], is_given, "{watched:?}");
    }

    let output = kernel(&["--capabilities", "--name", &name('b')]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(text.lines().count(), given.len(), "{text}");
    for line in text.lines() {
        let (name, answer) = line.split_once(": ").unwrap_or_else(|| panic!("{line}"));
        let answers = if given[name]["given"] == true {
            "yes"
        } else {
            "no: "
        };
        assert!(answer.starts_with(answers), "{line}");
    }
}

/// Runs `hawser kernel` as an unprivileged user, from a copy of the command that every user can read.
#[test]
fn without_privilege_missing_capabilities_are_named() {
    let test = "without_privilege_missing_capabilities_are_named";
    // If root lacks capabilities, too, those may be reported first.
    let Some(mut given) = capabilities(test, 'c') else {
        return;
    };
    if !has(test, &[Need::Root]) {
        return;
    }
    let (folder, copy) = everybody::copy();
    // A folder that belongs to the other user, whose process listens there.
    let theirs = folder.join("theirs");
    std::fs::create_dir(&theirs).expect("a folder");
    std::os::unix::fs::chown(&theirs, Some(65_534), Some(65_534)).expect("we are root");
    let socket = theirs.join("bus.sock");
    let interact = format!("--interact={}", socket.display());
    let run = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&copy)
            .arg("kernel");
        command.args(arguments).output().expect("setpriv starts")
    };
    let [serving, in_json, asking] = [
        run(&[&interact, "--for", "10s"]),
        run(&[&interact, "--for", "10s", "--json"]),
        run(&["--capabilities", "--json"]),
    ];
    let is_reported = |message: &str| {
        assert!(
            message.contains("the process lacks CAP_"),
            "what is missing: {message}"
        );
        assert!(
            message.contains("load as root, or with the capabilities bpf, perfmon and net_admin"),
            "what to do: {message}"
        );
    };
    for output in [serving, in_json] {
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        assert!(output.stdout.is_empty(), "nothing is served: {output:?}");
        is_reported(&String::from_utf8_lossy(&output.stderr));
    }
    // A user without permission also gets the list of capabilities.
    assert_eq!(asking.status.code(), Some(0), "{asking:?}");
    let mut reported = table(&asking);
    let load = reported.remove("load").expect("a line on loading");
    assert_eq!(load["given"], false);
    is_reported(load["why"].as_str().expect("why"));
    given.remove("load");
    assert_eq!(reported, given, "the kernel gives the same to whoever may load");
}

/// A connection in another network namespace. It is visible from this one with `--all-namespaces`, and not
/// otherwise.
const ELSEWHERE: &str = r#"
set -eu
S="--socket k.sock"
unshare -n python3 -c '
import os, socket, time
os.system("ip link set lo up")
listener = socket.create_server(("127.0.0.1", 8081))
client = socket.create_connection(("127.0.0.1", 8081))
server, _ = listener.accept()
print(os.getpid(), os.readlink("/proc/self/ns/net").strip("net:[]"), flush=True)
while True:
    client.sendall(bytes(1000))
    server.recv(65536)
    time.sleep(0.02)
' > other & ALL=$!
trap 'kill $ALL 2> /dev/null || true' EXIT
until [ -s other ]; do sleep 0.05; done
"$HAWSER" kernel $WHERE --name "$NAME" --interact=k.sock --json > kernel & ALL="$ALL $!"
until [ -s kernel ]; do sleep 0.05; done
"$HAWSER" bus probe --json --scope "command=python3 remote.port=8081" $S > flows
"$HAWSER" bus probe --json --scope "command=perl remote.port=8081" $S > none
[ -s flows ] || exit 0
F=$(sed 's/.*"flow":"\([^"]*\)".*/\1/' flows)
"$HAWSER" bus probe "$F" kernel.tcp.conn.state --json $S > probed
"$HAWSER" bus probe $S > text
"$HAWSER" bus modify "$F" kernel.tcp.conn.cc.cwnd 20000 --lease 1s $S 2> refused || echo "code $?" >> refused
"$HAWSER" watch kernel.tcp.acked $S --scope "pid=$(cut -d' ' -f1 other) remote.port=8081" --json --for 2s > lines
"$HAWSER" watch kernel.tcp.acked $S --scope "pid=1 remote.port=8081" --json --for 1s > other_flows
"#;

#[test]
fn flows_of_other_namespaces_are_listed_probed_and_watched() {
    const TEST: &str = "flows_of_other_namespaces_are_listed_probed_and_watched";
    if capabilities(TEST, 'n').is_none() {
        return;
    }
    let run = |folder: &Folder, place: &str| {
        let mut command = Command::new("unshare");
        command
            .args(["-n", "timeout", "-k", "5", "60", "sh", "-c", ELSEWHERE])
            .current_dir(&*folder.0);
        command
            .env("HAWSER", HAWSER)
            .env("NAME", name('n'))
            .env("WHERE", place)
            .output()
            .expect("a shell")
    };
    if !has(TEST, &[Need::Python, Need::Ip]) {
        return;
    }
    let folder = Folder::new();
    let output = run(&folder, "--all-namespaces");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let (other, flows) = (folder.text("other"), folder.lines("flows"));
    let (pid, namespace) = other.trim().split_once(' ').expect("two numbers");
    assert_eq!(
        (flows.len(), folder.text("none")),
        (1, String::new()),
        "{flows:?}"
    );
    let flow = &flows[0];
    assert_eq!(
        (flow["pid"].to_string(), flow["namespace"].to_string()),
        (pid.to_owned(), namespace.to_owned())
    );
    assert_eq!(
        (&flow["command"], &flow["remote"]),
        (&"python3".into(), &"127.0.0.1:8081".into())
    );
    assert_eq!(folder.lines("probed")[0]["values"]["kernel.tcp.conn.state"], 3);
    let shown = format!(" namespace={namespace} pid={pid} command=python3");
    assert!(
        folder.text("text").contains(&shown),
        "no `{shown}` in {}",
        folder.text("text")
    );
    // Only a process in the flow's own namespace can give it Hawser's congestion control. The refusal says
    // so.
    let refused = folder.text("refused");
    assert!(
        refused.contains(&format!("in another network namespace ({namespace}, this is ")),
        "{refused}"
    );
    assert!(refused.contains("a `hawser kernel` that runs there"), "{refused}");
    assert!(refused.ends_with("code 1\n"), "{refused}");
    let signals = |file: &str| -> Vec<Value> {
        folder
            .lines(file)
            .into_iter()
            .filter(|line| line["signal"].is_object())
            .collect()
    };
    let received = signals("lines");
    assert!(
        !received.is_empty() && received.iter().all(|line| line["signal"]["flow"] == flow["flow"]),
        "{received:?}"
    );
    assert_eq!(signals("other_flows"), [""; 0]);
    let own = Folder::new();
    assert!(run(&own, "").status.success());
    assert_eq!(own.text("flows"), "", "its own namespace has none");
}
