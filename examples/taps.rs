//! Asks for a service, not a protocol: messages to a peer and back, in the terms of RFC 9622.
//!
//! ```console
//! $ cargo run --example taps -- listen 127.0.0.1:4433
//! certificate SHA-256: 3f0c…
//! $ cargo run --example taps -- send 127.0.0.1:4433 3f0c… "hello"
//! Ready over tcp
//! hello
//! ```
//!
//! `HAWSER_MULTIPATH=Active` on the sending side makes it a session over every interface.

use std::error::Error;
use std::net::SocketAddr;

use hawser::connect::taps::{ConnectionEvent, LengthPrefix, Preconnection, Property, SecurityParameters};
use hawser::session::Identity;

type Anything = Box<dyn Error>;

const USAGE: &str = "usage: taps listen ADDRESS:PORT | taps send ADDRESS:PORT SHA-256 MESSAGE";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Anything> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["listen", address] => listen(address.parse()?).await,
        ["send", address, digest, message] => send(address.parse()?, digest, message).await,
        _ => Err(USAGE.into()),
    }
}

/// Sends every message back to its sender.
async fn listen(address: SocketAddr) -> Result<(), Anything> {
    let identity = Identity::generate(vec!["localhost".into()])?;
    println!("certificate SHA-256: {}", identity.fingerprint());
    let security = SecurityParameters::new().with_server_certificate(identity);
    let wanted = Preconnection::new(security)
        .with_framer(LengthPrefix::new(1 << 20))
        .with_local(address);
    let mut listener = wanted.listen().await?;
    while let Some(mut connection) = listener.accept().await {
        tokio::spawn(async move {
            while let Ok(received) = connection.receive().await {
                if connection.send(received.data().clone()).await.is_err() {
                    break;
                }
            }
        });
    }
    Ok(())
}

/// Sends a message, and prints the answer.
async fn send(address: SocketAddr, digest: &str, message: &str) -> Result<(), Anything> {
    let security = SecurityParameters::new()
        .with_pinned_server_certificate(parse(digest).ok_or("a SHA-256 has 64 hexadecimal digits")?)
        .with_server_name("localhost");
    let mut wanted = Preconnection::new(security)
        .with_framer(LengthPrefix::new(1 << 20))
        .with_remote(address);
    if let Ok(multipath) = std::env::var("HAWSER_MULTIPATH") {
        wanted
            .properties_mut()
            .set_by_name(Property::Multipath.name(), &multipath)?;
    }
    let mut connection = wanted.initiate()?;
    connection.send(message.to_owned()).await?;
    match connection.next_event().await {
        Some(ConnectionEvent::Ready) => println!("Ready over {}", connection.transport()),
        Some(ConnectionEvent::EstablishmentError(error)) => return Err(error.into()),
        other => return Err(format!("{other:?} instead of Ready").into()),
    }
    println!("{}", String::from_utf8_lossy(connection.receive().await?.data()));
    connection.close();
    while connection.next_event().await.is_some() {}
    Ok(())
}

fn parse(digits: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    if digits.len() != 64 || !digits.is_ascii() {
        return None;
    }
    for (place, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * place..2 * place + 2], 16).ok()?;
    }
    Some(digest)
}
