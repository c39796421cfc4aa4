//! `hawser send`, `recv` and `cat`, in labs: two hosts, two paths.

mod place;

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};

use place::Place;
use serde_json::Value;

const HAWSER: &str = env!("CARGO_BIN_EXE_hawser");

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The last line of JSON, which says what was done.
fn done(output: &Output) -> Value {
    let text = text(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    let done: Value = serde_json::from_str(last).unwrap_or_else(|_| panic!("{text}{output:?}"));
    assert_eq!(done["event"], "done", "{text}");
    done
}

/// Waits for what the server says of itself, and takes the certificate's SHA-256 out of it.
const PIN: &str = "until grep -q pin said 2>/dev/null; do sleep 0.05; done; \
                   PIN=$(sed -n 's/.*\"pin\":\"\\([0-9a-f]*\\)\".*/\\1/p' said); ";

#[test]
fn a_file_goes_up_over_both_paths() {
    let place = Place::new("up", "mkdir got && cd got && exec H recv --json > ../said");
    let content: Vec<u8> = (0..6_000_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(place.file("original"), &content).expect("a file");
    let send = format!("{PIN} H send original server --pin $PIN --over tcp:wlan0,quic:wwan0 --json");
    let Some(output) = place.run(&send) else { return };
    assert!(output.status.success(), "{output:?}");
    let done = done(&output);
    assert_eq!(done["bytes"], 6_000_000);
    let paths = done["paths"].as_array().expect("paths");
    let carried: Vec<u64> = paths.iter().filter_map(|path| path["fresh"].as_u64()).collect();
    assert!(paths.len() == 2 && carried.iter().all(|bytes| *bytes > 100_000), "{done}");
    assert!(std::fs::read(place.file("got/original")).expect("a copy") == content);
}

#[test]
fn a_file_comes_down_from_a_sender_that_waits() {
    let place = Place::new("down", "exec H send original --json > said");
    std::fs::write(place.file("original"), vec![7; 3_000_000]).expect("a file");
    let Some(output) =
        place.run(&format!("{PIN} H recv server --pin $PIN --over tcp:wlan0,tcp:wwan0 -o copy"))
    else {
        return;
    };
    assert!(output.status.success(), "{output:?}");
    assert!(std::fs::read(place.file("copy")).expect("a copy") == vec![7; 3_000_000]);
    // What is there is not overwritten, and both sides hear why.
    let place_again = Place::new("again", "H send original --json > said; echo $? > code");
    std::fs::write(place_again.file("original"), b"new").expect("a file");
    std::fs::write(place_again.file("copy"), b"old").expect("a file");
    let again = format!("{PIN} H recv server --pin $PIN -o copy || echo refused; sleep 0.5");
    let Some(output) = place_again.run(&again) else { return };
    assert!(text(&output.stderr).contains("--force"), "{output:?}");
    assert_eq!(text(&output.stdout), "refused\n");
    assert_eq!(std::fs::read(place_again.file("copy")).expect("the old one"), b"old");
    assert_eq!(std::fs::read_to_string(place_again.file("code")).expect("a code").trim(), "5");
}

#[test]
fn a_certificate_that_is_not_the_pinned_one_is_refused_at_once() {
    let place = Place::new("pin", "exec H recv --json > said");
    std::fs::write(place.file("original"), b"secret").expect("a file");
    let wrong = "0".repeat(64);
    let Some(output) = place.run(&format!("{PIN} H send original server --pin {wrong}")) else { return };
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let said = text(&output.stderr);
    assert!(said.contains("no way led there") && said.contains("certificate"), "{said}");
}

#[test]
fn cat_joins_what_goes_in_with_what_comes_out() {
    let place = Place::new("cat", "echo from the server | exec H cat 2> said > heard");
    let pin = "until grep -q -- --pin said 2>/dev/null; do sleep 0.05; done; \
               PIN=$(sed -n 's/.*--pin \\([0-9a-f]*\\).*/\\1/p;' said | head -1); ";
    let Some(output) = place.run(&format!("{pin} echo from the phone | H cat server --pin $PIN; sleep 0.3"))
    else {
        return;
    };
    assert_eq!(text(&output.stdout), "from the server\n", "{output:?}");
    assert_eq!(std::fs::read_to_string(place.file("heard")).expect("a file"), "from the phone\n");
}

#[test]
fn wrong_flags_say_what_is_wrong() {
    let run = |arguments: &[&str]| {
        let output = Command::new(HAWSER).args(arguments).output().expect("hawser starts");
        (output.status.code(), text(&output.stderr))
    };
    let this = file!().rsplit('/').next().unwrap_or_default();
    let here = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/session.rs");
    assert!(here.ends_with(this));
    for (arguments, code, word) in [
        (vec!["send", "no-such-file", "server"], 3, "no-such-file"),
        (vec!["send", "/", "server"], 3, "hawser cat"),
        (vec!["send", here, "server", "--over", "dccp:eth0"], 2, "tcp, quic, mptcp, sctp"),
        (vec!["send", here, "server", "--over", "sctp:eth0"], 2, "--insecure"),
        (vec!["send", here, "server", "--pin", "00"], 2, "64"),
        (vec!["send", here, "server:x"], 2, "port"),
        (vec!["recv", "--over", "tcp:eth0"], 2, "SERVER"),
        (vec!["recv", "--json", "-o", "-"], 2, "standard output"),
        (vec!["send", here, "server", "--insecure", "--over", "quic:lo"], 2, "TLS"),
        (vec!["send", here, "server", "--scheduler", "best"], 2, "scheduler"),
        (vec!["recv", "--config", "no-such.toml"], 3, "no-such.toml"),
    ] {
        let (got, said) = run(&arguments);
        assert!(got == Some(code) && said.contains(word), "{arguments:?}: {got:?} {said}");
    }
}

/// A command that is ended with the test.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A caller who begins a session and says nothing more holds up no other.
#[test]
fn a_silent_caller_holds_up_no_other() {
    let place = Place::new("silent", "");
    let got = place.file("got");
    std::fs::create_dir_all(&got).expect("a directory");
    std::fs::write(place.file("original"), b"content").expect("a file");
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port");
    let address = free.to_string();
    let mut waiting = Command::new(HAWSER);
    waiting.args(["recv", "--keep", "--json", "--insecure", "--listen", &address]).current_dir(&got);
    let mut waiting = Running(waiting.stdout(Stdio::piped()).spawn().expect("hawser starts"));
    let said = waiting.0.stdout.take().expect("a pipe");
    // The pipe stays open: a command whose output nobody takes ends.
    let mut said = BufReader::new(said).lines();
    let first = said.next().expect("a line").expect("text");
    assert!(first.contains("listening"), "{first}");
    // HELLO of an insecure session (docs/session-protocol.md).
    let mut hello = vec![1, 52, 0, 0, 0, 0, 0, 52, 1, 1, 1, 8, 0, 0, 4, 0];
    hello.extend_from_slice(&[7; 16]);
    hello.extend_from_slice(&[0; 8]);
    hello.extend_from_slice(&(1u64 << 20).to_be_bytes());
    hello.extend_from_slice(&[0; 4]);
    let mut silent = TcpStream::connect(&address).expect("a connection");
    silent.write_all(&hello).expect("it is taken");
    std::thread::sleep(std::time::Duration::from_millis(300));
    let mut sending = Command::new("timeout");
    sending.args(["10", HAWSER, "send", "original", &address, "--insecure"]).current_dir(place.file(""));
    let output = sending.output().expect("timeout starts");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(std::fs::read(got.join("original")).expect("a copy"), b"content");
    drop((silent, said));
}
