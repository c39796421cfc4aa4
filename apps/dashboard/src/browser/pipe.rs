//! Messages to and from a browser: the Chrome DevTools Protocol over two pipes, where each message is JSON
//! followed by NUL.
//!
//! A thread reads, so that waits can have a limit. It stores at most [`WAITING`] messages; a browser that
//! sends more blocks until they are read.

use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Instant;

use serde_json::{Value, json};

use super::BrowserError;

/// The maximum number of messages read ahead.
const WAITING: usize = 256;

/// The pipes to and from the browser.
pub(super) struct Pipe {
    to: PipeWriter,
    from: Receiver<Value>,
    calls: u64,
}

impl Pipe {
    /// Uses these pipes. The reading thread ends when the browser closes its end, or this value is dropped.
    pub(super) fn new(to: PipeWriter, from: PipeReader) -> io::Result<Pipe> {
        let (sender, receiver) = sync_channel(WAITING);
        let read = move || {
            let mut from = BufReader::new(from);
            let mut message = Vec::new();
            while matches!(from.read_until(0, &mut message), Ok(length) if length > 0) {
                let Ok(value) = serde_json::from_slice(message.strip_suffix(&[0]).unwrap_or(&message)) else {
                    break;
                };
                if sender.send(value).is_err() {
                    break;
                }
                message.clear();
            }
        };
        std::thread::Builder::new()
            .name("browser".to_owned())
            .spawn(read)?;
        Ok(Pipe { to, from: receiver, calls: 0 })
    }

    /// Sends a call. Returns its number, which the answer repeats.
    pub(super) fn send(
        &mut self,
        session: Option<&str>,
        method: &str,
        params: Value,
    ) -> Result<u64, BrowserError> {
        self.calls += 1;
        let mut message = json!({ "id": self.calls, "method": method, "params": params });
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).map_err(|_| BrowserError::Ended)?;
        Ok(self.calls)
    }

    /// Returns the next message.
    pub(super) fn next(&self, until: Instant) -> Result<Value, BrowserError> {
        let left = until.saturating_duration_since(Instant::now());
        self.from.recv_timeout(left).map_err(|error| match error {
            RecvTimeoutError::Timeout => BrowserError::Late,
            RecvTimeoutError::Disconnected => BrowserError::Ended,
        })
    }
}
