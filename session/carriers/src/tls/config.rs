//! The configuration of each side for a TLS handshake.

use std::sync::Arc;

use rustls::pki_types::ServerName;

/// The label under which a carrier's 32 bytes are exported (RFC 8446, 7.5).
pub const EXPORTER: &[u8] = b"EXPORTER-hawser-session";

/// The TLS configuration of a client.
#[derive(Clone, Debug)]
pub struct TlsClient {
    /// The trusted certificates, and the application protocols to offer. 0-RTT is not used.
    pub config: Arc<rustls::ClientConfig>,
    /// The name that the server's certificate must have.
    pub name: ServerName<'static>,
}

/// The TLS configuration of a server.
#[derive(Clone, Debug)]
pub struct TlsServer {
    /// The server's certificate, and the application protocols that it accepts.
    pub config: Arc<rustls::ServerConfig>,
}
