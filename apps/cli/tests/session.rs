//! `hawser send`, `recv` and `cat` in labs with two hosts and two paths.

use std::io::{BufRead, BufReader, Lines, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use hawser_documents::temporary::Folder;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::lab_folder::LabFolder;

const HAWSER: &str = env!("CARGO_BIN_EXE_hawser");

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits up to 30 s for a state of other processes.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < limit, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Parses the last line of JSON, which reports the completed transfer.
fn done(output: &Output) -> Value {
    let text = text(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    let done: Value = serde_json::from_str(last).unwrap_or_else(|_| panic!("{text}{output:?}"));
    assert_eq!(done["event"], "done", "{text}");
    done
}

/// A shell fragment that waits for the server's output and extracts the certificate's SHA-256 and the code.
const PIN: &str = "until grep -q pin printed 2>/dev/null; do sleep 0.05; done; \
                   PIN=$(sed -n 's/.*\"pin\":\"\\([0-9a-f]*\\)\".*/\\1/p' printed); \
                   CODE=$(sed -n 's/.*\"code\":\"\\([-0-9a-z]*\\)\".*/\\1/p' printed); ";

#[test]
fn a_file_goes_up_over_both_paths() {
    let place = LabFolder::new("up", "mkdir got && cd got && exec H recv --json > ../printed");
    let content: Vec<u8> = (0..6_000_000u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    std::fs::write(place.file("original"), &content).expect("a file");
    let send =
        format!("{PIN} H send original server --pin $PIN --code $CODE --over tcp:wlan0,quic:wwan0 --json");
    let Some(output) = place.run(&send) else { return };
    assert!(output.status.success(), "{output:?}");
    let done = done(&output);
    assert_eq!(done["bytes"], 6_000_000);
    let paths = done["paths"].as_array().expect("paths");
    let carried: Vec<u64> = paths.iter().filter_map(|path| path["fresh"].as_u64()).collect();
    assert!(
        paths.len() == 2 && carried.iter().all(|bytes| *bytes > 100_000),
        "{done}"
    );
    assert!(std::fs::read(place.file("got/original")).expect("a copy") == content);
}

/// If UDP is dropped without an ICMP error, TCP replaces it after a stagger of 250 ms (RFC 8305, 5). It does
/// not wait for the 10 s of an attempt.
#[test]
fn a_transfer_where_udp_is_dropped_goes_over_tcp_at_once() {
    let content = vec![7; 1_000_000];
    let place = LabFolder::with_rules(
        "no-udp",
        "block = [\"udp\"]",
        "exec H send original --anyone --json > printed",
    );
    std::fs::write(place.file("original"), &content).expect("a file");
    let script = format!("{PIN} date +%s%N; H recv server --pin $PIN --over quic,tcp -o down; date +%s%N");
    let Some(down) = place.run(&script) else { return };
    let place_up = LabFolder::with_rules(
        "no-udp-up",
        "block = [\"udp\"]",
        "mkdir got && cd got && exec H recv --anyone --json > ../printed",
    );
    std::fs::write(place_up.file("original"), &content).expect("a file");
    let script = format!(
        "{PIN} date +%s%N; H send original server --pin $PIN \
         --over quic:wlan0,tcp:wlan0,quic:wwan0,tcp:wwan0; date +%s%N"
    );
    let Some(up) = place_up.run(&script) else { return };
    for (side, output) in [("recv", &down), ("send", &up)] {
        let times: Vec<u64> = text(&output.stdout)
            .lines()
            .filter_map(|line| line.parse().ok())
            .collect();
        let [began, ended] = times[..] else {
            panic!("{output:?}")
        };
        let seconds = (ended - began) as f64 / 1e9;
        println!("{side}: {seconds:.2} s");
        // 1 MB at 80 Mbit/s takes 0.1 s, and a stagger 0.25 s. The rest allows for a loaded machine, but is
        // below the 3 s that the end of a session waits at most.
        assert!(
            output.status.success() && seconds < 3.0,
            "{side}: {seconds} s, {output:?}"
        );
    }
    assert!(std::fs::read(place.file("down")).expect("a copy") == content);
    assert!(std::fs::read(place_up.file("got/original")).expect("a copy") == content);
}

#[test]
fn a_file_comes_down_from_a_sender_that_waits() {
    let place = LabFolder::new("down", "exec H send original --json > printed");
    std::fs::write(place.file("original"), vec![7; 3_000_000]).expect("a file");
    let Some(output) = place.run(&format!(
        "{PIN} H recv server --pin $PIN --code $CODE --over tcp:wlan0,tcp:wwan0 -o copy"
    )) else {
        return;
    };
    assert!(output.status.success(), "{output:?}");
    assert!(std::fs::read(place.file("copy")).expect("a copy") == vec![7; 3_000_000]);
    // An existing file is not overwritten: the receiver refuses before it connects.
    let place_again = LabFolder::new("again", "H send original --json > printed");
    std::fs::write(place_again.file("original"), b"new").expect("a file");
    std::fs::write(place_again.file("copy"), b"old").expect("a file");
    let again = format!("{PIN} H recv server --pin $PIN --code $CODE -o copy || echo refused; sleep 0.5");
    let Some(output) = place_again.run(&again) else {
        return;
    };
    assert!(text(&output.stderr).contains("--force"), "{output:?}");
    assert_eq!(text(&output.stdout), "refused\n");
    assert_eq!(
        std::fs::read(place_again.file("copy")).expect("the old one"),
        b"old"
    );
}

#[test]
fn a_certificate_that_is_not_the_pinned_one_is_refused_at_once() {
    let place = LabFolder::new("pin", "exec H recv --json > printed");
    std::fs::write(place.file("original"), b"secret").expect("a file");
    let wrong = "0".repeat(64);
    let Some(output) = place.run(&format!("{PIN} H send original server --pin {wrong}")) else {
        return;
    };
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let printed = text(&output.stderr);
    assert!(
        printed.contains("no path candidate led to the server")
            && printed.contains("its certificate is not the pinned one"),
        "{printed}"
    );
}

#[test]
fn cat_copies_input_to_the_peer_and_the_peers_bytes_to_output() {
    let place = LabFolder::new("cat", "echo from the server | exec H cat 2> printed > received");
    // Uses the printed command line, except for the address.
    let script = "until grep -q -- --code printed 2>/dev/null; do sleep 0.05; done; \
                  FLAGS=$(sed -n 's/.*\\(--pin .*\\)/\\1/p' printed | head -1); \
                  echo from the phone | H cat server $FLAGS; sleep 0.3";
    let Some(output) = place.run(script) else { return };
    assert_eq!(text(&output.stdout), "from the server\n", "{output:?}");
    assert_eq!(
        std::fs::read_to_string(place.file("received")).expect("a file"),
        "from the phone\n"
    );
}

#[test]
fn errors_of_wrong_flags_name_the_flag() {
    let folder = Folder::new().expect("a folder");
    let run = |arguments: &[&str]| {
        let output = Command::new(HAWSER)
            .current_dir(&*folder)
            .args(arguments)
            .output()
            .expect("hawser starts");
        (output.status.code(), text(&output.stderr))
    };
    let this = file!().rsplit('/').next().unwrap_or_default();
    let here = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/session.rs");
    assert!(here.ends_with(this));
    for (arguments, code, word) in [
        (vec!["send", "no-such-file", "server"], 3, "no-such-file"),
        (vec!["send", "/", "server"], 3, "hawser cat"),
        (
            vec!["send", here, "server", "--over", "dccp:eth0"],
            2,
            "tcp, quic, mptcp, sctp",
        ),
        (
            vec!["send", here, "server", "--over", "sctp:eth0"],
            2,
            "--insecure",
        ),
        (vec!["send", here, "server", "--pin", "00"], 2, "64"),
        (vec!["send", here, "server:x"], 2, "port"),
        (vec!["recv", "--over", "tcp:eth0"], 2, "SERVER"),
        (vec!["recv", "--json", "-o", "-"], 2, "standard output"),
        (
            vec!["send", here, "server", "--insecure", "--over", "quic:lo"],
            2,
            "TLS",
        ),
        (
            vec!["send", here, "server", "--scheduler", "best"],
            2,
            "scheduler",
        ),
        (vec!["recv", "--config", "no-such.toml"], 3, "no-such.toml"),
        (vec!["recv", "--code", "short"], 2, "8 to 64"),
        (
            vec!["recv", "--code", "7-crossword-anvil", "--anyone"],
            2,
            "--anyone",
        ),
        (vec!["send", here, "server", "--anyone"], 2, "--anyone"),
        (vec!["recv", "server", "--qr"], 2, "--qr"),
    ] {
        let (got, printed) = run(&arguments);
        assert!(
            got == Some(code) && printed.contains(word),
            "{arguments:?}: {got:?} {printed}"
        );
    }
}

/// A process that is killed when dropped.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A command that waits at a port of this machine, and its standard output.
struct Waiter {
    running: Running,
    output: Lines<BufReader<ChildStdout>>,
    address: String,
    listening: Value,
}

/// Returns a command that starts Hawser with the usual actions of signals. The process that runs the tests may
/// have them ignored (`nohup`).
fn with_usual_signals() -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal", HAWSER]);
    command
}

impl Waiter {
    /// Starts a command with `arguments`, to which `--json --insecure --listen` are added.
    fn start(place: &LabFolder, arguments: &[&str]) -> Waiter {
        let free = TcpListener::bind("127.0.0.1:0")
            .and_then(|free| free.local_addr())
            .expect("a port");
        let address = free.to_string();
        let mut command = with_usual_signals();
        command
            .args(arguments)
            .args(["--json", "--insecure", "--listen", &address]);
        command
            .current_dir(place.file(""))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut running = Running(command.spawn().expect("hawser starts"));
        // The pipe stays open, because a command whose output has no reader ends.
        let mut output = BufReader::new(running.0.stdout.take().expect("a pipe")).lines();
        let first = output.next().expect("a line").expect("text");
        let listening: Value = serde_json::from_str(&first).expect("JSON");
        assert_eq!(listening["event"], "listening", "{first}");
        Waiter { running, output, address, listening }
    }

    fn code(&self) -> &str {
        self.listening["code"].as_str().expect("a code")
    }

    /// Connects a command to it, for at most 20 s.
    fn call(&self, place: &LabFolder, command: &[&str], flags: &[&str]) -> Output {
        let mut call = Command::new("timeout");
        call.args(["20", HAWSER])
            .args(command)
            .args([&self.address, "--insecure"])
            .args(flags);
        call.current_dir(place.file(""))
            .stdin(Stdio::null())
            .output()
            .expect("timeout starts")
    }

    /// Returns the events that it prints until it ends, and its exit code.
    fn finish(mut self) -> (Vec<Value>, Option<i32>) {
        let lines = self.output.map(|line| line.expect("text"));
        let events = lines
            .map(|line| serde_json::from_str(&line).expect("JSON"))
            .collect();
        (events, self.running.0.wait().expect("it ends").code())
    }
}

#[test]
fn a_caller_without_the_code_gets_no_byte_of_the_file() {
    let place = LabFolder::new("codeless", "");
    std::fs::write(place.file("original"), b"content").expect("a file");
    let waiter = Waiter::start(&place, &["send", "original"]);
    let refused = waiter.call(&place, &["recv"], &["-o", "copy"]);
    assert_eq!(refused.status.code(), Some(5), "{refused:?}");
    assert!(
        text(&refused.stderr).contains("requires its one-time code"),
        "{refused:?}"
    );
    let wrong = waiter.call(&place, &["recv"], &["-o", "copy", "--code", "0-wrong-words"]);
    assert_eq!(wrong.status.code(), Some(5), "{wrong:?}");
    assert!(
        text(&wrong.stderr).contains("one-time code is wrong"),
        "{wrong:?}"
    );
    assert!(!place.file("copy").exists(), "nothing was received");
    // The rejected attempts have not used up the code.
    let right = waiter.call(&place, &["recv"], &["-o", "copy", "--code", waiter.code()]);
    assert!(right.status.success(), "{right:?}");
    assert_eq!(std::fs::read(place.file("copy")).expect("a copy"), b"content");
    let (events, code) = waiter.finish();
    assert_eq!(code, Some(0), "{events:?}");
    let left: Vec<_> = events
        .iter()
        .filter_map(|event| event["guesses_left"].as_u64())
        .collect();
    assert_eq!(left, [3, 2], "only the wrong code counts: {events:?}");
}

#[test]
fn three_wrong_codes_end_the_wait() {
    let place = LabFolder::new("guesses", "");
    std::fs::write(place.file("original"), b"content").expect("a file");
    let waiter = Waiter::start(&place, &["recv", "-o", "copy", "--code", "7-Crossword Anvil"]);
    assert_eq!(waiter.code(), "7-crossword-anvil");
    for _ in 0..3 {
        let wrong = waiter.call(&place, &["send", "original"], &["--code", "7-crossword-acorn"]);
        assert_eq!(wrong.status.code(), Some(5), "{wrong:?}");
    }
    let (events, code) = waiter.finish();
    assert_eq!(code, Some(5), "{events:?}");
    assert!(!place.file("copy").exists());
}

#[test]
fn the_line_to_copy_holds_address_trust_and_code() {
    let place = LabFolder::new("line", "");
    let waiter = Waiter::start(&place, &["recv"]);
    let line = format!(
        "hawser send FILE {} --insecure --code {}",
        waiter.address,
        waiter.code()
    );
    assert_eq!(waiter.listening["line"], line.as_str());
    let open = Waiter::start(&place, &["recv", "--anyone"]);
    assert_eq!(open.listening["code"], Value::Null);
    assert_eq!(
        open.listening["line"],
        format!("hawser send FILE {} --insecure", open.address).as_str()
    );
}

/// A calling sender learns neither the path of its file at the receiver nor of files there.
#[test]
fn local_paths_are_not_sent_to_a_sender() {
    let place = LabFolder::new("paths", "");
    std::fs::write(place.file("original"), b"new").expect("a file");
    let waiter = Waiter::start(&place, &["recv", "--anyone", "-o", "kept"]);
    std::fs::write(place.file("kept"), b"old").expect("a file");
    let refused = waiter.call(&place, &["send", "original"], &[]);
    assert_eq!(refused.status.code(), Some(5), "{refused:?}");
    let printed = text(&refused.stderr);
    assert!(
        printed.contains("could not store the file") && !printed.contains("kept"),
        "{printed}"
    );
    assert_eq!(waiter.finish().1, Some(4));
    assert_eq!(std::fs::read(place.file("kept")).expect("it is there"), b"old");
}

/// Sends only the HELLO of an insecure session (docs/session-protocol.md).
fn idle_caller(address: &str) -> TcpStream {
    let mut hello = vec![1, 52, 0, 0, 0, 0, 0, 52, 1, 1, 1, 8, 0, 0, 4, 0];
    hello.extend_from_slice(&[7; 16]);
    hello.extend_from_slice(&[0; 8]);
    hello.extend_from_slice(&(1u64 << 20).to_be_bytes());
    hello.extend_from_slice(&[0; 4]);
    let mut idle = TcpStream::connect(address).expect("a connection");
    idle.write_all(&hello).expect("it is taken");
    std::thread::sleep(std::time::Duration::from_millis(300));
    idle
}

/// A caller that opens a session and stays idle blocks no other.
#[test]
fn an_idle_caller_does_not_block_other_callers() {
    let place = LabFolder::new("idle", "");
    std::fs::create_dir_all(place.file("got")).expect("a directory");
    std::fs::write(place.file("original"), b"content").expect("a file");
    for who in [&["--anyone"][..], &["--code", "7-crossword-anvil"]] {
        let _ = std::fs::remove_file(place.file("got/original"));
        let waiter = Waiter::start(&place, &[&["recv", "--keep", "-o", "got"], who].concat());
        let idle = idle_caller(&waiter.address);
        let code = if who.len() == 2 { who } else { &[] };
        let output = waiter.call(&place, &["send", "original"], code);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(
            std::fs::read(place.file("got/original")).expect("a copy"),
            b"content"
        );
        drop(idle);
    }
}

/// Starts senders that begin a file and then stall. Each is stopped as soon as the receiver has a part of its
/// file.
fn stopped_senders(place: &LabFolder, waiter: &Waiter, count: usize) -> Vec<Running> {
    let parts = || {
        let entries = std::fs::read_dir(place.file("got")).expect("a directory");
        let is_part = |name: &std::ffi::OsString| name.to_string_lossy().ends_with(".part");
        entries
            .filter(|entry| entry.as_ref().is_ok_and(|entry| is_part(&entry.file_name())))
            .count()
    };
    (0..count)
        .map(|number| {
            let name = format!("large-{number}");
            std::fs::File::create(place.file(&name))
                .and_then(|file| file.set_len(1 << 30))
                .expect("a sparse file");
            let mut command = Command::new(HAWSER);
            command.args(["send", &name, &waiter.address, "--insecure"]);
            command
                .current_dir(place.file(""))
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            let sender = Running(command.spawn().expect("hawser starts"));
            let begin = std::time::Instant::now();
            while parts() <= number {
                assert!(begin.elapsed().as_secs() < 20, "no part of {name}");
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            signal(&sender, Signal::STOP);
            sender
        })
        .collect()
}

fn signal(running: &Running, signal: Signal) {
    let pid = Pid::from_child(&running.0);
    kill_process(pid, signal).expect("it runs");
}

/// Sixteen senders of one network hold all its places. Another one is refused, and gets a place when a sender
/// has been idle for long enough or has gone.
#[test]
fn senders_that_begin_a_file_and_leave_make_room() {
    let place = LabFolder::new("leavers", "");
    std::fs::create_dir_all(place.file("got")).expect("a directory");
    std::fs::write(place.file("original"), b"content").expect("a file");
    let waiter = Waiter::start(&place, &["recv", "--keep", "--anyone", "-o", "got"]);
    let senders = stopped_senders(&place, &waiter, 16);
    // The last sender has just made progress; the first may have been idle for more than 5 s.
    let honest = waiter.call(&place, &["send", "original"], &[]);
    if !honest.status.success() {
        assert_eq!(honest.status.code(), Some(5), "{honest:?}");
        assert!(text(&honest.stderr).contains("LIMIT"), "{honest:?}");
        std::thread::sleep(std::time::Duration::from_secs(6));
        let honest = waiter.call(&place, &["send", "original"], &[]);
        assert!(honest.status.success(), "{honest:?}");
    }
    assert_eq!(
        std::fs::read(place.file("got/original")).expect("a copy"),
        b"content"
    );
    drop(senders);
}

/// A signal ends a transfer on both sides and leaves no partial file.
#[test]
fn a_signal_ends_both_sides_and_leaves_no_part() {
    for (number, which) in [(2, Signal::INT), (15, Signal::TERM), (1, Signal::HUP)] {
        let place = LabFolder::new("signal", "");
        std::fs::create_dir_all(place.file("got")).expect("a directory");
        let mut waiter = Waiter::start(&place, &["recv", "--anyone", "-o", "got"]);
        let mut sender = stopped_senders(&place, &waiter, 1).remove(0);
        signal(&sender, Signal::CONT);
        signal(&waiter.running, which);
        let ended = waiter.running.0.wait().expect("it ends");
        assert_eq!(ended.code(), Some(128 + number));
        assert_eq!(
            sender.0.wait().expect("it ends").code(),
            Some(5),
            "the sender learns it"
        );
        let left = std::fs::read_dir(place.file("got")).expect("a directory").count();
        assert_eq!(left, 0, "no part is left");
    }
}

/// Starts one end of `hawser cat` with these arguments.
fn cat(arguments: &[&str], output: impl Into<Stdio>) -> Running {
    let mut command = with_usual_signals();
    command
        .args(["cat", "--insecure", "--code", "7-crossword-anvil"])
        .args(arguments);
    command.stdin(Stdio::piped()).stdout(output).stderr(Stdio::null());
    Running(command.spawn().expect("hawser starts"))
}

/// When a signal ends a `cat`, its peer learns that the data is incomplete.
#[test]
fn an_interrupted_cat_is_not_taken_for_the_end_of_its_input() {
    for (number, which) in [(2, Signal::INT), (15, Signal::TERM), (1, Signal::HUP)] {
        let folder = Folder::new().expect("a folder");
        let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        let address = free.expect("a port").to_string();
        let copy = folder.join("copy");
        let output = std::fs::File::create(&copy).expect("a file");
        let mut receiver = cat(&["--listen", &address], output);
        drop(receiver.0.stdin.take());
        until("the receiver listens", || TcpStream::connect(&address).is_ok());
        let mut sender = cat(&[&address], Stdio::null());
        let mut input = sender.0.stdin.take().expect("its input");
        input.write_all(&[7; 50_000]).expect("it is taken");
        let length = || std::fs::metadata(&copy).expect("the copy").len();
        until("the copy has all bytes", || length() >= 50_000);
        signal(&sender, which);
        assert_eq!(sender.0.wait().expect("it ends").code(), Some(128 + number));
        assert_eq!(receiver.0.wait().expect("it ends").code(), Some(5), "{which:?}");
    }
}
