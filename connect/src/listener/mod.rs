//! Listeners, which hide from their callers the transports behind an address.
//!
//! * [`Listener`]: an address, and the [`Incoming`] connections
//! * `plain`: connections without protection; `sctp`: the same by SCTP, over several paths; `secure`: TLS
//!   1.3, sessions among them

mod plain;
mod sctp;
mod secure;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{Duplex, Features, Security};
use hawser_session::Identity;

/// The options of a listener.
#[derive(Clone)]
pub struct ListenOptions {
    /// The address; port 0 selects a free one.
    pub address: SocketAddr,
    /// The certificate of this side; without one, connections are not protected.
    pub identity: Option<Arc<Identity>>,
    /// The application protocols to negotiate (RFC 7301).
    pub protocols: Vec<String>,
    /// True if peers may use several paths.
    pub is_multipath: bool,
    /// The interface; `None` for all.
    pub interface: Option<String>,
}

impl ListenOptions {
    /// Returns options for connections without protection, by the kernel's TCP at all interfaces.
    #[must_use]
    pub fn plain(address: SocketAddr) -> ListenOptions {
        ListenOptions {
            address,
            identity: None,
            protocols: Vec::new(),
            is_multipath: false,
            interface: None,
        }
    }
}

/// An incoming connection.
pub struct Incoming {
    /// The first stream of a transport connection, or the only one. [`Duplex::streams`] accepts further ones.
    pub stream: Box<dyn Duplex>,
}

/// A listener. When it is dropped, no more connections are accepted; accepted ones stay.
pub struct Listener {
    incoming: mpsc::Receiver<Incoming>,
    address: SocketAddr,
    /// Ends the tasks with the listener.
    _tasks: JoinSet<()>,
    is_secure: bool,
}

/// The maximum number of connections queued for `accept`; further ones wait with their transport.
const MAX_WAITING: usize = 64;

impl Listener {
    /// Begins to listen, within a tokio runtime.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub fn open(options: &ListenOptions) -> io::Result<Listener> {
        let (sender, incoming) = mpsc::channel(MAX_WAITING);
        let (address, tasks) = match &options.identity {
            None => plain::open(options, sender)?,
            Some(identity) => secure::open(options, identity, sender)?,
        };
        Ok(Listener {
            incoming,
            address,
            _tasks: tasks,
            is_secure: options.identity.is_some(),
        })
    }

    /// Begins to listen for SCTP at all these addresses, without protection, within a tokio runtime.
    ///
    /// # Errors
    /// When the SCTP library is absent, or an address or the port is not available.
    pub fn sctp(addresses: &[IpAddr], port: u16) -> io::Result<Listener> {
        let (sender, incoming) = mpsc::channel(MAX_WAITING);
        let (address, tasks) = sctp::open(addresses, port, sender)?;
        Ok(Listener { incoming, address, _tasks: tasks, is_secure: false })
    }

    /// Returns its address; of several, the first.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the features that every connection has at least.
    #[must_use]
    pub fn features(&self) -> Features {
        let security = if self.is_secure {
            Security::Encrypted
        } else {
            Security::None
        };
        Features { security, ..Features::STREAM }
    }

    /// Waits for the next connection; `None` when the listener has failed permanently.
    pub async fn accept(&mut self) -> Option<Incoming> {
        self.incoming.recv().await
    }
}
