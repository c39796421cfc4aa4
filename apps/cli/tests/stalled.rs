//! A reader of events or logs stalls. The server's clients do not notice, and a signal still ends the server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::pipe::fcntl_setpipe_size;
use rustix::process::{Pid, Signal, kill_process};

const HAWSER: &str = env!("CARGO_BIN_EXE_hawser");
/// The capacity of the tests' pipes, in bytes. The events and logs of all requests exceed it.
const PIPE_BYTES: usize = 4096;
const REQUESTS: usize = 100;
/// The maximum time of a request, or of the end, on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Starts a server. Returns it with its outputs and the address in its first line.
fn server(arguments: &[&str], filter: &str) -> (Child, BufReader<ChildStdout>, ChildStderr, SocketAddr) {
    let mut child = Command::new(HAWSER)
        .args(arguments)
        .env("RUST_LOG", filter)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("hawser");
    let (out, errors) = (child.stdout.as_ref(), child.stderr.as_ref());
    fcntl_setpipe_size(out.expect("a pipe"), PIPE_BYTES).expect("a small pipe");
    fcntl_setpipe_size(errors.expect("a pipe"), PIPE_BYTES).expect("a small pipe");
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    output.read_line(&mut line).expect("it says where");
    let words = line.split(|c: char| !c.is_ascii_digit() && c != '.' && c != ':');
    let at = words
        .filter_map(|word| word.trim_matches(':').parse().ok())
        .next();
    let errors = child.stderr.take().expect("a pipe");
    (child, output, errors, at.unwrap_or_else(|| panic!("{line}")))
}

/// Ends the server by a signal. Returns the time that this took.
fn end(child: &mut Child) -> Duration {
    let began = Instant::now();
    kill_process(Pid::from_child(child), Signal::TERM).expect("it runs");
    while child.try_wait().expect("a child").is_none() {
        if began.elapsed() > TIMEOUT {
            child.kill().expect("it ends");
            panic!("it was alive {TIMEOUT:?} after SIGTERM");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    began.elapsed()
}

/// Sends a byte through the proxy and back.
fn tunnel(proxy: SocketAddr, origin: &TcpListener) -> std::io::Result<()> {
    let SocketAddr::V4(to) = origin.local_addr()? else {
        panic!("IPv4")
    };
    let mut client = TcpStream::connect_timeout(&proxy, TIMEOUT)?;
    client.set_read_timeout(Some(TIMEOUT))?;
    let request = [
        &b"\x05\x01\x00\x05\x01\x00\x01"[..],
        &to.ip().octets(),
        &to.port().to_be_bytes(),
    ];
    client.write_all(&request.concat())?;
    client.read_exact(&mut [0; 12])?;
    let (mut far, _) = origin.accept()?;
    client.write_all(b"x")?;
    far.read_exact(&mut [0])?;
    far.write_all(b"x")?;
    client.read_exact(&mut [0])
}

#[test]
fn a_proxy_goes_on_when_the_reader_of_its_events_or_logs_stalls() {
    for (events, filter) in [("--json", "off"), ("--verbose", "off"), ("--json", "trace")] {
        let arguments = ["proxy", events, "--listen", "127.0.0.1:0"];
        let (mut child, mut output, mut errors, at) = server(&arguments, filter);
        let origin = TcpListener::bind("127.0.0.1:0").expect("an address");
        for request in 0..REQUESTS {
            if let Err(error) = tunnel(at, &origin) {
                child.kill().expect("it ends");
                panic!("{events}, {filter}: request {request} of {REQUESTS}: {error}");
            }
        }
        let took = end(&mut child);
        println!("{events}, {filter}: ended in {took:?}");
        // A reader that resumes finds a full pipe, but not the last event.
        let mut read = (Vec::new(), Vec::new());
        output.read_to_end(&mut read.0).expect("its output");
        errors.read_to_end(&mut read.1).expect("its log");
        assert!(
            read.0.len().max(read.1.len()) >= PIPE_BYTES / 2,
            "{events}, {filter}"
        );
    }
}

#[test]
fn a_web_server_goes_on_when_the_reader_of_its_log_stalls() {
    let folder = hawser_documents::temporary::Folder::new().expect("a folder");
    std::fs::write(folder.join("file"), [b'x'; 100_000]).expect("a file");
    let free = std::net::UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let device = format!("udp:{}", free.expect("a port"));
    let root = folder.display().to_string();
    let arguments = [
        "serve",
        &root,
        "--json",
        "--program",
        "quic-lite",
        "--dev",
        &device,
    ];
    let (mut child, _output, mut errors, at) = server(&arguments, "trace");
    let url = format!("http://{at}/file");
    for request in 0..20 {
        let got = Command::new("timeout")
            .args([
                "20",
                HAWSER,
                "get",
                &url,
                "-o",
                "-",
                "--program",
                "quic-lite",
                "--dev",
            ])
            .arg("udp:127.0.0.1:0")
            .stdin(Stdio::null())
            .output()
            .expect("a client");
        if !got.status.success() {
            child.kill().expect("it ends");
            panic!("request {request}: {got:?}");
        }
        assert_eq!(got.stdout.len(), 100_000);
    }
    end(&mut child);
    let mut read = Vec::new();
    errors.read_to_end(&mut read).expect("its log");
    assert!(read.len() >= PIPE_BYTES / 2, "{} bytes of log", read.len());
}
