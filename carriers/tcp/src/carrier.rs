//! A TCP connection as a carrier.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use hawser_carrier::{Carrier, Description, Statistics};
use socket2::SockRef;
use tokio::io::AsyncWrite;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};
use tokio_util::io::poll_read_buf;

use crate::options::{SMALL_SEGMENT, TcpOptions};
use crate::socket::{named, open, reset_on_close, tune};
use crate::tls::{EXPORTER, TlsClient, TlsServer};
use crate::{info, socket};

/// Bytes read at once.
const READ: usize = 65_536;
/// Slices written at once.
const SLICES: usize = 64;
/// How long a client's TLS handshake is given, or four round trips if these are longer, before a second one with
/// small packets runs beside it: TCP has sent again what was lost by then (RFC 6298, 2.1), as long as before.
const STALLED: Duration = Duration::from_secs(1);
/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// With TLS or without.
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A TCP connection.
pub struct TcpCarrier {
    stream: Stream,
    options: TcpOptions,
    buffer: BytesMut,
    /// Nothing more can come: an MPTCP connection without subflows.
    is_cut: bool,
    /// A handshake with long packets did not succeed, and one with small ones did.
    is_kept_small: bool,
}

/// Connects to `peer`, from `local` if that is given, and shakes hands if `tls` is. A path may lose long packets
/// without a sign, and a server's certificates fill some: where the handshake stalls, a connection with small ones
/// is tried beside it.
pub async fn connect(
    peer: SocketAddr,
    local: Option<SocketAddr>,
    options: &TcpOptions,
    tls: Option<&TlsClient>,
) -> io::Result<TcpCarrier> {
    let began = Instant::now();
    let tcp = dial(peer, local, options).await?;
    let round_trip = began.elapsed();
    let Some(tls) = tls else { return Ok(TcpCarrier::new(Stream::Plain(tcp), options.clone())) };
    let socket = tcp.as_fd().try_clone_to_owned()?;
    let full = shake(tls, tcp, peer);
    tokio::pin!(full);
    let finish = |stream, options: &TcpOptions| TcpCarrier::new(stream, options.clone());
    if let Ok(stream) = tokio::time::timeout(STALLED.max(4 * round_trip), &mut full).await {
        return Ok(finish(stream?, options));
    }
    if !info::statistics(&SockRef::from(&socket)).oversized {
        return Ok(finish(full.await?, options));
    }
    let kept_small = TcpOptions { max_segment: Some(SMALL_SEGMENT), ..options.clone() };
    let small = async { shake(tls, dial(peer, local, &kept_small).await?, peer).await };
    tokio::pin!(small);
    let by_small = |stream| TcpCarrier { is_kept_small: true, ..finish(stream, &kept_small) };
    tokio::select! {
        stream = &mut full => match stream {
            Ok(stream) => Ok(finish(stream, options)),
            Err(_) => small.await.map(by_small),
        },
        stream = &mut small => match stream {
            Ok(stream) => Ok(by_small(stream)),
            Err(_) => Ok(finish(full.await?, options)),
        },
    }
}

async fn dial(peer: SocketAddr, local: Option<SocketAddr>, options: &TcpOptions) -> io::Result<TcpStream> {
    let socket = open(peer, options)?;
    if let Some(local) = local {
        socket.bind(&local.into()).map_err(|error| named(error, &format!("binding to {local}")))?;
    }
    let socket = TcpSocket::from_std_stream(socket.into());
    socket.connect(peer).await.map_err(|error| named(error, &format!("connecting to {peer}")))
}

async fn shake(tls: &TlsClient, tcp: TcpStream, peer: SocketAddr) -> io::Result<Stream> {
    let tls = TlsConnector::from(tls.config.clone()).connect(tls.name.clone(), tcp).await;
    let tls = tls.map_err(|error| named(error, &format!("TLS with {peer}")))?;
    Ok(Stream::Tls(Box::new(TlsStream::Client(tls))))
}

/// A listening socket.
pub struct Door {
    listener: TcpListener,
    options: TcpOptions,
    tls: Option<TlsAcceptor>,
}

impl Door {
    /// Listens on `address`.
    pub fn open(address: SocketAddr, options: TcpOptions, tls: Option<TlsServer>) -> io::Result<Self> {
        let listener = TcpListener::from_std(socket::listen(address, &options)?.into())?;
        Ok(Self { listener, options, tls: tls.map(|tls| TlsAcceptor::from(tls.config)) })
    }

    /// Where it listens.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The next connection, before its TLS handshake, so that a slow one holds up no other.
    pub async fn accept(&self) -> io::Result<Guest> {
        let (stream, peer) = self.listener.accept().await?;
        Ok(Guest { stream, peer, options: self.options.clone(), tls: self.tls.clone() })
    }
}

/// A connection that was accepted and has not shaken hands.
pub struct Guest {
    stream: TcpStream,
    peer: SocketAddr,
    options: TcpOptions,
    tls: Option<TlsAcceptor>,
}

impl Guest {
    /// Where it comes from.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Shakes hands, in 10 s at most.
    pub async fn welcome(self) -> io::Result<TcpCarrier> {
        tune(&SockRef::from(&self.stream), &self.options)?;
        let stream = match self.tls {
            None => Stream::Plain(self.stream),
            Some(acceptor) => {
                let late = |_| io::Error::new(io::ErrorKind::TimedOut, "TLS handshake took over 10 s");
                let tls =
                    tokio::time::timeout(HANDSHAKE, acceptor.accept(self.stream)).await.map_err(late)?;
                let tls = tls.map_err(|error| named(error, &format!("TLS with {}", self.peer)))?;
                Stream::Tls(Box::new(TlsStream::Server(tls)))
            }
        };
        Ok(TcpCarrier::new(stream, self.options))
    }
}

impl TcpCarrier {
    fn new(stream: Stream, options: TcpOptions) -> Self {
        Self { stream, options, buffer: BytesMut::new(), is_cut: false, is_kept_small: false }
    }

    fn tcp(&self) -> &TcpStream {
        match &self.stream {
            Stream::Plain(tcp) => tcp,
            Stream::Tls(tls) => tls.get_ref().0,
        }
    }

    fn write_slices(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_write_vectored(cx, slices),
            Stream::Tls(tls) => Pin::new(tls).poll_write_vectored(cx, slices),
        }
    }
}

/// A connection that ends without TLS's own end (close_notify, RFC 8446 6.1) is no attack here: only
/// CLOSE ends a session. The library's text is for its users, with an address of its manual.
fn explained(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(error.kind(), CUT_OFF),
        _ => error,
    }
}

/// What is reported of a peer that closes the TCP connection and not TLS.
const CUT_OFF: &str = "the peer closed the connection without ending TLS";

/// What is reported of an MPTCP connection whose subflows have all ended.
const NO_SUBFLOW: &str = "no subflow of the MPTCP connection is left";

impl Carrier for TcpCarrier {
    fn describe(&self) -> Description {
        let none = SocketAddr::from(([0, 0, 0, 0], 0));
        let (secure, alpn) = match &self.stream {
            Stream::Plain(_) => (false, None),
            Stream::Tls(tls) => (true, tls.get_ref().1.alpn_protocol().map(<[u8]>::to_vec)),
        };
        let speaks_mptcp = self.options.mptcp && info::is_mptcp(&SockRef::from(self.tcp()));
        Description {
            transport: if speaks_mptcp { "mptcp" } else { "tcp" },
            secure,
            local: self.tcp().local_addr().unwrap_or(none),
            peer: self.tcp().peer_addr().unwrap_or(none),
            interface: self.options.interface.clone(),
            fallback: (self.options.mptcp && !speaks_mptcp)
                .then(|| "the peer, or something on the way, does not speak MPTCP".into()),
            alpn,
        }
    }

    fn statistics(&mut self) -> Statistics {
        self.is_cut = self.options.mptcp && info::has_lost_all_subflows(&SockRef::from(self.tcp()));
        info::statistics(&SockRef::from(self.tcp()))
    }

    fn is_kept_small(&self) -> bool {
        self.is_kept_small
    }

    fn exporter(&self) -> Option<[u8; 32]> {
        let Stream::Tls(tls) = &self.stream else { return None };
        let session = tls.get_ref().1;
        if session.protocol_version() != Some(rustls::ProtocolVersion::TLSv1_3) {
            return None;
        }
        match tls.as_ref() {
            TlsStream::Client(tls) => tls.get_ref().1.export_keying_material([0; 32], EXPORTER, None).ok(),
            TlsStream::Server(tls) => tls.get_ref().1.export_keying_material([0; 32], EXPORTER, None).ok(),
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let buffer = &mut self.buffer;
        buffer.reserve(READ);
        let read = match &mut self.stream {
            Stream::Plain(tcp) => poll_read_buf(Pin::new(tcp), cx, buffer),
            Stream::Tls(tls) => poll_read_buf(Pin::new(tls.as_mut()), cx, buffer).map_err(explained),
        };
        if self.is_cut && read.is_pending() {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionReset, NO_SUBFLOW)));
        }
        ready!(read)?;
        Poll::Ready(Ok(buffer.split().freeze()))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, queue: &mut VecDeque<Bytes>) -> Poll<io::Result<usize>> {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let count = queue.len().min(SLICES);
        for (slice, bytes) in slices.iter_mut().zip(queue.iter()) {
            *slice = IoSlice::new(bytes);
        }
        let written = ready!(self.write_slices(cx, &slices[..count]))?;
        let mut left = written;
        while left > 0 {
            let Some(front) = queue.front_mut() else { break };
            if front.len() > left {
                front.advance(left);
                break;
            }
            left -= front.len();
            queue.pop_front();
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Stream::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Stream::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }

    fn abort(&mut self) {
        reset_on_close(&SockRef::from(self.tcp()));
    }
}
