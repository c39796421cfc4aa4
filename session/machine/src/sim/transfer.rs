//! The transfers between the applications, each on its own stream.

use std::time::Duration;

use crate::{ReadError, Session};
use bytes::{Bytes, BytesMut};
use hawser_time::Instant;

use crate::sim::clock::START;
use crate::sim::side::Side;

/// A transfer of bytes from one side to the other, on a stream of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The sending side.
    pub from: Side,
    /// The number of bytes.
    pub bytes: u64,
    /// The time from the start until the sender begins to write.
    pub at: Duration,
    /// The receiver's reading rate in bytes per second; 0: as fast as data arrives.
    pub read_rate: u64,
}

/// The progress of a transfer.
#[derive(Debug)]
pub(crate) struct TransferProgress {
    number: usize,
    pub(crate) transfer: Transfer,
    stream: Option<u32>,
    written: u64,
    finished_writing: bool,
    pub(crate) read: u64,
    last_read: Option<Instant>,
    pub(crate) gaps: Vec<(Duration, Duration)>,
    pub(crate) finished: Option<Duration>,
}

/// An error that a receiver detects in a transfer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransferError {
    /// The session returned an error.
    #[error("transfer {transfer}: {error}")]
    Read {
        transfer: usize,
        #[source]
        error: ReadError,
    },
    /// The transfer ended too early.
    #[error("transfer {transfer} ended after {read} bytes")]
    Short { transfer: usize, read: u64 },
    /// The received bytes differ from those sent.
    #[error("transfer {transfer}: a wrong byte in {begin}..{end}")]
    WrongByte { transfer: usize, begin: u64, end: u64 },
}

/// The minimum length of a pause that counts as a gap.
const GAP: Duration = Duration::from_millis(5);
/// The interval between the reads of a slow reader.
pub(crate) const SLOW_READ: Duration = Duration::from_millis(5);

/// Returns `length` bytes of transfer `number` from `offset` on. Each group of eight bytes is unique.
fn content(number: usize, offset: u64, length: usize) -> Bytes {
    let word = |index: u64| (index.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number as u64).to_le_bytes();
    let skip = (offset % 8) as usize;
    let mut bytes = BytesMut::with_capacity(length + 16);
    let mut index = offset / 8;
    while bytes.len() < skip + length {
        bytes.extend_from_slice(&word(index));
        index += 1;
    }
    let _ = bytes.split_to(skip);
    bytes.truncate(length);
    bytes.freeze()
}

impl TransferProgress {
    pub(crate) fn new(number: usize, transfer: Transfer) -> Self {
        Self {
            number,
            transfer,
            stream: None,
            written: 0,
            finished_writing: false,
            read: 0,
            last_read: None,
            gaps: Vec::new(),
            finished: None,
        }
    }

    fn begins_at(&self) -> Instant {
        START + self.transfer.at
    }

    /// Returns the time at which this side acts next without external input.
    pub(crate) fn next_deadline(&self, side: Side, now: Instant) -> Option<Instant> {
        if side == self.transfer.from {
            return Some(self.begins_at()).filter(|at| *at > now);
        }
        let reads_slowly = self.transfer.read_rate > 0 && self.stream.is_some() && self.finished.is_none();
        reads_slowly.then_some(now + SLOW_READ)
    }

    /// Writes as much as the session takes, on the sender's side.
    pub(crate) fn write(&mut self, session: &mut Session, now: Instant) {
        const CHUNK: u64 = 65_536;
        let bytes = self.transfer.bytes;
        if self.begins_at() > now || self.finished_writing {
            return;
        }
        let stream = match self.stream.map_or_else(|| session.open(), Ok) {
            Ok(stream) => stream,
            Err(_) => return,
        };
        self.stream = Some(stream);
        while self.written < bytes {
            let length = CHUNK.min(bytes - self.written);
            if (session.capacity(stream) as u64) < length {
                return;
            }
            match session.write(stream, content(self.number, self.written, length as usize), now) {
                Ok(taken) => self.written += taken as u64,
                Err(_) => return,
            }
        }
        self.finished_writing = session.finish(stream, now).is_ok();
    }

    /// Reads as much as the configured rate allows, on the receiver's side.
    pub(crate) fn read(
        &mut self,
        session: &mut Session,
        announced: &[u32],
        now: Instant,
    ) -> Result<(), TransferError> {
        let Some(stream) = self.stream.filter(|stream| announced.contains(stream)) else {
            return Ok(());
        };
        while self.finished.is_none() {
            let allowed = match self.transfer.read_rate {
                0 => u64::MAX,
                rate => {
                    let open_for = (now - self.begins_at()).as_secs_f64();
                    ((open_for * rate as f64) as u64).saturating_sub(self.read)
                }
            };
            if allowed == 0 {
                return Ok(());
            }
            match session.read(stream, allowed.min(1 << 20) as usize, now) {
                Ok(bytes) => self.take(&bytes, now)?,
                Err(ReadError::Blocked) => return Ok(()),
                Err(error) => {
                    self.finished = Some(now - START);
                    let transfer = self.number;
                    return Err(TransferError::Read { transfer, error });
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, bytes: &Bytes, now: Instant) -> Result<(), TransferError> {
        let (transfer, begin) = (self.number, self.read);
        if bytes.is_empty() {
            self.finished = Some(now - START);
            return match begin == self.transfer.bytes {
                true => Ok(()),
                false => Err(TransferError::Short { transfer, read: begin }),
            };
        }
        self.read += bytes.len() as u64;
        let since = self.last_read.replace(now).unwrap_or(now);
        if now - since >= GAP {
            self.gaps.push((since - START, now - START));
        }
        match *bytes == content(transfer, begin, bytes.len()) {
            true => Ok(()),
            false => Err(TransferError::WrongByte { transfer, begin, end: self.read }),
        }
    }
}
