//! Lines of JSON with a peer on this host: bounded, and without waiting for who does not read.

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

/// Bytes of a line, without its end.
pub const LINE: usize = 64 << 10;
/// Bytes of a longer line that are kept: enough to see which request it was.
const BEGINNING: usize = 64;
/// Bytes of lines that are taken in while the peer is written to.
const AHEAD: usize = 2 * LINE;
/// How long a connection may be idle, and how long a line may take.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a peer may take nothing of what it is sent.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes that are written at once: the system counts what the peer has taken by pieces as they were written.
const PIECE: usize = 4_096;
/// `SIOCOUTQ` of include/uapi/linux/sockios.h, which is `TIOCOUTQ`: how much of what was written waits.
const SIOCOUTQ: Opcode = 0x5411;

/// Files that go with one answer at most.
pub const FILES: usize = 2;

/// Why a connection ends, beside that its peer closed it.
pub enum End {
    /// It gets this as its last answer.
    Refused(String),
    /// It does not read what it is sent.
    Slow,
    /// It is gone.
    Gone,
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> End {
        End::Gone
    }
}

/// A line of a peer.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// It, without its end.
    Whole(Vec<u8>),
    /// It had more than [`LINE`] bytes, which were dropped but for the first [`BEGINNING`] at most.
    TooLong(Vec<u8>),
}

/// Bounded lines of a peer.
pub struct Lines {
    reader: OwnedReadHalf,
    buffer: Vec<u8>,
    /// The beginning of the line that is being read, where it is too long: the rest of it is dropped.
    too_long: Option<Vec<u8>>,
}

impl Lines {
    /// The lines that a peer sends here.
    pub fn new(reader: OwnedReadHalf) -> Lines {
        Lines { reader, buffer: Vec::new(), too_long: None }
    }

    /// The next line that is not empty; none when the peer has closed.
    pub async fn next(&mut self) -> Result<Option<Line>, End> {
        match timeout(IDLE_TIMEOUT, self.line()).await {
            Ok(line) => line,
            Err(_) => Err(End::Refused(format!(
                "no command in {} s",
                IDLE_TIMEOUT.as_secs()
            ))),
        }
    }

    /// The next line, however long it takes to begin where that may be.
    pub async fn next_or_idle(&mut self, may_be_idle: bool) -> Result<Option<Line>, End> {
        let begins = self.buffer.is_empty() && self.too_long.is_none();
        if may_be_idle && begins && self.fill().await? == 0 {
            return Ok(None);
        }
        self.next().await
    }

    async fn line(&mut self) -> Result<Option<Line>, End> {
        let mut searched = 0;
        loop {
            let end = self.buffer[searched..].iter().position(|byte| *byte == b'\n');
            if let Some(end) = end.map(|at| searched + at) {
                let rest = self.buffer.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.buffer, rest);
                line.pop();
                searched = 0;
                if let Some(beginning) = self.too_long.take() {
                    return Ok(Some(Line::TooLong(beginning)));
                }
                if line.len() > LINE {
                    line.truncate(BEGINNING);
                    return Ok(Some(Line::TooLong(line)));
                }
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return Ok(Some(Line::Whole(line)));
            }
            if self.buffer.len() > LINE {
                let beginning = || self.buffer[..BEGINNING].to_vec();
                self.too_long.get_or_insert_with(beginning);
                self.buffer.clear();
            }
            searched = self.buffer.len();
            if self.fill().await? == 0 {
                // A line without an end is no request.
                return Ok(None);
            }
        }
    }

    /// Waits for anything more: whether there is, or the peer has closed.
    pub async fn any(&mut self) -> Result<bool, End> {
        Ok(!self.buffer.is_empty() || self.fill().await? > 0)
    }

    /// Takes in what the peer sends, as far as there is room, until it is dropped: a peer that answers each of
    /// many lines writes while it is written to, and neither may wait for the other.
    pub async fn take_in(&mut self) -> Infallible {
        while self.buffer.len() < AHEAD {
            self.buffer.reserve(4_096);
            if !matches!(self.reader.read_buf(&mut self.buffer).await, Ok(1..)) {
                // What this means shows when the next line is asked for.
                break;
            }
        }
        std::future::pending().await
    }

    /// May be dropped: what was read is in the buffer.
    async fn fill(&mut self) -> Result<usize, End> {
        // The bound holds for what waits, too: no more is read than a line and its end.
        self.buffer.reserve(4_096);
        let room = (LINE + 2 - self.buffer.len().min(LINE + 1)).min(4_096) as u64;
        Ok((&mut self.reader).take(room).read_buf(&mut self.buffer).await?)
    }
}

/// Answers to a peer that has to read them.
pub struct Answers(OwnedWriteHalf);

impl Answers {
    /// What a peer reads here.
    pub fn new(writer: OwnedWriteHalf) -> Answers {
        Answers(writer)
    }

    /// Sends one answer, a line of JSON.
    ///
    /// # Errors
    /// The peer has gone, or reads too slowly.
    pub async fn send(&mut self, answer: &Value) -> Result<(), End> {
        self.write(format!("{answer}\n").as_bytes()).await
    }

    /// Sends an answer, and hands over files with it.
    pub async fn send_with(&mut self, answer: &Value, files: &[OwnedFd]) -> Result<(), End> {
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
            Err(_) => return Err(End::Slow),
        };
        self.write(&line.as_bytes()[sent..]).await
    }

    /// Writes lines, their ends included.
    pub async fn write(&mut self, lines: &[u8]) -> Result<(), End> {
        for piece in lines.chunks(PIECE) {
            self.write_piece(piece).await?;
        }
        Ok(())
    }

    /// Writes for as long as the peer takes anything, however slowly: the system has room again only when
    /// most of what waits is gone.
    async fn write_piece(&mut self, piece: &[u8]) -> Result<(), End> {
        let mut rest = piece;
        let mut waiting = self.waiting()?;
        while !rest.is_empty() {
            match timeout(WRITE_TIMEOUT, self.0.write(rest)).await {
                Ok(written) => rest = &rest[written?..],
                Err(_) => {
                    let now = self.waiting()?;
                    if now >= waiting {
                        return Err(End::Slow);
                    }
                    waiting = now;
                }
            }
        }
        Ok(())
    }

    /// Bytes that the peer has not taken, with what the system needs to keep them.
    #[allow(unsafe_code)] // There is no safe call for it.
    fn waiting(&self) -> io::Result<c_int> {
        let stream: &UnixStream = self.0.as_ref();
        // SAFETY: SIOCOUTQ writes one `int`, and nothing else.
        unsafe { Ok(ioctl(stream, Getter::<SIOCOUTQ, c_int>::new())?) }
    }
}
