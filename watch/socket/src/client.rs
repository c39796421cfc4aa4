//! The client's end of the socket: a subscriber in another process.

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

use super::shared::{self, RingError, RingWaker};
use crate::local::{self, ConnectError, FILES, MAX_ANSWER};

/// The maximum time that an answer may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of signals kept while the client waits for an answer.
const MAX_KEPT: usize = 65_536;
/// The maximum total length of their lines, in bytes.
const MAX_KEPT_BYTES: usize = 64 << 20;

/// The errors of a client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No process listens at the socket.
    #[error("{}: no process listens there ({error}); is `hawser … --interact` running?", path.display())]
    Nobody {
        /// The socket's file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A process of another user listens at the socket; no request was sent to it.
    #[error("{}: {error}", path.display())]
    OtherUser {
        /// The socket's file.
        path: PathBuf,
        /// The user of the listening process, and the expected one.
        error: ConnectError,
    },
    /// The request was refused, for this reason.
    #[error("{0}")]
    Refused(String),
    /// A document or a filter was refused; each text is one fault.
    #[error("{}", .0.join("\n"))]
    Wrong(Vec<String>),
    /// The connection broke.
    #[error("the other process has ended: {0}")]
    Gone(io::Error),
    /// The other process still runs, but has closed this subscriber's connection.
    #[error(
        "process {0} has closed the connection, as it does when a subscriber reads nothing for 5 s: read \
         faster, or subscribe with an interval"
    )]
    Closed(u64),
    /// The memory received for a ring is not a ring.
    #[error("the other end uses another protocol: {0}")]
    Ring(#[from] RingError),
    /// The other end violates the protocol.
    #[error("the other end uses another protocol: {0}")]
    Protocol(String),
}

/// A message from the server.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerMessage {
    /// A signal.
    Signal(Value),
    /// A lease of this subscriber ended before its time: `flow`, `variable`, `why`.
    Ended(Value),
    /// A watched document changed.
    Event(Value),
    /// No message arrived within the timeout.
    Nothing,
}

/// A connection to the socket of a running process. Lines go in both directions as `docs/interact.md`
/// describes them. Answers come in the order of requests, with signals in between.
#[derive(Debug)]
pub struct Client {
    reader: BufReader<Wire>,
    line: Vec<u8>,
    /// The queued signals, each with the length of its line in bytes.
    signals: VecDeque<(Value, usize)>,
    /// The total length of these lines, in bytes.
    kept: usize,
    /// Notices and events of documents that arrived while the client waited for an answer.
    ended: VecDeque<ServerMessage>,
    missed: u64,
    rights: Value,
    /// The reason why a `steer` was refused, until the caller asks for the next message.
    steered: Option<String>,
    process: u64,
}

/// A stream that can also carry file descriptors.
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
        // Unexpected descriptors are closed.
        self.files.truncate(FILES);
        Ok(got.bytes)
    }
}

impl Client {
    /// Connects, and sends `hello`.
    ///
    /// # Errors
    /// When no process listens, when a process of another user listens, or when the client is rejected.
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

    /// Sends a request and waits for the answer. Signals that arrive before it are kept.
    ///
    /// # Errors
    /// When the request is refused, or the other process is gone.
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

    /// Requests a queue of signals in memory that both processes share, for at least `slots` signals.
    /// Subscriptions made with `"ring": true` deliver there, as [`Signal`](hawser_bus::Signal)s in words,
    /// millions a second. When it is empty, its reader sleeps on the [`RingWaker`].
    ///
    /// # Errors
    /// When the request is refused, or the other process is gone.
    pub fn ring(&mut self, slots: usize) -> Result<(Consumer, RingWaker), ClientError> {
        let [memory, waker] = self.ring_files(slots)?;
        let ring = shared::accept(&memory)?;
        Ok((ring, RingWaker::new(waker)))
    }

    /// Returns the ring's raw memory, to test hostile readers.
    #[cfg(test)]
    pub(super) fn ring_memory(
        &mut self,
        slots: usize,
    ) -> Result<(impl hawser_bus::ring::RingMemory + use<>, RingWaker), ClientError> {
        let [memory, waker] = self.ring_files(slots)?;
        Ok((shared::map(&memory)?, RingWaker::new(waker)))
    }

    fn ring_files(&mut self, slots: usize) -> Result<[OwnedFd; FILES], ClientError> {
        self.reader.get_mut().files.clear();
        self.ask(&json!({ "ring": { "slots": slots } }))?;
        let files = std::mem::take(&mut self.reader.get_mut().files);
        let missing = |_| ClientError::Protocol("the answer does not include the ring's memory".into());
        files.try_into().map_err(missing)
    }

    /// Returns the next message, or `ServerMessage::Nothing` after `timeout` (`None`: waits for ever).
    ///
    /// # Errors
    /// When the other process is gone, has closed this client's connection, or refused a `steer`.
    pub fn receive(&mut self, timeout: Option<Duration>) -> Result<ServerMessage, ClientError> {
        if let Some(why) = self.steered.take() {
            return Err(ClientError::Refused(why));
        }
        if let Some(notice) = self.ended.pop_front() {
            return Ok(notice);
        }
        if let Some((signal, bytes)) = self.signals.pop_front() {
            self.kept -= bytes;
            return Ok(ServerMessage::Signal(signal));
        }
        let Some((mut line, _)) = self.read(timeout)? else {
            return Ok(ServerMessage::Nothing);
        };
        if let Some(why) = line["error"].as_str() {
            return Err(ClientError::Refused(why.to_owned()));
        }
        if let Some(notice) = notice(&line) {
            return Ok(notice);
        }
        Ok(line.get_mut("signal").map_or(ServerMessage::Nothing, |signal| {
            ServerMessage::Signal(signal.take())
        }))
    }

    /// Returns whether this subscriber has the right to set a variable, to any value.
    #[must_use]
    pub fn may_set(&self, variable: &str) -> bool {
        let grants = self.rights["modify"].as_array().map_or(&[][..], Vec::as_slice);
        let patterns = grants.iter().filter_map(|grant| grant["variables"].as_str());
        patterns
            .map(Pattern::from)
            .any(|pattern| pattern.matches(variable))
    }

    /// Returns the id of the process at the other end.
    #[must_use]
    pub fn process(&self) -> u64 {
        self.process
    }

    /// Returns the number of signals dropped here because too many arrived before an answer.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Returns whether the other process exists, as far as this process can see.
    fn is_alive(&self) -> bool {
        self.process != 0 && Path::new("/proc").join(self.process.to_string()).exists()
    }

    /// Reads a line with its length in bytes; `None` after the timeout. A partial line is kept for the next
    /// call.
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
                "a line has more than {MAX_ANSWER} bytes"
            ))),
            // A connection that is cut in the middle of a line was closed because this client read too
            // slowly.
            Ok(_) if !self.line.is_empty() && self.is_alive() => Err(ClientError::Closed(self.process)),
            Ok(_) => Err(ClientError::Gone(io::ErrorKind::UnexpectedEof.into())),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                Ok(None)
            }
            Err(error) => Err(ClientError::Gone(error)),
        }
    }
}

/// Parses a line that is neither an answer nor a signal.
fn notice(line: &Value) -> Option<ServerMessage> {
    match line.get("ended") {
        Some(ended) => Some(ServerMessage::Ended(ended.clone())),
        None => line.get("event").map(|_| ServerMessage::Event(line.clone())),
    }
}

/// Formats one fault of a document as a line.
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
