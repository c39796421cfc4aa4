//! An association as a carrier: a stream to the SCTP process, and the process's reports.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream as Stream;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::{Carrier, Description, Statistics};
use bytes::Bytes;
use tokio::net::UnixStream;

use crate::sctp::path::{PathEvent, PathStatistics};
use crate::sctp::process::StackProcess;
use crate::sctp::protocol::ProcessOrder;
use crate::sctp::queue::take;
use crate::sctp::remote::Remote;

/// The maximum number of bytes in one read.
const READ: usize = 65_536;
/// The maximum number of pieces in one write.
const PIECES: usize = 16;

/// An association.
pub struct SctpCarrier {
    id: u64,
    stream: UnixStream,
    remote: Arc<Remote>,
    process: Arc<StackProcess>,
    /// The number of bytes accepted.
    written: u64,
    /// True if this side has announced the end of its data.
    finished: bool,
    aborted: bool,
}

impl SctpCarrier {
    /// Creates the carrier of an association that is up.
    pub(crate) fn new(
        id: u64,
        stream: Stream,
        remote: Arc<Remote>,
        process: Arc<StackProcess>,
    ) -> io::Result<Self> {
        Ok(Self {
            id,
            stream: UnixStream::from_std(stream)?,
            remote,
            process,
            written: 0,
            finished: false,
            aborted: false,
        })
    }

    /// Returns its paths, one for each address of the peer.
    #[must_use]
    pub fn paths(&self) -> Vec<PathStatistics> {
        self.remote.view(|view| view.paths.clone()).unwrap_or_default()
    }

    /// Returns the peer's address of the primary path, which carries packets that name no path.
    #[must_use]
    pub fn primary(&self) -> Option<SocketAddr> {
        self.remote.view(|view| view.primary).flatten()
    }

    /// Returns the path events since the last call that have been read, because events arrive in order with
    /// the data. At most 64 are kept.
    pub fn take_path_events(&mut self) -> Vec<PathEvent> {
        self.remote.take_events()
    }

    /// Returns true if the peer can end its direction and still receive.
    #[must_use]
    pub fn half_closes(&self) -> bool {
        self.remote.view(|view| view.half_closes).unwrap_or(false)
    }

    /// Writes pieces of the queue. Pending if there is no room.
    fn write(&mut self, cx: &mut Context<'_>, queue: &VecDeque<Bytes>) -> Poll<io::Result<usize>> {
        let mut pieces = [IoSlice::new(&[]); PIECES];
        let count = queue
            .iter()
            .zip(&mut pieces)
            .map(|(bytes, piece)| *piece = IoSlice::new(bytes))
            .count();
        loop {
            match self.stream.poll_write_ready(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) => {}
            }
            match self.stream.try_write_vectored(&pieces[..count]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
        }
    }
}

impl Carrier for SctpCarrier {
    fn describe(&self) -> Description {
        let none = SocketAddr::from(([0, 0, 0, 0], 0));
        Description {
            transport: "sctp",
            secure: false,
            local: self.remote.view(|view| view.local).flatten().unwrap_or(none),
            peer: self.primary().unwrap_or(none),
            interface: None,
            fallback: None,
            alpn: None,
        }
    }

    fn statistics(&mut self) -> Statistics {
        let reported = self.remote.view(|view| view.statistics).unwrap_or_default();
        // The report does not include bytes on the way to the process.
        let queued = self.written.saturating_sub(reported.acked + reported.in_flight);
        Statistics { queued, ..reported }
    }

    fn exporter(&self) -> Option<[u8; 32]> {
        None
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let mut buffer = vec![0; READ];
        loop {
            if self.stream.poll_read_ready(cx)?.is_pending() {
                return Poll::Pending;
            }
            match self.stream.try_read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(length) if length > 0 => {
                    buffer.truncate(length);
                    return Poll::Ready(Ok(buffer.into()));
                }
                // The process has ended the stream, and reports the cause.
                _ => {
                    return self.remote.poll_end(cx).map(|cause| match cause {
                        None => Ok(Bytes::new()),
                        Some(cause) => Err(cause.into()),
                    });
                }
            }
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, queue: &mut VecDeque<Bytes>) -> Poll<io::Result<usize>> {
        if self.finished || self.aborted {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if let Some(cause) = self.remote.cause() {
            return Poll::Ready(Err(cause.into()));
        }
        while queue.front().is_some_and(Bytes::is_empty) {
            queue.pop_front();
        }
        if queue.is_empty() {
            return Poll::Ready(Ok(0));
        }
        match self.write(cx, queue) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(written)) => {
                self.written += written as u64;
                take(queue, written);
                Poll::Ready(Ok(written))
            }
            // The process has ended the stream, and reports the cause.
            Poll::Ready(Err(_)) => self.remote.poll_cause(cx).map(|cause| Err(cause.into())),
        }
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The process sends on its own.
        Poll::Ready(Ok(()))
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.finished {
            self.finished = true;
            // If the stream or the process is gone, the end is already known.
            let _ = rustix::net::shutdown(&self.stream, rustix::net::Shutdown::Write);
            let _ = self.process.order(ProcessOrder::Finish { id: self.id }, None);
        }
        self.remote.poll_finished(cx).map(Ok)
    }

    fn abort(&mut self) {
        if !self.aborted {
            self.aborted = true;
            // Without a process, there is no association to abort.
            let _ = self
                .process
                .order(ProcessOrder::End { id: self.id, at_once: true }, None);
        }
    }
}

impl Drop for SctpCarrier {
    fn drop(&mut self) {
        self.process.end(self.id, self.aborted);
    }
}
