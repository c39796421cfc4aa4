//! Serves a client with the protocol that its first byte selects.

use std::sync::Arc;

use hawser::session::admission::{AdmissionPermit, EvictionReason};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::connection::Client;
use crate::relay::dismiss;
use crate::{http, socks};

/// The first bytes of SOCKS5 and of its predecessor.
const SOCKS5: u8 = 5;
const SOCKS4: u8 = 4;
/// SOCKS4's reply to a rejected request: version 0, code 91, and an unused port and address (Lee, "SOCKS: A
/// protocol for TCP proxy across firewalls").
const SOCKS4_REFUSED: [u8; 8] = [0, 91, 0, 0, 0, 0, 0, 0];

/// Serves a client until it has gone. A client without a request may be dropped to admit others.
pub(crate) async fn serve_in(client: Client, stream: TcpStream, mut place: AdmissionPermit) {
    let admitted = Arc::clone(&client.admitted);
    let mut serving = std::pin::pin!(serve(&client, stream));
    match place.hold_until(admitted.notified(), &mut serving).await {
        EvictionReason::Done(()) => {}
        EvictionReason::Proved => {
            drop(place);
            serving.await;
        }
        EvictionReason::Evicted => {
            client.rejected("the client had sent no request when its place was needed")
        }
    }
}

/// Serves a client until it has gone.
async fn serve(client: &Client, mut stream: TcpStream) {
    // Small answers must not wait for the client's acknowledgement.
    let _ = stream.set_nodelay(true);
    let mut first = [0];
    let peeked = tokio::time::timeout(client.front.settings.limits.head, stream.peek(&mut first)).await;
    match (peeked, first[0]) {
        (Err(_), _) => client.rejected("the client sent no request in time"),
        // Browsers open connections in advance and close them unused, so this is not logged.
        (Ok(Err(_) | Ok(0)), _) => {}
        (Ok(Ok(_)), SOCKS5) => socks::serve(client, stream).await,
        // A method (RFC 9110, 9.1), or the empty lines that may precede it (RFC 9112, 2.2).
        (Ok(Ok(_)), b'!'..=b'~' | b'\r' | b'\n') => http::serve(client, stream).await,
        (Ok(Ok(_)), SOCKS4) => {
            client.rejected("SOCKS4 is not supported; use SOCKS5");
            let _ = stream.write_all(&SOCKS4_REFUSED).await;
            dismiss(stream).await;
        }
        (Ok(Ok(_)), other) => {
            client.rejected(format!(
                "a request that begins with {other:#04x} is neither SOCKS5 nor HTTP"
            ));
            dismiss(stream).await;
        }
    }
}
