//! One session over every transport and interface: a server that echoes, and a client whose stream survives
//! the loss of a path.
//!
//! ```console
//! $ cargo run -p hawser --features session --example session_echo -- listen 127.0.0.1:4433
//! certificate SHA-256: 3f0c…
//! $ cargo run -p hawser --features session --example session_echo -- send 127.0.0.1:4433 3f0c… "hello"
//! hello
//! ```

use std::error::Error;
use std::net::SocketAddr;

use hawser::session::document::{Document, hex};
use hawser::session::{Identity, QuicOptions, Server, ServerConfig, Session, SessionError, TcpOptions, open};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

type Anything = Box<dyn Error>;

const USAGE: &str =
    "usage: session_echo listen ADDRESS:PORT | session_echo send ADDRESS:PORT SHA-256 MESSAGE";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Anything> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["listen", address] => listen(address.parse()?).await,
        ["send", address, digest, message] => send(address, digest, message).await,
        _ => Err(USAGE.into()),
    }
}

/// Echoes every stream of every session. Its carriers may join over TCP and over QUIC.
async fn listen(address: SocketAddr) -> Result<(), Anything> {
    let identity = Identity::generate(vec!["localhost".into()])?;
    println!("certificate SHA-256: {}", identity.fingerprint());
    let server = Server::open(ServerConfig {
        tcp: vec![(address, TcpOptions::default())],
        quic: vec![(address, QuicOptions::default())],
        tls: Some(identity.server(&[])?),
        ..ServerConfig::default()
    })?;
    loop {
        let session = server.accept().await?;
        tokio::spawn(async move { echo(session).await });
    }
}

async fn echo(session: Session) -> Result<(), SessionError> {
    loop {
        let (mut from, mut to) = tokio::io::split(session.accept().await?);
        tokio::spawn(async move {
            tokio::io::copy(&mut from, &mut to).await?;
            to.shutdown().await
        });
    }
}

/// Sends a message on a stream, and prints the echo.
async fn send(server: &str, digest: &str, message: &str) -> Result<(), Anything> {
    let mut document = Document::new(server)?;
    document.tls.name = Some("localhost".to_owned());
    document.tls.pin = Some(hex(digest).ok_or("a SHA-256 has 64 hexadecimal digits")?);
    let (session, warnings) = open(&document).await?;
    for warning in warnings {
        eprintln!("{warning}");
    }
    let mut stream = session.open()?;
    stream.write_all(message.as_bytes()).await?;
    stream.shutdown().await?;
    let mut echo = String::new();
    stream.read_to_string(&mut echo).await?;
    println!("{echo}");
    session.close(0).await?;
    Ok(())
}
