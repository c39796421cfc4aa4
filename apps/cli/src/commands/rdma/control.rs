//! What a client and its server tell each other over TCP before work begins: a line of JSON each.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, TcpStream};

use serde::{Deserialize, Serialize};

/// The longest line.
const LONGEST: u64 = 4096;

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Write,
    Read,
    Send,
    Atomic,
}

impl Kind {
    /// Its word.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Write => "write",
            Kind::Read => "read",
            Kind::Send => "send",
            Kind::Atomic => "atomic",
        }
    }
}

/// A client's queue pair, and what it wants.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) kind: Kind,
    pub(super) size: u32,
    pub(super) depth: u32,
    pub(super) mtu: u32,
    pub(super) address: IpAddr,
    pub(super) pair: u32,
    pub(super) first_packet: u32,
}

/// The server's, and the key of the memory that it has registered.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) address: IpAddr,
    pub(super) pair: u32,
    pub(super) first_packet: u32,
    pub(super) key: u32,
}

/// Sends a line.
pub(super) fn put(stream: &mut TcpStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Receives a line.
pub(super) fn take<T: for<'de> Deserialize<'de>>(stream: &TcpStream) -> io::Result<T> {
    let mut line = String::new();
    BufReader::new(stream.take(LONGEST)).read_line(&mut line)?;
    if line.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the other end has closed",
        ));
    }
    Ok(serde_json::from_str(&line)?)
}
