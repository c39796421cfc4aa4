//! Doors: where connections come in. Which transports there are behind an address is known here, and to
//! nobody above.
//!
//! * [`Doorway`]: an address, and the [`Guest`]s that come to it
//! * `plain`: connections without protection; `sctp`: the same by SCTP, over several paths; `secure`: TLS 1.3, sessions among them

mod plain;
mod sctp;
mod secure;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{Duplex, Features, Security};
use hawser_session_driver::Identity;

/// What is wished of a door.
#[derive(Clone)]
pub struct DoorWish {
    /// Where; port 0 for one that is free.
    pub address: SocketAddr,
    /// One's own certificate; none: no protection at all.
    pub identity: Option<Arc<Identity>>,
    /// Application protocols that are agreed on (RFC 7301).
    pub protocols: Vec<String>,
    /// Whether peers may use several paths.
    pub is_multipath: bool,
    /// The interface; none for all.
    pub interface: Option<String>,
}

impl DoorWish {
    /// One without protection, for the kernel's TCP at all interfaces.
    #[must_use]
    pub fn plain(address: SocketAddr) -> DoorWish {
        DoorWish {
            address,
            identity: None,
            protocols: Vec::new(),
            is_multipath: false,
            interface: None,
        }
    }
}

/// Who came in.
pub struct Guest {
    /// The first stream of a transport connection, or the only one. Further ones are told by
    /// [`Duplex::streams`].
    pub stream: Box<dyn Duplex>,
}

/// An open door. When it is dropped, nobody else comes in; those who did stay.
pub struct Doorway {
    guests: mpsc::Receiver<Guest>,
    address: SocketAddr,
    /// Ends the tasks with the door.
    _tasks: JoinSet<()>,
    is_secure: bool,
}

/// Guests that wait to be taken; further ones wait with their transport.
const WAITING: usize = 64;

impl Doorway {
    /// Opens one, within a runtime of tokio.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn open(wish: &DoorWish) -> io::Result<Doorway> {
        let (sender, guests) = mpsc::channel(WAITING);
        let (address, tasks) = match &wish.identity {
            None => plain::open(wish, sender)?,
            Some(identity) => secure::open(wish, identity, sender)?,
        };
        Ok(Doorway {
            guests,
            address,
            _tasks: tasks,
            is_secure: wish.identity.is_some(),
        })
    }

    /// Opens one for SCTP at all these addresses, without protection. Within a runtime of tokio.
    ///
    /// # Errors
    /// SCTP's library is not there, or an address or the port cannot be had.
    pub fn sctp(addresses: &[IpAddr], port: u16) -> io::Result<Doorway> {
        let (sender, guests) = mpsc::channel(WAITING);
        let (address, tasks) = sctp::open(addresses, port, sender)?;
        Ok(Doorway {
            guests,
            address,
            _tasks: tasks,
            is_secure: false,
        })
    }

    /// Where it is; of several addresses the first.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What all who come in have at least.
    #[must_use]
    pub fn features(&self) -> Features {
        let security = if self.is_secure {
            Security::Encrypted
        } else {
            Security::None
        };
        Features {
            security,
            ..Features::STREAM
        }
    }

    /// The next one who comes in.
    pub async fn accept(&mut self) -> Option<Guest> {
        self.guests.recv().await
    }
}
