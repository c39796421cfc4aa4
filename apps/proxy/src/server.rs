//! Listening, accepting and stopping.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::Poll;
use std::time::{Duration, Instant};

use hawser::places::{Gate, Shares};
use hawser::select::Racer;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use crate::Settings;
use crate::connection::{Client, Front};
use crate::event::Own;
use crate::serve::serve_in;

/// How long nothing is accepted after accepting failed: descriptors come back as others end.
const PAUSE: Duration = Duration::from_millis(50);
/// How long the next client waits while half of the places for those who have asked for nothing are taken:
/// many that come at once have their requests read before one has to make room.
const CROWDED: Duration = Duration::from_millis(2);
/// The least time between two reports that there are no more places.
const REPORT_EVERY: Duration = Duration::from_secs(60);
/// Clients that may wait to be accepted, at each address.
const BACKLOG: u32 = 1_024;

/// A proxy that listens.
pub struct Proxy {
    front: Arc<Front>,
    listeners: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
}

/// Why a proxy does not listen.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Others than this host's users could use it.
    #[error(
        "listening on {0} lets others use this proxy: give a credential (--credential FILE), or listen on loopback"
    )]
    Open(SocketAddr),
    /// The system does not permit it.
    #[error("cannot listen on {address}: {error}")]
    System {
        /// The address that was to be listened on.
        address: SocketAddr,
        /// The error of the system.
        error: io::Error,
    },
}

impl Proxy {
    /// Listens. Call it within a runtime of tokio with time and I/O.
    ///
    /// # Errors
    /// An address beyond loopback without a credential; an address that the system does not give.
    pub async fn bind(racer: Racer, settings: Settings) -> Result<Proxy, BindError> {
        let is_open = |address: &&SocketAddr| !address.ip().to_canonical().is_loopback();
        if let (Some(open), None) = (settings.listen.iter().find(is_open), &settings.credential) {
            return Err(BindError::Open(*open));
        }
        let (mut listeners, mut addresses) = (Vec::new(), Vec::new());
        for &address in &settings.listen {
            let failed = |error| BindError::System { address, error };
            let listener = listen(address).map_err(failed)?;
            addresses.push(listener.local_addr().map_err(failed)?);
            listeners.push(listener);
        }
        let front = Arc::new(Front { settings, racer, requests: AtomicU64::new(0) });
        Ok(Proxy { front, listeners, addresses })
    }

    /// The same, and it takes clients from this listener as well: one that somebody else has opened, perhaps in
    /// another network namespace.
    ///
    /// # Errors
    /// As for [`Proxy::bind`].
    pub fn and_at(mut self, listener: std::net::TcpListener) -> Result<Proxy, BindError> {
        let failed = |error| BindError::System { address: SocketAddr::from(([0; 4], 0)), error };
        let address = listener.local_addr().map_err(failed)?;
        if !address.ip().to_canonical().is_loopback() && self.front.settings.credential.is_none() {
            return Err(BindError::Open(address));
        }
        let failed = |error| BindError::System { address, error };
        listener.set_nonblocking(true).map_err(failed)?;
        self.listeners
            .push(TcpListener::from_std(listener).map_err(failed)?);
        self.addresses.push(address);
        Ok(self)
    }

    /// Where it listens; a port that was asked for as 0 is the one that it got.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Serves until `stop` is ready. Then nothing is accepted any more; what is under way may go on
    /// for [`crate::Limits::drain`], and is broken off after it.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let Proxy { front, listeners, addresses } = self;
        for address in addresses {
            front.publish(None, Own::Listening { address });
        }
        let limits = front.settings.limits;
        // Half of the connections are for clients that have asked for something. Networks share the other half; behind
        // loopback there is one alone, in which newcomers wait for a moment.
        let is_local = listeners.iter().all(|listener| {
            listener
                .local_addr()
                .is_ok_and(|address| address.ip().to_canonical().is_loopback())
        });
        let unproven = limits.connections.div_ceil(2);
        let gate = Gate::new(if is_local {
            Shares::unshared(unproven)
        } else {
            Shares::new(unproven)
        });
        let (stopping, ending) = watch::channel(false);
        let mut clients = JoinSet::new();
        let mut stop = pin!(stop);
        let mut reported = None::<Instant>;
        loop {
            let is_full = clients.len() >= limits.connections;
            if is_full && reported.is_none_or(|last| last.elapsed() >= REPORT_EVERY) {
                let connections = clients.len();
                front.publish(None, Own::Full { connections });
                reported = Some(Instant::now());
            }
            tokio::select! {
                () = &mut stop => break,
                Some(_) = clients.join_next() => {}
                // Without a place, clients wait in the backlog.
                accepted = accept(&listeners), if !is_full => match accepted {
                    Ok((stream, address)) => {
                        if is_local && gate.is_crowded(address.ip()) {
                            tokio::time::sleep(CROWDED).await;
                        }
                        let place = gate.enter(address.ip());
                        let (front, stopping) = (Arc::clone(&front), ending.clone());
                        let client = Client { front, address, stopping, admitted: Arc::new(Notify::new()) };
                        clients.spawn(serve_in(client, stream, place));
                    }
                    // Nobody can be notified; the listener goes on.
                    Err(_) => tokio::time::sleep(PAUSE).await,
                },
            }
        }
        drop(listeners);
        front.publish(None, Own::Stopping { connections: clients.len() });
        // Nobody listens when no client is left.
        let _ = stopping.send(true);
        let drained = async { while clients.join_next().await.is_some() {} };
        if tokio::time::timeout(limits.drain, drained).await.is_err() {
            clients.shutdown().await;
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    // As any server that is started again at its port.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// The next client of any listener.
async fn accept(listeners: &[TcpListener]) -> io::Result<(TcpStream, SocketAddr)> {
    poll_fn(|context| {
        let ready = listeners.iter().map(|listener| listener.poll_accept(context));
        ready.into_iter().find(Poll::is_ready).unwrap_or(Poll::Pending)
    })
    .await
}
