//! The message formats of SOCKS5 (RFC 1928) and of its password method (RFC 1929), as pure functions.
//!
//! Each parser takes the data received so far. It returns the message and its length, an error, or `None` if
//! the data is incomplete. No parser needs more than [`MAX_LENGTH`] bytes. (Libraries read from the socket
//! themselves. These parsers work on any bytes without one, and a message has at most four fields.)

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use hawser::connect::{BadDestination, Destination};

/// The maximum length of a message, which is a user and a password (RFC 1929, 2).
pub(crate) const MAX_LENGTH: usize = 3 + 255 + 255;

const VERSION: u8 = 5;
const PASSWORD_VERSION: u8 = 1;
/// Authentication methods (RFC 1928, 3).
pub(crate) const NO_AUTHENTICATION: u8 = 0;
pub(crate) const PASSWORD: u8 = 2;
pub(crate) const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;
const UDP_ASSOCIATE: u8 = 3;

/// A malformed message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("version {0} is not SOCKS5")]
    Version(u8),
    #[error("version {0} of the password message is unknown (RFC 1929)")]
    PasswordVersion(u8),
    #[error("the list of methods is empty")]
    NoMethods,
    #[error("command {0} is neither CONNECT nor UDP ASSOCIATE")]
    Command(u8),
    #[error("address type {0} is not 1, 3 or 4")]
    AddressType(u8),
    #[error("the datagram is a fragment")]
    Fragment,
    #[error("the datagram ends within its header")]
    Short,
    #[error("the name is not UTF-8")]
    NoText,
    #[error(transparent)]
    Destination(#[from] BadDestination),
}

/// Address types (RFC 1928, 5).
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// A host as encoded in a message.
enum Host<'a> {
    Address(IpAddr),
    Name(&'a str),
}

/// A message and its length, or `None` if it is incomplete.
pub(crate) type Parsed<T> = Result<Option<(T, usize)>, Malformed>;

/// Parses a client's greeting. Returns the methods that it offers.
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

/// Parses a user and a password.
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

/// A client's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// A connection.
    Connect(Destination),
    /// A relay for datagrams, which the client will send from this address. The address is unspecified if the
    /// client does not know it yet, or gives it as a name.
    Associate(SocketAddr),
}

/// The destination of a datagram.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DatagramDestination {
    /// An address whose port is not 0.
    Address(SocketAddr),
    Name(Destination),
}

impl DatagramDestination {
    pub(crate) fn destination(&self) -> Destination {
        match self {
            DatagramDestination::Address(address) => (*address).into(),
            DatagramDestination::Name(destination) => destination.clone(),
        }
    }
}

/// Parses a client's request.
pub(crate) fn request(bytes: &[u8]) -> Parsed<Request> {
    let mut reader = Reader::new(bytes);
    match reader.byte() {
        Some(VERSION) | None => {}
        Some(other) => return Err(Malformed::Version(other)),
    }
    let command = match (reader.byte(), reader.byte()) {
        (Some(command), _) if command != CONNECT && command != UDP_ASSOCIATE => {
            return Err(Malformed::Command(command));
        }
        (Some(command), Some(_reserved)) => command,
        _ => return Ok(None),
    };
    let Some((host, port)) = reader.address()? else {
        return Ok(None);
    };
    let made = match (command, host) {
        (UDP_ASSOCIATE, Host::Address(address)) => Request::Associate(SocketAddr::new(address, port)),
        (UDP_ASSOCIATE, Host::Name(_)) => Request::Associate(UNKNOWN),
        (_, Host::Address(address)) => Request::Connect(Destination::new(&address.to_string(), port)?),
        (_, Host::Name(name)) => Request::Connect(Destination::new(name, port)?),
    };
    Ok(Some((made, reader.at)))
}

/// The unspecified address, with port 0.
const UNKNOWN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// Parses a datagram from a client. Returns its destination and payload (RFC 1928, 7).
pub(crate) fn datagram(bytes: &[u8]) -> Result<(DatagramDestination, &[u8]), Malformed> {
    let mut reader = Reader::new(bytes);
    let _reserved: [u8; 2] = reader.array().ok_or(Malformed::Short)?;
    match reader.byte() {
        Some(0) => {}
        Some(_) => return Err(Malformed::Fragment),
        None => return Err(Malformed::Short),
    }
    let (host, port) = reader.address()?.ok_or(Malformed::Short)?;
    let to = match host {
        Host::Address(_) if port == 0 => return Err(BadDestination::NoPort.into()),
        Host::Address(address) => DatagramDestination::Address(SocketAddr::new(address, port)),
        Host::Name(name) => {
            let destination = Destination::new(name, port)?;
            match destination.address() {
                Some(address) => DatagramDestination::Address(SocketAddr::new(address, port)),
                None => DatagramDestination::Name(destination),
            }
        }
    };
    Ok((to, &bytes[reader.at..]))
}

/// Builds the header of a datagram to a client, with the datagram's source.
pub(crate) fn datagram_header(from: SocketAddr) -> Vec<u8> {
    let mut header = vec![0, 0, 0];
    put_address(&mut header, from);
    header
}

/// Builds the reply to a request for a connection. The proxy's own address towards the destination is
/// private, and need not exist, so the reply does not contain it.
pub(crate) fn reply(code: u8) -> [u8; 10] {
    [VERSION, code, 0, 1, 0, 0, 0, 0, 0, 0]
}

/// Builds the reply to a request for a relay, with the address of the relay.
pub(crate) fn associated(at: SocketAddr) -> Vec<u8> {
    let mut reply = vec![VERSION, 0, 0];
    put_address(&mut reply, at);
    reply
}

fn put_address(to: &mut Vec<u8>, address: SocketAddr) {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => to.extend([&[IPV4][..], &ip.octets()].concat()),
        IpAddr::V6(ip) => to.extend([&[IPV6][..], &ip.octets()].concat()),
    }
    to.extend(address.port().to_be_bytes());
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

    /// Reads an address type, a host and a port. Returns `None` if they are incomplete.
    fn address(&mut self) -> Result<Option<(Host<'a>, u16)>, Malformed> {
        let Some(kind) = self.byte() else { return Ok(None) };
        let host = match kind {
            IPV4 => self.array().map(|octets: [u8; 4]| Host::Address(octets.into())),
            IPV6 => self.array().map(|octets: [u8; 16]| Host::Address(octets.into())),
            NAME => match self.counted().map(std::str::from_utf8) {
                Some(Err(_)) => return Err(Malformed::NoText),
                Some(Ok(name)) => Some(Host::Name(name)),
                None => None,
            },
            other => return Err(Malformed::AddressType(other)),
        };
        Ok(host.zip(self.array().map(u16::from_be_bytes)))
    }

    /// Reads a length byte, and that number of bytes.
    fn counted(&mut self) -> Option<&'a [u8]> {
        let length = self.byte()?;
        self.take(length.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(bytes: &[u8]) -> Result<Option<String>, Malformed> {
        Ok(request(bytes)?.map(|(request, length)| match request {
            Request::Connect(destination) => format!("{destination} {length}"),
            Request::Associate(from) => format!("from {from} {length}"),
        }))
    }

    /// RFC 1928, 3 to 5, byte for byte.
    #[test]
    fn messages_are_the_bytes_of_the_rfc() {
        assert_eq!(greeting(b"\x05\x02\x00\x02more"), Ok(Some((&b"\x00\x02"[..], 4))));
        assert_eq!(
            password(b"\x01\x01u\x02pw\x05"),
            Ok(Some(((&b"u"[..], &b"pw"[..]), 6)))
        );
        assert_eq!(
            to(b"\x05\x01\x00\x01\xc0\x00\x02\x01\x01\xbb")
                .as_ref()
                .map(Option::as_deref),
            Ok(Some("192.0.2.1:443 10"))
        );
        assert_eq!(
            to(b"\x05\x01\x00\x03\x0awww.a.test\x00\x50GET")
                .as_ref()
                .map(Option::as_deref),
            Ok(Some("www.a.test:80 17"))
        );
        let six = b"\x05\x01\x00\x04\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x00\x50";
        assert_eq!(
            to(six).as_ref().map(Option::as_deref),
            Ok(Some("[2001:db8::1]:80 22"))
        );
        assert_eq!(reply(5), [5, 5, 0, 1, 0, 0, 0, 0, 0, 0]);
    }

    /// RFC 1928, 6 and 7.
    #[test]
    fn a_udp_association_is_parsed_and_answered() {
        assert_eq!(
            to(b"\x05\x03\x00\x01\0\0\0\0\0\0"),
            Ok(Some("from 0.0.0.0:0 10".to_owned()))
        );
        assert_eq!(
            to(b"\x05\x03\x00\x01\x7f\0\0\x01\x10\x00"),
            Ok(Some("from 127.0.0.1:4096 10".to_owned()))
        );
        assert_eq!(
            to(b"\x05\x03\x00\x03\x01a\x00\x50"),
            Ok(Some("from 0.0.0.0:0 8".to_owned()))
        );
        assert_eq!(
            associated(([127, 0, 0, 1], 80).into()),
            b"\x05\0\0\x01\x7f\0\0\x01\0\x50"
        );
    }

    /// RFC 1928, 7.
    #[test]
    fn datagrams_have_their_header() {
        let four = b"\0\0\0\x01\xc0\0\x02\x01\0\x35hello";
        let address: SocketAddr = ([192, 0, 2, 1], 53).into();
        assert_eq!(
            datagram(four),
            Ok((DatagramDestination::Address(address), &b"hello"[..]))
        );
        assert_eq!([&datagram_header(address)[..], b"hello"].concat(), four);
        let six = b"\0\0\0\x04\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\0\x35";
        let address: SocketAddr = "[2001:db8::1]:53".parse().expect("an address");
        assert_eq!(
            datagram(six),
            Ok((DatagramDestination::Address(address), &b""[..]))
        );
        assert_eq!(datagram_header(address), six);
        let name = Destination::new("ns.example", 53).expect("a destination");
        assert_eq!(
            datagram(b"\0\0\0\x03\x0ans.example\0\x35x"),
            Ok((DatagramDestination::Name(name), &b"x"[..]))
        );
        assert_eq!(
            datagram(b"\0\0\x01\x01\xc0\0\x02\x01\0\x35"),
            Err(Malformed::Fragment)
        );
        for length in 0..10 {
            assert_eq!(datagram(&four[..length]), Err(Malformed::Short), "{length}");
        }
        assert!(matches!(
            datagram(b"\0\0\0\x01\xc0\0\x02\x01\0\0"),
            Err(Malformed::Destination(_))
        ));
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
    fn every_error_states_its_reason() {
        assert_eq!(greeting(b"\x04\x01"), Err(Malformed::Version(4)));
        assert_eq!(greeting(b"\x05\x00"), Err(Malformed::NoMethods));
        assert_eq!(password(b"\x05"), Err(Malformed::PasswordVersion(5)));
        assert_eq!(request(b"\x05\x02"), Err(Malformed::Command(2)));
        assert_eq!(request(b"\x05\x01\x00\x02"), Err(Malformed::AddressType(2)));
        assert_eq!(
            request(b"\x05\x01\x00\x03\x01\xff\x00\x50"),
            Err(Malformed::NoText)
        );
        for nowhere in [
            &b"\x05\x01\x00\x03\x00\x00\x50"[..],
            b"\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x00",
        ] {
            assert!(
                matches!(request(nowhere), Err(Malformed::Destination(_))),
                "{nowhere:?}"
            );
        }
    }
}
