//! A client and a server with two links, and the processes on them.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use hawser_lab::{Lab, Spec};

use crate::TestResult;

/// Sets up two links, from `10.77.n.1` to `10.77.n.2`. `rules` apply to both directions of each.
pub(crate) fn two_links(rules: &str) -> TestResult<Lab> {
    let mut text = "seed = 5\nhost = [{ name = \"client\" }, { name = \"server\" }]\n".to_owned();
    for name in ["first", "second"] {
        text += &format!("[[link]]\nname = \"{name}\"\nbetween = [\"client\", \"server\"]\n{rules}\n");
    }
    Ok(Lab::up(&Spec::parse(&text)?)?)
}

/// A process on a host. It is killed when the value is dropped.
pub(crate) struct Peer {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Peer {
    pub(crate) fn start(lab: &Lab, host: &str, words: &str) -> TestResult<Self> {
        let mut command = lab.host(host)?.command(std::env::current_exe()?)?;
        command.arg("peer").args(words.split(' ')).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let output = child.stdout.take().ok_or("no output")?;
        Ok(Self { child, output: BufReader::new(output) })
    }

    /// Starts a server, and waits until it is ready.
    pub(crate) fn sink(lab: &Lab, words: &str) -> TestResult<Self> {
        let mut sink = Self::start(lab, "server", &format!("sink {words}"))?;
        let line = sink.line()?;
        if line.starts_with("ready=") {
            Ok(sink)
        } else {
            Err(line.into())
        }
    }

    /// Reads its next line.
    pub(crate) fn line(&mut self) -> TestResult<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    /// Limits the number of descriptors that it may have open.
    pub(crate) fn limit_descriptors(&self, max: usize) -> TestResult {
        let status = Command::new("prlimit")
            .args([format!("--pid={}", self.child.id()), format!("--nofile={max}:")])
            .status()?;
        expect(status.success(), "prlimit failed")
    }

    /// Returns the number of its open descriptors.
    pub(crate) fn descriptors(&self) -> TestResult<usize> {
        Ok(std::fs::read_dir(format!("/proc/{}/fd", self.child.id()))?.count())
    }

    /// Returns the id of its SCTP process, which is its only child.
    pub(crate) fn sctp_process(&self) -> TestResult<u32> {
        let id = self.child.id();
        for task in std::fs::read_dir(format!("/proc/{id}/task"))? {
            let children = std::fs::read_to_string(task?.path().join("children"))?;
            if let Some(child) = children.split_whitespace().next() {
                return Ok(child.parse()?);
            }
        }
        Err("no SCTP process".into())
    }

    /// Returns the maximum memory that it has used, in kB.
    pub(crate) fn peak_memory(&self) -> TestResult<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .ok_or("no VmHWM")?;
        Ok(line.trim().trim_end_matches(" kB").parse()?)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The process may already have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a client until it ends. Returns its output line and its duration.
pub(crate) fn client(lab: &Lab, words: &str) -> TestResult<(String, Duration)> {
    let begin = Instant::now();
    let line = Peer::start(lab, "client", words)?.line()?;
    println!("  {line}");
    Ok((line, begin.elapsed()))
}

/// Returns the value of a word in a line.
pub(crate) fn value<'a>(line: &'a str, word: &str) -> TestResult<&'a str> {
    let found = line
        .split(' ')
        .find_map(|part| part.strip_prefix(word)?.strip_prefix('='));
    found.ok_or_else(|| format!("no {word} in {line:?}").into())
}

/// Returns that value as a number.
pub(crate) fn number(line: &str, word: &str) -> TestResult<u64> {
    Ok(value(line, word)?.parse()?)
}

/// Returns an error if the condition does not hold.
pub(crate) fn expect(holds: bool, what: impl Into<String>) -> TestResult {
    if holds { Ok(()) } else { Err(what.into().into()) }
}
