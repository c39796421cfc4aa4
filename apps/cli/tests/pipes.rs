//! A signal ends a command that is still waiting for its document from a pipe.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hawser_documents::temporary::Folder;
use rustix::process::{Pid, Signal, kill_process};

/// Returns the exit status as in a shell: 128 plus the signal's number, whether the command ended cleanly or
/// not.
fn ended(child: &mut Child, what: &str) -> i32 {
    let limit = Instant::now() + Duration::from_secs(20);
    while Instant::now() < limit {
        if let Some(status) = child.try_wait().expect("it can be waited for") {
            let by_signal = status.signal().map(|signal| 128 + signal);
            return status.code().or(by_signal).expect("it has ended");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().expect("it ends");
    panic!("{what}: the signal was swallowed");
}

#[test]
fn a_signal_ends_a_command_that_waits_for_its_document() {
    let folder = Folder::new().expect("a folder");
    std::fs::write(folder.join("original"), "x").expect("a file");
    let token = Command::new(env!("CARGO_BIN_EXE_hawser"))
        .args(["gateway", "token", "phone", "--out"])
        .arg(folder.join("token"))
        .output()
        .expect("hawser");
    assert!(token.status.success(), "{token:?}");
    for arguments in [
        "send original --config pipe.mtp",
        "recv --config pipe.mtp",
        "cat --config pipe.mtp",
        "gateway cat --config pipe.mtp --token token --to 192.0.2.1:80",
        "gateway --clients pipe.mtp",
        "proxy --credential pipe.mtp",
        "watch --replay pipe.mtp --json",
        "sim pipe.mtp",
        "lab check pipe.mtp",
    ] {
        let pipe = folder.join("pipe.mtp");
        let made = Command::new("mkfifo").args(["-m", "600"]).arg(&pipe).status();
        assert!(made.expect("mkfifo").success());
        let mut child = Command::new(env!("CARGO_BIN_EXE_hawser"))
            .args(arguments.split(' '))
            .current_dir(&*folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("hawser");
        // The command starts to read when both ends are open.
        let held = std::fs::OpenOptions::new().read(true).write(true).open(&pipe);
        std::thread::sleep(Duration::from_millis(500));
        kill_process(Pid::from_child(&child), Signal::TERM).expect("it runs");
        assert_eq!(ended(&mut child, arguments), 143, "{arguments}");
        drop(held);
        std::fs::remove_file(&pipe).expect("the pipe");
    }
}

/// The recording's header has arrived, but its lines have not.
#[test]
fn a_signal_ends_a_replay_that_waits_for_its_next_line() {
    let folder = Folder::new().expect("a folder");
    let pipe = folder.join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo").success());
    let mut child = Command::new(env!("CARGO_BIN_EXE_hawser"))
        .args(["watch", "--json", "--replay"])
        .arg(&pipe)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("hawser");
    let mut writer = std::fs::OpenOptions::new()
        .write(true)
        .open(&pipe)
        .expect("a reader");
    let header = format!(
        "{{\"at\":0,\"header\":{{\"schema\":\"{}\",\"process\":1,\"began\":1,\"pattern\":\"*\",\"interval\":0}}}}\n",
        hawser::interact::record::SCHEMA
    );
    std::io::Write::write_all(&mut writer, header.as_bytes()).expect("it reads");
    std::thread::sleep(Duration::from_millis(500));
    kill_process(Pid::from_child(&child), Signal::TERM).expect("it runs");
    assert_eq!(ended(&mut child, "replay"), 0);
}
