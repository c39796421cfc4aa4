//! `hawser rdma`: two processes at the ends of a pair of Ethernet devices.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::time::Duration;

use hawser::host::netns::{Namespace, Netlink};
use hawser_testing::{Test, TestResult, in_user_namespace, tests};
use serde_json::{Value, json};

const TESTS: &[Test] = tests![
    memory_of_another_process_is_written_read_and_changed,
    incompatible_options_are_reported,
    packets_too_long_for_a_device_are_refused_at_once,
    incomplete_requests_do_not_block_other_clients,
    idle_clients_make_room,
    the_page_on_interfaces_works_word_for_word,
];

fn main() -> ExitCode {
    in_user_namespace("hawser rdma between two processes", TESTS)
}

/// A process that is killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn rdma(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hawser"));
    command.arg("rdma").args(arguments.split(' '));
    command
}

/// Runs a test in a network of two devices.
fn between_devices(test: impl Fn() -> TestResult + Send + Sync) -> TestResult {
    Namespace::create()?.run(|| -> TestResult {
        let mut netlink = Netlink::open()?;
        netlink.bring_up("lo")?;
        netlink.add_veth("hawser0", "hawser1", &Namespace::current()?)?;
        netlink.bring_up("hawser0")?;
        netlink.bring_up("hawser1")?;
        test()
    })?
}

/// Starts a server and waits until it listens. Returns it with its further output.
fn serve(more: &str) -> TestResult<(Running, impl BufRead)> {
    let arguments = format!("serve --dev packet:hawser0 --addr 10.9.0.1/24 --json{more}");
    let mut server = Running(rdma(&arguments).stdout(Stdio::piped()).spawn()?);
    let stdout = server.0.stdout.take().ok_or("a pipe")?;
    let mut lines = BufReader::new(stdout);
    assert_eq!(next(&mut lines)?["listening"], "127.0.0.1:18515");
    Ok((server, lines))
}

fn next(lines: &mut impl BufRead) -> TestResult<Value> {
    let mut line = String::new();
    lines.read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

fn work(kind: &str, more: &str) -> TestResult<Output> {
    let device = "--dev packet:hawser1 --addr 10.9.0.2/24";
    Ok(rdma(&format!("{kind} {device} {more}")).output()?)
}

/// The client itself checks the server's memory.
fn memory_of_another_process_is_written_read_and_changed() -> TestResult {
    between_devices(|| {
        let (_server, mut lines) = serve("")?;
        for (kind, size, more) in [
            ("write", 64, "--depth 4"),
            ("write", 100_001, "--mtu 256"),
            ("read", 1, ""),
            ("read", 70_003, "--depth 3"),
            ("send", 5_000, "--depth 8"),
            ("atomic", 8, "--depth 16 --spin"),
        ] {
            let more = format!("--json --count 50 --size {size} {more}");
            let output = work(kind, more.trim())?;
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{kind}: {errors}");
            let result: Value = serde_json::from_slice(&output.stdout)?;
            assert_eq!(
                (&result["operation"], &result["count"]),
                (&kind.into(), &50.into())
            );
            assert_eq!(
                (&result["size"], &result["program"]),
                (&size.into(), &"roce".into())
            );
            let latency = |name: &str| result["latency_ns"][name].as_u64().unwrap_or(0);
            assert!(0 < latency("min") && latency("min") <= latency("p50"), "{result}");
            assert!(latency("p50") <= latency("max"), "{result}");
            let served = next(&mut lines)?;
            assert_eq!(
                (&served["served"], &served["failed"]),
                (&kind.into(), &Value::Null)
            );
            assert_eq!(served["messages"], if kind == "send" { 50 } else { 0 });
        }
        Ok(())
    })
}

fn incompatible_options_are_reported() -> TestResult {
    between_devices(|| {
        let refused = |kind: &str, more: &str, code, text: &str| -> TestResult {
            let output = work(kind, more)?;
            let errors = String::from_utf8(output.stderr)?;
            assert_eq!(output.status.code(), Some(code), "{errors}");
            assert!(errors.contains(text), "{errors}");
            Ok(())
        };
        let none = "the transport program does not support work on registered memory: choose one that does, --program roce";
        refused("write", "--program tcp", 3, none)?;
        refused(
            "read",
            "--program roce",
            5,
            "the server at 127.0.0.1:18515 does not answer",
        )?;
        refused(
            "read",
            "--program roce --mtu 1000",
            2,
            "expected 256, 512, 1024, 2048 or 4096",
        )?;
        let socket = rdma("serve --program roce --dev udp:127.0.0.1:4791").output()?;
        let errors = String::from_utf8(socket.stderr)?;
        assert_eq!(socket.status.code(), Some(4), "{errors}");
        assert!(errors.contains("which a UDP socket does not show"), "{errors}");
        Ok(())
    })
}

/// 4,096 bytes with headers need an MTU of 4,160 bytes over IPv4 (IBA, A17): UDP, BTH, RETH, immediate data
/// and the CRC are 44 bytes. First the client's device is too small, then only the server's.
fn packets_too_long_for_a_device_are_refused_at_once() -> TestResult {
    between_devices(|| {
        let (_server, mut lines) = serve("")?;
        let refused = |code, text: &str| -> TestResult {
            let begin = std::time::Instant::now();
            let output = work("write", "--mtu 4096 --size 65536 --count 1")?;
            let errors = String::from_utf8(output.stderr)?;
            assert_eq!(output.status.code(), Some(code), "{errors}");
            assert!(errors.contains(text), "{errors}");
            // The seven retries of a pair take 0.5 s, and a probe of the address takes 0.3 s.
            assert!(begin.elapsed() < Duration::from_secs(5));
            Ok(())
        };
        let own = "packets with 4096 bytes of payload do not fit the device, whose MTU is 1500 bytes";
        refused(4, own)?;
        let mut netlink = Netlink::open()?;
        netlink.set_mtu("hawser1", 4_159)?;
        refused(4, "whose MTU is 4159 bytes")?;
        netlink.set_mtu("hawser1", 4_160)?;
        refused(
            5,
            "the server's device does not accept packets with so much payload",
        )?;
        let output = work("write", "--mtu 1024 --size 65536 --count 1")?;
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert_eq!(next(&mut lines)?["served"], "write");
        Ok(())
    })
}

/// Opens the control connection of a caller.
fn call() -> TestResult<TcpStream> {
    Ok(TcpStream::connect("127.0.0.1:18515")?)
}

/// Three hundred silent callers, and one that sends a byte each 100 ms. A server that waited for each in turn
/// would serve no client within its 5 s.
fn incomplete_requests_do_not_block_other_clients() -> TestResult {
    between_devices(|| {
        let (_server, mut lines) = serve("")?;
        let silent = (0..300).map(|_| call()).collect::<TestResult<Vec<_>>>()?;
        let mut slow = call()?;
        std::thread::spawn(move || {
            while slow.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let output = work("write", "--count 100")?;
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert_eq!(next(&mut lines)?["served"], "write");
        drop(silent);
        Ok(())
    })
}

/// Idle clients hold all places.
fn idle_clients_make_room() -> TestResult {
    between_devices(|| {
        let (_server, _lines) = serve("")?;
        // All clients ask before the first is answered, so the server accepts them in a few turns.
        let idle = (0..64).map(|pair| {
            let mut caller = call()?;
            let hello = json!({
                "kind": "read", "size": 4096, "depth": 1, "mtu": 1024, "address": "10.9.0.2",
                "pair": 1_000 + pair, "first_packet": 0,
            });
            writeln!(caller, "{hello}")?;
            Ok(caller)
        });
        let idle = idle.collect::<TestResult<Vec<_>>>()?;
        for caller in &idle {
            let mut answer = String::new();
            BufReader::new(caller).read_line(&mut answer)?;
            assert!(answer.contains("served"), "{answer}");
        }
        let refused = work("write", "--count 1")?;
        let errors = String::from_utf8_lossy(&refused.stderr);
        assert!(errors.contains("LIMIT"), "{errors}");
        assert_eq!(refused.status.code(), Some(5));
        // Longer than `hawser::session::admission::IDLE_TIMEOUT`.
        std::thread::sleep(Duration::from_secs(6));
        let output = work("write", "--count 100")?;
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        drop(idle);
        Ok(())
    })
}

/// Runs all commands of docs/messages-streams-verbs.md in one network.
fn the_page_on_interfaces_works_word_for_word() -> TestResult {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/messages-streams-verbs.md");
    let page = std::fs::read_to_string(page)?;
    let blocks = page.split("```sh\n").skip(1);
    let commands: String = blocks
        .filter_map(|block| block.split_once("```"))
        .map(|(text, _)| text)
        .collect();
    assert_eq!(commands.matches("hawser ").count(), 9, "{commands}");
    let hawser = Path::new(env!("CARGO_BIN_EXE_hawser"))
        .parent()
        .ok_or("a folder")?;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("interfaces");
    std::fs::create_dir_all(&folder)?;
    let output = Namespace::create()?.run(|| {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = Command::new("bash");
        shell.args(["-euc", &commands]).current_dir(&folder);
        shell.env("PATH", format!("{}:{path}", hawser.display())).output()
    })??;
    let shown = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{shown}\n{errors}");
    for expected in [
        "1000 calls of 32 bytes",
        "1000 times write of 64 bytes",
        "1000 times atomic of 8 bytes",
    ] {
        assert!(shown.contains(expected), "{shown}\n{errors}");
    }
    assert_eq!(shown.matches("bytes in order").count(), 2, "{shown}\n{errors}");
    Ok(())
}
