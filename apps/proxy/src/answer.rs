//! Maps connection failures to the answers for clients.

use hawser::connect::{ConnectError, Failure};
use hyper::StatusCode;

/// Replies of SOCKS5 (RFC 1928, 6).
pub(crate) mod socks {
    pub(crate) const SUCCEEDED: u8 = 0;
    pub(crate) const GENERAL: u8 = 1;
    pub(crate) const NOT_ALLOWED: u8 = 2;
    pub(crate) const NETWORK_UNREACHABLE: u8 = 3;
    pub(crate) const HOST_UNREACHABLE: u8 = 4;
    pub(crate) const REFUSED: u8 = 5;
    /// "TTL expired", which other proxies also use for timeouts.
    pub(crate) const TOO_LATE: u8 = 6;
    pub(crate) const NO_SUCH_COMMAND: u8 = 7;
    pub(crate) const NO_SUCH_ADDRESS_TYPE: u8 = 8;
}

/// Returns the SOCKS5 reply for an error.
pub(crate) fn reply(error: &ConnectError) -> u8 {
    match error.failure {
        Failure::Refused => socks::REFUSED,
        Failure::Unreachable if error.is_network => socks::NETWORK_UNREACHABLE,
        Failure::InterfaceGone => socks::NETWORK_UNREACHABLE,
        Failure::Unreachable | Failure::NoSuchName | Failure::NoRecord => socks::HOST_UNREACHABLE,
        Failure::Timeout | Failure::Deadline => socks::TOO_LATE,
        Failure::Prohibited => socks::NOT_ALLOWED,
        Failure::Reset
        | Failure::Security
        | Failure::Protocol
        | Failure::Local
        | Failure::NameServer
        | Failure::LessSecure
        | Failure::Connectionless
        | Failure::Cancelled
        | Failure::NotStarted
        | Failure::Stalled => socks::GENERAL,
    }
}

/// Returns the HTTP status and the error type of the `Proxy-Status` field (RFC 9209, 2.3, which recommends a
/// status for each type).
pub(crate) fn status(failure: Failure) -> (StatusCode, &'static str) {
    match failure {
        Failure::Refused => (StatusCode::BAD_GATEWAY, "connection_refused"),
        Failure::Reset | Failure::Stalled => (StatusCode::BAD_GATEWAY, "connection_terminated"),
        Failure::Unreachable | Failure::InterfaceGone => {
            (StatusCode::BAD_GATEWAY, "destination_ip_unroutable")
        }
        Failure::Prohibited => (StatusCode::FORBIDDEN, "destination_ip_prohibited"),
        Failure::Timeout | Failure::Deadline => (StatusCode::GATEWAY_TIMEOUT, "connection_timeout"),
        Failure::NoSuchName | Failure::NoRecord => (StatusCode::BAD_GATEWAY, "dns_error"),
        Failure::NameServer => (StatusCode::GATEWAY_TIMEOUT, "dns_timeout"),
        Failure::Security => (StatusCode::BAD_GATEWAY, "tls_protocol_error"),
        Failure::Protocol => (StatusCode::BAD_GATEWAY, "http_protocol_error"),
        Failure::Local | Failure::LessSecure | Failure::Connectionless => {
            (StatusCode::INTERNAL_SERVER_ERROR, "proxy_internal_error")
        }
        Failure::Cancelled | Failure::NotStarted => {
            (StatusCode::SERVICE_UNAVAILABLE, "destination_unavailable")
        }
    }
}
