//! Endpoints: sockets on an interface, and connections from and to them.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hawser_carrier::OpenError;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Endpoint, EndpointConfig, IdleTimeout, ServerConfig, TransportConfig, VarInt};
use socket2::{Domain, Protocol, Socket, Type};

use crate::carrier::QuicCarrier;
use crate::error::{Broken, QuicError};
use crate::figures::ObservedFactory;
use crate::streams::QuicConnection;

/// Bytes that the kernel keeps for a socket that is not read at once: 208 KB, the default, lose
/// hundreds of packets at a time.
const BUFFERS: usize = 4 << 20;
/// Bytes that a client may send before it has proved anything: more than its first congestion window
/// holds (RFC 9002 7.2: 14,720 bytes), so that what it sends early is not held up.
const BEFORE_PROOF: u32 = 32 << 10;

/// A packet is lost when one that was sent later is acknowledged and it was sent two round trips ago: a round
/// trip for it, and one by which it may be late, the most that RACK comes to allow where packets overtake each
/// other (RFC 8985, 6.2). How many later ones have arrived shows nothing there. quinn cannot change either in a
/// connection, and RFC 9002's 9/8 of a round trip and 3 packets (6.1) make a loss of nearly every packet that
/// is late.
const TIME_THRESHOLD: f32 = 2.0;
const PACKET_THRESHOLD: u32 = u32::MAX;

/// What a connection is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuicOptions {
    /// Close when nothing came for so long (RFC 9000 10.1).
    pub idle_timeout: Option<Duration>,
    /// Ask for a sign of life when nothing came for so long.
    pub keep_alive: Option<Duration>,
    /// Bytes that the peer may send beyond what was read. The session reads at once, so this bounds
    /// what is under way.
    pub receive_window: u32,
    /// The interface to use (SO_BINDTODEVICE).
    pub interface: Option<String>,
    /// What decides how much is under way.
    pub congestion: Congestion,
}

/// A congestion controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Congestion {
    /// CUBIC that is spared what is lost while no queue is seen (TCP Veno, Fu and Liew 2003), up to 3 %.
    #[default]
    Tolerant,
    /// RFC 9438: slows down at each loss, whatever caused it.
    Cubic,
    /// By the rate of delivery and the round trip (Cardwell et al. 2016): losses alone do not slow it down.
    Bbr,
}

impl Congestion {
    /// The names that there are, each with its controller.
    pub const NAMES: [(&str, Congestion); 3] = [
        ("tolerant", Congestion::Tolerant),
        ("cubic", Congestion::Cubic),
        ("bbr", Congestion::Bbr),
    ];

    /// The controller of this name.
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
    /// `window`: bytes of all streams that the peer may send ahead at first.
    /// `streams`: how many the peer may open at once.
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

/// A socket from which connections are opened: one for each interface and family.
#[derive(Clone, Debug)]
pub struct QuicEndpoint {
    endpoint: Endpoint,
    options: QuicOptions,
    /// The number that its interface had when the socket was bound to that, if it is bound to one.
    index: Option<u32>,
}

impl QuicEndpoint {
    /// A socket for peers of the family of `peer`, from `local` if that is given.
    ///
    /// # Errors
    /// The interface or the address cannot be had.
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

    /// Whether its interface has gone, even if there is another one of that name: the kernel binds a
    /// socket to the interface's number, so that this one leads nowhere any more.
    pub fn is_stale(&self) -> bool {
        self.options
            .interface
            .as_deref()
            .is_some_and(|name| index_of(name) != self.index)
    }

    /// Connects and shakes hands. `name`: what the server's certificate must have.
    pub async fn connect(
        &self,
        peer: SocketAddr,
        name: &str,
        tls: Arc<rustls::ClientConfig>,
    ) -> Result<QuicCarrier, QuicError> {
        let connection = self.handshake(peer, name, tls, 1).await?;
        let (send, receive) = connection.open_bi().await.map_err(Broken::with(peer))?;
        Ok(QuicCarrier::new(
            connection,
            send,
            receive,
            self.local(),
            self.options.interface.clone(),
            None,
        ))
    }

    /// Connects and shakes hands, for streams that are opened one by one; the peer may open `streams`
    /// at once.
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
        Ok(connecting.await.map_err(Broken::with(peer))?)
    }

    fn local(&self) -> SocketAddr {
        self.endpoint
            .local_addr()
            .unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0)))
    }
}

/// A socket that takes connections.
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

    /// Where it listens.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.endpoint.local_addr()
    }

    /// The next connection, before its handshake. None when the listener is closed.
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

    /// Takes no more connections, and ends those that there are.
    pub fn close(&self) {
        self.endpoint.close(VarInt::from_u32(0), b"");
    }
}

/// A connection that has not shaken hands.
#[derive(Debug)]
pub struct QuicIncoming {
    incoming: quinn::Incoming,
    local: Option<SocketAddr>,
    interface: Option<String>,
    /// For a carrier that belongs to a session.
    window: VarInt,
}

impl QuicIncoming {
    /// The source address of its packets.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.incoming.remote_address()
    }

    /// Whether the peer has shown that it is at the source address of its packets (RFC 9000, 8.1).
    #[must_use]
    pub fn is_validated(&self) -> bool {
        self.incoming.remote_address_validated()
    }

    /// Has the peer show it, by a Retry (RFC 9000, 8.1.2); it then comes as another incoming connection. Nothing of it
    /// is kept until then.
    pub fn retry(self) {
        // One that was validated has no need to; it is refused when this is dropped.
        let _ = self.incoming.retry();
    }

    /// Shakes hands, and waits for the stream that is the carrier, for as long as the connection lives:
    /// whoever calls it bounds that.
    pub async fn accept(self) -> Result<QuicCarrier, Broken> {
        let peer = self.incoming.remote_address();
        let connection = self.incoming.await.map_err(Broken::with(peer))?;
        let (send, receive) = connection.accept_bi().await.map_err(Broken::with(peer))?;
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

    /// Shakes hands, and leaves its streams to be taken: by [`QuicConnection::into_carrier`] if it
    /// belongs to a session, else by [`QuicConnection::admit`].
    pub async fn handshake(self) -> Result<QuicConnection, Broken> {
        let peer = self.incoming.remote_address();
        let connection = self.incoming.await.map_err(Broken::with(peer))?;
        let local = self.local.unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0)));
        Ok(QuicConnection::new(
            connection,
            local,
            self.interface,
            Some(self.window),
        ))
    }
}

/// The number of an interface in this thread's network.
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
    // More than the system allows is cut by the system.
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
