//! Packets in HomaModule's layout, and a peer that a test plays against one stack in virtual time.
//!
//! The offsets are those of `homa_wire.h` (PlatformLab/HomaModule, 9edb9589). `cargo xtask long homa-wire
//! CHECKOUT` compares them with a C compiler's output for that file.

use hawser_testing::internet_checksum;

use super::*;

pub const DATA: u8 = 0x10;
pub const GRANT: u8 = 0x11;
pub const RESEND: u8 = 0x12;
pub const UNKNOWN: u8 = 0x13;
pub const BUSY: u8 = 0x14;
pub const CUTOFFS: u8 = 0x15;
pub const FREEZE: u8 = 0x16;
pub const NEED_ACK: u8 = 0x17;
pub const ACK: u8 = 0x18;

/// A field's offset within a packet and its length, in bytes.
pub type Field = (usize, usize);
pub const SPORT: Field = (0, 2);
pub const DPORT: Field = (2, 2);
pub const SEQUENCE: Field = (4, 4);
pub const KIND: Field = (11, 1);
pub const DOFF: Field = (12, 1);
pub const SENDER_ID: Field = (20, 8);
pub const MESSAGE_LENGTH: Field = (28, 4);
pub const INCOMING: Field = (32, 4);
pub const ACK_CLIENT_ID: Field = (36, 8);
pub const ACK_SERVER_PORT: Field = (44, 2);
pub const DATA_CUTOFF_VERSION: Field = (46, 2);
pub const RETRANSMIT: Field = (48, 1);
pub const SEGMENT_OFFSET: Field = (52, 4);
pub const GRANT_OFFSET: Field = (28, 4);
pub const GRANT_PRIORITY: Field = (32, 1);
pub const RESEND_OFFSET: Field = (28, 4);
pub const RESEND_LENGTH: Field = (32, 4);
pub const RESEND_PRIORITY: Field = (36, 1);
pub const UNSCHED_CUTOFFS: Field = (28, 32);
pub const CUTOFF_VERSION: Field = (60, 2);
pub const NUM_ACKS: Field = (28, 2);
pub const ACKS: Field = (30, 50);

/// Returns the number of bytes before a message's data in a packet of this kind.
pub fn size(kind: u8) -> usize {
    match kind {
        DATA => 56,
        GRANT => 33,
        RESEND => 37,
        CUTOFFS => 62,
        ACK => 80,
        _ => 28,
    }
}

/// A packet from its transport header on, and its priority on arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub priority: u8,
    pub bytes: Vec<u8>,
}

impl Packet {
    pub fn get(&self, (at, len): Field) -> u64 {
        let bytes = &self.bytes[at..at + len];
        bytes.iter().fold(0, |all, byte| all << 8 | u64::from(*byte))
    }

    pub fn kind(&self) -> u8 {
        self.get(KIND) as u8
    }

    /// Returns the offset of a data packet's data in the message.
    pub fn offset(&self) -> u64 {
        match self.get(SEGMENT_OFFSET) {
            0xffff_ffff => self.get(SEQUENCE),
            offset => offset,
        }
    }

    /// Returns the range of the message that a data packet carries.
    pub fn range(&self) -> (u64, u64) {
        let from = self.offset();
        (from, from + self.bytes.len() as u64 - 56)
    }
}

/// Returns the bytes of a packet with these fields.
pub fn packet(kind: u8, fields: &[(Field, u64)], data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; size(kind)];
    bytes[KIND.0] = kind;
    bytes[DOFF.0] = if kind == DATA { 14 << 4 } else { 5 << 4 };
    for ((at, len), value) in fields {
        bytes[*at..at + len].copy_from_slice(&value.to_be_bytes()[8 - len..]);
    }
    bytes.extend_from_slice(data);
    bytes
}

/// One stack with an endpoint at port 80. The test plays its peers.
pub struct Testbed {
    pub stack: Stack,
    pub end: Cable,
    pub endpoint: Handle,
    pub now: Instant,
    pub notices: Vec<(Handle, Notice)>,
}

/// The port of the test's client, or of its server.
pub const PORT: u64 = 4000;
/// The number of the test's call, as its client sends it.
pub const CALL: u64 = 1000;

impl Testbed {
    pub fn new(params: &[(&str, u64)]) -> Testbed {
        let params: Vec<_> = params
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value))
            .collect();
        let [mut end, _] = cable(0, 1);
        end.caps.tx_csum = true; // Another test covers checksums.
        let interface =
            InterfaceConfig { addresses: vec![(address(0, 0).ip(), 24)], gateways: vec![], mtu: 1500 };
        let config = StackConfig::new(interface, 7);
        let now = Instant::from_nanos(1_000_000_000);
        let mut stack =
            Stack::new(program("homa", Engine::Native, &params), config, end.caps()).expect("good");
        let endpoint = stack.listen(now, address(0, 80), 64).expect("free");
        Testbed { stack, end, endpoint, now, notices: Vec::new() }
    }

    /// Makes a call to the test's server.
    pub fn call(&mut self, len: usize) -> Handle {
        self.try_call(len).expect("it is taken").expect("there is room")
    }

    pub fn try_call(&mut self, len: usize) -> Result<Option<Handle>, RequestError> {
        let peer = address(1, PORT as u16);
        self.stack.call(self.now, self.endpoint, peer, &vec![7; len])
    }

    /// Delivers a packet of the host with this number to the stack.
    pub fn put_from(&mut self, host: u8, bytes: &[u8]) {
        let mut ip = [
            0x45,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            64,
            146,
            0,
            0,
            10,
            0,
            0,
            host + 1,
            10,
            0,
            0,
            1,
        ];
        ip[2..4].copy_from_slice(&(20 + bytes.len() as u16).to_be_bytes());
        let sum = internet_checksum(&[&ip]);
        ip[10..12].copy_from_slice(&sum);
        self.end.inbound.lock().push_back([&ip, bytes].concat());
    }

    /// Delivers a packet about the test's own call, from the test's port to the stack's.
    pub fn put(&mut self, kind: u8, fields: &[(Field, u64)], data: &[u8]) {
        let common = [(SPORT, PORT), (DPORT, 80), (SENDER_ID, CALL)];
        self.put_from(1, &packet(kind, &[&common, fields].concat(), data));
    }

    /// Delivers a piece of the test's request, which has `len` bytes.
    pub fn request(&mut self, len: u64, incoming: u64, (from, to): (u64, u64)) {
        let fields = [
            (MESSAGE_LENGTH, len),
            (INCOMING, incoming),
            (SEGMENT_OFFSET, from),
            (DATA_CUTOFF_VERSION, 1),
        ];
        self.put(DATA, &fields, &vec![9; (to - from) as usize]);
    }

    /// Returns the packets that the stack sends now.
    pub fn take(&mut self) -> Vec<Packet> {
        while self
            .stack
            .poll(self.now, &mut self.end)
            .expect("a cable does not fail")
        {}
        while let Some(notice) = self.stack.next_notice() {
            if let Notice::Accepted(_) = notice.1 {
                self.stack.accept(notice.0);
            }
            self.notices.push(notice);
        }
        let sent: Vec<Vec<u8>> = self.end.outbound.lock().drain(..).collect();
        let packet = |frame: Vec<u8>| Packet { priority: frame[1] >> 5, bytes: frame[20..].to_vec() };
        sent.into_iter().map(packet).collect()
    }

    /// Returns the packets that the stack sends within this many microseconds.
    pub fn wait(&mut self, micros: u64) -> Vec<Packet> {
        let until = Instant::from_nanos(self.now.as_nanos() + micros * 1000);
        let mut sent = self.take();
        while let Some(next) = self.stack.next_deadline().filter(|next| *next <= until) {
            self.now = self.now.max(next);
            sent.extend(self.take());
        }
        self.now = until;
        sent.extend(self.take());
        sent
    }

    /// Returns the call that the stack accepted, and its request.
    pub fn accepted(&mut self) -> (Handle, Vec<u8>) {
        let accepted = self.notices.iter().find_map(|(_, notice)| match notice {
            Notice::Accepted(call) => Some(*call),
            _ => None,
        });
        let call = accepted.expect("a call was accepted");
        let mut request = Vec::new();
        assert_eq!(self.stack.recv_message(self.now, call, &mut request), Ok(true));
        (call, request)
    }

    /// Makes the stack answer the test's request of one byte with a reply of `len` bytes. Returns the packets
    /// that it sends.
    pub fn replies(&mut self, len: usize) -> (Handle, Vec<Packet>) {
        self.request(1, 1, (0, 1));
        self.take();
        let (call, _) = self.accepted();
        assert_eq!(self.stack.send_message(self.now, call, &vec![5; len]), Ok(true));
        (call, self.take())
    }

    /// Returns the notice by which the stack reports the end of a call.
    pub fn end_of(&self, call: Handle) -> Option<&Notice> {
        let ends = |notice: &&(Handle, Notice)| matches!(notice.1, Notice::Closed | Notice::Failed(_));
        self.notices
            .iter()
            .filter(|(handle, _)| *handle == call)
            .find(ends)
            .map(|(_, notice)| notice)
    }
}

/// Returns the kinds of the packets, in order.
pub fn kinds(packets: &[Packet]) -> Vec<u8> {
    packets.iter().map(Packet::kind).collect()
}

/// Returns the total number of bytes in data packets.
pub fn data_bytes(packets: &[Packet]) -> u64 {
    let data = packets.iter().filter(|packet| packet.kind() == DATA);
    data.map(|packet| packet.bytes.len() as u64 - 56).sum()
}
