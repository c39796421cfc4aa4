//! QUIC endpoints: sockets on an interface, and connections from and to them.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use crate::OpenError;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Endpoint, EndpointConfig, IdleTimeout, ServerConfig, TransportConfig, VarInt};
use socket2::{Domain, Protocol, Socket, Type};

use crate::quic::carrier::QuicCarrier;
use crate::quic::error::{ConnectionBroken, QuicError};
use crate::quic::figures::ObservedFactory;
use crate::quic::streams::QuicConnection;

/// The size of the kernel's socket buffers, in bytes. With the default of 208 KB, a socket that is not read
/// at once loses hundreds of packets at a time.
const BUFFERS: usize = 4 << 20;
/// Bytes that a client may send before its proof. This exceeds its first congestion window (RFC 9002, 7.2:
/// 14,720 bytes), so that early data is not held up.
const BEFORE_PROOF: u32 = 32 << 10;

/// A packet is lost if it was sent 2.5 round trips ago and a later one was acknowledged. The second round
/// trip allows for its delay, and is the maximum that RACK allows where packets are reordered (RFC 8985,
/// 6.2). The half round trip allows for the machine's own delays: RACK recognizes and undoes a spurious loss,
/// which quinn cannot. The number of later packets that have arrived is no indication there. quinn cannot
/// change either value during a connection. RFC 9002's values, 9/8 of a round trip and 3 packets (6.1),
/// declare nearly every late packet lost.
const TIME_THRESHOLD: f32 = 2.5;
const PACKET_THRESHOLD: u32 = u32::MAX;

/// The options of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuicOptions {
    /// The time without a packet after which the connection is closed (RFC 9000, 10.1).
    pub idle_timeout: Option<Duration>,
    /// The time without a packet after which a keep-alive is sent.
    pub keep_alive: Option<Duration>,
    /// Bytes that the peer may send ahead of this side's reads. The session reads at once, so this bounds the
    /// bytes in flight.
    pub receive_window: u32,
    /// The interface to use (SO_BINDTODEVICE).
    pub interface: Option<String>,
    /// The congestion controller, which limits the bytes in flight.
    pub congestion: Congestion,
}

/// A congestion controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Congestion {
    /// CUBIC that ignores losses while no queue is detected (TCP Veno, Fu and Liew 2003), up to 3 %.
    #[default]
    Tolerant,
    /// CUBIC as in RFC 9438, which slows down at each loss, whatever its cause.
    Cubic,
    /// BBR, which follows the delivery rate and the round trip (Cardwell et al. 2016). Losses alone do not
    /// slow it down.
    Bbr,
}

impl Congestion {
    /// The names of the controllers.
    pub const NAMES: [(&str, Congestion); 3] = [
        ("tolerant", Congestion::Tolerant),
        ("cubic", Congestion::Cubic),
        ("bbr", Congestion::Bbr),
    ];

    /// Returns the controller with this name.
    pub fn by_name(name: &str) -> Option<Congestion> {
        Self::NAMES
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, controller)| *controller)
    }
}

impl Default for QuicOptions {
    fn default() -> Self {
        Self {
            idle_timeout: Some(Duration::from_secs(30)),
            keep_alive: None,
            receive_window: 16 << 20,
            interface: None,
            congestion: Congestion::default(),
        }
    }
}

impl QuicOptions {
    /// Returns quinn's configuration. `window` is the number of bytes of all streams that the peer may send
    /// ahead at first. `streams` is the number of streams that the peer may have open.
    fn transport(&self, window: u32, streams: u32) -> Result<Arc<TransportConfig>, QuicError> {
        let mut transport = TransportConfig::default();
        let idle = self.idle_timeout.map(IdleTimeout::try_from).transpose();
        transport.max_idle_timeout(idle.map_err(QuicError::IdleTimeout)?);
        transport.keep_alive_interval(self.keep_alive);
        transport.receive_window(VarInt::from_u32(window));
        transport.stream_receive_window(VarInt::from_u32(self.receive_window));
        transport.max_concurrent_bidi_streams(VarInt::from_u32(streams));
        transport.max_concurrent_uni_streams(VarInt::from_u32(0));
        transport.datagram_receive_buffer_size(None);
        transport.packet_threshold(PACKET_THRESHOLD);
        transport.time_threshold(TIME_THRESHOLD);
        transport.congestion_controller_factory(Arc::new(ObservedFactory::new(self.congestion)));
        Ok(Arc::new(transport))
    }
}

/// A socket from which connections are opened, one for each interface and family.
#[derive(Clone, Debug)]
pub struct QuicEndpoint {
    endpoint: Endpoint,
    options: QuicOptions,
    /// The index that its interface had when the socket was bound to it. `None` if it is not bound to one.
    index: Option<u32>,
}

impl QuicEndpoint {
    /// Opens a socket for peers of the family of `peer`, from `local` if that is given.
    ///
    /// # Errors
    /// The socket could not be bound to the interface or the address.
    pub fn open(
        peer: SocketAddr,
        local: Option<SocketAddr>,
        options: QuicOptions,
    ) -> Result<Self, OpenError> {
        let any = match peer {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let index = options.interface.as_deref().and_then(index_of);
        let endpoint = bind(local.unwrap_or(any), &options, None)?;
        Ok(Self { endpoint, options, index })
    }

    /// Returns true if its interface has gone, even if another one has the same name. The kernel binds a
    /// socket to the interface's index, so this one is of no use any more.
    pub fn is_stale(&self) -> bool {
        self.options
            .interface
            .as_deref()
            .is_some_and(|name| index_of(name) != self.index)
    }

    /// Connects, including the handshake. `name` must be in the server's certificate.
    pub async fn connect(
        &self,
        peer: SocketAddr,
        name: &str,
        tls: Arc<rustls::ClientConfig>,
    ) -> Result<QuicCarrier, QuicError> {
        let connection = self.handshake(peer, name, tls, 1).await?;
        let (send, receive) = connection.open_bi().await.map_err(ConnectionBroken::with(peer))?;
        Ok(QuicCarrier::new(
            connection,
            send,
            receive,
            self.local(),
            self.options.interface.clone(),
            None,
        ))
    }

    /// Connects, including the handshake, for streams that are opened individually. The peer may have
    /// `streams` of them open.
    pub async fn connect_streams(
        &self,
        peer: SocketAddr,
        name: &str,
        tls: Arc<rustls::ClientConfig>,
        streams: u32,
    ) -> Result<QuicConnection, QuicError> {
        let connection = self.handshake(peer, name, tls, streams).await?;
        Ok(QuicConnection::new(
            connection,
            self.local(),
            self.options.interface.clone(),
            None,
        ))
    }

    async fn handshake(
        &self,
        peer: SocketAddr,
        name: &str,
        tls: Arc<rustls::ClientConfig>,
        streams: u32,
    ) -> Result<quinn::Connection, QuicError> {
        let crypto = QuicClientConfig::try_from(tls)?;
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(self.options.transport(self.options.receive_window, streams)?);
        let connecting = self
            .endpoint
            .connect_with(config, peer, name)
            .map_err(|error| QuicError::Connect { peer, error })?;
        Ok(connecting.await.map_err(ConnectionBroken::with(peer))?)
    }

    fn local(&self) -> SocketAddr {
        self.endpoint
            .local_addr()
            .unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0)))
    }
}

/// A socket that accepts connections.
#[derive(Clone, Debug)]
pub struct QuicListener {
    endpoint: Endpoint,
    options: QuicOptions,
}

impl QuicListener {
    /// Listens on `address`.
    pub fn open(
        address: SocketAddr,
        options: QuicOptions,
        tls: Arc<rustls::ServerConfig>,
    ) -> Result<Self, QuicError> {
        let crypto = QuicServerConfig::try_from(tls)?;
        let mut config = ServerConfig::with_crypto(Arc::new(crypto));
        config.transport_config(options.transport(BEFORE_PROOF.min(options.receive_window), 1)?);
        Ok(Self { endpoint: bind(address, &options, Some(config))?, options })
    }

    /// Returns the address on which it listens.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.endpoint.local_addr()
    }

    /// Waits for the next connection, before its handshake. `None` when the listener is closed.
    pub async fn accept(&self) -> Option<QuicIncoming> {
        let incoming = self.endpoint.accept().await?;
        let window = VarInt::from_u32(self.options.receive_window);
        Some(QuicIncoming {
            incoming,
            local: self.local().ok(),
            interface: self.options.interface.clone(),
            window,
        })
    }

    /// Stops accepting connections, and closes the existing ones.
    pub fn close(&self) {
        self.endpoint.close(VarInt::from_u32(0), b"");
    }
}

/// An incoming connection before its handshake.
#[derive(Debug)]
pub struct QuicIncoming {
    incoming: quinn::Incoming,
    local: Option<SocketAddr>,
    interface: Option<String>,
    /// The receive window of a carrier that belongs to a session.
    window: VarInt,
}

impl QuicIncoming {
    /// Returns the source address of its packets.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.incoming.remote_address()
    }

    /// Returns true if the peer has proved that it owns the source address of its packets (RFC 9000, 8.1).
    #[must_use]
    pub fn is_validated(&self) -> bool {
        self.incoming.remote_address_validated()
    }

    /// Sends a Retry, with which the peer must validate its address (RFC 9000, 8.1.2). The peer then appears
    /// as another incoming connection. No state is kept until then.
    pub fn retry(self) {
        // Retry fails if the address was already validated; dropping the result then refuses the connection.
        let _ = self.incoming.retry();
    }

    /// Performs the handshake, and waits for the carrier's stream for as long as the connection lives. The
    /// caller limits the time.
    pub async fn accept(self) -> Result<QuicCarrier, ConnectionBroken> {
        let peer = self.incoming.remote_address();
        let connection = self.incoming.await.map_err(ConnectionBroken::with(peer))?;
        let (send, receive) = connection
            .accept_bi()
            .await
            .map_err(ConnectionBroken::with(peer))?;
        let local = self.local.unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0)));
        Ok(QuicCarrier::new(
            connection,
            send,
            receive,
            local,
            self.interface,
            Some(self.window),
        ))
    }

    /// Performs the handshake, and leaves the streams to the caller. The caller then uses
    /// [`QuicConnection::into_carrier`] if the connection belongs to a session, and [`QuicConnection::admit`]
    /// otherwise.
    pub async fn handshake(self) -> Result<QuicConnection, ConnectionBroken> {
        let peer = self.incoming.remote_address();
        let connection = self.incoming.await.map_err(ConnectionBroken::with(peer))?;
        let local = self.local.unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0)));
        Ok(QuicConnection::new(
            connection,
            local,
            self.interface,
            Some(self.window),
        ))
    }
}

/// Returns the index of an interface in this thread's network namespace.
fn index_of(name: &str) -> Option<u32> {
    let any = Socket::new(Domain::IPV4, Type::DGRAM, None).ok()?;
    rustix::net::netdevice::name_to_index(&any, name).ok()
}

fn bind(
    address: SocketAddr,
    options: &QuicOptions,
    server: Option<ServerConfig>,
) -> Result<Endpoint, OpenError> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if let Some(interface) = &options.interface {
        let bound = socket.bind_device(Some(interface.as_bytes()));
        bound.map_err(|error| OpenError::Interface { interface: interface.clone(), error })?;
    }
    // The system limits these sizes to the permitted maximum.
    socket.set_recv_buffer_size(BUFFERS)?;
    socket.set_send_buffer_size(BUFFERS)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    let bound = socket.bind(&address.into());
    bound.map_err(|error| OpenError::Local { local: address, error })?;
    let runtime = quinn::default_runtime().ok_or_else(|| io::Error::other("no tokio runtime is running"))?;
    Ok(Endpoint::new(
        EndpointConfig::default(),
        server,
        socket.into(),
        runtime,
    )?)
}
