//! A transport program on a device: where carriers begin, and where they are accepted.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hawser_carrier::OpenError;
use hawser_carrier_tls::{MaybeTls, TlsClient, TlsServer};
use hawser_net::{Keepalive, Listener, Network, Options, Stream};
use parking_lot::Mutex;

use crate::carrier::MtpCarrier;

/// Connections that wait to be accepted.
const BACKLOG: u32 = 1_024;

/// What a connection is asked for. What the program does not know of it is left out, but for
/// [`MtpOptions::max_segment`]: without that such a connection is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MtpOptions {
    /// Wait for full packets (RFC 896). Off by default: segments are cut by the session.
    pub nagle: bool,
    /// Close when the peer's transport sends nothing for so long, with data outstanding (RFC 5482) or
    /// without (keepalive, RFC 9293 3.8.4).
    pub idle_timeout: Option<Duration>,
    /// Bytes that the stack takes before they are in a packet.
    pub not_sent: u64,
    /// Neither end sends segments of more than so many bytes.
    pub max_segment: Option<u16>,
}

impl Default for MtpOptions {
    fn default() -> Self {
        Self { nagle: false, idle_timeout: None, not_sent: 16_384, max_segment: None }
    }
}

impl MtpOptions {
    /// What has to be known before the first packet leaves.
    fn first(&self) -> Options {
        let options = Options::new().not_sent(self.not_sent);
        match self.max_segment {
            Some(bytes) => options.max_segment(bytes),
            None => options,
        }
    }

    /// What may be set at any time.
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

/// An option that the program does not know is none that it needs.
fn known(set: io::Result<()>) -> io::Result<()> {
    const ENOPROTOOPT: i32 = 92;
    match set {
        Err(error) if error.raw_os_error() == Some(ENOPROTOOPT) => Ok(()),
        set => set,
    }
}

/// What stands for the interface of a stack that is at sockets of the host.
pub const SOCKETS: &str = "udp";

/// A transport program on a device. Clones are the same stack.
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
    /// The stack that `network` drives, which runs `program` on the interface of this name. Its transport
    /// is called `mtp-` and the program's name.
    #[must_use]
    pub fn new(network: Network, program: &str, interface: &str) -> Self {
        Self {
            network,
            transport: interned(format!("mtp-{program}")),
            interface: interface.into(),
        }
    }

    /// What its transport is called.
    #[must_use]
    pub fn transport(&self) -> &'static str {
        self.transport
    }

    /// The interface that it is on.
    #[must_use]
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// The same; none at sockets of the host, for which the kernel chooses one for each peer.
    #[must_use]
    pub fn own_interface(&self) -> Option<&str> {
        Some(self.interface()).filter(|name| *name != SOCKETS)
    }

    /// The network that drives it.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Opens a connection with `peer`, and shakes hands if `tls` is given.
    ///
    /// # Errors
    /// The program's and the handshake's, naming the peer.
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
    /// The address cannot be listened on.
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

/// The same text for as long as the process lives: there are few names of programs.
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
    /// The next connection, before its TLS handshake, so that a slow one holds up no other.
    ///
    /// # Errors
    /// The listener or its device failed.
    pub async fn accept(&self) -> io::Result<MtpIncoming> {
        let (stream, peer) = loop {
            let stream = self.listener.accept().await?;
            // One that is over already concerns no other.
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

/// A connection that was accepted and has not shaken hands.
pub struct MtpIncoming {
    stream: Stream,
    peer: SocketAddr,
    stack: MtpStack,
    options: MtpOptions,
    tls: Option<TlsServer>,
}

impl MtpIncoming {
    /// Where it comes from.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Shakes hands, in 10 s at most.
    ///
    /// # Errors
    /// The program's and the handshake's.
    pub async fn accept(self) -> Result<MtpCarrier, OpenError> {
        self.options.tune(&self.stream)?;
        let stream = MaybeTls::accept(self.stream, self.tls.as_ref(), self.peer).await?;
        Ok(MtpCarrier::new(stream, self.stack))
    }
}
