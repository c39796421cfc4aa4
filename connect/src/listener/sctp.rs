//! SCTP in UDP, at several addresses at once: each is a path of every association.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hawser_carriers::sctp::{ENCAPSULATION_PORT, SctpListener, SctpOptions, SctpStack};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::Incoming;
use hawser_session::PlainStream;

/// The pause after an association that was lost at once, or for which there was no memory.
const AFTER_ERROR: Duration = Duration::from_millis(50);

pub(super) fn open(
    addresses: &[IpAddr],
    port: u16,
    incoming: mpsc::Sender<Incoming>,
) -> io::Result<(SocketAddr, JoinSet<()>)> {
    let listener =
        SctpStack::bind(addresses, ENCAPSULATION_PORT)?.listen(addresses, port, SctpOptions::default())?;
    let address = listener.local().into_iter().next();
    let address = address.ok_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable))?;
    let mut tasks = JoinSet::new();
    tasks.spawn(accept(listener, incoming));
    Ok((address, tasks))
}

async fn accept(listener: SctpListener, incoming: mpsc::Sender<Incoming>) {
    loop {
        match listener.accept().await {
            Ok(carrier) => {
                let stream = Box::new(PlainStream::new(Box::new(carrier)));
                if incoming.send(Incoming { stream }).await.is_err() {
                    return;
                }
            }
            Err(_) => tokio::time::sleep(AFTER_ERROR).await,
        }
    }
}
