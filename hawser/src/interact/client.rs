//! The other end of the socket: a subscriber in a process of its own.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Signals that wait while an answer is waited for.
const KEPT: usize = 65_536;

/// Why nothing came of it.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody is there.
    #[error("{}: nobody listens there ({error}); is `hawser … --interact` running?", path.display())]
    Nobody {
        /// Where.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// What was asked for was turned down: why.
    #[error("{0}")]
    Refused(String),
    /// The connection broke.
    #[error("the other process is gone: {0}")]
    Gone(io::Error),
    /// The other end says what nobody understands.
    #[error("the other end speaks another protocol: {0}")]
    Strange(String),
}

/// What a line says.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// A signal.
    Signal(Value),
    /// Nothing, for as long as one would wait.
    Nothing,
}

/// A connection to the socket of a running process. Lines go both ways as `docs/interact.md` has
/// them; answers come in the order of requests, signals in between.
#[derive(Debug)]
pub struct Client {
    reader: BufReader<UnixStream>,
    line: Vec<u8>,
    signals: VecDeque<Value>,
    missed: u64,
    process: u64,
}

impl Client {
    /// Connects, and says who it is.
    ///
    /// # Errors
    /// When nobody listens, or it is not served.
    pub fn connect(path: &Path, name: &str, priority: u8) -> Result<Client, ClientError> {
        let nobody = |error| ClientError::Nobody { path: path.into(), error };
        let stream = UnixStream::connect(path).map_err(nobody)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(nobody)?;
        let reader = BufReader::with_capacity(1 << 16, stream);
        let mut client = Client { reader, line: Vec::new(), signals: VecDeque::new(), missed: 0, process: 0 };
        let hello = client.ask(&json!({ "hello": { "name": name, "priority": priority } }))?;
        client.process = hello["hello"]["process"].as_u64().unwrap_or(0);
        match hello["hello"]["version"].as_u64() {
            Some(1) => Ok(client),
            version => Err(ClientError::Strange(format!("version {version:?}, expected 1"))),
        }
    }

    /// Says something that has no answer.
    ///
    /// # Errors
    /// When the other process is gone.
    pub fn tell(&mut self, request: &Value) -> Result<(), ClientError> {
        let line = format!("{request}\n");
        self.reader.get_mut().write_all(line.as_bytes()).map_err(ClientError::Gone)
    }

    /// Asks, and waits for the answer. Signals that come before it are kept.
    ///
    /// # Errors
    /// When it is turned down, or the other process is gone.
    pub fn ask(&mut self, request: &Value) -> Result<Value, ClientError> {
        self.tell(request)?;
        loop {
            let line = self.read(Some(PATIENCE))?;
            let Some(line) = line else { return Err(ClientError::Gone(io::ErrorKind::TimedOut.into())) };
            if let Some(why) = line["error"].as_str() {
                return Err(ClientError::Refused(why.to_owned()));
            }
            match line.get("signal") {
                Some(signal) if self.signals.len() < KEPT => self.signals.push_back(signal.clone()),
                Some(_) => self.missed += 1,
                None => return Ok(line),
            }
        }
    }

    /// The next signal, or nothing within `at_most` (nothing given: for ever).
    ///
    /// # Errors
    /// When the other process is gone, or tells that it serves no more.
    pub fn hear(&mut self, at_most: Option<Duration>) -> Result<Heard, ClientError> {
        if let Some(signal) = self.signals.pop_front() {
            return Ok(Heard::Signal(signal));
        }
        let Some(mut line) = self.read(at_most)? else { return Ok(Heard::Nothing) };
        if let Some(why) = line["error"].as_str() {
            return Err(ClientError::Refused(why.to_owned()));
        }
        Ok(line.get_mut("signal").map_or(Heard::Nothing, |signal| Heard::Signal(signal.take())))
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

    /// A line, or nothing in time; what came of it stays for the next time.
    fn read(&mut self, at_most: Option<Duration>) -> Result<Option<Value>, ClientError> {
        let at_most = at_most.map(|limit| limit.max(Duration::from_millis(1)));
        self.reader.get_ref().set_read_timeout(at_most).map_err(ClientError::Gone)?;
        match self.reader.read_until(b'\n', &mut self.line) {
            Ok(_) if self.line.last() == Some(&b'\n') => {
                let value = serde_json::from_slice(&self.line);
                self.line.clear();
                value.map(Some).map_err(|error| ClientError::Strange(error.to_string()))
            }
            Ok(_) => Err(ClientError::Gone(io::ErrorKind::UnexpectedEof.into())),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                Ok(None)
            }
            Err(error) => Err(ClientError::Gone(error)),
        }
    }
}
