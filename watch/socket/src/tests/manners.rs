//! Subscribers that are too many, gone or idle, or that do not read.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

use hawser_testing::{Need, has, skip};

use super::*;
use crate::hostile::{ACKED, WINDOWS};

#[test]
fn the_65th_client_is_refused_until_one_has_gone() {
    let place = TestServer::new();
    let mut all: Vec<Client> = (0..64).map(|n| place.client(&format!("c{n}"), 1)).collect();
    let mut received = String::new();
    let mut stream = UnixStream::connect(place.socket()).expect("it listens");
    stream.read_to_string(&mut received).expect("it is closed");
    assert_eq!(received, "{\"error\":\"64 subscribers are already connected\"}\n");
    all.clear();
    soon("there is room again", || {
        Client::connect(&place.socket(), "next", 1).is_ok()
    });
}

/// The connection stays, and so do its holds.
#[test]
fn a_line_that_is_too_long_is_refused_and_the_next_is_answered() {
    let place = TestServer::new();
    let mut client = place.client("long", 1);
    let set =
        json!({ "modify": { "flow": "0:0", "variable": ".conn.cc.cwnd", "value": 99, "lease": "1min" } });
    ask(&mut client, &set);
    for length in [65_537, 70_000, 1 << 20] {
        let refused = refusal(&mut client, &json!({ "delete": "x".repeat(length) }));
        assert_eq!(refused, "a line has at most 65536 bytes; this one was dropped");
        ask(&mut client, &json!({ "offers": {} }));
    }
    assert_eq!(place.provider.window(0), 99);
    // No earlier accepted request is needed for this.
    let mut stream = UnixStream::connect(place.socket()).expect("it listens");
    let mut answers = BufReader::new(stream.try_clone().expect("a file")).lines();
    stream.write_all(&vec![b'y'; 100_000]).expect("it reads");
    stream.write_all(b"\n{\"audit\":{}}\n").expect("it reads");
    for word in ["error", "audit"] {
        let answer = answers.next().expect("an answer").expect("text");
        assert!(answer.contains(&format!("\"{word}\"")), "{answer}");
    }
}

/// A client does not wait for an answer to a `steer`. Its error must therefore be marked, however long the
/// line was.
#[test]
fn a_steer_that_is_too_long_is_refused_as_a_steer() {
    let place = TestServer::new();
    let mut stream = UnixStream::connect(place.socket()).expect("it listens");
    let mut answers = BufReader::new(stream.try_clone().expect("a file")).lines();
    let long = "x".repeat(70_000);
    for (line, of) in [
        (format!("{{\"steer\":{{\"flow\":\"{long}\"}}}}"), Some("steer")),
        (format!(" {{ \"steer\" : \"{long}\" }}"), Some("steer")),
        (format!("{{\"delete\":\"{long}\"}}"), None),
        (format!("{{\"delete\":\"\\\"steer\\\"{long}\"}}"), None),
    ] {
        stream.write_all(line.as_bytes()).expect("it reads");
        stream.write_all(b"\n").expect("it reads");
        let answer = answers.next().expect("an answer").expect("text");
        let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!(
            answer["error"],
            "a line has at most 65536 bytes; this one was dropped"
        );
        assert_eq!(answer["of"].as_str(), of, "{}", &line[..30]);
    }
}

#[test]
fn leases_of_a_killed_process_end_and_are_audited() {
    let place = TestServer::new();
    let mut holder = subscriber("holds", &place.socket()).spawn().expect("it runs");
    let lines = BufReader::new(holder.stdout.take().expect("its output")).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "holds"));
    assert_eq!(place.provider.window(0), 99);
    holder.kill().expect("it is ours");
    holder.wait().expect("it ends");
    soon("the provider has its window", || {
        place.provider.window(0) == WINDOWS[0]
    });
    let want = [
        ("holder".to_owned(), "set", 1),
        ("holder".to_owned(), "holder_gone", 1),
    ];
    soon("it is in the log", || place.acts() == want);
}

#[test]
fn a_lease_ends_although_its_holder_is_connected() {
    let place = TestServer::new();
    let mut client = place.client("holder", 1);
    let set =
        json!({ "modify": { "flow": "0:0", "variable": ".conn.cc.cwnd", "value": 99, "lease": "30ms" } });
    ask(&mut client, &set);
    soon("the provider has its window", || {
        place.provider.window(0) == WINDOWS[0]
    });
    soon("it is in the log", || {
        place.acts().last().is_some_and(|act| act.1 == "expired")
    });
}

/// The client is dropped after some seconds and its losses are counted. Another client receives all signals
/// in the meantime.
#[test]
fn a_client_that_does_not_read_is_dropped_without_delay() {
    let place = TestServer::new();
    let mut deaf = UnixStream::connect(place.socket()).expect("it listens");
    deaf.write_all(b"{\"subscribe\":{\"events\":[\"tcp.acked\"]}}\n")
        .expect("it reads");
    let mut other = place.client("other", 1);
    ask(&mut other, &json!({ "subscribe": { "events": ["tcp.acked"] } }));
    soon("both are there", || place.bus.subscriptions().len() == 2);
    let begin = Instant::now();
    let mut worst = Duration::ZERO;
    let mut n = 0u64;
    while place.bus.subscriptions().len() == 2 {
        assert!(begin.elapsed() < Duration::from_secs(20), "it is dropped");
        for _ in 0..100 {
            place.provider.publish(0, ACKED, &[n]);
            n += 1;
        }
        let sent = Instant::now();
        for k in n - 100..n {
            assert_eq!(receive(&mut other)["fields"]["bytes"], k, "nothing is lost here");
        }
        worst = worst.max(sent.elapsed());
    }
    assert!(worst < Duration::from_secs(2), "{worst:?}");
}

/// Signals that find a full queue are counted in the next one.
#[test]
fn losses_are_counted_in_the_next_signal() {
    let place = TestServer::new();
    let mut client = place.client("slow", 1);
    let number = ask(&mut client, &json!({ "subscribe": { "events": ["tcp.acked"] } }))["subscribed"].clone();
    // More than the queue and the socket can hold, at once.
    const MANY: u64 = 60_000;
    (0..MANY).for_each(|n| place.provider.publish(0, ACKED, &[n]));
    let mut next = 0;
    let mut lost = 0;
    while next < MANY {
        let signal = match client.receive(Some(Duration::from_millis(300))) {
            Ok(ServerMessage::Signal(signal)) => signal,
            // The last signals were lost, which the next signal shows.
            _ => {
                place.provider.publish(0, ACKED, &[MANY]);
                continue;
            }
        };
        let skipped = signal["lost"].as_u64().unwrap_or(0);
        let number = signal["fields"]["bytes"].as_u64().expect("a number");
        if number < MANY {
            assert_eq!(number, next + skipped);
        }
        next = number + 1;
        lost += skipped;
    }
    assert!(lost > 0, "the queue has 1024 places");
    let statistics = ask(&mut client, &json!({ "statistics": number }));
    assert_eq!(statistics["statistics"]["lost"], lost);
}

/// Another user that has passed the file's mode is refused by its credentials.
#[test]
fn another_user_is_refused_by_mode_and_by_credentials() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;

    let what = "another_user_is_refused_by_mode_and_by_credentials";
    if !has(what, &[Need::Root]) {
        return;
    }
    const NOBODY: u32 = 65_534;
    let place = TestServer::new();
    let open = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
    };
    open(&place.folder, 0o755);
    let met = || -> Option<Vec<String>> {
        let mut command = subscriber("prints", &place.socket());
        let output = command.uid(NOBODY).gid(NOBODY).current_dir("/").output().ok()?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        Some(printed.lines().map(str::to_owned).collect())
    };
    let Some(first) = met() else {
        return skip(
            Need::Root,
            what,
            "another user may not run this program where it lies",
        );
    };
    assert_eq!(first, ["PermissionDenied"], "mode 0600");
    open(&place.socket(), 0o666);
    let second = met().expect("it ran before");
    assert_eq!(
        second,
        ["{\"error\":\"user 65534 is not admitted: only 0 and root are\"}"]
    );
}

/// The transfer lasts more than twice the time after which a client that takes no data is dropped.
#[test]
fn a_slow_but_steady_reader_is_not_dropped() {
    let place = TestServer::new();
    let mut slow = UnixStream::connect(place.socket()).expect("it listens");
    slow.write_all(b"{\"subscribe\":{\"events\":[\"tcp.acked\"]}}\n")
        .expect("it reads");
    soon("it is there", || place.bus.subscriptions().len() == 1);
    let begin = Instant::now();
    let mut room = [0; 2_048];
    while begin.elapsed() < Duration::from_secs(13) {
        (0..200).for_each(|n| place.provider.publish(0, ACKED, &[n]));
        std::thread::sleep(Duration::from_millis(400));
        assert!(
            slow.read(&mut room).expect("it is connected") > 0,
            "{:?}",
            begin.elapsed()
        );
        assert_eq!(
            place.bus.subscriptions().len(),
            1,
            "it was dropped after {:?}",
            begin.elapsed()
        );
    }
}

#[test]
fn a_holder_is_notified_when_a_higher_priority_wins() {
    let place = TestServer::new();
    let (mut low, mut high) = (place.client("low", 1), place.client("high", 5));
    let set = |value| json!({ "modify": { "flow": "0:0", "variable": ".conn.cc.cwnd", "value": value, "lease": "1min" } });
    ask(&mut low, &set(60));
    ask(&mut high, &set(70));
    let want = json!({ "flow": "0:0", "variable": "tcp.conn.cc.cwnd", "why": "`high` has taken the variable with priority 5" });
    assert_eq!(
        low.receive(Some(Duration::from_secs(10))).expect("a line"),
        ServerMessage::Ended(want.clone())
    );
    judge(&json!({ "ended": want }));
    assert_eq!(
        high.receive(Some(Duration::from_millis(50)))
            .expect("it is there"),
        ServerMessage::Nothing
    );
    let back = json!({ "release": { "flow": "0:0", "variable": ".conn.cc.cwnd" } });
    assert!(refusal(&mut low, &back).contains("this subscriber does not hold the variable"));
}

/// The log has the wall clock time of this test, its user, and its process, which is also the client's.
#[test]
fn the_log_has_the_time_of_day_and_the_process() {
    let place = TestServer::new();
    let since_1970 = || {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .expect("after it")
            .as_millis() as u64
    };
    let before = since_1970();
    let mut client = place.client("some", 1);
    let set =
        json!({ "modify": { "flow": "0:0", "variable": ".conn.cc.cwnd", "value": 9, "lease": "1min" } });
    ask(&mut client, &set);
    soon("it is in the log", || !place.acts().is_empty());
    let audit = ask(&mut client, &json!({ "audit": {} }));
    let entry = &audit["audit"][0];
    let began = entry["began"].as_u64().expect("wall time");
    assert!(
        (before..=since_1970()).contains(&began) && entry["ended"] == began,
        "{entry}"
    );
    assert_eq!(entry["process"], std::process::id());
    assert_eq!(entry["user"], rustix::process::geteuid().as_raw());
}
