//! `hawser rpc serve` and `call`: two processes at the ends of a pair of Ethernet devices.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Output, Stdio};

use hawser::host::netns::{Namespace, Netlink};
use hawser_testing::{Test, TestResult, in_user_namespace, tests};
use serde_json::Value;

const TESTS: &[Test] = tests![
    calls_between_two_processes_are_answered_and_their_times_reported,
    calls_to_an_absent_or_smaller_server_fail_with_a_reason,
    eight_consecutive_failures_end_the_calls,
    the_commands_of_the_page_call_without_root,
];

fn main() -> ExitCode {
    in_user_namespace("hawser rpc between two processes", TESTS)
}

/// A process that is killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn rpc(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hawser"));
    command.arg("rpc").args(arguments.split(' '));
    command
}

/// Runs a test in a network of two devices.
fn between_devices(test: impl Fn() -> TestResult + Send + Sync) -> TestResult {
    Namespace::create()?.run(|| -> TestResult {
        let mut netlink = Netlink::open()?;
        netlink.add_veth("hawser0", "hawser1", &Namespace::current()?)?;
        netlink.bring_up("hawser0")?;
        netlink.bring_up("hawser1")?;
        test()
    })?
}

/// Starts a server and waits until it listens.
fn serve(program: &str, more: &str) -> TestResult<Running> {
    let arguments = format!("serve --program {program} --dev packet:hawser0 --addr 10.9.0.1/24 --json{more}");
    let mut server = Running(rpc(&arguments).stdout(Stdio::piped()).spawn()?);
    let stdout = server.0.stdout.take().ok_or("a pipe")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    let message: Value = serde_json::from_str(&line)?;
    assert_eq!(message["listening"], "10.9.0.1:7000");
    Ok(server)
}

fn call(program: &str, more: &str) -> TestResult<Output> {
    let device = "--dev packet:hawser1 --addr 10.9.0.2/24";
    Ok(rpc(&format!("call 10.9.0.1:7000 --program {program} {device}{more}")).output()?)
}

fn calls_between_two_processes_are_answered_and_their_times_reported() -> TestResult {
    between_devices(|| {
        for program in ["homa", "tcp"] {
            let _server = serve(program, "")?;
            let output = call(program, " --calls 200 --concurrency 4 --size 3000 --json")?;
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{program}: {errors}");
            let result: Value = serde_json::from_slice(&output.stdout)?;
            assert_eq!(
                (&result["calls"], &result["failed"]),
                (&200.into(), &0.into()),
                "{program}"
            );
            let latency = |name: &str| result["latency_ns"][name].as_u64().unwrap_or(0);
            assert!(
                0 < latency("min") && latency("min") <= latency("p50"),
                "{program}: {result}"
            );
            assert!(latency("p50") <= latency("p99.9") && latency("p99.9") <= latency("max"));
            // Little's law, with four calls in flight all the time.
            let (mean, seconds) = (latency("mean") as f64, result["seconds"].as_f64().unwrap_or(0.0));
            let under_way = mean * 200.0 / (seconds * 1e9);
            assert!(
                (2.5..=4.1).contains(&under_way),
                "{program}: {under_way} calls under way: {result}"
            );
            let buckets = result["histogram_ns"].as_array().ok_or("a histogram")?;
            let counted: u64 = buckets.iter().filter_map(|bucket| bucket[1].as_u64()).sum();
            assert_eq!(counted, 200, "{program}: each call is in the histogram");
            let output = call(program, " --duration 1s --spin")?;
            let text = String::from_utf8(output.stdout)?;
            assert!(
                output.status.success() && text.contains("calls of 32 bytes in 1.0"),
                "{text}"
            );
        }
        Ok(())
    })
}

fn calls_to_an_absent_or_smaller_server_fail_with_a_reason() -> TestResult {
    between_devices(|| {
        let output = call("homa", " --calls 1 --deadline 1s")?;
        assert_eq!(output.status.code(), Some(5));
        let text = String::from_utf8(output.stderr)?;
        assert!(
            text.contains("the server answered no call; 1 failed, the first with: "),
            "{text}"
        );
        let _server = serve("tcp", " --max-size 100")?;
        let output = call("tcp", " --calls 1 --size 101 --json")?;
        assert_eq!(output.status.code(), Some(5));
        assert!(output.stdout.is_empty());
        let text = String::from_utf8(output.stderr)?;
        assert!(text.contains("10.9.0.1:7000 refused: Message too long"), "{text}");
        Ok(())
    })
}

/// Without a server, the command does not wait for a hundred thousand calls of a tenth of a second each.
fn eight_consecutive_failures_end_the_calls() -> TestResult {
    between_devices(|| {
        for program in ["homa", "tcp"] {
            let output = call(program, " --calls 100000 --deadline 100ms")?;
            assert_eq!(output.status.code(), Some(5));
            let text = String::from_utf8(output.stderr)?;
            assert!(
                text.contains("the server answered no call; 8 failed, the first with: "),
                "{program}: {text}"
            );
        }
        Ok(())
    })
}

/// Runs the commands of docs/messages.md for a user without root, as printed.
fn the_commands_of_the_page_call_without_root() -> TestResult {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/messages.md"))?;
    let begin = page
        .find("unshare -Urn sh -c")
        .ok_or("the page has the commands")?;
    let commands = page[begin..].split("```").next().ok_or("they end")?;
    let command = std::path::Path::new(env!("CARGO_BIN_EXE_hawser"));
    let folder = command.parent().ok_or("a folder")?.display();
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("sh")
        .args(["-c", commands])
        .env("PATH", format!("{folder}:{path}:/usr/sbin:/sbin"))
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("1000 calls of 32 bytes in "), "{text}{errors}");
    Ok(())
}
