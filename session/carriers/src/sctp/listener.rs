//! Accepts associations.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::sctp::carrier::SctpCarrier;
use crate::sctp::error::{Fault, SctpError};
use crate::sctp::options::SctpOptions;
use crate::sctp::process::StackProcess;
use crate::sctp::protocol::ProcessOrder;
use crate::sctp::remote::Remote;
use crate::sctp::stack::SctpStack;

/// The number of associations that the process accepts before the program takes them. Others wait in the
/// library.
pub(crate) const OFFERS: usize = 8;

type Accepted = (u64, UnixStream, Arc<Remote>);
type Addresses = Result<Vec<SocketAddr>, Fault>;

/// A listener in the process, as the program sees it.
pub(crate) struct Listening {
    id: OnceLock<u64>,
    addresses: Vec<IpAddr>,
    port: u16,
    options: SctpOptions,
    answer: OnceLock<SyncSender<Addresses>>,
    accepted: UnboundedSender<Accepted>,
    /// The number of associations that the program has not taken yet.
    waiting: AtomicUsize,
}

impl Listening {
    pub(crate) fn id(&self) -> u64 {
        self.id.get().copied().unwrap_or_default()
    }

    /// Sets its number. The process's answer arrives at the returned receiver.
    pub(crate) fn begin(&self, id: u64) -> Receiver<Addresses> {
        let (answer, receiver) = sync_channel(1);
        // A listener begins only once.
        let _ = self.id.set(id);
        let _ = self.answer.set(answer);
        receiver
    }

    pub(crate) fn order(&self, id: u64) -> ProcessOrder {
        ProcessOrder::Listen {
            id,
            addresses: self.addresses.clone(),
            port: self.port,
            options: self.options.clone(),
        }
    }

    /// The listener waits only for the first answer. A failure to listen again in a restarted process is
    /// logged.
    pub(crate) fn answer(&self, result: Addresses) {
        if let Err(fault) = &result {
            tracing::warn!(?fault, "an SCTP listener failed");
        }
        let _ = self.answer.get().map(|answer| answer.try_send(result));
    }

    pub(crate) fn push(&self, id: u64, stream: UnixStream, remote: Arc<Remote>) {
        // A listener that is gone ends its accepted associations itself.
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _ = self.accepted.send((id, stream, remote));
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

/// A listening socket, at several addresses at once.
pub struct SctpListener {
    process: Arc<StackProcess>,
    listening: Arc<Listening>,
    local: Vec<SocketAddr>,
    accepted: tokio::sync::Mutex<UnboundedReceiver<Accepted>>,
}

impl SctpStack {
    /// Accepts associations on this SCTP port at these addresses. To use several paths, a server needs an
    /// address on each.
    ///
    /// # Errors
    /// An address is not one of this machine's, or its port is in use.
    pub fn listen(
        &self,
        addresses: &[IpAddr],
        port: u16,
        options: SctpOptions,
    ) -> Result<SctpListener, SctpError> {
        if addresses.is_empty() {
            return Err(SctpError::Addresses("an SCTP listener needs an address"));
        }
        let (accepting, accepted) = unbounded_channel();
        let listening = Arc::new(Listening {
            id: OnceLock::new(),
            addresses: addresses.into(),
            port,
            options,
            answer: OnceLock::new(),
            accepted: accepting,
            waiting: AtomicUsize::new(0),
        });
        let local = self
            .process
            .listen(&listening)
            .map_err(|fault| fault.about(&[]))?;
        Ok(SctpListener {
            process: self.process.clone(),
            listening,
            local,
            accepted: accepted.into(),
        })
    }
}

impl SctpListener {
    /// Returns the addresses on which it listens.
    #[must_use]
    pub fn local(&self) -> Vec<SocketAddr> {
        self.local.clone()
    }

    /// Waits for the next association, until its handshake is complete.
    ///
    /// # Errors
    /// The association was lost again; the listener stays open.
    pub async fn accept(&self) -> io::Result<SctpCarrier> {
        let next = self.accepted.lock().await.recv().await;
        let (id, stream, remote) = next.ok_or(io::ErrorKind::NotConnected)?;
        self.listening.waiting.fetch_sub(1, Ordering::Relaxed);
        self.process.offer(&self.listening);
        SctpCarrier::new(id, stream, remote, self.process.clone())
    }
}

impl Drop for SctpListener {
    fn drop(&mut self) {
        self.process.close_listener(self.listening.id());
        while let Ok((id, ..)) = self.accepted.get_mut().try_recv() {
            self.process.end(id, true);
        }
    }
}
