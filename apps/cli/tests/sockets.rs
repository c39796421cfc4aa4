//! Programs in UDP on sockets of the host (`--dev udp:ADDRESS:PORT`), run by an unprivileged user.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use hawser_documents::temporary::Folder;
use serde_json::Value;

use crate::everybody;

/// The uid of the unprivileged user, by convention.
const NOBODY: u32 = 65_534;

/// A process that is killed when dropped, with its output.
struct Running {
    process: Child,
    /// Kept open, because the process prints a line for each connection.
    _output: BufReader<ChildStdout>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A folder that every user may enter, with the command and a program in UDP.
struct SharedFolder {
    folder: Folder,
    hawser: PathBuf,
}

impl SharedFolder {
    fn new() -> SharedFolder {
        let (folder, hawser) = everybody::copy();
        fs::write(folder.join("program.mtp"), stop_and_wait_in_udp()).expect("a file");
        SharedFolder { folder, hawser }
    }

    /// Writes a file of `len` bytes. Returns its content.
    fn file(&self, name: &str, len: u32) -> Vec<u8> {
        let bytes: Vec<u8> = (0..len).map(|i| (i.wrapping_mul(i) / 7) as u8).collect();
        fs::write(self.folder.join(name), &bytes).expect("a file");
        bytes
    }

    /// Returns a path in a folder in which every user may write.
    fn received(&self) -> String {
        let folder = self.folder.join("received");
        if !folder.exists() {
            fs::create_dir(&folder).expect("a folder");
            let anybody = fs::Permissions::from_mode(0o777);
            fs::set_permissions(&folder, anybody).expect("it is ours");
        }
        folder.join("copy").display().to_string()
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(&self.hawser);
        command.current_dir(&*self.folder).args(arguments.split(' '));
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY).env("HOME", "/nonexistent");
        }
        command
    }

    /// Starts a server and waits until it reports that it listens at `at`.
    fn serve(&self, arguments: &str, at: &str) -> Running {
        let mut command = self.command(arguments);
        let mut process = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut output = BufReader::new(process.stdout.take().expect("a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        let server = Running { process, _output: output };
        let message: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(message["listening"], at);
        server
    }

    fn run(&self, arguments: &str) -> Output {
        self.command(arguments).output().expect("it runs")
    }
}

/// Returns the example of the README, in UDP instead of IP, with packets that fit every interface of the
/// host.
fn stop_and_wait_in_udp() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/stop-and-wait.mtp");
    let text = fs::read_to_string(file).expect("the example");
    let ports = "ip.dst_ip = c.rip;  ip.src_port = c.lport;  ip.dst_port = c.rport;";
    let in_udp = text
        .replace("ip(253)", "udp(4791)")
        .replace("MSS = 1400", "MSS = 1000")
        .replace("ip.dst_ip = c.rip;", ports);
    assert_eq!(
        in_udp.matches("port = c.").count(),
        2 + 2,
        "the example has changed"
    );
    in_udp
}

/// Returns a port of the loopback address that was free a moment ago.
fn free_port() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.local_addr().expect("it is bound").port()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_file_is_fetched_through_udp_sockets_without_privileges() {
    let place = SharedFolder::new();
    let port = free_port();
    let bytes = place.file("file", 200_000);
    let at = format!("0.0.0.0:{port}");
    let _server = place.serve(
        &format!("serve . --program program.mtp --dev udp:{at} --json"),
        &at,
    );
    for own in ["127.0.0.1:0", "0.0.0.0:0", "127.0.0.5:0"] {
        let url = format!("http://127.0.0.1:{port}/file");
        let got = place.run(&format!(
            "get {url} --program program.mtp --dev udp:{own} -o - --max-time 60"
        ));
        assert!(got.status.success(), "{own}: {}", errors(&got));
        assert!(got.stdout == bytes, "{own}: {} bytes", got.stdout.len());
    }
}

/// A download gets its name when it is complete. Until then, and if it fails, an older file stays.
#[test]
fn a_failed_download_leaves_an_older_file_as_it_was() {
    let place = SharedFolder::new();
    let bytes = place.file("file", 2_000_000);
    let port = free_port();
    let at = format!("0.0.0.0:{port}");
    let server = place.serve(&format!("serve . --program quic-lite --dev udp:{at} --json"), &at);
    let copy = place.received();
    fs::write(&copy, "old").expect("a file");
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o606)).expect("it is ours");
    let folder = Path::new(&copy).parent().expect("a folder").to_owned();
    let names = || fs::read_dir(&folder).expect("a folder").count();
    let device = "--program quic-lite --dev udp:127.0.0.1:0";
    let url = format!("http://127.0.0.1:{port}/file");
    let get = format!("get {url} {device} -o {copy}");
    // At this rate the file takes 16 s.
    let slow = place.run(&format!("{get} --faults rate=1Mbit/s --max-time 3"));
    assert_eq!(slow.status.code(), Some(5), "{}", errors(&slow));
    assert_eq!((fs::read(&copy).expect("a file"), names()), (b"old".to_vec(), 1));
    let missing = place.run(&format!(
        "{}x --max-time 30",
        get.replace(&format!(" -o {copy}"), "")
    ));
    assert!(!missing.status.success());

    let whole = place.run(&format!("{get} --max-time 60"));
    assert!(whole.status.success(), "{}", errors(&whole));
    assert!(fs::read(&copy).expect("a file") == bytes);
    assert_eq!(names(), 1);
    let mode = fs::metadata(&copy).expect("a file").permissions().mode() & 0o777;
    assert_eq!(mode, 0o606, "the older file's");

    let link = folder.join("link");
    std::os::unix::fs::symlink(&copy, &link).expect("a link");
    fs::write(&copy, "old").expect("a file");
    let linked = place.run(&format!("get {url} {device} -o {} --max-time 60", link.display()));
    assert!(linked.status.success(), "{}", errors(&linked));
    assert!(fs::read(&copy).expect("a file") == bytes && link.is_symlink());

    for output in ["/dev/stdout", "/proc/self/fd/1"] {
        // The command opens the pipe by its name, so it runs as the pipe's owner.
        let mut got = Command::new(&place.hawser);
        got.args(format!("get {url} {device} -o {output} --max-time 60").split(' '));
        let got = got.output().expect("it runs");
        assert!(got.status.success(), "{output}: {}", errors(&got));
        assert!(got.stdout == bytes, "{output}: {} bytes", got.stdout.len());
    }
    let null = place.run(&format!("get {url} {device} -o /dev/null --json --max-time 60"));
    assert!(null.status.success(), "{}", errors(&null));
    let pipe = folder.join("pipe");
    let made = Command::new("mkfifo").args(["-m", "666"]).arg(&pipe).status();
    assert!(made.expect("mkfifo").success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read(pipe).expect("a pipe")
    });
    let piped = place.run(&format!("get {url} {device} -o {} --max-time 60", pipe.display()));
    assert!(piped.status.success(), "{}", errors(&piped));
    assert!(reader.join().expect("no panic") == bytes);
    drop(server);
}

/// The file is carried by one stream of a connection that supports many.
#[test]
fn a_file_is_served_and_fetched_over_quic_lite() {
    let place = SharedFolder::new();
    let bytes = place.file("file", 500_000);
    let port = free_port();
    let at = format!("0.0.0.0:{port}");
    let server = format!("serve . --program quic-lite --dev udp:{at} --json");
    let _server = place.serve(&server, &at);
    for own in ["127.0.0.1:0", "0.0.0.0:0"] {
        let got = place.run(&format!(
            "get http://127.0.0.1:{port}/file --program quic-lite --dev udp:{own} -o - --max-time 60"
        ));
        assert!(got.status.success(), "{own}: {}", errors(&got));
        assert!(got.stdout == bytes, "{own}: {} bytes", got.stdout.len());
    }
}

/// The waiting side has one port for the stack and another for TCP.
#[test]
fn a_session_goes_over_quic_lite_through_udp_sockets() {
    let place = SharedFolder::new();
    let bytes = place.file("original", 1_000_000);
    let (port, listen) = (free_port(), free_port());
    let at = format!("127.0.0.1:{port}");
    let mut waiting = place.command(&format!(
        "send original --anyone --insecure --json --listen 127.0.0.1:{listen} --program quic-lite --dev udp:{at}"
    ));
    let mut process = waiting.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut output = BufReader::new(process.stdout.take().expect("a pipe"));
    let mut line = String::new();
    output.read_line(&mut line).expect("a line");
    let _waiting = Running { process, _output: output };
    let message: Value = serde_json::from_str(&line).expect("JSON");
    let addresses = message["addresses"].as_array().expect("addresses");
    assert!(addresses.contains(&at.clone().into()), "{line}");
    let got = place.run(&format!(
        "recv {at} --insecure --json --over mtp-quic-lite --program quic-lite --dev udp:0.0.0.0:0 --state {0}.state -o {0}",
        place.received()
    ));
    let reported = String::from_utf8_lossy(&got.stdout).into_owned();
    assert!(got.status.success(), "{}{reported}", errors(&got));
    assert!(fs::read(place.received()).expect("a copy") == bytes);
    let last = reported.lines().last().unwrap_or_default();
    let done: Value = serde_json::from_str(last).expect("JSON");
    assert_eq!(done["paths"][0]["transport"], "mtp-quic-lite", "{reported}");
}

#[test]
fn calls_through_udp_sockets_are_answered_without_privileges() {
    let place = SharedFolder::new();
    let port = free_port();
    let at = format!("127.0.0.1:{port}");
    let _server = place.serve(
        &format!("rpc serve --program program.mtp --dev udp:{at} --json"),
        &at,
    );
    let called = place.run(&format!(
        "rpc call {at} --program program.mtp --dev udp:0.0.0.0:0 --calls 100 --size 3000 --json"
    ));
    assert!(called.status.success(), "{}", errors(&called));
    let result: Value = serde_json::from_slice(&called.stdout).expect("JSON");
    assert_eq!((&result["calls"], &result["failed"]), (&100.into(), &0.into()));
}

#[test]
fn a_udp_socket_device_rejects_other_programs_and_addresses() {
    let place = SharedFolder::new();
    place.file("file", 10);
    for (arguments, code, reported) in [
        ("serve . --dev udp:127.0.0.1:4433", 4, "only programs in UDP"),
        ("serve . --dev udp:127.0.0.1:0", 2, "port other than 0"),
        (
            "serve . --dev udp:127.0.0.1:4433 --port 80",
            2,
            "its own port alone",
        ),
        (
            "serve . --dev udp:127.0.0.1:4433 --addr 10.9.0.1/24",
            2,
            "--addr needs",
        ),
        (
            "serve . --dev udp:127.0.0.1:4433 --router 10.9.0.1",
            2,
            "--router needs",
        ),
        ("proxy --dev udp:127.0.0.1:0", 4, "only programs in UDP"),
        (
            "send file --anyone --insecure --listen 127.0.0.1:0 --program program.mtp --dev udp:127.0.0.1:0",
            2,
            "port other than 0",
        ),
        ("serve . --dev udp:4433", 2, "not an address with a port"),
        ("serve . --dev tun:hawser0", 2, "--addr ADDR/LEN"),
    ] {
        let output = place.run(arguments);
        let message = errors(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments}: {message}");
        assert!(message.contains(reported), "{arguments}: {message}");
    }
}
