//! What each side brings to a handshake.

use std::sync::Arc;

use rustls::pki_types::ServerName;

/// The label under which a carrier's 32 bytes are exported (RFC 8446 7.5).
pub const EXPORTER: &[u8] = b"EXPORTER-hawser-session";

/// TLS for a client.
#[derive(Clone, Debug)]
pub struct TlsClient {
    /// Whom to trust, and the application protocols to offer. 0-RTT is not used.
    pub config: Arc<rustls::ClientConfig>,
    /// The name that the server's certificate must have.
    pub name: ServerName<'static>,
}

/// TLS for a server.
#[derive(Clone, Debug)]
pub struct TlsServer {
    /// Its certificate and the application protocols that it takes.
    pub config: Arc<rustls::ServerConfig>,
}
