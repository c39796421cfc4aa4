//! A transport program on a device: opens and accepts carriers.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::OpenError;
use crate::tls::{MaybeTls, TlsClient, TlsServer};
use hawser_sockets::{Keepalive, Listener, Network, Options, Stream};
use parking_lot::Mutex;

use crate::mtp::carrier::MtpCarrier;

/// The maximum number of connections that wait to be accepted.
const BACKLOG: u32 = 1_024;

/// The options of a connection. Options that the program does not know are ignored, except
/// [`MtpOptions::max_segment`], without which such a connection is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MtpOptions {
    /// Wait for full packets (RFC 896). Off by default, because the session cuts the segments.
    pub nagle: bool,
    /// The time after which the connection is closed if the peer's transport is silent. It applies with data
    /// outstanding (RFC 5482) and without (keepalive, RFC 9293, 3.8.4).
    pub idle_timeout: Option<Duration>,
    /// Bytes that the stack takes before they are in a packet.
    pub not_sent: u64,
    /// The maximum segment size of both ends, in bytes.
    pub max_segment: Option<u16>,
}

impl Default for MtpOptions {
    fn default() -> Self {
        Self { nagle: false, idle_timeout: None, not_sent: 16_384, max_segment: None }
    }
}

impl MtpOptions {
    /// Returns the options that must be set before the first packet is sent.
    fn first(&self) -> Options {
        let options = Options::new().not_sent(self.not_sent);
        match self.max_segment {
            Some(bytes) => options.max_segment(bytes),
            None => options,
        }
    }

    /// Sets the options that may be set at any time.
    fn tune(&self, stream: &Stream) -> io::Result<()> {
        known(stream.set_nodelay(!self.nagle))?;
        let Some(timeout) = self.idle_timeout else {
            return Ok(());
        };
        known(stream.set_user_timeout(Some(timeout)))?;
        let probe = (timeout / 4).max(Duration::from_secs(1));
        let keepalive = Keepalive { idle: probe, interval: probe, count: 3 };
        known(stream.set_keepalive(Some(keepalive)))
    }
}

/// Ignores the error of an option that the program does not know and does not need.
fn known(set: io::Result<()>) -> io::Result<()> {
    const ENOPROTOOPT: i32 = 92;
    match set {
        Err(error) if error.raw_os_error() == Some(ENOPROTOOPT) => Ok(()),
        set => set,
    }
}

/// The interface name of a stack that runs on sockets of the host.
pub const SOCKETS: &str = "udp";

/// A transport program on a device. Clones share the same stack.
#[derive(Clone)]
pub struct MtpStack {
    network: Network,
    transport: &'static str,
    interface: Arc<str>,
}

impl fmt::Debug for MtpStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MtpStack { transport, interface, .. } = self;
        f.debug_struct("MtpStack")
            .field("transport", transport)
            .field("interface", interface)
            .finish()
    }
}

impl MtpStack {
    /// Creates the stack that `network` drives, which runs `program` on the interface of this name. Its
    /// transport is called `mtp-` and the program's name.
    #[must_use]
    pub fn new(network: Network, program: &str, interface: &str) -> Self {
        Self {
            network,
            transport: interned(format!("mtp-{program}")),
            interface: interface.into(),
        }
    }

    /// Returns the name of its transport.
    #[must_use]
    pub fn transport(&self) -> &'static str {
        self.transport
    }

    /// Returns the name of its interface.
    #[must_use]
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Returns the name of its interface. `None` on sockets of the host, for which the kernel chooses an
    /// interface for each peer.
    #[must_use]
    pub fn own_interface(&self) -> Option<&str> {
        Some(self.interface()).filter(|name| *name != SOCKETS)
    }

    /// Returns the network that drives it.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Opens a connection with `peer`, with a TLS handshake if `tls` is given.
    ///
    /// # Errors
    /// The errors of the program and of the handshake, which name the peer.
    pub async fn connect(
        &self,
        peer: SocketAddr,
        options: &MtpOptions,
        tls: Option<&TlsClient>,
    ) -> Result<MtpCarrier, OpenError> {
        let stream = self.network.connect_with(peer, &options.first()).await;
        let stream = stream.map_err(|error| OpenError::Connect { peer, error })?;
        options.tune(&stream)?;
        Ok(MtpCarrier::new(
            MaybeTls::connect(stream, tls, peer).await?,
            self.clone(),
        ))
    }

    /// Listens on `address`.
    ///
    /// # Errors
    /// The stack cannot listen on the address.
    pub fn listen(
        &self,
        address: SocketAddr,
        options: MtpOptions,
        tls: Option<TlsServer>,
    ) -> Result<MtpListener, OpenError> {
        let listener = self.network.listen_with(address, BACKLOG, &options.first());
        let listener = listener.map_err(|error| OpenError::Listen { local: address, error })?;
        Ok(MtpListener { listener, stack: self.clone(), options, tls })
    }
}

/// Returns the same text with a static lifetime. There are few program names, so the leak is bounded.
fn interned(name: String) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock();
    if let Some(known) = names.get(name.as_str()) {
        return known;
    }
    let name: &'static str = name.leak();
    names.insert(name);
    name
}

/// A listener of a stack.
pub struct MtpListener {
    listener: Listener,
    stack: MtpStack,
    options: MtpOptions,
    tls: Option<TlsServer>,
}

impl MtpListener {
    /// Waits for the next connection, before its TLS handshake, so that a slow handshake holds up no other
    /// connection.
    ///
    /// # Errors
    /// The listener or its device failed.
    pub async fn accept(&self) -> io::Result<MtpIncoming> {
        let (stream, peer) = loop {
            let stream = self.listener.accept().await?;
            // A connection that is already over does not affect the others.
            if let Some(peer) = stream.peer() {
                break (stream, peer);
            }
        };
        Ok(MtpIncoming {
            stream,
            peer,
            stack: self.stack.clone(),
            options: self.options.clone(),
            tls: self.tls.clone(),
        })
    }
}

/// An accepted connection before its handshake.
pub struct MtpIncoming {
    stream: Stream,
    peer: SocketAddr,
    stack: MtpStack,
    options: MtpOptions,
    tls: Option<TlsServer>,
}

impl MtpIncoming {
    /// Returns the peer's address.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Performs the handshake, within 10 s.
    ///
    /// # Errors
    /// The errors of the program and of the handshake.
    pub async fn accept(self) -> Result<MtpCarrier, OpenError> {
        self.options.tune(&self.stream)?;
        let stream = MaybeTls::accept(self.stream, self.tls.as_ref(), self.peer).await?;
        Ok(MtpCarrier::new(stream, self.stack))
    }
}
