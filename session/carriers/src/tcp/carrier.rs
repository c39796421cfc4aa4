//! A TCP connection as a carrier.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::tls::{MaybeTls, TlsClient, TlsServer};
use crate::{Carrier, Description, OpenError, Statistics};
use bytes::Bytes;
use socket2::SockRef;
use tokio::net::{TcpSocket, TcpStream};
use tracing::{debug, info};

use crate::tcp::options::{SMALL_SEGMENT, TcpOptions};
use crate::tcp::socket::{open, reset_on_close, tune};
use crate::tcp::unsent_limit::UnsentLimit;
use crate::tcp::{info, socket};

/// The time after which a second TLS handshake with small packets runs beside a client's first one; four
/// round trips if that is longer. By then, TCP has sent lost packets again (RFC 6298, 2.1), with the same
/// length.
const STALLED: Duration = Duration::from_secs(1);

/// A TCP connection.
pub struct TcpCarrier {
    stream: MaybeTls<TcpStream>,
    options: TcpOptions,
    /// Adapts the kernel's unsent bytes. `None` if the options fix their number.
    ahead: Option<UnsentLimit>,
    /// True if no more data can arrive, because an MPTCP connection has no subflows left.
    is_cut: bool,
    /// True if a handshake with long packets stalled, and one with small ones succeeded.
    is_kept_small: bool,
}

/// Connects to `peer`, from `local` if that is given, with a TLS handshake if `tls` is given. A path may
/// silently lose long packets, and a server's certificates fill some. If the handshake stalls, a connection
/// with small packets is tried beside it.
pub async fn connect(
    peer: SocketAddr,
    local: Option<SocketAddr>,
    options: &TcpOptions,
    tls: Option<&TlsClient>,
) -> Result<TcpCarrier, OpenError> {
    let began = Instant::now();
    let tcp = dial(peer, local, options).await?;
    let round_trip = began.elapsed();
    if tls.is_none() {
        return Ok(TcpCarrier::new(
            MaybeTls::connect(tcp, None, peer).await?,
            options.clone(),
        ));
    }
    let socket = tcp.as_fd().try_clone_to_owned()?;
    let full = MaybeTls::connect(tcp, tls, peer);
    tokio::pin!(full);
    let finish = |stream, options: &TcpOptions| TcpCarrier::new(stream, options.clone());
    if let Ok(stream) = tokio::time::timeout(STALLED.max(4 * round_trip), &mut full).await {
        return Ok(finish(stream?, options));
    }
    if !info::statistics(&SockRef::from(&socket)).oversized {
        return Ok(finish(full.await?, options));
    }
    debug!(%peer, "a TLS handshake stalls; another one with small packets is tried in parallel");
    let kept_small = TcpOptions { max_segment: Some(SMALL_SEGMENT), ..options.clone() };
    let small = async { MaybeTls::connect(dial(peer, local, &kept_small).await?, tls, peer).await };
    tokio::pin!(small);
    let by_small = |stream| {
        info!(%peer, "the path loses long packets; its packets are kept small");
        TcpCarrier { is_kept_small: true, ..finish(stream, &kept_small) }
    };
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

async fn dial(
    peer: SocketAddr,
    local: Option<SocketAddr>,
    options: &TcpOptions,
) -> Result<TcpStream, OpenError> {
    let socket = open(peer, options)?;
    if let Some(local) = local {
        socket
            .bind(&local.into())
            .map_err(|error| OpenError::Local { local, error })?;
    }
    let socket = TcpSocket::from_std_stream(socket.into());
    socket
        .connect(peer)
        .await
        .map_err(|error| OpenError::Connect { peer, error })
}

/// A listening socket.
pub struct TcpListener {
    listener: tokio::net::TcpListener,
    options: TcpOptions,
    tls: Option<TlsServer>,
}

impl TcpListener {
    /// Listens on `address`.
    pub fn open(address: SocketAddr, options: TcpOptions, tls: Option<TlsServer>) -> Result<Self, OpenError> {
        let listener = tokio::net::TcpListener::from_std(socket::listen(address, &options)?.into())?;
        Ok(Self { listener, options, tls })
    }

    /// Returns the address on which it listens.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Waits for the next connection, before its TLS handshake, so that a slow handshake holds up no other
    /// connection.
    pub async fn accept(&self) -> io::Result<TcpIncoming> {
        let (stream, peer) = self.listener.accept().await?;
        Ok(TcpIncoming { stream, peer, options: self.options.clone(), tls: self.tls.clone() })
    }
}

/// An accepted connection before its handshake.
pub struct TcpIncoming {
    stream: TcpStream,
    peer: SocketAddr,
    options: TcpOptions,
    tls: Option<TlsServer>,
}

impl TcpIncoming {
    /// Returns the peer's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Performs the handshake, within 10 s.
    pub async fn accept(self) -> Result<TcpCarrier, OpenError> {
        tune(&SockRef::from(&self.stream), &self.options)?;
        let stream = MaybeTls::accept(self.stream, self.tls.as_ref(), self.peer).await?;
        Ok(TcpCarrier::new(stream, self.options))
    }
}

impl TcpCarrier {
    fn new(stream: MaybeTls<TcpStream>, options: TcpOptions) -> Self {
        Self {
            ahead: options.not_sent.is_none().then(UnsentLimit::new),
            stream,
            options,
            is_cut: false,
            is_kept_small: false,
        }
    }

    fn tcp(&self) -> &TcpStream {
        self.stream.transport()
    }
}

/// The error of an MPTCP connection whose subflows have all ended.
const NO_SUBFLOW: &str = "no subflow of the MPTCP connection is left";

impl Carrier for TcpCarrier {
    fn describe(&self) -> Description {
        let none = SocketAddr::from(([0, 0, 0, 0], 0));
        let speaks_mptcp = self.options.mptcp && info::is_mptcp(&SockRef::from(self.tcp()));
        Description {
            transport: if speaks_mptcp { "mptcp" } else { "tcp" },
            secure: self.stream.is_secure(),
            local: self.tcp().local_addr().unwrap_or(none),
            peer: self.tcp().peer_addr().unwrap_or(none),
            interface: self.options.interface.clone(),
            fallback: (self.options.mptcp && !speaks_mptcp)
                .then(|| "the peer, or a middlebox on the path, does not support MPTCP".into()),
            alpn: self.stream.alpn(),
        }
    }

    fn statistics(&mut self) -> Statistics {
        self.is_cut = self.options.mptcp && info::has_lost_all_subflows(&SockRef::from(self.tcp()));
        let statistics = info::statistics(&SockRef::from(self.tcp()));
        if let Some(ahead) = &mut self.ahead {
            ahead.follow(&statistics, &SockRef::from(self.stream.transport()));
        }
        statistics
    }

    fn is_kept_small(&self) -> bool {
        self.is_kept_small
    }

    fn exporter(&self) -> Option<[u8; 32]> {
        self.stream.exporter()
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let read = self.stream.poll_read(cx);
        if self.is_cut && read.is_pending() {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionReset, NO_SUBFLOW)));
        }
        read
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, queue: &mut VecDeque<Bytes>) -> Poll<io::Result<usize>> {
        self.stream.poll_write(cx, queue)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_flush(cx)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_shutdown(cx)
    }

    fn abort(&mut self) {
        reset_on_close(&SockRef::from(self.tcp()));
    }
}
