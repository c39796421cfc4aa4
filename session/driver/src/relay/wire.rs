//! The messages between client and gateway on the streams of a session (docs/gateway-protocol.md). The first
//! stream carries a greeting. Every other one begins with a request, and the answer is one byte.
//!
//! Invariants: a message longer than [`Greeting::LENGTH`] or [`Request::MAX_LENGTH`] is refused. No byte
//! beyond a message's end is read. A decoded message is encoded to the same bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tokio::io::{AsyncRead, AsyncReadExt};

use super::{BadHost, Destination, Host, Token};

/// The protocol version of this side.
pub const VERSION: u8 = 1;

/// The kinds of addresses (RFC 1928, section 5).
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// The gateway's answer to a greeting that it accepts.
pub const ACCEPTED: u8 = 0;
/// The gateway's answer to a greeting that it refuses.
pub const REFUSED: u8 = 1;

/// The code with which a stream is reset because its onward connection was reset.
pub const RESET: u64 = 1;
/// The code with which a stream is reset because too many streams waited until its session was accepted.
pub const TOO_MANY: u64 = 2;
/// The code with which a session is closed whose client does not take the refusal.
pub const UNAUTHENTICATED: u64 = 3;

/// The gateway's answer to a request: SOCKS5's codes (RFC 1928, section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u8)]
pub enum Reply {
    /// The connection is established; its bytes follow.
    #[error("the connection is established")]
    Succeeded = 0,
    /// The gateway cannot serve the request now, because of a limit or a fault of its own, or the request is
    /// invalid.
    #[error("the gateway could not serve the request")]
    Failure = 1,
    /// The gateway's rules do not allow the destination.
    #[error("the gateway does not allow this destination")]
    NotAllowed = 2,
    /// The network has no route to the destination.
    #[error("the network of the destination cannot be reached from the gateway")]
    NetworkUnreachable = 3,
    /// The host does not exist, or there is no route to it.
    #[error("the host does not exist, or the gateway cannot reach it")]
    HostUnreachable = 4,
    /// The destination refused the connection.
    #[error("the destination refused the connection")]
    Refused = 5,
    /// The destination did not answer in time.
    #[error("the destination did not answer the gateway in time")]
    TimedOut = 6,
    /// The kind of address in the request is unknown.
    #[error("the gateway does not support this kind of address")]
    UnknownKind = 8,
}

impl Reply {
    /// Returns the reply with this code. An unknown code is a failure.
    #[must_use]
    pub fn from_code(code: u8) -> Reply {
        match code {
            0 => Reply::Succeeded,
            2 => Reply::NotAllowed,
            3 => Reply::NetworkUnreachable,
            4 => Reply::HostUnreachable,
            5 => Reply::Refused,
            6 => Reply::TimedOut,
            8 => Reply::UnknownKind,
            _ => Reply::Failure,
        }
    }

    /// Returns the reply's code.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }
}

/// The bytes are not a valid message.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The message has another version.
    #[error("version {0} is not supported; this side supports {VERSION}")]
    Version(u8),
    /// The kind of address is not one of the three known ones.
    #[error("{0} is not a kind of address: 1 is IPv4, 3 a name, 4 IPv6")]
    Kind(u8),
    /// The name is invalid.
    #[error("invalid name: {0}")]
    Name(#[from] BadHost),
    /// The port is 0, which is not a valid destination.
    #[error("port 0 is not a destination")]
    Port,
    /// The stream ended or failed within the message.
    #[error("the stream ended within the message: {0}")]
    Stream(#[from] std::io::Error),
}

impl WireError {
    /// Returns the gateway's answer to a request with this fault.
    #[must_use]
    pub fn reply(&self) -> Reply {
        match self {
            WireError::Kind(_) => Reply::UnknownKind,
            WireError::Version(_) | WireError::Name(_) | WireError::Port | WireError::Stream(_) => {
                Reply::Failure
            }
        }
    }
}

/// A client's first message, which identifies it.
pub struct Greeting {
    /// The client's token.
    pub token: Token,
}

impl Greeting {
    /// The length of a greeting in bytes.
    pub const LENGTH: usize = 1 + Token::LENGTH;

    /// Encodes the greeting.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [VERSION; Self::LENGTH];
        bytes[1..].copy_from_slice(self.token.bytes());
        bytes
    }

    /// Reads a greeting.
    ///
    /// # Errors
    /// The version is another one, or the stream ends or fails.
    pub async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Result<Greeting, WireError> {
        version(stream).await?;
        let mut token = [0; Token::LENGTH];
        stream.read_exact(&mut token).await?;
        Ok(Greeting { token: Token::new(token) })
    }
}

/// The first message of a client on every stream but the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The destination.
    pub destination: Destination,
}

impl Request {
    /// The maximum length of a request in bytes, with a name of 255 bytes.
    pub const MAX_LENGTH: usize = 2 + 1 + 255 + 2;

    /// Encodes the request.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        match self.destination.host() {
            Host::Address(IpAddr::V4(address)) => {
                bytes.push(IPV4);
                bytes.extend(address.octets());
            }
            Host::Address(IpAddr::V6(address)) => {
                bytes.push(IPV6);
                bytes.extend(address.octets());
            }
            Host::Name(name) => {
                // A name has at most 253 bytes, because `Host` accepts no longer one.
                let length = u8::try_from(name.len()).unwrap_or(u8::MAX);
                bytes.extend([NAME, length]);
                bytes.extend(&name.as_bytes()[..usize::from(length)]);
            }
        }
        bytes.extend(self.destination.port().to_be_bytes());
        bytes
    }

    /// Reads a request, and no byte beyond it.
    ///
    /// # Errors
    /// See [`WireError`].
    pub async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Result<Request, WireError> {
        version(stream).await?;
        let host = match stream.read_u8().await? {
            IPV4 => Host::Address(Ipv4Addr::from(stream.read_u32().await?).into()),
            IPV6 => Host::Address(Ipv6Addr::from(stream.read_u128().await?).into()),
            NAME => {
                let length = stream.read_u8().await?;
                let mut name = vec![0; length.into()];
                stream.read_exact(&mut name).await?;
                Host::parse(&String::from_utf8_lossy(&name))?
            }
            kind => return Err(WireError::Kind(kind)),
        };
        let port = stream.read_u16().await?;
        let destination = Destination::new(host, port).ok_or(WireError::Port)?;
        Ok(Request { destination })
    }
}

async fn version(stream: &mut (impl AsyncRead + Unpin)) -> Result<(), WireError> {
    match stream.read_u8().await? {
        VERSION => Ok(()),
        other => Err(WireError::Version(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(mut bytes: &[u8]) -> (Result<Request, WireError>, usize) {
        let before = bytes.len();
        let request = Request::read(&mut bytes).await;
        (request, before - bytes.len())
    }

    fn request(host: &str, port: u16) -> Request {
        let host = Host::parse(host).expect("a host");
        Request { destination: Destination::new(host, port).expect("a port") }
    }

    /// The examples of the protocol's documentation.
    #[tokio::test]
    async fn requests_are_encoded_as_documented() {
        let cases: [(&[u8], Request); 3] = [
            (&[1, 1, 192, 0, 2, 1, 0x01, 0xbb], request("192.0.2.1", 443)),
            (b"\x01\x03\x0bexample.com\x00\x50", request("Example.COM", 80)),
            (
                &[
                    1, 4, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 22,
                ],
                request("2001:db8::1", 22),
            ),
        ];
        for (bytes, expected) in cases {
            let mut with_more = bytes.to_vec();
            with_more.extend(b"GET /");
            let (found, used) = read(&with_more).await;
            assert_eq!(found.expect("a request"), expected);
            assert_eq!(used, bytes.len(), "what follows is the destination's");
            assert_eq!(expected.encode(), bytes);
            for length in 0..bytes.len() {
                let (cut, _) = read(&bytes[..length]).await;
                assert!(
                    matches!(cut, Err(WireError::Stream(_))),
                    "{length} bytes of {bytes:?}"
                );
            }
        }
    }

    #[tokio::test]
    async fn malformed_requests_are_rejected_with_the_reason() {
        let wrong: [(&[u8], Reply, &str); 8] = [
            (&[5, 1, 0, 1], Reply::Failure, "version 5"),
            (&[1, 2, 0, 0, 0, 0, 0, 0], Reply::UnknownKind, "2 is not a kind"),
            (&[1, 3, 0, 0, 80], Reply::Failure, "invalid name"),
            (b"\x01\x03\x02\xff\xfe\x00\x50", Reply::Failure, "invalid name"),
            (b"\x01\x03\x03a\0b\x00\x50", Reply::Failure, "invalid name"),
            (b"\x01\x03\x04a..b\x00\x50", Reply::Failure, "invalid name"),
            (b"\x01\x03\x04a b!\x00\x50", Reply::Failure, "invalid name"),
            (&[1, 1, 192, 0, 2, 1, 0, 0], Reply::Failure, "port 0"),
        ];
        for (bytes, reply, why) in wrong {
            let error = read(bytes).await.0.expect_err("no request");
            assert_eq!(error.reply(), reply, "{bytes:?}");
            assert!(error.to_string().contains(why), "{bytes:?}: {error}");
        }
    }

    #[tokio::test]
    async fn a_greeting_is_a_version_and_a_token() {
        let greeting = Greeting { token: Token::new([7; 32]) };
        let bytes = greeting.encode();
        assert_eq!((bytes[0], &bytes[1..]), (1, &[7; 32][..]));
        let read = Greeting::read(&mut &bytes[..]).await.expect("a greeting");
        assert_eq!(read.token.bytes(), greeting.token.bytes());
        assert!(matches!(
            Greeting::read(&mut &[0; 33][..]).await,
            Err(WireError::Version(0))
        ));
        assert!(matches!(
            Greeting::read(&mut &bytes[..32]).await,
            Err(WireError::Stream(_))
        ));
    }

    /// RFC 1928, section 6.
    #[test]
    fn replies_have_the_codes_of_socks5() {
        for (code, reply) in [
            (0, Reply::Succeeded),
            (1, Reply::Failure),
            (2, Reply::NotAllowed),
            (3, Reply::NetworkUnreachable),
            (4, Reply::HostUnreachable),
            (5, Reply::Refused),
            (6, Reply::TimedOut),
            (8, Reply::UnknownKind),
        ] {
            assert_eq!((Reply::from_code(code), reply.code()), (reply, code));
        }
        assert_eq!(Reply::from_code(77), Reply::Failure);
    }
}
