//! Netlink messages (RFC 3549; `netlink(7)`, `rtnetlink(7)`) as bytes.

/// Bytes of `struct nlmsghdr`.
pub(super) const HEADER: usize = 16;

/// A request in the making.
#[derive(Clone, Debug)]
pub(super) struct Message {
    bytes: Vec<u8>,
}

/// An attribute that is still open for others inside it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nest(usize);

impl Message {
    /// A request of the given kind that asks for an acknowledgement.
    pub(super) fn new(kind: u16, flags: u16) -> Message {
        let flags = flags | (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
        let mut message = Message {
            bytes: Vec::with_capacity(256),
        };
        message.put(&0u32.to_ne_bytes());
        message.put(&kind.to_ne_bytes());
        message.put(&flags.to_ne_bytes());
        message.put(&[0; 8]);
        message
    }

    /// Appends a `struct ifinfomsg` for the interface with this index (0: none yet), with these
    /// flags set among those in `change`.
    pub(super) fn put_link(&mut self, index: u32, flags: u32, change: u32) {
        self.put(&[0; 4]);
        self.put(&index.to_ne_bytes());
        self.put(&flags.to_ne_bytes());
        self.put(&change.to_ne_bytes());
    }

    /// Appends a `struct ifaddrmsg`.
    pub(super) fn put_address(&mut self, family: u8, prefix: u8, index: u32) {
        self.put(&[family, prefix, libc::IFA_F_NODAD as u8, 0]);
        self.put(&index.to_ne_bytes());
    }

    /// Appends a `struct rtmsg` for a unicast route of the main table.
    pub(super) fn put_route(&mut self, family: u8, prefix: u8) {
        const TABLE_MAIN: u8 = libc::RT_TABLE_MAIN;
        self.put(&[
            family,
            prefix,
            0,
            0,
            TABLE_MAIN,
            libc::RTPROT_STATIC,
            libc::RT_SCOPE_UNIVERSE,
            libc::RTN_UNICAST,
        ]);
        self.put(&[0; 4]);
    }

    /// Appends an attribute.
    pub(super) fn attribute(&mut self, kind: u16, value: &[u8]) {
        let nest = self.open(kind);
        self.put(value);
        self.close(nest);
    }

    /// Appends an attribute that holds a string.
    pub(super) fn string(&mut self, kind: u16, value: &str) {
        let nest = self.open(kind);
        self.put(value.as_bytes());
        self.put(&[0]);
        self.close(nest);
    }

    /// Starts an attribute that what follows belongs to.
    pub(super) fn open(&mut self, kind: u16) -> Nest {
        let nest = Nest(self.bytes.len());
        self.put(&[0; 2]);
        self.put(&kind.to_ne_bytes());
        nest
    }

    /// Ends it.
    pub(super) fn close(&mut self, nest: Nest) {
        let len = (self.bytes.len() - nest.0) as u16;
        self.bytes[nest.0..nest.0 + 2].copy_from_slice(&len.to_ne_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// The finished message under a sequence number.
    pub(super) fn finish(mut self, sequence: u32) -> Vec<u8> {
        let len = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&len.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }

    /// Appends raw bytes: a structure.
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }
}

/// The type of the route (`RTN_LOCAL` and so on) in an answer; nothing when `bytes` are none.
pub(super) fn route_type(bytes: &[u8]) -> Option<u8> {
    const TYPE: usize = HEADER + 7;
    let kind = u16::from_ne_bytes([*bytes.get(4)?, *bytes.get(5)?]);
    bytes.get(TYPE).copied().filter(|_| kind == libc::RTM_NEWROUTE)
}

/// The error number in an acknowledgement, 0 for success; nothing when `bytes` are not the
/// acknowledgement of the request `sequence`.
pub(super) fn acknowledgement(bytes: &[u8], sequence: u32) -> Option<i32> {
    let (header, rest) = bytes.split_first_chunk::<HEADER>()?;
    let error: &[u8; 4] = rest.first_chunk()?;
    let kind = u16::from_ne_bytes([header[4], header[5]]);
    let answers = u32::from_ne_bytes([header[8], header[9], header[10], header[11]]);
    let acknowledges = i32::from(kind) == libc::NLMSG_ERROR && answers == sequence;
    acknowledges.then(|| -i32::from_ne_bytes(*error))
}

/// What follows the fixed part of an answer of this kind: its attributes. Nothing when `bytes` are
/// another kind of message.
pub(super) fn body(bytes: &[u8], kind: u16, fixed: usize) -> Option<&[u8]> {
    let len = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
    let is = u16::from_ne_bytes([*bytes.get(4)?, *bytes.get(5)?]);
    bytes
        .get(HEADER + fixed..len.min(bytes.len()))
        .filter(|_| is == kind)
}

/// The value of the first attribute of this kind.
pub(super) fn find(mut attributes: &[u8], kind: u16) -> Option<&[u8]> {
    /// Flags in an attribute's kind (NLA_F_NESTED, NLA_F_NET_BYTEORDER).
    const FLAGS: u16 = 0xc000;
    loop {
        let header: &[u8; 4] = attributes.first_chunk()?;
        let len = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let is = u16::from_ne_bytes([header[2], header[3]]) & !FLAGS;
        let value = attributes.get(4..len)?;
        if is == kind {
            return Some(value);
        }
        attributes = attributes.get(len.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_as_they_were_put() {
        let mut message = Message::new(7, 0);
        message.put(&[9; 3]);
        message.put(&[0]);
        message.attribute(1, b"x");
        let nest = message.open(2);
        message.attribute(5, b"inside");
        message.close(nest);
        let bytes = message.finish(1);
        let attributes = body(&bytes, 7, 4).expect("a body");
        assert_eq!(find(attributes, 1), Some(&b"x"[..]));
        assert_eq!(
            find(attributes, 2).and_then(|nest| find(nest, 5)),
            Some(&b"inside"[..])
        );
        assert_eq!(find(attributes, 5), None);
        assert_eq!(body(&bytes, 8, 4), None);
        assert_eq!(find(&[3, 0, 1, 0], 1), None, "shorter than its own header");
    }
}
