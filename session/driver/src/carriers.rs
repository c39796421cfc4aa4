//! One carrier, as the task that drives a session sees it.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hawser_carriers::Carrier;
use hawser_session_machine::CarrierId;
use tokio::time::Sleep;

/// The queue length, in bytes, beyond which a carrier takes no more data. It holds two of the longest
/// segments, so that one is being written while the next one waits.
const QUEUE: usize = 131_072;
/// The maximum number of reads in one turn, before other carriers have theirs.
const READS: usize = 16;
/// The time that an ending carrier has for its queued bytes, and for its peer to end it, too.
const FINISHING: Duration = Duration::from_secs(3);

/// A carrier with the bytes that wait to be written to it.
pub(super) struct Strand {
    pub(super) id: CarrierId,
    pub(super) carrier: Box<dyn Carrier>,
    queue: VecDeque<Bytes>,
    queued: usize,
    /// True if the transport took all bytes offered to it.
    is_writable: bool,
    /// True if bytes were written or read, or the carrier became writable or blocked, and the session has not
    /// been notified yet.
    has_moved: bool,
    /// The error after which no more can be written.
    failure: Option<io::Error>,
    flushed: bool,
    /// True if this direction was ended and its transport knows.
    finished: bool,
    /// Set while it is ending. The carrier ends when the queue is written and its peer has ended it, or at
    /// this timeout.
    ending: Option<Pin<Box<Sleep>>>,
}

/// The result of a turn.
pub(super) enum TurnResult {
    /// No more bytes are available for now.
    Idle,
    /// More bytes may be available at once.
    Busy,
    /// The carrier has ended, for this reason.
    Over(String),
}

impl Strand {
    pub(super) fn new(id: CarrierId, carrier: Box<dyn Carrier>) -> Self {
        Self {
            id,
            carrier,
            queue: VecDeque::new(),
            queued: 0,
            is_writable: true,
            has_moved: true,
            failure: None,
            flushed: true,
            finished: false,
            ending: None,
        }
    }

    pub(super) fn push(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.queued += bytes.len();
            self.queue.push_back(bytes);
        }
    }

    /// Returns true if the transport has taken all queued bytes.
    pub(super) fn has_written(&self) -> bool {
        self.queue.is_empty() && self.flushed
    }

    /// Returns the number of data bytes that it can take now.
    pub(super) fn room(&self) -> usize {
        if self.is_writable {
            QUEUE.saturating_sub(self.queued)
        } else {
            0
        }
    }

    /// Ends it when everything is written and its peer has ended it, or after 3 s.
    pub(super) fn finish(&mut self) {
        self.ending = Some(Box::pin(tokio::time::sleep(FINISHING)));
    }

    pub(super) fn is_finishing(&self) -> bool {
        self.ending.is_some()
    }

    /// Writes queued bytes as far as the transport takes them. [`Strand::read`] reports a failure.
    pub(super) fn write(&mut self, cx: &mut Context<'_>) {
        let before = (self.queued, self.is_writable);
        self.failure = self.write_all(cx).err();
        self.has_moved |= before != (self.queued, self.is_writable);
    }

    /// Returns true if its state may have changed since the last call. Acknowledgements by its peer's
    /// transport do not count.
    pub(super) fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.has_moved)
    }

    fn write_all(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while !self.queue.is_empty() {
            match self.carrier.poll_write(cx, &mut self.queue) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(written)) => {
                    self.queued -= written;
                    self.flushed = false;
                }
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => {
                    self.is_writable = false;
                    return Ok(());
                }
            }
        }
        self.is_writable = true;
        if !self.flushed {
            if let Poll::Ready(result) = self.carrier.poll_flush(cx) {
                result?;
                self.flushed = true;
            } else {
                self.is_writable = false;
            }
        }
        Ok(())
    }

    /// Reads available bytes and passes them to `take`.
    pub(super) fn read(&mut self, cx: &mut Context<'_>, take: impl FnMut(Bytes)) -> TurnResult {
        let turn = self.read_all(cx, take);
        match self.failure.take() {
            Some(error) => TurnResult::Over(error.to_string()),
            None => turn,
        }
    }

    fn read_all(&mut self, cx: &mut Context<'_>, mut take: impl FnMut(Bytes)) -> TurnResult {
        for _ in 0..READS {
            match self.carrier.poll_read(cx) {
                Poll::Ready(Ok(bytes)) if bytes.is_empty() => return TurnResult::Over("end of file".into()),
                Poll::Ready(Ok(bytes)) => {
                    take(bytes);
                    self.has_moved = true;
                }
                Poll::Ready(Err(error)) => return TurnResult::Over(error.to_string()),
                Poll::Pending => return TurnResult::Idle,
            }
        }
        TurnResult::Busy
    }

    /// Continues to end it, and returns true when it is over. Bytes that the peer still sends are read and
    /// dropped. A socket that is closed before would answer them with a reset, which discards data in transit
    /// (RFC 9112, 9.6).
    pub(super) fn end(&mut self, cx: &mut Context<'_>) -> bool {
        if self.write_all(cx).is_err() {
            return true;
        }
        if !self.finished && self.queue.is_empty() {
            self.finished = self.carrier.poll_finish(cx).is_ready();
        }
        if self.finished {
            match self.read(cx, drop) {
                TurnResult::Over(_) => return true,
                TurnResult::Busy => cx.waker().wake_by_ref(),
                TurnResult::Idle => {}
            }
        }
        let is_late = self
            .ending
            .as_mut()
            .is_some_and(|late| late.as_mut().poll(cx).is_ready());
        if is_late {
            self.carrier.abort();
        }
        is_late
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use hawser_carriers::tcp::{TcpListener, TcpOptions};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpSocket;

    use super::*;

    #[tokio::test]
    async fn ending_a_carrier_while_the_peer_sends_delivers_all_bytes() {
        const LENGTH: usize = 200_000;
        let listener =
            TcpListener::open("127.0.0.1:0".parse().unwrap(), TcpOptions::default(), None).unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        // Most of the data waits in the sender's kernel when the carrier ends.
        socket.set_recv_buffer_size(8 << 10).unwrap();
        let mut peer = socket.connect(listener.local().unwrap()).await.unwrap();
        let carrier = listener.accept().await.unwrap().accept().await.unwrap();
        let mut strand = Strand::new(CarrierId(0), Box::new(carrier));
        strand.push(vec![7; LENGTH].into());
        peer.write_all(b"what crosses the end").await.unwrap();
        strand.finish();
        let ended = tokio::spawn(async move {
            poll_fn(|cx| {
                if strand.end(cx) {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
            .await
        });
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        let mut got = Vec::new();
        peer.read_to_end(&mut got).await.expect("no reset");
        assert_eq!(got.len(), LENGTH);
        drop(peer);
        tokio::time::timeout(FINISHING, ended)
            .await
            .expect("both ends have ended")
            .unwrap();
    }
}
