//! The bytes of SOCKS5 (RFC 1928) and of its password (RFC 1929), as pure functions.
//!
//! Each parser is given what has come so far and says: too little yet, or what it is and how long,
//! or what is wrong. None wants more than [`LONGEST`] bytes. (Libraries read from the socket
//! themselves; these hold for any bytes without one, and a message has at most four fields.)

use std::net::{Ipv4Addr, Ipv6Addr};

use hawser::select::{BadDestination, Destination};

/// The longest message: a user and a password (RFC 1929, 2).
pub(crate) const LONGEST: usize = 3 + 255 + 255;

const VERSION: u8 = 5;
const PASSWORD_VERSION: u8 = 1;
/// Methods (RFC 1928, 3).
pub(crate) const NO_AUTHENTICATION: u8 = 0;
pub(crate) const PASSWORD: u8 = 2;
pub(crate) const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;

/// What is wrong with a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("version {0} is not SOCKS5")]
    Version(u8),
    #[error("version {0} of the password's message is not known (RFC 1929)")]
    PasswordVersion(u8),
    #[error("a list of no methods")]
    NoMethods,
    #[error("command {0} is not CONNECT")]
    Command(u8),
    #[error("address type {0} is none of 1, 3, 4")]
    AddressType(u8),
    #[error("a name that is no UTF-8")]
    NoText,
    #[error(transparent)]
    Destination(#[from] BadDestination),
}

/// A message and its length; none when it is not complete yet.
pub(crate) type Parsed<T> = Result<Option<(T, usize)>, Malformed>;

/// The methods that a client offers.
pub(crate) fn greeting(bytes: &[u8]) -> Parsed<&[u8]> {
    let mut reader = Reader::new(bytes);
    match reader.byte() {
        Some(VERSION) => {}
        Some(other) => return Err(Malformed::Version(other)),
        None => return Ok(None),
    }
    match reader.counted() {
        Some([]) => Err(Malformed::NoMethods),
        methods => Ok(methods.map(|methods| (methods, reader.at))),
    }
}

/// A user and a password.
pub(crate) fn password(bytes: &[u8]) -> Parsed<(&[u8], &[u8])> {
    let mut reader = Reader::new(bytes);
    match reader.byte() {
        Some(PASSWORD_VERSION) => {}
        Some(other) => return Err(Malformed::PasswordVersion(other)),
        None => return Ok(None),
    }
    let (user, password) = (reader.counted(), reader.counted());
    Ok(user.zip(password).map(|both| (both, reader.at)))
}

/// Where a client wants to be connected to.
pub(crate) fn request(bytes: &[u8]) -> Parsed<Destination> {
    let mut reader = Reader::new(bytes);
    match reader.byte() {
        Some(VERSION) | None => {}
        Some(other) => return Err(Malformed::Version(other)),
    }
    let (command, _reserved, kind) = (reader.byte(), reader.byte(), reader.byte());
    let host = match (command, kind) {
        (Some(command), _) if command != CONNECT => return Err(Malformed::Command(command)),
        (_, None) => return Ok(None),
        (_, Some(1)) => reader.array().map(|octets: [u8; 4]| Ipv4Addr::from(octets).to_string()),
        (_, Some(4)) => reader.array().map(|octets: [u8; 16]| Ipv6Addr::from(octets).to_string()),
        (_, Some(3)) => match reader.counted().map(std::str::from_utf8) {
            Some(Err(_)) => return Err(Malformed::NoText),
            Some(Ok(name)) => Some(name.to_owned()),
            None => None,
        },
        (_, Some(other)) => return Err(Malformed::AddressType(other)),
    };
    let (Some(host), Some(port)) = (host, reader.array().map(u16::from_be_bytes)) else { return Ok(None) };
    Ok(Some((Destination::new(&host, port)?, reader.at)))
}

/// The reply to a request. The address at which the other side sees us is nobody's business, and
/// need not exist: it is said to be none.
pub(crate) fn reply(code: u8) -> [u8; 10] {
    [VERSION, code, 0, 1, 0, 0, 0, 0, 0, 0]
}

pub(crate) fn method(method: u8) -> [u8; 2] {
    [VERSION, method]
}

pub(crate) fn password_reply(is_good: bool) -> [u8; 2] {
    [PASSWORD_VERSION, u8::from(!is_good)]
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at + length)?;
        self.at += length;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|taken| taken[0])
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// A length in a byte, and so many bytes.
    fn counted(&mut self) -> Option<&'a [u8]> {
        let length = self.byte()?;
        self.take(length.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(bytes: &[u8]) -> Result<Option<String>, Malformed> {
        Ok(request(bytes)?.map(|(destination, length)| format!("{destination} {length}")))
    }

    /// RFC 1928, 3 to 5, byte by byte.
    #[test]
    fn messages_are_the_bytes_of_the_rfc() {
        assert_eq!(greeting(b"\x05\x02\x00\x02more"), Ok(Some((&b"\x00\x02"[..], 4))));
        assert_eq!(password(b"\x01\x01u\x02pw\x05"), Ok(Some(((&b"u"[..], &b"pw"[..]), 6))));
        assert_eq!(
            to(b"\x05\x01\x00\x01\xc0\x00\x02\x01\x01\xbb").as_ref().map(Option::as_deref),
            Ok(Some("192.0.2.1:443 10"))
        );
        assert_eq!(
            to(b"\x05\x01\x00\x03\x0awww.a.test\x00\x50GET").as_ref().map(Option::as_deref),
            Ok(Some("www.a.test:80 17"))
        );
        let six = b"\x05\x01\x00\x04\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x00\x50";
        assert_eq!(to(six).as_ref().map(Option::as_deref), Ok(Some("[2001:db8::1]:80 22")));
        assert_eq!(reply(5), [5, 5, 0, 1, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn messages_may_come_in_pieces() {
        let whole = b"\x05\x01\x00\x03\x01a\x00\x50";
        for length in 0..whole.len() {
            assert_eq!(request(&whole[..length]), Ok(None), "{length}");
        }
        assert_eq!(greeting(b"\x05"), Ok(None));
        assert_eq!(password(b"\x01\x01u\x02p"), Ok(None));
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert_eq!(greeting(b"\x04\x01"), Err(Malformed::Version(4)));
        assert_eq!(greeting(b"\x05\x00"), Err(Malformed::NoMethods));
        assert_eq!(password(b"\x05"), Err(Malformed::PasswordVersion(5)));
        assert_eq!(request(b"\x05\x02"), Err(Malformed::Command(2)));
        assert_eq!(request(b"\x05\x01\x00\x02"), Err(Malformed::AddressType(2)));
        assert_eq!(request(b"\x05\x01\x00\x03\x01\xff\x00\x50"), Err(Malformed::NoText));
        for nowhere in [&b"\x05\x01\x00\x03\x00\x00\x50"[..], b"\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x00"] {
            assert!(matches!(request(nowhere), Err(Malformed::Destination(_))), "{nowhere:?}");
        }
    }
}
