//! The other end of a race: streams from whoever connects, over whichever transport.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hawser_carrier_sctp::{ENCAPSULATION_PORT, SctpDoor, SctpOptions, Stack};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use crate::session::PlainStream;

use super::Duplex;

/// Streams that wait to be accepted; more wait in the kernel.
const MOST_WAITING: usize = 64;
/// After the system had no room for another one.
const PAUSE: Duration = Duration::from_millis(100);

/// Where peers may come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Door {
    /// The kernel's TCP at this address.
    Tcp(SocketAddr),
    /// SCTP in UDP, at all these addresses at once: each is a path of every association.
    Sctp {
        /// The addresses.
        addresses: Vec<IpAddr>,
        /// The SCTP port.
        port: u16,
    },
}

/// A stream that came in.
pub struct Accepted {
    /// The stream.
    pub stream: Box<dyn Duplex>,
    /// The transport's word.
    pub transport: &'static str,
}

/// Takes streams at several doors. Dropping it closes them; streams that were accepted go on.
#[derive(Debug)]
pub struct Listener {
    addresses: Vec<(&'static str, SocketAddr)>,
    arrived: Mutex<mpsc::Receiver<Accepted>>,
    /// Ends the tasks with the listener.
    _tasks: JoinSet<()>,
}

impl Listener {
    /// Opens all doors, or none. Needs a tokio runtime.
    ///
    /// # Errors
    /// An address is taken or is none of this machine's; SCTP's library is not there.
    pub async fn open(doors: &[Door]) -> io::Result<Listener> {
        let (tell, arrived) = mpsc::channel(MOST_WAITING);
        let (mut tasks, mut addresses) = (JoinSet::new(), Vec::new());
        for door in doors {
            match door {
                Door::Tcp(address) => {
                    let named =
                        |error: io::Error| io::Error::new(error.kind(), format!("{address}: {error}"));
                    let listener = TcpListener::bind(address).await.map_err(named)?;
                    addresses.push(("tcp", listener.local_addr()?));
                    tasks.spawn(take_tcp(listener, tell.clone()));
                }
                Door::Sctp { addresses: own, port } => {
                    let stack = Stack::open(Some(ENCAPSULATION_PORT))?;
                    let door = stack.listen(own, *port, SctpOptions::default())?;
                    addresses.extend(door.local().into_iter().map(|address| ("sctp", address)));
                    tasks.spawn(take_sctp(door, tell.clone()));
                }
            }
        }
        Ok(Listener { addresses, arrived: Mutex::new(arrived), _tasks: tasks })
    }

    /// Where it listens: the transport's word and the address.
    #[must_use]
    pub fn addresses(&self) -> &[(&'static str, SocketAddr)] {
        &self.addresses
    }

    /// The next stream. May be dropped and called again.
    ///
    /// # Errors
    /// There is no door.
    pub async fn accept(&self) -> io::Result<Accepted> {
        let none = || io::Error::new(io::ErrorKind::NotConnected, "there is no door to come in by");
        self.arrived.lock().await.recv().await.ok_or_else(none)
    }
}

async fn take_tcp(listener: TcpListener, tell: mpsc::Sender<Accepted>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Small answers do not wait for larger ones.
                let _ = stream.set_nodelay(true);
                if tell.send(Accepted { stream: Box::new(stream), transport: "tcp" }).await.is_err() {
                    return;
                }
            }
            // Of the peer, or of a full table: neither ends the door (accept(2)).
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn take_sctp(door: SctpDoor, tell: mpsc::Sender<Accepted>) {
    loop {
        match door.accept().await {
            Ok(carrier) => {
                let stream = Box::new(PlainStream::new(Box::new(carrier)));
                if tell.send(Accepted { stream, transport: "sctp" }).await.is_err() {
                    return;
                }
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}
