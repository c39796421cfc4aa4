//! Hostile files and peers on this machine.

use std::io::{BufRead, Read, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use hawser_documents::temporary::Folder;
use hawser_testing::{Need, has};

use crate::everybody;

fn hawser(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hawser"))
        .args(arguments)
        .output()
        .expect("hawser starts")
}

/// Checks that the output moves no cursor, sets no title and reverses no text.
fn harmless(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr].concat();
    let text = String::from_utf8(text).expect("text");
    let acts = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
    assert!(!text.contains(acts), "{text:?}");
    text
}

#[test]
fn diagnostics_reach_the_terminal_without_control_characters() {
    let folder = Folder::new().expect("a folder");
    let file = folder.join("a.mtp");
    std::fs::write(
        &file,
        "enum \x1b[2J\u{202e}x { A, } // \u{9b}31m\x07\nstruct s { nosuch_t \u{2067}y; }\n",
    )
    .expect("a file");
    let output = hawser(&["check", file.to_str().expect("a plain path")]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    harmless(&output);
}

/// A running process answers with a hostile error.
#[test]
fn an_error_of_a_peer_reaches_the_terminal_escaped() {
    let folder = Folder::new().expect("a folder");
    let socket = folder.join("s");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let answers = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut request = [0; 1];
        stream.read_exact(&mut request).expect("a request");
        stream
            .write_all(b"{\"error\":\"no \\u001b]0;title\\u0007 \\u202eevil\"}\n")
            .expect("it reads");
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let output = hawser(&[
        "policy",
        "knowledge",
        "list",
        "--socket",
        socket.to_str().expect("a plain path"),
    ]);
    answers.join().expect("it ends");
    assert!(
        harmless(&output).contains("no \\u001b]0;title\\u0007 \\u202eevil"),
        "{output:?}"
    );
}

/// Answers each request of one client with one line.
fn answering(socket: &std::path::Path, answers: &'static [&'static str]) -> std::thread::JoinHandle<()> {
    let listener = UnixListener::bind(socket).expect("a socket");
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a client");
        let mut lines = std::io::BufReader::new(stream.try_clone().expect("it is open")).lines();
        for answer in answers {
            if !matches!(lines.next(), Some(Ok(_))) {
                return;
            }
            writeln!(&stream, "{answer}").expect("it reads");
        }
        lines.for_each(drop);
    })
}

/// A running process reports a flow, an entry of its log, or an error with line feeds in its fields.
#[test]
fn line_feeds_of_peers_are_escaped() {
    const HELLO: &str = r#"{"hello":{"version":1,"process":1,"rights":{}}}"#;
    const FLOWS: &str = r#"{"flows":[{"flow":"0:1","provider":"tcp","kind":"conn","local":null,"remote":null,
        "label":"x\n0:2 tcp.conn\u2028y\u0085z","command":"a\n0:3 b cgroup=/"}]}"#;
    const LOG: &str = r#"{"audit":[{"first":0,"last":0,"count":1,"who":"a\nb","flow":"0:1","variable":"v",
        "before":0,"act":"refused","why":"c\nd"}],"forgotten":0}"#;
    const ERROR: &str = r#"{"error":"no\nhawser: all is well"}"#;
    // An answer is a single line: the line feeds above are only for readability.
    let flows: &str = Box::leak(FLOWS.replace('\n', "").into_boxed_str());
    let log: &str = Box::leak(LOG.replace('\n', "").into_boxed_str());
    let folder = Folder::new().expect("a folder");
    for (command, answers, expected) in [
        (
            "bus probe",
            [HELLO, flows],
            "0:1 tcp.conn x\\u000a0:2 tcp.conn\\u2028y\\u0085z command=\"a\\n0:3 b cgroup=/\"",
        ),
        (
            "bus audit",
            [HELLO, log],
            "0.000 s a\\u000ab: v of 0:1 refused: c\\u000ad",
        ),
        (
            "bus audit",
            [HELLO, ERROR],
            "hawser: no\\u000ahawser: all is well",
        ),
        (
            "bus probe",
            [ERROR, ERROR],
            "hawser: no\\u000ahawser: all is well",
        ),
    ] {
        let socket = folder.join("s");
        let _ = std::fs::remove_file(&socket);
        let peer = answering(&socket, Box::leak(Box::new(answers)));
        let at = ["--socket", socket.to_str().expect("a plain path")];
        let output = hawser(&command.split(' ').chain(at).collect::<Vec<_>>());
        peer.join().expect("it ends");
        assert_eq!(harmless(&output).trim_end(), expected);
    }
}

/// A socket sends endless data without a line feed.
#[test]
fn a_line_without_end_ends_the_client_within_its_bound() {
    let folder = Folder::new().expect("a folder");
    for (command, answers_ended) in [
        (["policy", "knowledge", "list"], 5),
        (["bus", "audit", "--json"], 5),
    ] {
        let socket = folder.join(command[0]);
        let listener = UnixListener::bind(&socket).expect("a socket");
        let sends = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let (block, mut sent) = (vec![b'a'; 1 << 20], 0);
            while stream.write_all(&block).is_ok() {
                sent += block.len();
            }
            sent
        });
        let path = socket.to_str().expect("a plain path");
        let output = hawser(&[&command[..], &["--socket", path]].concat());
        assert_eq!(output.status.code(), Some(answers_ended), "{output:?}");
        assert!(
            harmless(&output).contains("more than 16777216 bytes"),
            "{output:?}"
        );
        let sent = sends.join().expect("it ends");
        assert!(sent <= 20 << 20, "{sent} bytes were taken");
    }
}

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Another user plants a socket at the path where root expects its own.
#[test]
fn a_socket_planted_by_another_user_is_not_used() {
    const OTHER: u32 = 65_533;
    if !has("a_socket_planted_by_another_user_is_not_used", &[Need::Root]) {
        return;
    }
    let (folder, copy) = everybody::copy();
    let theirs = folder.join("theirs");
    std::fs::create_dir(&theirs).expect("a folder");
    chown(&theirs, Some(OTHER), Some(OTHER)).expect("we are root");
    let socket = theirs.join("s");
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65533", "--regid=65533", "--clear-groups"])
        .arg(copy);
    command
        .args(["recv", "-o", "-", "--listen", "127.0.0.1:0"])
        .arg(format!("--interact={}", socket.display()));
    command
        .current_dir("/")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .env_remove("XDG_RUNTIME_DIR");
    let mut peer = Process(command.spawn().expect("setpriv is there"));
    let until = Instant::now() + Duration::from_secs(30);
    while !socket.exists() {
        let ended = peer.0.try_wait().expect("it is ours");
        assert!(ended.is_none() && Instant::now() < until, "it listens: {ended:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    let path = socket.to_str().expect("a plain path");
    for command in [
        &["bus", "probe"][..],
        &["bus", "events", "--json"],
        &["policy", "knowledge", "list"],
    ] {
        let output = hawser(&[command, &["--socket", path]].concat());
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        assert!(
            harmless(&output).contains("user 65533, who is neither"),
            "{output:?}"
        );
    }
}

/// A document that other users may write names a file to be written to.
#[test]
fn a_document_others_can_write_may_not_name_a_state_file() {
    let folder = Folder::new().expect("a folder");
    let (document, state) = (folder.join("session.toml"), folder.join("state.json"));
    let text = format!(
        "remote_host = \"127.0.0.1\"\nconnection_priority = [[\"tcp\", \"any\", \"any\"]]\nstate = \"{}\"\n",
        state.display()
    );
    std::fs::write(&document, text).expect("a file");
    std::fs::set_permissions(&document, PermissionsExt::from_mode(0o646)).expect("it is ours");
    let output = hawser(&["cat", "--config", document.to_str().expect("a plain path")]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(
        harmless(&output).contains("state: others may write this document"),
        "{output:?}"
    );
    assert!(!state.exists() && !folder.join("state.json.lock").exists());
}
