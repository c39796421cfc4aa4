//! One carrier, as the task that drives a session sees it.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hawser_carrier::Carrier;
use hawser_session::CarrierId;
use tokio::time::Sleep;

/// Bytes beyond which a carrier's queue takes no more data: two of the longest segments, so that
/// one is being written while the next one waits.
const QUEUE: usize = 131_072;
/// Reads in one turn, before others have theirs.
const READS: usize = 16;
/// How long a carrier that ends may take for what is still queued, and for its peer to end it, too.
const FINISHING: Duration = Duration::from_secs(3);

/// A carrier with what waits to be written to it.
pub(super) struct Strand {
    pub(super) id: CarrierId,
    pub(super) carrier: Box<dyn Carrier>,
    queue: VecDeque<Bytes>,
    queued: usize,
    /// The transport took all that was given.
    is_writable: bool,
    /// Bytes went or came, or it began or ceased to take more, and the session was not told yet.
    has_moved: bool,
    /// Why nothing more can be written.
    failure: Option<io::Error>,
    flushed: bool,
    /// Nothing more is written to it, and its transport knows.
    finished: bool,
    /// It ends when the queue is written and its peer has ended it, or then.
    ending: Option<Pin<Box<Sleep>>>,
}

/// What a turn brought.
pub(super) enum Turn {
    /// Nothing more for now.
    Idle,
    /// There may be more at once.
    Busy,
    /// The carrier has ended; why.
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

    /// Whether the transport has taken all that there was.
    pub(super) fn has_written(&self) -> bool {
        self.queue.is_empty() && self.flushed
    }

    /// Bytes of data that it takes now.
    pub(super) fn room(&self) -> usize {
        if self.is_writable {
            QUEUE.saturating_sub(self.queued)
        } else {
            0
        }
    }

    /// Ends it when everything is written and its peer has ended it, or after too long.
    pub(super) fn finish(&mut self) {
        self.ending = Some(Box::pin(tokio::time::sleep(FINISHING)));
    }

    pub(super) fn is_finishing(&self) -> bool {
        self.ending.is_some()
    }

    /// Writes what waits, as far as the transport takes it. A failure is reported by [`Strand::read`].
    pub(super) fn write(&mut self, cx: &mut Context<'_>) {
        let before = (self.queued, self.is_writable);
        self.failure = self.write_all(cx).err();
        self.has_moved |= before != (self.queued, self.is_writable);
    }

    /// Whether anything of it may have changed since this was asked last, but what its peer's transport
    /// has acknowledged.
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

    /// Reads what there is and hands it over.
    pub(super) fn read(&mut self, cx: &mut Context<'_>, take: impl FnMut(Bytes)) -> Turn {
        let turn = self.read_all(cx, take);
        match self.failure.take() {
            Some(error) => Turn::Over(error.to_string()),
            None => turn,
        }
    }

    fn read_all(&mut self, cx: &mut Context<'_>, mut take: impl FnMut(Bytes)) -> Turn {
        for _ in 0..READS {
            match self.carrier.poll_read(cx) {
                Poll::Ready(Ok(bytes)) if bytes.is_empty() => return Turn::Over("end of file".into()),
                Poll::Ready(Ok(bytes)) => {
                    take(bytes);
                    self.has_moved = true;
                }
                Poll::Ready(Err(error)) => return Turn::Over(error.to_string()),
                Poll::Pending => return Turn::Idle,
            }
        }
        Turn::Busy
    }

    /// Goes on ending; true when it is over. What the peer still sends is read and dropped: a socket that
    /// is closed before answers it with a reset, which takes what is under way with it (RFC 9112, 9.6).
    pub(super) fn end(&mut self, cx: &mut Context<'_>) -> bool {
        if self.write_all(cx).is_err() {
            return true;
        }
        if !self.finished && self.queue.is_empty() {
            self.finished = self.carrier.poll_finish(cx).is_ready();
        }
        if self.finished {
            match self.read(cx, drop) {
                Turn::Over(_) => return true,
                Turn::Busy => cx.waker().wake_by_ref(),
                Turn::Idle => {}
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

    use hawser_carrier_tcp::{TcpListener, TcpOptions};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpSocket;

    use super::*;

    #[tokio::test]
    async fn a_carrier_that_ends_while_its_peer_sends_delivers_everything() {
        const LENGTH: usize = 200_000;
        let listener =
            TcpListener::open("127.0.0.1:0".parse().unwrap(), TcpOptions::default(), None).unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        // Most of it waits in the sender's kernel when the carrier ends.
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
