//! An association in the process.
//!
//! The bytes of the stream are sent as messages, in order on stream 0, with payload protocol 0. The
//! boundaries of messages have no meaning. SCTP has no half-closed state (RFC 9260, 9). Two carriers that
//! recognise each other by their adaptation layer indication therefore end a direction by a message of
//! protocol [`END`]. With any other peer, finishing begins SHUTDOWN.

use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll};
use std::time::Instant;

use crate::Statistics;
use bytes::Bytes;

use super::abi::{self, Status, option};
use super::address;
use super::closer::Ending;
use super::figures::{self, AcknowledgementMeter, message_length};
use super::library::{ReceiveResult, Socket};
use super::notice::{Notice, parse};
use super::stack::{ADAPTATION, HelperStack};
use super::wakers::WakerRegistration;
use crate::sctp::path::{PathEvent, PathStatistics};
use crate::sctp::protocol::View;
use crate::sctp::queue::take;

/// The payload protocol of the message that ends one direction: `HEND`. The message has one byte, because
/// SCTP has no empty messages (RFC 9260, 6.1).
const END: u32 = 0x4845_4e44;
/// The number of messages that wait in the library before it takes no more. It is small so that urgent data
/// never waits for long. It is about 93 KB, enough for the time in which the process waits for a processor.
const PENDING: u16 = 8;
/// The maximum number of bytes taken by one write.
const WRITE: usize = 131_072;
/// The maximum number of bytes in one read.
const READ: usize = 65_536;
/// The room, in bytes, that one more read needs. Any notification fits into it.
const ROOM: usize = 4_096;
/// The number of path events that are kept until they are read. The oldest are dropped.
const EVENTS: usize = 64;

/// An association of the library.
pub(crate) struct Association {
    /// `None` after it was handed over to the closer.
    socket: Option<Socket>,
    registration: Option<WakerRegistration>,
    stack: HelperStack,
    scratch: Box<[u8]>,
    /// Bytes that were read before they were requested.
    held: VecDeque<Bytes>,
    /// A buffer in which a message is assembled.
    message: Vec<u8>,
    meter: AcknowledgementMeter,
    events: VecDeque<PathEvent>,
    up: bool,
    /// True if the library has reported that the association was lost.
    lost: bool,
    /// The cause of the association's end, which the library reports only once.
    gone: Option<io::ErrorKind>,
    /// True if the peer ends its directions by a message, as this side does.
    knows_end: bool,
    /// True if the association has ended.
    ended: bool,
    /// True if this side has announced the end of its data.
    finished: bool,
    aborted: bool,
    failed_setup: bool,
}

/// The result of one call to receive.
enum ReceiveOutcome {
    Data(usize),
    /// A notification, which was processed.
    Noticed,
    End,
}

impl Association {
    pub(crate) fn new(socket: Socket, registration: WakerRegistration, stack: HelperStack) -> Self {
        Self {
            socket: Some(socket),
            registration: Some(registration),
            stack,
            scratch: vec![0; READ].into(),
            held: VecDeque::new(),
            message: Vec::new(),
            meter: AcknowledgementMeter::new(),
            events: VecDeque::new(),
            up: false,
            lost: false,
            gone: None,
            knows_end: false,
            ended: false,
            finished: false,
            aborted: false,
            failed_setup: false,
        }
    }

    /// Returns its paths, one for each address of the peer.
    fn paths(&self) -> Vec<PathStatistics> {
        self.socket.as_ref().map(figures::paths).unwrap_or_default()
    }

    /// Returns its current state, with the path events since the last call.
    pub(crate) fn view(&mut self) -> View {
        let statistics = self.statistics();
        let primary = self.status().ok();
        let local = self.socket.as_ref().map(Socket::local_addresses);
        View {
            local: local.and_then(|addresses| addresses.first().copied()),
            primary: primary.and_then(|status| address::from_storage(&status.primary.address)),
            half_closes: self.knows_end,
            statistics,
            paths: self.paths(),
            events: self.events.drain(..).collect(),
        }
    }

    /// Waits for the end of the handshake.
    pub(crate) fn poll_up(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.wake_reader(cx);
        loop {
            match self.turn(0) {
                Ok(ReceiveOutcome::Noticed) if self.failed_setup => {
                    return Poll::Ready(Err(self.why_not_up()));
                }
                Ok(ReceiveOutcome::Noticed) => {}
                Ok(ReceiveOutcome::Data(length)) => {
                    self.held
                        .push_back(Bytes::copy_from_slice(&self.scratch[..length]));
                    return Poll::Ready(Ok(()));
                }
                Ok(ReceiveOutcome::End) if self.up => {
                    self.ended = true;
                    return Poll::Ready(Ok(()));
                }
                Ok(ReceiveOutcome::End) => return Poll::Ready(Err(self.why_not_up())),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return if self.up {
                        Poll::Ready(Ok(()))
                    } else {
                        Poll::Pending
                    };
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Returns the error that the library keeps along with its notification, or an equivalent one.
    fn why_not_up(&mut self) -> io::Error {
        match self.turn(0) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => error,
            _ => io::ErrorKind::ConnectionRefused.into(),
        }
    }

    /// Receives once, after the first `filled` bytes of `scratch`.
    fn turn(&mut self, filled: usize) -> io::Result<ReceiveOutcome> {
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        match socket.receive(&mut self.scratch[filled..])? {
            ReceiveResult::Data { protocol: END, .. } if self.knows_end => Ok(ReceiveOutcome::End),
            ReceiveResult::Data { length, .. } => Ok(ReceiveOutcome::Data(length)),
            ReceiveResult::End => Ok(ReceiveOutcome::End),
            ReceiveResult::Notification { length } => {
                if let Some(notice) = parse(&self.scratch[filled..filled + length]) {
                    self.note(notice);
                }
                Ok(ReceiveOutcome::Noticed)
            }
        }
    }

    fn note(&mut self, notice: Notice) {
        match notice {
            Notice::Up => self.up = true,
            Notice::Lost => self.lost = true,
            Notice::NotSetUp => self.failed_setup = true,
            Notice::Adaptation(indication) => self.knows_end = indication == ADAPTATION,
            Notice::Path(event) => {
                if self.events.len() == EVENTS {
                    self.events.pop_front();
                }
                self.events.push_back(event);
            }
            // The end of the data is reported separately.
            Notice::Ended | Notice::Shutdown => {}
        }
    }

    /// Returns the cause of the association's end. The library reports it after the bytes not read yet, which
    /// are kept. They are at most one receive buffer.
    fn why_gone(&mut self) -> io::Error {
        while self.gone.is_none() {
            match self.turn(0) {
                Ok(ReceiveOutcome::Data(length)) => {
                    self.held
                        .push_back(Bytes::copy_from_slice(&self.scratch[..length]));
                }
                Ok(ReceiveOutcome::Noticed) => {}
                Ok(ReceiveOutcome::End) if self.lost => return self.end_with(io::ErrorKind::ConnectionReset),
                Ok(ReceiveOutcome::End) => {
                    self.ended = true;
                    return io::ErrorKind::BrokenPipe.into();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return self.end_with(error.kind()),
            }
        }
        self.gone.unwrap_or(io::ErrorKind::BrokenPipe).into()
    }

    fn end_with(&mut self, kind: io::ErrorKind) -> io::Error {
        let kind = match kind {
            // The library itself aborts when the peer was silent for too long.
            io::ErrorKind::ConnectionAborted if !self.aborted => io::ErrorKind::TimedOut,
            kind => kind,
        };
        self.gone = Some(kind);
        kind.into()
    }

    fn status(&self) -> io::Result<Status> {
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        socket.get(option::STATUS, Status::default())
    }

    fn wake_reader(&self, cx: &Context<'_>) {
        if let Some(registration) = &self.registration {
            registration.wake_reader(cx);
        }
    }

    fn wake_writer(&self, cx: &Context<'_>) {
        if let Some(registration) = &self.registration {
            registration.wake_writer(cx);
        }
    }

    /// Sends a message off the front of `queue`. Returns its length.
    fn send_message(&mut self, queue: &mut VecDeque<Bytes>, max_len: usize) -> io::Result<usize> {
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let Some(front) = queue.front() else { return Ok(0) };
        let sent = if front.len() >= max_len || queue.len() == 1 {
            let length = front.len().min(max_len);
            socket.send(&front[..length], 0, 0)?
        } else {
            self.message.clear();
            for bytes in queue.iter() {
                let room = max_len - self.message.len();
                self.message.extend_from_slice(&bytes[..bytes.len().min(room)]);
                if self.message.len() == max_len {
                    break;
                }
            }
            socket.send(&self.message, 0, 0)?
        };
        take(queue, sent);
        Ok(sent)
    }
}

impl Association {
    fn statistics(&mut self) -> Statistics {
        match self.status() {
            Ok(status) => {
                let paths = self.paths();
                self.meter.read(Instant::now(), &status, &paths)
            }
            Err(_) => Statistics::default(),
        }
    }

    /// Returns the next bytes, as many as are available. Empty bytes mean the end.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        if let Some(bytes) = self.held.pop_front() {
            return Poll::Ready(Ok(bytes));
        }
        if self.ended {
            return Poll::Ready(Ok(Bytes::new()));
        }
        if let Some(gone) = self.gone {
            return Poll::Ready(Err(gone.into()));
        }
        self.wake_reader(cx);
        let mut filled = 0;
        let result = loop {
            match self.turn(filled) {
                Ok(ReceiveOutcome::Data(length)) => {
                    filled += length;
                    if self.scratch.len() - filled < ROOM {
                        break Ok(());
                    }
                }
                Ok(ReceiveOutcome::Noticed) => {}
                Ok(ReceiveOutcome::End) if self.lost => {
                    break Err(self.end_with(io::ErrorKind::ConnectionReset));
                }
                Ok(ReceiveOutcome::End) => {
                    self.ended = true;
                    break Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Err(error),
                Err(error) => break Err(self.end_with(error.kind())),
            }
        };
        match result {
            // Bytes came before the end, or before an error, which is reported again by the next call.
            _ if filled > 0 => Poll::Ready(Ok(Bytes::copy_from_slice(&self.scratch[..filled]))),
            Ok(()) => Poll::Ready(Ok(Bytes::new())),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    /// Takes as many bytes off the front of `queue` as the library accepts.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        queue: &mut VecDeque<Bytes>,
    ) -> Poll<io::Result<usize>> {
        if self.finished || self.aborted {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        self.wake_writer(cx);
        let mut written = 0;
        while written < WRITE {
            while queue.front().is_some_and(Bytes::is_empty) {
                queue.pop_front();
            }
            if queue.is_empty() {
                break;
            }
            let Ok(status) = self.status() else {
                return Poll::Ready(Err(self.why_gone()));
            };
            if status.pending >= PENDING {
                break;
            }
            match self.send_message(queue, message_length(&status)) {
                Ok(sent) => written += sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if written == 0 => return Poll::Ready(Err(error)),
                // The next call reports the error again.
                Err(_) => break,
            }
        }
        self.meter.written += written as u64;
        if written == 0 && !queue.is_empty() {
            Poll::Pending
        } else {
            Poll::Ready(Ok(written))
        }
    }

    /// Ends this direction. Ready when the peer has everything, or is gone.
    pub(crate) fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(socket) = &self.socket else {
            return Poll::Ready(Ok(()));
        };
        self.wake_writer(cx);
        if !self.finished {
            let result = match self.knows_end {
                true => socket.send(&[0], END, 0).map(|_| ()),
                false => socket.shut_down(),
            };
            match result {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
                // An association that is gone needs no end.
                _ => self.finished = true,
            }
        }
        // Ready when the peer has everything, or is gone.
        match self.status() {
            Ok(status) if status.pending > 0 || status.unacknowledged > 0 => Poll::Pending,
            _ => Poll::Ready(Ok(())),
        }
    }

    pub(crate) fn abort(&mut self) {
        if let Some(socket) = &self.socket
            && !self.aborted
        {
            self.aborted = true;
            // This fails if the association no longer exists.
            let _ = socket.send(&[], 0, abi::SEND_ABORT);
        }
    }
}

impl Drop for Association {
    fn drop(&mut self) {
        if let (Some(socket), Some(registration)) = (self.socket.take(), self.registration.take()) {
            // An association that never came up has no data to lose, so it may be aborted.
            self.stack
                .end(Ending { socket, _registration: registration, at_once: self.aborted || !self.up });
        }
    }
}
