//! Netlink messages (RFC 3549; `netlink(7)`, `rtnetlink(7)`) as bytes.
//!
//! All reads are bounds-checked, and malformed parts are skipped.

use std::ffi::c_int;
use std::io;

/// The size of `struct nlmsghdr`, in bytes.
const HEADER: usize = 16;
/// The size of `struct nlattr`, in bytes.
const ATTRIBUTE_HEADER: usize = 4;
/// Flags in an attribute's type (NLA_F_NESTED, NLA_F_NET_BYTEORDER).
const ATTRIBUTE_FLAGS: u16 = 0xc000;
/// The largest error number (include/linux/err.h).
const MAX_ERRNO: i32 = 4095;

/// A request to the kernel.
#[derive(Clone, Debug)]
pub struct Request {
    bytes: Vec<u8>,
}

/// An open attribute, to which others are being added.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct NestedAttribute(usize);

impl Request {
    /// Creates a request of this type with these flags. The kernel acknowledges it.
    #[must_use]
    pub fn new(kind: u16, flags: c_int) -> Request {
        let flags = (flags | libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
        let mut request = Request { bytes: Vec::with_capacity(256) };
        request.put(&0u32.to_ne_bytes());
        request.put(&kind.to_ne_bytes());
        request.put(&flags.to_ne_bytes());
        request.put(&[0; 8]);
        request
    }

    /// Appends the raw bytes of a structure.
    pub fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends a `struct ifinfomsg` for the interface with this index (0: none yet). `flags` are set among
    /// the flags in `change`.
    pub fn put_link(&mut self, index: u32, flags: u32, change: u32) {
        self.put(&[0; 4]);
        self.put(&index.to_ne_bytes());
        self.put(&flags.to_ne_bytes());
        self.put(&change.to_ne_bytes());
    }

    /// Appends a `struct ifaddrmsg`.
    pub fn put_address(&mut self, family: u8, prefix: u8, index: u32) {
        self.put(&[family, prefix, libc::IFA_F_NODAD as u8, 0]);
        self.put(&index.to_ne_bytes());
    }

    /// Appends an attribute.
    pub fn attribute(&mut self, kind: u16, value: &[u8]) {
        let nest = self.open(kind);
        self.put(value);
        self.close(nest);
    }

    /// Appends an attribute that holds a string.
    pub fn string(&mut self, kind: u16, value: &str) {
        let nest = self.open(kind);
        self.put(value.as_bytes());
        self.put(&[0]);
        self.close(nest);
    }

    /// Opens an attribute that contains the following ones.
    pub fn open(&mut self, kind: u16) -> NestedAttribute {
        let nest = NestedAttribute(self.bytes.len());
        self.put(&[0; 2]);
        self.put(&kind.to_ne_bytes());
        nest
    }

    /// Closes an attribute.
    pub fn close(&mut self, nest: NestedAttribute) {
        let length = (self.bytes.len() - nest.0) as u16;
        self.bytes[nest.0..nest.0 + 2].copy_from_slice(&length.to_ne_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// Returns the finished message with a sequence number.
    #[must_use]
    pub fn finish(mut self, sequence: u32) -> Vec<u8> {
        let length = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }
}

/// A message from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The message's type, such as `RTM_NEWLINK`.
    pub kind: u16,
    /// The sequence number of the request that it answers; 0 for an unsolicited message.
    pub sequence: u32,
    /// The bytes after the header.
    pub body: &'a [u8],
}

impl<'a> Message<'a> {
    /// Returns the outcome of the request if this message ends it: an acknowledgement, an error, or the end
    /// of a list. A number that belongs to no error is a protocol error.
    #[must_use]
    pub fn outcome(&self) -> Option<io::Result<()>> {
        let number = match c_int::from(self.kind) {
            libc::NLMSG_DONE => u32_at(self.body, 0).unwrap_or(0),
            libc::NLMSG_ERROR => u32_at(self.body, 0).unwrap_or(libc::EPROTO as u32),
            _ => return None,
        };
        let error = match (number as i32).wrapping_neg() {
            0 => return Some(Ok(())),
            error @ 1..=MAX_ERRNO => error,
            _ => libc::EPROTO,
        };
        Some(Err(io::Error::from_raw_os_error(error)))
    }

    /// Returns the attributes after a structure of `fixed` bytes. There are none if the message is shorter.
    pub fn attributes(&self, fixed: usize) -> Attributes<'a> {
        Attributes(self.body.get(fixed..).unwrap_or_default())
    }
}

/// Returns the messages in a received datagram. A truncated message ends the iteration.
pub fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let length = u32_at(bytes, 0)? as usize;
        let message = Message {
            kind: u16_at(bytes, 4)?,
            sequence: u32_at(bytes, 8)?,
            body: bytes.get(HEADER..length)?,
        };
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

/// The attributes of a message, each with its type and value.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a>(pub &'a [u8]);

impl<'a> Attributes<'a> {
    /// Returns the value of the first attribute of this type.
    #[must_use]
    pub fn find(mut self, kind: u16) -> Option<&'a [u8]> {
        self.find_map(|(is, value)| (is == kind).then_some(value))
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = usize::from(u16_at(self.0, 0)?);
        let kind = u16_at(self.0, 2)? & !ATTRIBUTE_FLAGS;
        let value = self.0.get(ATTRIBUTE_HEADER..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    }
}

/// Returns the 16-bit integer at an offset, in the machine's byte order.
#[must_use]
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_ne_bytes)
}

/// Returns the 32-bit integer at an offset, in the machine's byte order.
#[must_use]
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_ne_bytes)
}

/// Returns the 64-bit integer at an offset, in the machine's byte order.
#[must_use]
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().copied().map(u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: c_int, body: &[u8]) -> Vec<u8> {
        let mut request = Request::new(kind as u16, 0);
        request.put(body);
        request.finish(9)
    }

    #[test]
    fn attributes_are_found_as_they_were_put() {
        let mut request = Request::new(7, 0);
        request.put(&[9; 4]);
        request.attribute(1, b"x");
        let nest = request.open(2);
        request.attribute(5, b"inside");
        request.close(nest);
        let bytes = request.finish(1);
        let read: Vec<_> = messages(&bytes).collect();
        assert_eq!((read.len(), read[0].kind, read[0].sequence), (1, 7, 1));
        let attributes = read[0].attributes(4);
        assert_eq!(attributes.find(1), Some(&b"x"[..]));
        let inside = attributes.find(2).map(Attributes).and_then(|nest| nest.find(5));
        assert_eq!(inside, Some(&b"inside"[..]));
        assert_eq!(attributes.find(5), None);
        assert_eq!(read[0].attributes(100).count(), 0);
        assert_eq!(
            Attributes(&[3, 0, 1, 0]).count(),
            0,
            "shorter than its own header"
        );
    }

    #[test]
    fn several_messages_are_read_up_to_the_one_that_is_cut_short() {
        let mut bytes = message(20, &[1; 5]);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend(message(21, &[2; 8]));
        let kinds = |bytes: &[u8]| messages(bytes).map(|message| message.kind).collect::<Vec<_>>();
        assert_eq!(kinds(&bytes), [20, 21]);
        assert_eq!(kinds(&bytes[..bytes.len() - 1]), [20]);
        assert!(kinds(&[0; 64]).is_empty(), "a length below that of the header");
    }

    #[test]
    fn a_request_ends_by_acknowledgement_error_or_end_of_list() {
        let outcome = |kind, body: &[u8]| {
            let bytes = message(kind, body);
            let outcome = messages(&bytes).next().and_then(|message| message.outcome());
            outcome.map(|outcome| outcome.map_err(|error| error.raw_os_error()))
        };
        let error = |number: i32| outcome(libc::NLMSG_ERROR, &number.to_ne_bytes());
        assert_eq!(error(0), Some(Ok(())));
        assert_eq!(error(-libc::ENOENT), Some(Err(Some(libc::ENOENT))));
        for wrong in [2, i32::MIN, -4096] {
            assert_eq!(error(wrong), Some(Err(Some(libc::EPROTO))), "{wrong}");
        }
        assert_eq!(outcome(libc::NLMSG_ERROR, &[]), Some(Err(Some(libc::EPROTO))));
        assert_eq!(outcome(libc::NLMSG_DONE, &[]), Some(Ok(())));
        let interrupted = outcome(libc::NLMSG_DONE, &(-libc::EINTR).to_ne_bytes());
        assert_eq!(interrupted, Some(Err(Some(libc::EINTR))));
        assert_eq!(outcome(20, &[0; 4]), None);
    }
}
