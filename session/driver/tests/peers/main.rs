//! Sessions with peers other than a single Hawser server, such as plain ones and several behind a balancer.
//! Also the state that is remembered from one session to the next.

mod balancer;
mod plain;
mod quota;
mod trust;
mod unauthenticated;

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hawser_documents::temporary::Folder;
use hawser_session::document::{Document, StatePlace};
use hawser_session::{AcceptorConfig, QuicOptions, Server, ServerConfig, TcpOptions};

/// Writes a certificate for `localhost` to `cert.pem` and `key.pem`.
fn certificate(folder: &Folder) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("a certificate");
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).expect("a file");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("a file");
    (certificate, key)
}

/// Returns an address whose port is free for TCP and UDP.
fn free() -> SocketAddr {
    loop {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = tcp.local_addr().expect("its address");
        if UdpSocket::bind(address).is_ok() {
            return address;
        }
    }
}

/// Opens a server on one port for TCP and QUIC.
fn serve(address: SocketAddr, tls: Arc<rustls::ServerConfig>, acceptor: AcceptorConfig) -> Server {
    Server::open(ServerConfig {
        acceptor,
        tcp: vec![(address, TcpOptions::default())],
        quic: vec![(address, QuicOptions::default())],
        tls: Some(tls),
        ..ServerConfig::default()
    })
    .expect("a server")
}

/// Returns a document for a server at `address` with the certificate of [`certificate`].
fn document(address: SocketAddr, certificate: &Path, state: PathBuf) -> Document {
    let mut document = Document::new(&address.to_string()).expect("an address");
    document.tls.certificate = Some(certificate.to_owned());
    document.tls.name = Some("localhost".into());
    document.state = StatePlace::File(state);
    document
}
