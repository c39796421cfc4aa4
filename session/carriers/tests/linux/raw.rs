//! Hand-made SCTP packets over a UDP socket, from a peer that ignores all rules.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

/// The longest wait for an answer.
const ANSWER: Duration = Duration::from_secs(2);

/// Chunk types (RFC 9260, 3.2).
pub(crate) const INIT: u8 = 1;
pub(crate) const INIT_ACK: u8 = 2;
pub(crate) const COOKIE_ECHO: u8 = 10;
pub(crate) const COOKIE_ACK: u8 = 11;

/// The initiate tag of the raw peer.
const TAG: u32 = 0x1234_5678;

/// One end: its socket and its SCTP ports.
pub(crate) struct Raw {
    socket: UdpSocket,
    pub(crate) local: u16,
    pub(crate) remote: u16,
    pub(crate) to: SocketAddr,
}

impl Raw {
    pub(crate) fn open(at: SocketAddr, to: SocketAddr, local: u16, remote: u16) -> io::Result<Self> {
        let socket = UdpSocket::bind(at)?;
        socket.set_read_timeout(Some(ANSWER))?;
        Ok(Self { socket, local, remote, to })
    }

    /// Removes the time limit for receiving packets.
    pub(crate) fn wait_for_ever(&self) -> io::Result<()> {
        self.socket.set_read_timeout(None)
    }

    /// Sends one packet with these chunks.
    pub(crate) fn send(&self, tag: u32, chunks: &[u8]) -> io::Result<()> {
        let packet = packet(self.local, self.remote, tag, chunks);
        self.socket.send_to(&packet, self.to).map(|_| ())
    }

    /// Waits for the next packet that begins with a chunk of this type. Its sender becomes the peer.
    pub(crate) fn receive(&mut self, kind: u8) -> io::Result<Vec<u8>> {
        loop {
            let mut buffer = [0; 2_048];
            let (length, from) = self.socket.recv_from(&mut buffer)?;
            if length >= 16 && buffer[12] == kind {
                self.to = from;
                self.remote = u16::from_be_bytes([buffer[0], buffer[1]]);
                return Ok(buffer[..length].to_vec());
            }
        }
    }

    /// Connects as a client: sends INIT, and COOKIE ECHO with the cookie of the answer.
    pub(crate) fn handshake(&mut self) -> io::Result<()> {
        self.send(0, &init(INIT, &[]))?;
        let answer = self.receive(INIT_ACK)?;
        let tag = u32::from_be_bytes([answer[16], answer[17], answer[18], answer[19]]);
        let cookie = parameter(&answer[32..], 7).ok_or(io::ErrorKind::InvalidData)?;
        self.send(tag, &chunk(COOKIE_ECHO, &cookie))?;
        self.receive(COOKIE_ACK).map(|_| ())
    }

    /// Accepts one association as a server.
    pub(crate) fn accept(&mut self) -> io::Result<()> {
        let asked = self.receive(INIT)?;
        let tag = u32::from_be_bytes([asked[16], asked[17], asked[18], asked[19]]);
        self.send(tag, &init(INIT_ACK, &[0, 7, 0, 8, 1, 2, 3, 4]))?;
        self.receive(COOKIE_ECHO)?;
        self.send(tag, &chunk(COOKIE_ACK, &[]))
    }
}

/// Encodes INIT or INIT ACK with these parameters: tag, a window of 100,000, streams, TSN.
pub(crate) fn init(kind: u8, parameters: &[u8]) -> Vec<u8> {
    let mut value = TAG.to_be_bytes().to_vec();
    value.extend(100_000u32.to_be_bytes());
    value.extend([0, 1, 0, 1]);
    value.extend(1u32.to_be_bytes());
    value.extend(parameters);
    chunk(kind, &value)
}

/// Encodes a chunk with its padding.
pub(crate) fn chunk(kind: u8, value: &[u8]) -> Vec<u8> {
    let mut chunk = vec![kind, 0];
    chunk.extend((value.len() as u16 + 4).to_be_bytes());
    chunk.extend(value);
    chunk.resize(chunk.len().next_multiple_of(4), 0);
    chunk
}

/// Returns the value of the first parameter of this type.
fn parameter(mut bytes: &[u8], wanted: u16) -> Option<Vec<u8>> {
    loop {
        let kind = u16::from_be_bytes(*bytes.first_chunk()?);
        let length = usize::from(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]));
        if kind == wanted {
            return bytes.get(4..length).map(<[u8]>::to_vec);
        }
        bytes = bytes.get(length.next_multiple_of(4).max(4)..)?;
    }
}

/// Encodes a packet with its checksum (RFC 9260, appendix A: CRC32c, least significant byte first).
fn packet(local: u16, remote: u16, tag: u32, chunks: &[u8]) -> Vec<u8> {
    let mut packet = [local.to_be_bytes(), remote.to_be_bytes()].concat();
    packet.extend(tag.to_be_bytes());
    packet.extend([0; 4]);
    packet.extend(chunks);
    let sum = crc32c(&packet);
    packet[8..12].copy_from_slice(&sum.to_le_bytes());
    packet
}

fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            (sum >> 1) ^ (0x82f6_3b78 & (sum & 1).wrapping_neg())
        })
    })
}
