//! `hawser lab` from outside: exit codes, output, and that nothing is left behind.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use hawser_documents::temporary::Folder;
use hawser_testing::{Need, has, skip};

use rustix::process::{Pid, Signal, kill_process};

const FILE: &str = r#"
[[host]]
name = "client"
run = "echo ready; getent hosts server"

[[host]]
name = "server"
serve = "echo serving; exec sleep 1000"

[[link]]
between = ["client", "server"]
both = { delay = "2ms" }
"#;

/// A lab file that is removed with the test.
struct LabFile(PathBuf, #[allow(dead_code)] Folder);

impl LabFile {
    fn new(name: &str, text: &str) -> LabFile {
        let folder = Folder::new().expect("a folder");
        let path = folder.join(format!("{name}.toml"));
        std::fs::write(&path, text).expect("a file");
        LabFile(path, folder)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hawser"));
        let (first, rest) = arguments.split_first().expect("a sub-command");
        command.args(["lab", first]).arg(&self.0).args(rest);
        command
    }

    fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the command")
    }
}

/// Returns whether this machine allows labs, and prints the reason if not.
fn possible() -> bool {
    has("labs by the command", &[Need::Netns])
}

/// The commands of a lab run in a process tree of their own and see no other processes.
#[test]
fn commands_see_the_processes_of_the_lab_alone() {
    if !possible() {
        return;
    }
    let file = LabFile::new("processes", "host = [{ name = \"a\" }]");
    let outer = std::process::id().to_string();
    let script =
        format!("ls /proc | grep -c '^[0-9]'; cat /proc/1/cmdline | tr '\\0' ' '; echo; ls -d /proc/{outer}");
    let output = file.output(&["up", "--", "sh", "-c", &script]);
    let printed = text(&output.stdout);
    if text(&output.stderr).contains("see all processes") {
        let what = "commands_see_the_processes_of_the_lab_alone";
        return skip(Need::Netns, what, text(&output.stderr));
    }
    let mut lines = printed.lines();
    let count: usize = lines.next().and_then(|line| line.parse().ok()).expect("a count");
    assert!(count < 12, "{printed}");
    assert!(
        printed.contains("lab up --contained"),
        "the first process is the lab's: {printed}"
    );
    assert!(
        printed.lines().all(|line| line != format!("/proc/{outer}")),
        "{printed}"
    );
}

/// An endless device would exhaust memory, and a pipe would block.
#[test]
fn a_trace_is_a_regular_file() {
    if !possible() {
        return;
    }
    let lab = |trace: &str| {
        format!(
            "host = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n\
             link = [{{ between = [\"a\", \"b\"], forward = {{ trace = \"{trace}\" }} }}]"
        )
    };
    let folder = Folder::new().expect("a folder");
    let pipe = folder.join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .is_ok_and(|made| made.success())
    );
    for trace in ["/dev/zero", pipe.to_str().expect("text")] {
        let file = LabFile::new("trace", &lab(trace));
        let output = file.output(&["up", "--", "true"]);
        assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
        assert!(
            text(&output.stderr).contains("not a regular file"),
            "{}",
            text(&output.stderr)
        );
    }
}

#[test]
fn a_read_only_lab_writes_no_file_of_the_machine() {
    if !possible() {
        return;
    }
    let file = LabFile::new("read-only", "host = [{ name = \"a\" }]");
    let beside = file.0.with_file_name("written");
    let script = format!(
        "echo scratch > /dev/shm/hawser-scratch && ! echo x > '{}'",
        beside.display()
    );
    let output = file.output(&["up", "--read-only", "--", "sh", "-c", &script]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(!beside.exists() && !std::path::Path::new("/dev/shm/hawser-scratch").exists());
    let script = format!("echo x > '{}'", beside.display());
    assert!(file.output(&["up", "--", "sh", "-c", &script]).status.success());
    assert!(beside.exists(), "without the option files are written");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn up_passes_output_and_code_through() {
    if !possible() {
        return;
    }
    let file = LabFile::new("up", FILE);
    let output = file.output(&[
        "up",
        "--",
        "sh",
        "-c",
        "hostname >/dev/null; echo $0 $1; exit 7",
        "x",
        "y",
    ]);
    assert_eq!(
        (text(&output.stdout).as_str(), output.status.code()),
        ("x y\n", Some(7))
    );
    let output = file.output(&[
        "up",
        "--host",
        "server",
        "--",
        "cat",
        "/sys/class/net/eth0/address",
    ]);
    assert_eq!(
        text(&output.stdout),
        "02:48:57:00:00:02\n",
        "{}",
        text(&output.stderr)
    );
    let output = file.output(&["up", "--", "sh", "-c", "kill -TERM $$"]);
    assert_eq!(output.status.code(), Some(128 + 15));
    let output = file.output(&["up", "--host", "nobody", "--", "true"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("client, server"));
}

/// A request to terminate reaches the command, which ends cleanly. The socket, if any, is removed.
#[test]
fn a_request_to_end_reaches_the_command() {
    if !possible() {
        return;
    }
    let file = LabFile::new("asked", FILE);
    let socket = file.0.with_extension("sock");
    for option in [None, Some(format!("--interact={}", socket.display()))] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hawser"));
        command.args(["lab", "up"]).arg(&file.0).args(&option);
        let script = "trap 'echo asked; exit 3' TERM; echo ready; while :; do sleep 0.05; done";
        let mut child = command
            .args(["--", "sh", "-c", script])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the command");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        assert_eq!(lines.next().and_then(Result::ok).as_deref(), Some("ready"));
        kill_process(Pid::from_child(&child), Signal::TERM).expect("it is there");
        assert_eq!(lines.next().and_then(Result::ok).as_deref(), Some("asked"));
        assert_eq!(child.wait().expect("it ends").code(), Some(3));
        assert!(!socket.exists(), "the socket is left behind");
    }
}

#[test]
fn run_prefixes_output_and_writes_a_report() {
    if !possible() {
        return;
    }
    let file = LabFile::new("run", FILE);
    let output = file.output(&["run"]);
    let printed = text(&output.stdout);
    assert!(output.status.success(), "{printed}{}", text(&output.stderr));
    for line in ["client: ready", "server: serving"] {
        assert!(printed.lines().any(|printed| printed == line), "{printed}");
    }
    let output = file.output(&["run", "--json", "--every", "1ms"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON alone");
    assert_eq!(report["ok"], true);
    assert_eq!(report["links"][0]["link"], "client-server");
    let samples = report["samples"].as_array().expect("samples");
    let last = samples.last().expect("a look at the end");
    assert_eq!(last[0]["forward"]["sent"], report["links"][0]["forward"]["sent"]);
    assert!(last[0]["forward"]["at"].as_f64() > samples[0][0]["forward"]["at"].as_f64());
    let service = report["commands"]
        .as_array()
        .and_then(|all| all.iter().find(|c| c["service"] == true));
    assert_eq!(service.expect("a service")["stopped"], true);
}

/// A transfer over UDP sockets behind a NAT that drops its mappings: the server follows its client to the new
/// port. The link's round trip takes 40 ms.
#[test]
fn quic_lite_goes_on_behind_a_translator_that_rebinds() {
    if !possible() {
        return;
    }
    let folder = Folder::new().expect("a folder");
    let bytes: Vec<u8> = (0..4_000_000_u32)
        .map(|i| (i.wrapping_mul(i) / 7) as u8)
        .collect();
    std::fs::write(folder.join("file"), bytes).expect("a file");
    let (hawser, folder) = (env!("CARGO_BIN_EXE_hawser"), folder.display());
    let file = LabFile::new(
        "rebind",
        &format!(
            r#"
duration = "30s"
[[host]]
name = "client"
run = """
sleep 0.5
server=$(getent ahostsv4 server | head -n 1 | cut -d ' ' -f 1)
{hawser} get http://$server:4433/file --program quic-lite --dev udp:0.0.0.0:0 -o - | cmp - {folder}/file && echo whole
"""
[[host]]
name = "server"
serve = "exec {hawser} serve {folder} --program quic-lite --dev udp:0.0.0.0:4433"
[[link]]
name = "line"
between = ["client", "server"]
both = {{ rate = "20Mbit/s", queue = "200kB", delay = "20ms" }}
nat = {{ inside = "client" }}
[[at]]
time = "1500ms"
link = "line"
rebind = true
"#
        ),
    );
    let output = file.output(&["run", "--json", "--every", "5ms"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON alone");
    assert_eq!(
        report["commands"][0]["output"],
        "whole\n",
        "{}",
        text(&output.stderr)
    );
    let lost = report["links"][0]["backward"]["lost"]["nat_inward"].as_u64();
    assert!(
        lost.is_some_and(|lost| lost > 0),
        "the translator has not changed its port amid the transfer"
    );
    // The longest time without data for the client, from just before the change to a second later.
    let samples = report["samples"].as_array().expect("samples");
    let (mut since, mut before, mut stall) = (1.4, 0, 0.0_f64);
    for sample in samples {
        let at = sample[0]["backward"]["at"].as_f64().expect("a time");
        let delivered = sample[0]["backward"]["delivered"].as_u64().expect("a count");
        if (1.4..2.5).contains(&at) && delivered > before {
            stall = stall.max(at - since);
            since = at;
        }
        before = delivered;
    }
    println!("nothing arrived for {:.0} ms", stall * 1000.0);
    assert!(stall > 0.0 && stall < 0.2, "nothing arrived for {stall} s");
}

#[test]
fn errors_name_line_and_key() {
    let wrong = FILE.replace("2ms", "2 parsecs");
    let output = LabFile::new("wrong", &wrong).output(&["up", "--", "true"]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(
        error.contains("line 12") && error.contains("link[0].both.delay"),
        "{error}"
    );
    assert!(error.contains("min, s, ms, us, ns"), "{error}");
}

/// Returns a word that occurs only in the command lines of one test.
fn mark(name: &str) -> String {
    format!("hawser-lab-test-{name}-{}", std::process::id())
}

/// Counts the live processes whose command line contains this word.
fn with_mark(mark: &str) -> usize {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines
        .filter(|line| String::from_utf8_lossy(line).contains(mark))
        .count()
}

/// Starts a lab whose command and service start processes that would outlive it, and waits until they run.
fn start(file: &LabFile, mark: &str) -> Child {
    let script = format!(
        "trap '' HUP INT; setsid sh -c 'sleep 1000; : {mark}' & (trap '' TERM; sh -c 'sleep 1000; : {mark}') & \
         echo ready; wait"
    );
    let mut command = file.command(&["up", "--", "sh", "-c", &script]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the command");
    let mut line = String::new();
    let output = child.stdout.as_mut().expect("its output");
    BufReader::new(output).read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
    assert!(with_mark(mark) >= 3);
    child
}

/// Waits until no process with this word runs.
fn await_end(mark: &str, timeout: Duration) {
    let start = Instant::now();
    while with_mark(mark) > 0 {
        assert!(
            start.elapsed() < timeout,
            "{} processes are left",
            with_mark(mark)
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn nothing_survives(signal: &str, timeout: Duration) {
    if !possible() {
        return;
    }
    let (file, mark) = (LabFile::new(signal, FILE), mark(signal));
    let mut child = start(&file, &mark);
    let status = Command::new("sh")
        .args(["-c", &format!("kill -{signal} {}", child.id())])
        .status();
    assert!(status.expect("kill").success());
    await_end(&mark, timeout);
    let code = child.wait().expect("an end").code();
    assert_ne!(code, Some(0), "it was cut short");
}

#[test]
fn a_killed_lab_leaves_no_processes() {
    nothing_survives("KILL", Duration::from_secs(5));
}

#[test]
fn a_terminated_lab_leaves_no_processes() {
    nothing_survives("TERM", Duration::from_secs(10));
}

#[test]
fn an_interrupted_lab_leaves_no_processes() {
    nothing_survives("INT", Duration::from_secs(10));
}

#[test]
fn a_lab_ends_the_processes_its_command_left() {
    if !possible() {
        return;
    }
    let (file, mark) = (LabFile::new("end", FILE), mark("end"));
    let script = format!("setsid sh -c 'sleep 1000; : {mark}' & exit 5");
    let output = file.output(&["up", "--", "sh", "-c", &script]);
    assert_eq!(output.status.code(), Some(5));
    await_end(&mark, Duration::from_secs(5));
}

#[test]
fn a_lab_leaves_no_namespace_and_no_interface() {
    if !possible() {
        return;
    }
    let interfaces = || {
        let entries = std::fs::read_dir("/sys/class/net").expect("interfaces").flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        names.sort();
        names
    };
    let before = interfaces();
    let file = LabFile::new("names", FILE);
    assert!(file.output(&["up", "--", "true"]).status.success());
    assert_eq!(interfaces(), before);
    let output = Command::new(env!("CARGO_BIN_EXE_hawser"))
        .args(["lab", "clean"])
        .output()
        .expect("clean");
    assert!(output.status.success());
}
