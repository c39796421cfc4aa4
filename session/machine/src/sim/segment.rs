//! The fields of a TCP segment that are visible from outside.

use hawser_sim::frame::Frame;

/// A TCP segment (RFC 9293, 3.1) in an IPv4 packet.
pub(crate) struct TcpSegment {
    /// The index of its link, which is the second byte of both addresses.
    pub(crate) link: usize,
    /// The source and destination ports.
    pub(crate) ports: [u16; 2],
    pub(crate) syn: bool,
    /// The length of its payload in bytes.
    pub(crate) payload: usize,
}

impl TcpSegment {
    pub(crate) fn parse(frame: &Frame) -> Option<TcpSegment> {
        let headers = frame.headers()?;
        let header = frame.head.get(headers.transport..headers.transport + 20)?;
        let port = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        Some(TcpSegment {
            link: usize::from(frame.head[headers.network + 17]),
            ports: [port(0), port(2)],
            syn: header[13] & 2 != 0,
            payload: frame
                .len()
                .checked_sub(headers.transport + usize::from(header[12] >> 4) * 4)?,
        })
    }
}
