//! Doors: where connections come in. Which transports there are behind an address is known here, and to
//! nobody above.
//!
//! * [`Door`]: an address, and the [`Guest`]s that come to it
//! * `plain`: connections without protection

mod plain;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::{Duplex, Features};
use crate::session::Identity;

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

/// Who came in.
pub struct Guest {
    /// The first stream of a transport connection, or the only one. Further ones are told by
    /// [`Duplex::streams`].
    pub stream: Box<dyn Duplex>,
}

/// An open door. When it is dropped, nobody else comes in; those who did stay.
pub struct Door {
    guests: mpsc::Receiver<Guest>,
    address: SocketAddr,
    tasks: Vec<AbortHandle>,
}

/// Guests that wait to be taken; further ones wait with their transport.
const WAITING: usize = 64;

impl Door {
    /// Opens one, within a runtime of tokio.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn open(wish: &DoorWish) -> io::Result<Door> {
        let (sender, guests) = mpsc::channel(WAITING);
        let (address, task) = plain::open(wish, sender)?;
        Ok(Door { guests, address, tasks: vec![task.abort_handle()] })
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What all who come in have at least.
    #[must_use]
    pub fn features(&self) -> Features {
        Features::STREAM
    }

    /// The next one who comes in.
    pub async fn accept(&mut self) -> Option<Guest> {
        self.guests.recv().await
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}
