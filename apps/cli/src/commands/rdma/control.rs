//! The negotiation of a client and its server over TCP before work begins, with one line of JSON from each.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// The maximum length of a line, in bytes.
const LONGEST: u64 = 4096;

/// The operation of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RdmaOperation {
    Write,
    Read,
    Send,
    Atomic,
}

impl RdmaOperation {
    pub(super) fn name(self) -> &'static str {
        match self {
            RdmaOperation::Write => "write",
            RdmaOperation::Read => "read",
            RdmaOperation::Send => "send",
            RdmaOperation::Atomic => "atomic",
        }
    }
}

/// A client's queue pair and its request.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ClientRequest {
    pub(super) kind: RdmaOperation,
    pub(super) size: u32,
    pub(super) depth: u32,
    pub(super) mtu: u32,
    pub(super) address: IpAddr,
    pub(super) pair: u32,
    pub(super) first_packet: u32,
}

/// The server's answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ServerAnswer {
    Served(ServerParameters),
    Refused(Refusal),
}

/// A reason why a client is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Refusal {
    /// All places are taken by active clients.
    Limit,
    /// The client asks for more memory, or for more concurrent works, than the server allows.
    Size,
    /// The server's stack has no address of the client's family.
    Family,
    /// The client's packets do not fit the server's device.
    Mtu,
    /// The memory or the queue pair could not be allocated.
    Resources,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Limit => "the server has too many clients (LIMIT)",
            Refusal::Size => "the server does not offer so much memory, or so many work requests at a time",
            Refusal::Family => "the server's stack has no address of this family",
            Refusal::Mtu => {
                "the server's device does not accept packets with so much payload: choose a smaller --mtu"
            }
            Refusal::Resources => "the server has no memory or queue pair left",
        })
    }
}

/// The server's queue pair, and the key of its registered memory.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ServerParameters {
    pub(super) address: IpAddr,
    pub(super) pair: u32,
    pub(super) first_packet: u32,
    pub(super) key: u32,
}

/// A line that arrives in pieces, from a peer that may never complete it.
#[derive(Debug, Default)]
pub(super) struct LineBuffer(Vec<u8>);

impl LineBuffer {
    /// Reads available bytes, and returns the message once its line is complete.
    ///
    /// # Errors
    /// Fails if the other end has closed, or the line is too long or not such a message.
    pub(super) fn poll<T: for<'de> Deserialize<'de>>(
        &mut self,
        mut stream: impl Read,
    ) -> io::Result<Option<T>> {
        let mut piece = [0; LONGEST as usize];
        match stream.read(&mut piece) {
            Ok(0) => return Err(closed()),
            Ok(len) => self.0.extend_from_slice(&piece[..len]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        }
        match self.0.iter().position(|byte| *byte == b'\n') {
            Some(end) => hawser_documents::json_bytes(&self.0[..end])
                .map(Some)
                .map_err(io::Error::other),
            None if self.0.len() as u64 >= LONGEST => Err(io::Error::other("the line is too long")),
            None => Ok(None),
        }
    }
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the other end has closed")
}

/// Sends a message as a line.
pub(super) fn put(stream: &mut TcpStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Waits for a line, for at most `limit`.
pub(super) fn take<T: for<'de> Deserialize<'de>>(stream: &TcpStream, limit: Duration) -> io::Result<T> {
    let until = Instant::now() + limit;
    let mut line = LineBuffer::default();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        if let Some(message) = line.poll(stream)? {
            return Ok(message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer whose bytes arrive in these pieces. An empty piece means that no data is available.
    struct Slow(Vec<&'static [u8]>);

    impl Read for Slow {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            match self.0.pop() {
                Some([]) => Err(io::ErrorKind::WouldBlock.into()),
                Some(piece) => {
                    out[..piece.len()].copy_from_slice(piece);
                    Ok(piece.len())
                }
                None => Ok(0),
            }
        }
    }

    #[test]
    fn a_line_may_come_in_pieces() -> io::Result<()> {
        let mut peer = Slow(vec![b"ed\":\"limit\"}\n", b"", b"{\"refus"]);
        let mut line = LineBuffer::default();
        assert!(line.poll::<ServerAnswer>(&mut peer)?.is_none());
        assert!(line.poll::<ServerAnswer>(&mut peer)?.is_none());
        let answer = line.poll::<ServerAnswer>(&mut peer)?;
        assert!(matches!(answer, Some(ServerAnswer::Refused(Refusal::Limit))));
        assert!(line.poll::<ServerAnswer>(&mut peer).is_err(), "the end");
        Ok(())
    }

    #[test]
    fn a_line_without_an_end_is_refused() {
        let piece: &[u8] = &[b'x'; 2048];
        let mut peer = Slow(vec![piece; 3]);
        let mut line = LineBuffer::default();
        assert!(matches!(line.poll::<ServerAnswer>(&mut peer), Ok(None)));
        assert!(line.poll::<ServerAnswer>(&mut peer).is_err());
    }
}
