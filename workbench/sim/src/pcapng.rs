//! Captures in the pcapng format (draft-ietf-opsawg-pcapng), with optional comments on packets.

use std::io::{self, Write};
use std::time::Duration;

/// Packets start with IP.
const LINKTYPE_RAW: u16 = 101;
/// The maximum number of bytes kept of a comment: an option's length has 16 bits.
const MAX_COMMENT: usize = 65_532;

/// Writes IP packets to a capture. All numbers are little-endian, and times are in nanoseconds.
pub struct PcapngWriter<W> {
    out: W,
}

impl<W: Write> PcapngWriter<W> {
    /// Starts a capture.
    ///
    /// # Errors
    /// Returns an error if the header cannot be written.
    pub fn new(mut out: W) -> io::Result<PcapngWriter<W>> {
        let mut section = Vec::new();
        section.extend_from_slice(&0x1a2b_3c4d_u32.to_le_bytes());
        section.extend_from_slice(&1u16.to_le_bytes());
        section.extend_from_slice(&0u16.to_le_bytes());
        section.extend_from_slice(&u64::MAX.to_le_bytes()); // its length is not stated
        block(&mut out, 0x0a0d_0d0a, &section)?;
        let mut interface = Vec::new();
        interface.extend_from_slice(&u32::from(LINKTYPE_RAW).to_le_bytes());
        interface.extend_from_slice(&0u32.to_le_bytes()); // packets are kept whole
        option(&mut interface, 9, &[9]); // if_tsresol: 10^-9 s
        option(&mut interface, 0, &[]);
        block(&mut out, 1, &interface)?;
        Ok(PcapngWriter { out })
    }

    /// Adds a packet. `at` is the time since 1970.
    ///
    /// # Errors
    /// Returns an error if the packet cannot be written.
    pub fn packet(&mut self, at: Duration, packet: &[u8], comment: Option<&str>) -> io::Result<()> {
        let at = hawser_time::nanos(at);
        let len = packet.len() as u32;
        let mut body = Vec::with_capacity(packet.len() + 64);
        for field in [0, (at >> 32) as u32, at as u32, len, len] {
            body.extend_from_slice(&field.to_le_bytes());
        }
        body.extend_from_slice(packet);
        pad(&mut body);
        if let Some(comment) = comment {
            let len = comment.len().min(MAX_COMMENT);
            option(&mut body, 1, &comment.as_bytes()[..len]);
            option(&mut body, 0, &[]);
        }
        block(&mut self.out, 6, &body)
    }

    /// Flushes the underlying writer.
    ///
    /// # Errors
    /// Returns an error if the writer cannot be flushed.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn block(out: &mut impl Write, kind: u32, body: &[u8]) -> io::Result<()> {
    let len = (body.len() as u32 + 12).to_le_bytes();
    out.write_all(&kind.to_le_bytes())?;
    out.write_all(&len)?;
    out.write_all(body)?;
    out.write_all(&len)
}

fn option(to: &mut Vec<u8>, code: u16, value: &[u8]) {
    to.extend_from_slice(&code.to_le_bytes());
    to.extend_from_slice(&(value.len() as u16).to_le_bytes());
    to.extend_from_slice(value);
    pad(to);
}

fn pad(to: &mut Vec<u8>) {
    to.resize(to.len().next_multiple_of(4), 0);
}
