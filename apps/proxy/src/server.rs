//! Listening, accepting and stopping.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::Poll;
use std::time::{Duration, Instant};

use hawser::connect::Racer;
use hawser::session::admission::{AdmissionGate, Shares};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use crate::Settings;
use crate::connection::{Client, ProxyState};
use crate::event::ServerEvent;
use crate::serve::serve_in;

/// The pause after a failed accept. Descriptors become available again when other connections end.
const PAUSE: Duration = Duration::from_millis(50);
/// The delay before the next client while half of the places for clients without a request are taken. It
/// allows the requests of a burst to be read before a client is dropped.
const CROWDED: Duration = Duration::from_millis(2);
/// The minimum time between two reports that all places are taken.
const REPORT_EVERY: Duration = Duration::from_secs(60);
/// The maximum number of clients that wait to be accepted, at each address.
const BACKLOG: u32 = 1_024;

/// A listening proxy.
pub struct Proxy {
    front: Arc<ProxyState>,
    listeners: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
}

/// A proxy could not listen.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Without a credential, the address would let users of other hosts use the proxy.
    #[error(
        "other hosts could use this proxy on {0}: give a credential (--credential FILE), or listen on \
         loopback"
    )]
    Open(SocketAddr),
    /// The system refused the address.
    #[error("cannot listen on {address}: {error}")]
    System {
        /// The requested address.
        address: SocketAddr,
        error: io::Error,
    },
}

impl Proxy {
    /// Opens the listeners. It must be called within a tokio runtime with time and I/O.
    ///
    /// # Errors
    /// Fails if an address is beyond loopback and there is no credential, or if the system refuses an
    /// address.
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
        let front = Arc::new(ProxyState { settings, racer, requests: AtomicU64::new(0) });
        Ok(Proxy { front, listeners, addresses })
    }

    /// Adds a listener from which the proxy also takes clients. The listener may come from another network
    /// namespace.
    ///
    /// # Errors
    /// Fails for the same reasons as [`Proxy::bind`].
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

    /// Returns the bound addresses. A requested port 0 is replaced by the actual port.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Serves until `stop` is ready. Then no further clients are accepted. Existing connections may continue
    /// for [`crate::ProxyLimits::drain`], and are then aborted.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let Proxy { front, listeners, addresses } = self;
        for address in addresses {
            front.publish(None, ServerEvent::Listening { address });
        }
        let limits = front.settings.limits;
        // Half of the connections are reserved for clients with a request. Networks share the other half. On
        // loopback there is only one network, whose newcomers wait for a moment.
        let is_local = listeners.iter().all(|listener| {
            listener
                .local_addr()
                .is_ok_and(|address| address.ip().to_canonical().is_loopback())
        });
        let unproven = limits.connections.div_ceil(2);
        let gate = AdmissionGate::new(if is_local {
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
                front.publish(None, ServerEvent::Full { connections });
                reported = Some(Instant::now());
            }
            tokio::select! {
                () = &mut stop => break,
                Some(_) = clients.join_next() => {}
                // Without a free place, clients wait in the backlog.
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
                    // No client can be notified, and the listener continues.
                    Err(_) => tokio::time::sleep(PAUSE).await,
                },
            }
        }
        drop(listeners);
        front.publish(None, ServerEvent::Stopping { connections: clients.len() });
        // This fails only if no client is left to receive it.
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
    // A restarted server must be able to bind its port again.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Accepts the next client from any listener.
async fn accept(listeners: &[TcpListener]) -> io::Result<(TcpStream, SocketAddr)> {
    poll_fn(|context| {
        let ready = listeners.iter().map(|listener| listener.poll_accept(context));
        ready.into_iter().find(Poll::is_ready).unwrap_or(Poll::Pending)
    })
    .await
}
