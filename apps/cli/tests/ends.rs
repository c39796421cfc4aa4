//! A shell starts its background server with interrupts ignored, and a signal still ends the server cleanly.

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

const HAWSER: &str = env!("CARGO_BIN_EXE_hawser");

/// Starts a server in the background of a shell without job control, and waits until it listens.
fn server(arguments: &str) -> Child {
    let script = format!("trap '' INT; exec \"$HAWSER\" {arguments}");
    let mut child = Command::new("env")
        .args(["--default-signal", "sh", "-c", &script])
        .env("HAWSER", HAWSER)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a shell");
    let mut line = String::new();
    let output = child.stdout.take().expect("its output");
    BufReader::new(output).read_line(&mut line).expect("a line");
    assert!(line.contains("listening"), "{arguments}: {line}");
    child
}

#[test]
fn a_server_ends_on_signals_the_shell_had_ignored() {
    let folder = hawser_documents::temporary::Folder::new().expect("a folder");
    let free = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let command = format!(
        "serve {} --program quic-lite --dev udp:{}",
        folder.display(),
        free.expect("a port")
    );
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut child = server(&command);
        kill_process(Pid::from_child(&child), signal).expect("it runs");
        let status = child.wait().expect("it ends");
        assert_eq!(status.code(), Some(0), "{signal:?}");
    }
}
