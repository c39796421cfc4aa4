//! The single stream of a QUIC connection as a carrier.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::{Carrier, Description, Statistics};
use bytes::Bytes;
use quinn::crypto::rustls::HandshakeData;
use quinn::{Connection, RecvStream, SendStream, VarInt};

use crate::quic::figures::{ControllerStatistics, Observed};

/// Bytes that are buffered beyond the congestion window, so that it never runs dry between two events.
const MARGIN: u64 = 65_536;
/// The maximum number of STREAM frames in one read.
const FRAMES: usize = 32;
/// The maximum number of bytes that a QUIC packet adds to its payload: short header, frame header, AEAD tag.
const OVERHEAD: u16 = 45;

type Stopped = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

/// A QUIC connection with one bidirectional stream.
pub struct QuicCarrier {
    connection: Connection,
    send: SendStream,
    receive: RecvStream,
    figures: Arc<ControllerStatistics>,
    local: SocketAddr,
    interface: Option<String>,
    /// The receive window once the peer has proved that the carrier belongs to a session, if that is larger
    /// than the present one.
    widens_to: Option<VarInt>,
    /// True if the transport takes no more bytes for now.
    full: bool,
    /// Set after the end was sent; resolves when the peer has everything.
    stopped: Option<Stopped>,
}

impl QuicCarrier {
    pub(crate) fn new(
        connection: Connection,
        send: SendStream,
        receive: RecvStream,
        local: SocketAddr,
        interface: Option<String>,
        widens_to: Option<VarInt>,
    ) -> Self {
        let figures = Observed::from_connection(&connection);
        Self {
            connection,
            send,
            receive,
            figures,
            local,
            interface,
            widens_to,
            full: false,
            stopped: None,
        }
    }
}

/// Returns the properties of a connection over this local end.
pub(crate) fn describe(connection: &Connection, local: SocketAddr, interface: Option<&str>) -> Description {
    let handshake = connection
        .handshake_data()
        .and_then(|data| data.downcast::<HandshakeData>().ok());
    Description {
        transport: "quic",
        secure: true,
        local: SocketAddr::new(connection.local_ip().unwrap_or(local.ip()), local.port()),
        peer: connection.remote_address(),
        interface: interface.map(str::to_owned),
        fallback: None,
        alpn: handshake.and_then(|data| data.protocol),
    }
}

impl Carrier for QuicCarrier {
    fn describe(&self) -> Description {
        describe(&self.connection, self.local, self.interface.as_deref())
    }

    fn statistics(&mut self) -> Statistics {
        let path = self.connection.stats().path;
        // The stream's send buffer follows the congestion window.
        self.connection.set_send_window(path.cwnd + MARGIN);
        let in_flight = self.figures.in_flight();
        Statistics {
            srtt: path.rtt,
            rttvar: self.figures.variation(),
            mss: usize::from(path.current_mtu.saturating_sub(OVERHEAD)),
            window: path.cwnd,
            slow_start: !self.figures.has_lost(),
            in_flight,
            queued: if self.full { MARGIN } else { 0 },
            acked: self.figures.acked(),
            retransmitted: self.figures.lost(),
            rate: self.figures.rate(),
            blocked: self.full && in_flight == 0,
            // quinn discovers the path's MTU itself (RFC 9000, 14.3).
            oversized: false,
        }
    }

    fn exporter(&self) -> Option<[u8; 32]> {
        let mut bytes = [0; 32];
        self.connection
            .export_keying_material(&mut bytes, b"EXPORTER-hawser-session", b"")
            .ok()?;
        Some(bytes)
    }

    fn admit(&mut self) {
        if let Some(window) = self.widens_to.take() {
            self.connection.set_receive_window(window);
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let mut frames = [const { Bytes::new() }; FRAMES];
        let count = ready!(pin!(self.receive.read_chunks(&mut frames)).poll(cx)).map_err(io::Error::from)?;
        // A copy costs less than handling each packet's piece separately.
        Poll::Ready(Ok(match count {
            None => Bytes::new(),
            Some(1) => std::mem::take(&mut frames[0]),
            Some(count) => frames[..count].concat().into(),
        }))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, queue: &mut VecDeque<Bytes>) -> Poll<io::Result<usize>> {
        let poll = pin!(self.send.write_chunks(queue.make_contiguous())).poll(cx);
        self.full = poll.is_pending();
        let written = ready!(poll).map_err(io::Error::from)?;
        queue.drain(..written.chunks);
        self.full = !queue.is_empty();
        Poll::Ready(Ok(written.bytes))
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // quinn sends on its own.
        Poll::Ready(Ok(()))
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.stopped.is_none() {
            // A stream that was reset cannot be finished, which does no harm.
            let _ = self.send.finish();
            let stopped = self.send.stopped();
            self.stopped = Some(Box::pin(async move {
                // Neither a close nor an acknowledgement leaves anything to wait for.
                let _ = tokio::time::timeout(Duration::from_secs(3), stopped).await;
            }));
        }
        if let Some(stopped) = &mut self.stopped {
            ready!(stopped.as_mut().poll(cx));
        }
        Poll::Ready(Ok(()))
    }

    fn abort(&mut self) {
        self.connection.close(VarInt::from_u32(0), b"");
    }
}
