//! The other end of the socket: a subscriber in a process of its own.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hawser_bus::Pattern;
use hawser_bus::ring::Consumer;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use serde_json::{Value, json};

use super::shared::{self, Bell, RingError};
use crate::local::{self, ConnectError, FILES, MAX_ANSWER};

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Signals that wait while an answer is waited for.
const MAX_KEPT: usize = 65_536;
/// Bytes of their lines.
const MAX_KEPT_BYTES: usize = 64 << 20;

/// Why nothing came of it.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody is there.
    #[error("{}: nobody listens there ({error}); is `hawser … --interact` running?", path.display())]
    Nobody {
        /// The socket's file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Somebody else is there, to whom nothing was sent.
    #[error("{}: {error}", path.display())]
    OtherUser {
        /// The socket's file.
        path: PathBuf,
        /// The user that the other end belongs to, and the one that was expected.
        error: ConnectError,
    },
    /// The request was refused: why.
    #[error("{0}")]
    Refused(String),
    /// A document or a filter was refused: everything that is wrong with it, one thing each.
    #[error("{}", .0.join("\n"))]
    Wrong(Vec<String>),
    /// The connection broke.
    #[error("the other process is gone: {0}")]
    Gone(io::Error),
    /// The other process goes on, and serves this subscriber no more.
    #[error(
        "process {0} has closed the connection: it does so when a subscriber takes nothing of what it is sent for 5 s: read faster, or subscribe with an interval"
    )]
    Closed(u64),
    /// The memory that came for a ring is none.
    #[error("the other end speaks another protocol: {0}")]
    Ring(#[from] RingError),
    /// The other end does not keep to the protocol.
    #[error("the other end speaks another protocol: {0}")]
    Protocol(String),
}

/// What was received.
#[derive(Clone, Debug, PartialEq)]
pub enum Received {
    /// A signal.
    Signal(Value),
    /// A lease of this subscriber ended before its time: `flow`, `variable`, `why`.
    Ended(Value),
    /// Something became of documents that are watched.
    Event(Value),
    /// Nothing, for as long as one would wait.
    Nothing,
}

/// A connection to the socket of a running process. Lines go both ways as `docs/interact.md` has
/// them; answers come in the order of requests, signals in between.
#[derive(Debug)]
pub struct Client {
    reader: BufReader<Wire>,
    line: Vec<u8>,
    /// Signals that wait, each with the bytes of its line.
    signals: VecDeque<(Value, usize)>,
    /// The bytes of all of them.
    kept: usize,
    /// Notices and events of documents that came while an answer was waited for.
    ended: VecDeque<Received>,
    missed: u64,
    rights: Value,
    /// Why a `steer` was refused, until somebody listens.
    steered: Option<String>,
    process: u64,
}

/// A stream on which files may come, too.
#[derive(Debug)]
struct Wire {
    stream: UnixStream,
    files: Vec<OwnedFd>,
}

impl Read for Wire {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(out)];
        let got = recvmsg(&self.stream, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                self.files.extend(files);
            }
        }
        // Those that nobody asked for are closed.
        self.files.truncate(FILES);
        Ok(got.bytes)
    }
}

impl Client {
    /// Connects, and sends `hello`.
    ///
    /// # Errors
    /// When nobody listens, or a process of another user does, or it is not served.
    pub fn connect(path: &Path, name: &str, priority: u8) -> Result<Client, ClientError> {
        let nobody = |error| ClientError::Nobody { path: path.into(), error };
        let stream = local::connect(path).map_err(|error| match error {
            ConnectError::System(error) => nobody(error),
            ConnectError::OtherUser(_) => ClientError::OtherUser { path: path.into(), error },
        })?;
        stream.set_write_timeout(Some(TIMEOUT)).map_err(nobody)?;
        let reader = BufReader::with_capacity(1 << 16, Wire { stream, files: Vec::new() });
        let mut client = Client {
            reader,
            line: Vec::new(),
            signals: VecDeque::new(),
            kept: 0,
            ended: VecDeque::new(),
            missed: 0,
            rights: Value::Null,
            steered: None,
            process: 0,
        };
        let hello = client.ask(&json!({ "hello": { "name": name, "priority": priority } }))?;
        client.process = hello["hello"]["process"].as_u64().unwrap_or(0);
        client.rights = hello["hello"]["rights"].clone();
        match hello["hello"]["version"].as_u64() {
            Some(1) => Ok(client),
            version => Err(ClientError::Protocol(format!("version {version:?}, expected 1"))),
        }
    }

    /// Sends a request that has no answer.
    ///
    /// # Errors
    /// When the other process is gone.
    pub fn send(&mut self, request: &Value) -> Result<(), ClientError> {
        let line = format!("{request}\n");
        self.reader
            .get_mut()
            .stream
            .write_all(line.as_bytes())
            .map_err(ClientError::Gone)
    }

    /// Asks, and waits for the answer. Signals that come before it are kept.
    ///
    /// # Errors
    /// When it is refused, or the other process is gone.
    pub fn ask(&mut self, request: &Value) -> Result<Value, ClientError> {
        self.send(request)?;
        loop {
            let line = self.read(Some(TIMEOUT))?;
            let Some((line, bytes)) = line else {
                return Err(ClientError::Gone(io::ErrorKind::TimedOut.into()));
            };
            if let Some(why) = line["error"].as_str() {
                if line["of"] == "steer" {
                    self.steered = Some(why.to_owned());
                    continue;
                }
                return Err(match line["diagnostics"].as_array() {
                    Some(diagnostics) => ClientError::Wrong(diagnostics.iter().map(diagnostic).collect()),
                    None => ClientError::Refused(why.to_owned()),
                });
            }
            if let Some(notice) = notice(&line) {
                if self.ended.len() < MAX_KEPT {
                    self.ended.push_back(notice);
                }
                continue;
            }
            match line.get("signal") {
                Some(signal) if self.signals.len() < MAX_KEPT && self.kept + bytes <= MAX_KEPT_BYTES => {
                    self.kept += bytes;
                    self.signals.push_back((signal.clone(), bytes));
                }
                Some(_) => self.missed += 1,
                None => return Ok(line),
            }
        }
    }

    /// A queue of signals in memory that both processes share, for at least this many: subscriptions
    /// made with `"ring": true` deliver there, as [`Signal`](hawser_bus::Signal)s in words, millions a
    /// second. Where it is empty, its reader sleeps at the bell.
    ///
    /// # Errors
    /// When it is refused, or the other process is gone.
    pub fn ring(&mut self, slots: usize) -> Result<(Consumer, Bell), ClientError> {
        let [memory, bell] = self.ring_files(slots)?;
        let ring = shared::accept(&memory)?;
        Ok((ring, Bell::new(bell)))
    }

    /// The ring's bare memory, for who means harm.
    #[cfg(test)]
    pub(super) fn ring_memory(
        &mut self,
        slots: usize,
    ) -> Result<(impl hawser_bus::ring::Memory + use<>, Bell), ClientError> {
        let [memory, bell] = self.ring_files(slots)?;
        Ok((shared::map(&memory)?, Bell::new(bell)))
    }

    fn ring_files(&mut self, slots: usize) -> Result<[OwnedFd; FILES], ClientError> {
        self.reader.get_mut().files.clear();
        self.ask(&json!({ "ring": { "slots": slots } }))?;
        let files = std::mem::take(&mut self.reader.get_mut().files);
        let missing = |_| ClientError::Protocol("the ring's memory did not come with the answer".into());
        files.try_into().map_err(missing)
    }

    /// The next signal, or nothing within `timeout` (nothing given: for ever).
    ///
    /// # Errors
    /// When the other process is gone, serves this client no more, or refused a `steer`.
    pub fn receive(&mut self, timeout: Option<Duration>) -> Result<Received, ClientError> {
        if let Some(why) = self.steered.take() {
            return Err(ClientError::Refused(why));
        }
        if let Some(notice) = self.ended.pop_front() {
            return Ok(notice);
        }
        if let Some((signal, bytes)) = self.signals.pop_front() {
            self.kept -= bytes;
            return Ok(Received::Signal(signal));
        }
        let Some((mut line, _)) = self.read(timeout)? else {
            return Ok(Received::Nothing);
        };
        if let Some(why) = line["error"].as_str() {
            return Err(ClientError::Refused(why.to_owned()));
        }
        if let Some(notice) = notice(&line) {
            return Ok(notice);
        }
        Ok(line
            .get_mut("signal")
            .map_or(Received::Nothing, |signal| Received::Signal(signal.take())))
    }

    /// Whether this subscriber has the right to set a variable, to whatever value.
    #[must_use]
    pub fn may_set(&self, variable: &str) -> bool {
        let grants = self.rights["modify"].as_array().map_or(&[][..], Vec::as_slice);
        let patterns = grants.iter().filter_map(|grant| grant["variables"].as_str());
        patterns
            .map(Pattern::from)
            .any(|pattern| pattern.matches(variable))
    }

    /// The number of the process at the other end.
    #[must_use]
    pub fn process(&self) -> u64 {
        self.process
    }

    /// Signals that had to be dropped here, because too many came before an answer.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Whether the other process is there, as far as this one can see.
    fn is_alive(&self) -> bool {
        self.process != 0 && Path::new("/proc").join(self.process.to_string()).exists()
    }

    /// A line with its number of bytes, or nothing in time; what came of it stays for the next time.
    fn read(&mut self, timeout: Option<Duration>) -> Result<Option<(Value, usize)>, ClientError> {
        let timeout = timeout.map(|limit| limit.max(Duration::from_millis(1)));
        self.reader
            .get_ref()
            .stream
            .set_read_timeout(timeout)
            .map_err(ClientError::Gone)?;
        let room = MAX_ANSWER.saturating_sub(self.line.len()) as u64;
        match self.reader.by_ref().take(room).read_until(b'\n', &mut self.line) {
            Ok(_) if self.line.last() == Some(&b'\n') => {
                let (value, bytes) = (hawser_documents::json_bytes(&self.line), self.line.len());
                self.line.clear();
                value
                    .map(|value| Some((value, bytes)))
                    .map_err(|error| ClientError::Protocol(error.to_string()))
            }
            Ok(_) if self.line.len() >= MAX_ANSWER => Err(ClientError::Protocol(format!(
                "a line of more than {MAX_ANSWER} bytes"
            ))),
            // What is cut off in the middle of a line was not taken in time.
            Ok(_) if !self.line.is_empty() && self.is_alive() => Err(ClientError::Closed(self.process)),
            Ok(_) => Err(ClientError::Gone(io::ErrorKind::UnexpectedEof.into())),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                Ok(None)
            }
            Err(error) => Err(ClientError::Gone(error)),
        }
    }
}

/// A line that is neither an answer nor a signal.
fn notice(line: &Value) -> Option<Received> {
    match line.get("ended") {
        Some(ended) => Some(Received::Ended(ended.clone())),
        None => line.get("event").map(|_| Received::Event(line.clone())),
    }
}

/// One thing that is wrong with a document, as a line.
fn diagnostic(diagnostic: &Value) -> String {
    let text = |key: &str| diagnostic[key].as_str().unwrap_or_default();
    let hint = diagnostic["hint"]
        .as_str()
        .map_or_else(String::new, |hint| format!(" ({hint})"));
    match text("path") {
        "" => format!("{}{hint}", text("message")),
        path => format!("{path}: {}{hint}", text("message")),
    }
}
