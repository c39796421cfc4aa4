//! Lines of JSON exchanged with a peer on this host: bounded, and without waiting for a peer that does not
//! read.

use std::convert::Infallible;
use std::ffi::c_int;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::ioctl::{Getter, Opcode, ioctl};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

/// The maximum length of a line, in bytes, without its end.
pub const LINE: usize = 64 << 10;
/// The bytes kept of a longer line: enough to recognize its request.
const BEGINNING: usize = 64;
/// The maximum number of bytes read ahead while the peer is written to.
const AHEAD: usize = 2 * LINE;
/// The time for which a connection may be idle, and the time that a line may take.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// The time for which a peer may take no bytes of the data sent to it.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// The number of bytes written at once. The system counts the bytes that the peer has taken by whole writes.
const PIECE: usize = 4_096;
/// `SIOCOUTQ` of include/uapi/linux/sockios.h, which is `TIOCOUTQ`: the number of written bytes that the peer
/// has not taken.
const SIOCOUTQ: Opcode = 0x5411;

/// The maximum number of file descriptors sent with one answer.
pub const FILES: usize = 2;

/// The reasons for which a connection ends, other than a close by its peer.
pub enum LineError {
    /// The connection is refused, and the peer receives this as the last answer.
    Refused(String),
    /// The peer does not read the data sent to it.
    Slow,
    /// The peer is gone.
    Gone,
}

impl From<io::Error> for LineError {
    fn from(_: io::Error) -> LineError {
        LineError::Gone
    }
}

/// A line of a peer.
#[derive(Debug, PartialEq, Eq)]
pub enum PeerLine {
    /// A complete line, without its end.
    Whole(Vec<u8>),
    /// A line of more than [`LINE`] bytes. All but its first [`BEGINNING`] bytes, at most, were dropped.
    TooLong(Vec<u8>),
}

/// Reads bounded lines of a peer.
pub struct Lines {
    reader: OwnedReadHalf,
    buffer: Vec<u8>,
    /// The beginning of the line that is being read, if it is too long; the rest of it is dropped.
    too_long: Option<Vec<u8>>,
}

impl Lines {
    /// Makes a reader of the peer's lines.
    pub fn new(reader: OwnedReadHalf) -> Lines {
        Lines { reader, buffer: Vec::new(), too_long: None }
    }

    /// Returns the next line that is not empty; `None` when the peer has closed.
    pub async fn next(&mut self) -> Result<Option<PeerLine>, LineError> {
        match timeout(IDLE_TIMEOUT, self.line()).await {
            Ok(line) => line,
            Err(_) => Err(LineError::Refused(format!(
                "no command in {} s",
                IDLE_TIMEOUT.as_secs()
            ))),
        }
    }

    /// Returns the next line. If `may_be_idle`, the wait for its first byte has no time limit.
    pub async fn next_or_idle(&mut self, may_be_idle: bool) -> Result<Option<PeerLine>, LineError> {
        let begins = self.buffer.is_empty() && self.too_long.is_none();
        if may_be_idle && begins && self.fill().await? == 0 {
            return Ok(None);
        }
        self.next().await
    }

    async fn line(&mut self) -> Result<Option<PeerLine>, LineError> {
        let mut searched = 0;
        loop {
            let end = self.buffer[searched..].iter().position(|byte| *byte == b'\n');
            if let Some(end) = end.map(|at| searched + at) {
                let rest = self.buffer.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.buffer, rest);
                line.pop();
                searched = 0;
                if let Some(beginning) = self.too_long.take() {
                    return Ok(Some(PeerLine::TooLong(beginning)));
                }
                if line.len() > LINE {
                    line.truncate(BEGINNING);
                    return Ok(Some(PeerLine::TooLong(line)));
                }
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return Ok(Some(PeerLine::Whole(line)));
            }
            if self.buffer.len() > LINE {
                let beginning = || self.buffer[..BEGINNING].to_vec();
                self.too_long.get_or_insert_with(beginning);
                self.buffer.clear();
            }
            searched = self.buffer.len();
            if self.fill().await? == 0 {
                // A line without an end is not a request.
                return Ok(None);
            }
        }
    }

    /// Waits for more data; returns false when the peer has closed.
    pub async fn any(&mut self) -> Result<bool, LineError> {
        Ok(!self.buffer.is_empty() || self.fill().await? > 0)
    }

    /// Reads from the peer, as far as there is room, until the future is dropped. A peer that answers each of
    /// many lines writes while it is written to, so neither side may wait for the other.
    pub async fn take_in(&mut self) -> Infallible {
        while self.buffer.len() < AHEAD {
            self.buffer.reserve(4_096);
            if !matches!(self.reader.read_buf(&mut self.buffer).await, Ok(1..)) {
                // The end or the error shows when the next line is read.
                break;
            }
        }
        std::future::pending().await
    }

    /// The future may be dropped: the data read so far is in the buffer.
    async fn fill(&mut self) -> Result<usize, LineError> {
        // The limit also holds for buffered data: at most a line and its end are read.
        self.buffer.reserve(4_096);
        let room = (LINE + 2 - self.buffer.len().min(LINE + 1)).min(4_096) as u64;
        Ok((&mut self.reader).take(room).read_buf(&mut self.buffer).await?)
    }
}

/// Writes answers to a peer that must read them in time.
pub struct Answers(OwnedWriteHalf);

impl Answers {
    /// Makes a writer of answers to the peer.
    pub fn new(writer: OwnedWriteHalf) -> Answers {
        Answers(writer)
    }

    /// Sends one answer, a line of JSON.
    ///
    /// # Errors
    /// When the peer has gone, or reads too slowly.
    pub async fn send(&mut self, answer: &Value) -> Result<(), LineError> {
        self.write(format!("{answer}\n").as_bytes()).await
    }

    /// Sends an answer together with file descriptors.
    pub async fn send_with(&mut self, answer: &Value, files: &[OwnedFd]) -> Result<(), LineError> {
        let line = format!("{answer}\n");
        let stream: &UnixStream = self.0.as_ref();
        let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        let send = || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            control.push(SendAncillaryMessage::ScmRights(&files));
            let text = [IoSlice::new(line.as_bytes())];
            Ok(sendmsg(stream, &text, &mut control, SendFlags::NOSIGNAL)?)
        };
        let sent = match timeout(WRITE_TIMEOUT, stream.async_io(Interest::WRITABLE, send)).await {
            Ok(sent) => sent?,
            Err(_) => return Err(LineError::Slow),
        };
        self.write(&line.as_bytes()[sent..]).await
    }

    /// Writes lines, including their ends.
    pub async fn write(&mut self, lines: &[u8]) -> Result<(), LineError> {
        for piece in lines.chunks(PIECE) {
            self.write_piece(piece).await?;
        }
        Ok(())
    }

    /// Writes as long as the peer takes any bytes, however slowly. The system reports room again only when
    /// most of the queued data is gone.
    async fn write_piece(&mut self, piece: &[u8]) -> Result<(), LineError> {
        let mut rest = piece;
        let mut waiting = self.waiting()?;
        while !rest.is_empty() {
            match timeout(WRITE_TIMEOUT, self.0.write(rest)).await {
                Ok(written) => rest = &rest[written?..],
                Err(_) => {
                    let now = self.waiting()?;
                    if now >= waiting {
                        return Err(LineError::Slow);
                    }
                    waiting = now;
                }
            }
        }
        Ok(())
    }

    /// Returns the number of bytes that the peer has not taken, including the system's overhead.
    #[allow(unsafe_code)] // There is no safe call for it.
    fn waiting(&self) -> io::Result<c_int> {
        let stream: &UnixStream = self.0.as_ref();
        // SAFETY: SIOCOUTQ writes one `int` and no other memory.
        unsafe { Ok(ioctl(stream, Getter::<SIOCOUTQ, c_int>::new())?) }
    }
}
