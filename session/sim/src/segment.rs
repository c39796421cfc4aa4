//! What is to be seen of a TCP segment from outside.

use hawser_sim::frame::Frame;

/// A segment of TCP (RFC 9293, 3.1) in an IPv4 packet.
pub(crate) struct Segment {
    /// The link that it belongs to: the second byte of both its addresses.
    pub(crate) link: usize,
    /// Source and destination.
    pub(crate) ports: [u16; 2],
    pub(crate) syn: bool,
    /// Bytes of payload.
    pub(crate) payload: usize,
}

impl Segment {
    pub(crate) fn of(frame: &Frame) -> Option<Segment> {
        let headers = frame.headers()?;
        let header = frame.head.get(headers.transport..headers.transport + 20)?;
        let port = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        Some(Segment {
            link: usize::from(frame.head[headers.network + 17]),
            ports: [port(0), port(2)],
            syn: header[13] & 2 != 0,
            payload: frame
                .len()
                .checked_sub(headers.transport + usize::from(header[12] >> 4) * 4)?,
        })
    }
}
