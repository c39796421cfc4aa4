//! Captures in the classic pcap format, with times in nanoseconds.

use std::io::{self, Write};
use std::time::Duration;

use hawser_engine::wire::Medium;
use hawser_time::Instant;

use crate::frame::Frame;
use crate::segment;

/// The magic number of captures with nanosecond times.
const MAGIC: u32 = 0xa1b2_3c4d;
/// The maximum number of bytes kept of a frame: larger than any.
const SNAP_LEN: u32 = 262_144;
/// Frames start with Ethernet.
const LINKTYPE_ETHERNET: u32 = 1;
/// Frames start with IP.
const LINKTYPE_RAW: u32 = 101;

/// Writes frames to a capture. All numbers are little-endian.
pub struct PcapWriter<W> {
    out: W,
    base: Duration,
}

impl<W: Write> PcapWriter<W> {
    /// Starts a capture of frames of this medium. `base`, the time since 1970, is added to all times.
    ///
    /// # Errors
    /// Returns an error if the header cannot be written.
    pub fn new(mut out: W, medium: Medium, base: Duration) -> io::Result<PcapWriter<W>> {
        let link_type = match medium {
            Medium::Ip | Medium::Socket => LINKTYPE_RAW,
            Medium::Ethernet(_) => LINKTYPE_ETHERNET,
        };
        out.write_all(&MAGIC.to_le_bytes())?;
        out.write_all(&2u16.to_le_bytes())?;
        out.write_all(&4u16.to_le_bytes())?;
        out.write_all(&[0; 8])?;
        out.write_all(&SNAP_LEN.to_le_bytes())?;
        out.write_all(&link_type.to_le_bytes())?;
        Ok(PcapWriter { out, base })
    }

    /// Adds a frame as it would be on a real wire: super-segments are cut, and checksums are complete.
    ///
    /// # Errors
    /// Returns an error if the frame cannot be written.
    pub fn frame(&mut self, at: Instant, frame: &Frame) -> io::Result<()> {
        segment::cut(frame.clone())
            .into_iter()
            .try_for_each(|mut packet| {
                packet.complete();
                self.packet(at, &packet)
            })
    }

    /// Adds a packet unchanged.
    fn packet(&mut self, at: Instant, packet: &Frame) -> io::Result<()> {
        let at = self.base + at.since_origin();
        let len = packet.len() as u32;
        let kept = len.min(SNAP_LEN);
        for field in [at.as_secs() as u32, at.subsec_nanos(), kept, len] {
            self.out.write_all(&field.to_le_bytes())?;
        }
        let mut room = kept as usize;
        let pieces = packet.payload.iter().map(hawser_engine::wire::PayRef::bytes);
        for piece in std::iter::once(packet.head.as_slice()).chain(pieces) {
            let part = &piece[..piece.len().min(room)];
            self.out.write_all(part)?;
            room -= part.len();
        }
        Ok(())
    }

    /// Flushes the underlying writer.
    ///
    /// # Errors
    /// Returns an error if the writer cannot be flushed.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::samples::plain;

    #[test]
    fn a_capture_has_the_bytes_of_the_format() {
        let mut bytes = Vec::new();
        let mut pcap = PcapWriter::new(&mut bytes, Medium::Ip, Duration::from_secs(5)).unwrap();
        pcap.frame(Instant::from_nanos(1_000_000_007), &plain(3)).unwrap();
        // draft-ietf-opsawg-pcap, sections 4 and 5.
        let header = [
            0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 101, 0, 0, 0,
        ];
        let record = [6, 0, 0, 0, 7, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0];
        assert_eq!(bytes[..24], header);
        assert_eq!(bytes[24..], record);
    }
}
