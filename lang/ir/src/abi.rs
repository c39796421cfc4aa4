//! What crosses the border between a program and an engine, as bytes.
//!
//! Inputs are views ([`Net`], [`Op`], [`Icmp`]) and events; outputs are instruction records.
//! Everything is `#[repr(C)]`, without pointers and without padding, so that a record can be
//! compared, logged, replayed and sent through a ring as it is.

use bytemuck::{Pod, Zeroable};

/// The identity of a context or of a data unit: a tuple of values, packed in order, most
/// significant byte first, addresses as 16 bytes.
///
/// Byte 39 holds the number of bytes used; an all-zero id is `NONE`.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Pod, Zeroable)]
pub struct Id(pub [u8; 40]);

impl Id {
    /// No identity.
    pub const NONE: Id = Id([0; 40]);
    /// The maximum number of bytes that a tuple can pack into.
    pub const MAX: usize = 39;

    /// True for [`Id::NONE`].
    #[must_use]
    #[inline]
    pub fn is_none(&self) -> bool {
        self.0[39] == 0
    }

    /// Appends the low `bytes` bytes of `value`, which must fit.
    pub fn push(&mut self, value: u64, bytes: usize) {
        self.push_bytes(&value.to_be_bytes()[8 - bytes..]);
    }

    /// Appends raw bytes, an address for instance. They must fit: of a program's tuples, the checker and
    /// what it puts before them see to that.
    ///
    /// # Panics
    ///
    /// When the tuple is longer than [`Id::MAX`]: two ids must not become one.
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        let at = self.0[39] as usize;
        let end = at + bytes.len();
        assert!(end <= Id::MAX, "a tuple of {end} bytes does not fit into an id");
        self.0[at..end].copy_from_slice(bytes);
        self.0[39] = end as u8;
    }

    /// The packed tuple.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.0[..self.0[39] as usize]
    }
}

impl std::fmt::Debug for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("id:")?;
        self.bytes().iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

/// An `addr_t`: bytes that an engine holds. 0 is `NONE`.
///
/// The upper 32 bits are 1 + the index of a buffer of the running batch (a frame, or an
/// application request's data), the lower 32 the offset in it; `+ n` moves the offset.
pub type Addr = u64;

/// Makes an [`Addr`].
#[must_use]
#[inline]
pub fn addr(buffer: u32, offset: u32) -> Addr {
    (u64::from(buffer) + 1) << 32 | u64::from(offset)
}

/// Takes an [`Addr`] apart: buffer and offset; nothing for `NONE`.
#[must_use]
#[inline]
pub fn addr_parts(a: Addr) -> Option<(u32, u32)> {
    let buffer = (a >> 32) as u32;
    (buffer != 0).then(|| (buffer - 1, a as u32))
}

/// A `data_t`. In a blueprint to be sent: which bytes of which sending unit, cut into packets of
/// at most `seg_size` (0: one packet). In an extracted packet: `len` bytes at `addr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Data {
    /// The sending unit.
    pub uid: Id,
    /// Offset in it.
    pub off: u64,
    /// Where an extracted packet's payload is.
    pub addr: Addr,
    /// Bytes.
    pub len: u32,
    /// Payload bytes per generated packet.
    pub seg_size: u32,
}

/// `IPheader`: the network header of a received packet, or the one to send with.
///
/// Addresses are 16 bytes, IPv4 mapped. When sending, zero means "the target's default".
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Net {
    /// Source address.
    pub src_ip: [u8; 16],
    /// Destination address.
    pub dst_ip: [u8; 16],
    /// Bytes from the start of the network header to the end of the packet.
    pub tot_len: u32,
    /// Flow label (IPv6).
    pub flow_label: u32,
    /// Length of the network header in bytes.
    pub hdr_len: u16,
    /// Packets that a received super-segment stands for; at least 1.
    pub segs: u16,
    /// Payload bytes of each of them but the last; 0 when it is one packet.
    pub seg_size: u16,
    /// IP protocol number. When sending: 0 stands for the program's first `ip(n)` parser.
    pub protocol: u8,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// The two ECN bits (RFC 3168).
    pub ecn: u8,
    /// The six DSCP bits.
    pub dscp: u8,
    /// Link-layer priority.
    pub prio: u8,
    /// 4 or 6.
    pub version: u8,
    /// The MTU of the path back to the sender, in bytes: what `op.path_mtu` is for a connection
    /// opened from here. Filled by the engine on receipt; without meaning when sending.
    pub path_mtu: u32,
    /// UDP's source port, where the program's packets are in UDP; when sending, 0 stands for the first
    /// `udp(port)` that it registers.
    pub src_port: u16,
    /// UDP's destination port, likewise.
    pub dst_port: u16,
    /// Zero.
    pub pad: [u8; 4],
}

/// `op_t`: an application's request, as its parser (shim) sees it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Op {
    /// The id of the context bound to the application's handle, if one is.
    pub self_id: Id,
    /// Local address.
    pub local_ip: [u8; 16],
    /// Remote address (`connect`).
    pub remote_ip: [u8; 16],
    /// The bytes of the request (`send`), until the program notifies.
    pub addr: Addr,
    /// Bytes accepted for sending (`send`), or taken by the application (`recv`). On a listener's
    /// handle, `recv` says that the application accepted this many connections.
    pub len: u64,
    /// Stream inside the handle.
    pub sub: u64,
    /// Free for the application; of `option`, the value.
    pub arg: u64,
    /// The path's MTU in bytes.
    pub path_mtu: u32,
    /// How many connections may wait to be accepted (`listen`).
    pub backlog: u32,
    /// Local port; autobound for `connect`.
    pub local_port: u16,
    /// Remote port.
    pub remote_port: u16,
    /// Which option is set (`option`): an `OPT_…` constant, or a number of the program's own.
    pub option: u32,
    /// Work on registered memory (`post`): what is to be done, a `WORK_…` constant. `arg` is the application's number
    /// of it, `len` its bytes.
    pub code: u32,
    /// `WORK_…` flags of it.
    pub flags: u32,
    /// The key of this end's memory.
    pub key: u32,
    /// The key of the peer's memory.
    pub remote_key: u32,
    /// Where in this end's memory.
    pub at: u64,
    /// Where in the peer's memory.
    pub remote_at: u64,
    /// What is compared, or added; of a send or write with immediate data those.
    pub value: u64,
    /// What is put in the compared value's place.
    pub swap: u64,
    /// The bytes of the largest packet that the link takes (`connect`, `listen`). A path may take less.
    pub link_mtu: u32,
    /// The bytes that the target holds for a connection to receive, at most (`connect`, `listen`).
    pub receive_limit: u32,
}

/// Work: bytes into the memory that the peer has posted for it next.
pub const WORK_SEND: u32 = 0;
/// Work: bytes into the peer's registered memory.
pub const WORK_WRITE: u32 = 1;
/// Work: bytes from the peer's registered memory into this end's.
pub const WORK_READ: u32 = 2;
/// Work: eight bytes of the peer's registered memory become `swap` if they are `value`; those before come into this
/// end's memory.
pub const WORK_COMPARE_SWAP: u32 = 3;
/// Work: `value` is added to eight bytes of the peer's registered memory; those before come into this end's memory.
pub const WORK_FETCH_ADD: u32 = 4;
/// Work: this end's memory waits for the peer's next send.
pub const WORK_RECEIVE: u32 = 5;
/// Work: a message of one packet to the pair `sub` at `remote_ip`, whose key for that is `remote_key`.
pub const WORK_DATAGRAM: u32 = 6;
/// In a notice: where the datagram came from of which the next notice tells.
pub const WORK_SOURCE: u32 = 7;
/// Flag of work: it is reported when it is done well, too.
pub const WORK_SIGNALED: u32 = 1;
/// Flag of a send or write: four bytes more (`value`) for the peer's application.
pub const WORK_IMMEDIATE: u32 = 2;
/// Flag of a send: the peer may not use the key `value` any more.
pub const WORK_INVALIDATE: u32 = 4;
/// Flag of a send or write: the peer's application is woken.
pub const WORK_SOLICITED: u32 = 8;
/// Flag of work: the reads and atomic operations before it have to be done before it begins.
pub const WORK_FENCE: u32 = 16;

/// Small pieces leave at once: 1 or 0. TCP: no Nagle (RFC 9293, 3.7.4).
pub const OPT_NODELAY: u32 = 1;
/// Pieces that fill no packet wait until this is 0 again: 1 or 0.
pub const OPT_CORK: u32 = 2;
/// What arrives is acknowledged at once: 1 or 0.
pub const OPT_QUICK_ACK: u32 = 3;
/// Nanoseconds without a sign of the peer until it is asked for one; 0: never.
pub const OPT_KEEPALIVE: u32 = 4;
/// Nanoseconds from one such question to the next.
pub const OPT_KEEPALIVE_INTERVAL: u32 = 5;
/// Questions without an answer until the connection fails.
pub const OPT_KEEPALIVE_COUNT: u32 = 6;
/// Nanoseconds without progress until the connection fails; 0: the program's default. TCP: the
/// local part of RFC 5482.
pub const OPT_USER_TIMEOUT: u32 = 7;
/// 0: to release a connection is to abort it, and the peer sees a reset. Otherwise what was written
/// still leaves; how many nanoseconds a caller waits for that is its own affair.
pub const OPT_LINGER: u32 = 8;
/// Bytes that may be under way to the application, read or not.
pub const OPT_RECEIVE_BUFFER: u32 = 9;
/// Bytes that are taken from the application before they are acknowledged. The engine obeys it
/// and asks no program.
pub const OPT_SEND_BUFFER: u32 = 10;
/// The maximum number of payload bytes of a packet, in either direction. TCP: before the handshake.
pub const OPT_MAX_SEGMENT: u32 = 11;
/// Several listeners may share an address: 1 or 0, before the listener opens. The engine obeys
/// it, where the program's listeners are replicated, and asks no program.
pub const OPT_REUSE_PORT: u32 = 12;
/// The traffic class of packets: DSCP in the upper six bits (RFC 2474).
pub const OPT_TOS: u32 = 13;
/// Text goes with the packet that opens a connection. On a listener: how many connections may be
/// open that way before their handshakes are complete; 0: none. On a connection, before it opens:
/// 1 or 0; what is sent first goes with its first packet where the peer allows that. TCP: Fast Open
/// (RFC 7413).
pub const OPT_FAST_OPEN: u32 = 14;
/// How often the packet that opens a connection is repeated until opening fails; 0: the program's
/// default.
pub const OPT_OPEN_REPEATS: u32 = 15;
/// Time to live of packets, IPv6's hop limit: 1 to 255; 0: the target's default.
pub const OPT_TTL: u32 = 16;
/// Bytes that are taken from the application before they are in a packet; 0: as many as there is room for
/// (Linux: TCP_NOTSENT_LOWAT). The engine obeys it and asks no program.
pub const OPT_NOT_SENT: u32 = 17;
/// Of a stream within a connection: those of a higher priority send before others; 0 to 255.
pub const OPT_PRIORITY: u32 = 18;
/// Of a queue pair: the protection domain of its memory.
pub const OPT_PAIR_DOMAIN: u32 = 19;
/// Of a queue pair: what its peer may do with memory, `ACCESS_…` flags.
pub const OPT_PAIR_ACCESS: u32 = 20;
/// Of a queue pair: its peer's number.
pub const OPT_PAIR_PEER: u32 = 21;
/// Of a queue pair: the number of the first packet that it expects.
pub const OPT_PAIR_EXPECTED: u32 = 22;
/// Of a queue pair: the number of the first packet that it sends. It may send from then on.
pub const OPT_PAIR_FIRST: u32 = 23;
/// Of a queue pair: payload bytes of a packet, a power of two from 256 to 4096.
pub const OPT_PAIR_MTU: u32 = 24;
/// Of a queue pair: how often what is not acknowledged goes again; 0 to 7.
pub const OPT_PAIR_RETRIES: u32 = 25;
/// Of a queue pair: how often it asks again a peer that has no memory posted; 7: without end.
pub const OPT_PAIR_RNR_RETRIES: u32 = 26;
/// Of a queue pair: how long its peer waits before that; the InfiniBand architecture's code from 0 to 31.
pub const OPT_PAIR_RNR_TIMER: u32 = 27;
/// Of a queue pair: nanoseconds until what is not acknowledged goes again; 0: never.
pub const OPT_PAIR_TIMEOUT: u32 = 28;
/// Of a queue pair: how many reads and atomic operations it may have under way.
pub const OPT_PAIR_READS: u32 = 29;
/// Of a queue pair without a peer: it takes datagrams from whoever knows this key.
pub const OPT_PAIR_DATAGRAMS: u32 = 30;

/// Memory may be written by its own host.
pub const ACCESS_LOCAL_WRITE: u32 = 1;
/// Memory may be written by a peer.
pub const ACCESS_REMOTE_WRITE: u32 = 2;
/// Memory may be read by a peer.
pub const ACCESS_REMOTE_READ: u32 = 4;
/// Memory may be changed by a peer's atomic operations.
pub const ACCESS_REMOTE_ATOMIC: u32 = 8;

/// `icmp_t`: an ICMP error about a packet that this host sent. The quoted packet is the parser's
/// `pkt_t`, its header the `IPheader`.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Icmp {
    /// What it means, alike for ICMP and ICMPv6: an `ICMP_…` constant.
    pub kind: u32,
    /// The next hop's MTU in bytes, for [`ICMP_TOO_BIG`].
    pub mtu: u32,
    /// Type and code as received.
    pub icmp_type: u8,
    /// Code as received.
    pub icmp_code: u8,
    /// Zero.
    pub pad: [u8; 6],
}

/// Network, host or address unreachable: a soft error (RFC 1122, 4.2.3.9).
pub const ICMP_UNREACHABLE: u32 = 1;
/// Protocol or port unreachable, administratively prohibited: a hard error.
pub const ICMP_REFUSED: u32 = 2;
/// Fragmentation needed (RFC 1191) or packet too big (RFC 8201).
pub const ICMP_TOO_BIG: u32 = 3;
/// Anything else: time exceeded, parameter problem.
pub const ICMP_OTHER: u32 = 4;

/// The first bytes of every event.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct EventHeader {
    /// `ev.now`: nanoseconds.
    pub now: u64,
    /// `ev.rand`: 64 random bits, fresh for each event.
    pub rand: u64,
    /// `ev.hash`: a hash of the first id.
    pub hash: u32,
    /// Index of the event in [`crate::Module::events`].
    pub event: u16,
    /// How many of `ids` are set.
    pub ids: u8,
    /// Zero.
    pub pad: u8,
    /// Candidates for the context, in order (docs/language.md, Ids).
    pub id: [Id; 3],
}

/// The first bytes of every context.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct ContextHeader {
    /// `ctx.self`.
    pub id: Id,
}

/// How a received packet's transport checksum stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Csum {
    /// Verified, or trusted because it never left a machine.
    Complete,
    /// Nobody looked: verify it.
    Unverified,
}

/// A received packet from its transport header on.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The network header.
    pub net: &'a Net,
    /// The first bytes; all headers are here.
    pub head: &'a [u8],
    /// What follows `head`, where the wire holds the payload elsewhere.
    pub tail: &'a [u8],
    /// Bytes of payload behind `tail`: that of packets which were merged with this one. They count as its own, and a
    /// parser reads none of them.
    pub merged: usize,
    /// Address of the first byte of `head`; the payload's address counts on through all that follows.
    pub addr: Addr,
    /// Whether checksums are to be verified.
    pub csum: Csum,
    /// For programs with an invariant CRC ([`crate::Fill::Crc32`]): that of what stands in front of `head`. Without it
    /// none is verified.
    pub crc: Option<u32>,
}

/// Why an input gave no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ParseError {
    /// Shorter than its headers.
    Truncated,
    /// A checksum does not match.
    Checksum,
    /// A length field contradicts the packet.
    Length,
    /// A frame of unknown type, or a list beyond its bound.
    Frame,
    /// More events than the program declares per packet.
    Events,
}

/// What a chain ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All processors ran.
    Done,
    /// `done;`: the packet's later events are not run.
    Stop,
    /// `refuse(code)`: an application's request was rejected; nothing was changed.
    Refused(u32),
    /// An `assert` was false: its index in [`crate::Module::asserts`]. A bug of the program.
    Assert(u32),
}

/// Kinds of instruction record.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordKind {
    /// [`UnitRec`]: `new_tx_ordered_data(size, uid, addr)`.
    NewTx = 1,
    /// [`UnitRec`]: `add_tx_data(addr, len, uid)`.
    AddTx,
    /// [`UnitRec`]: `tx_flush_and_notify(uid, len)`.
    FlushTx,
    /// [`UnitRec`]: `new_rx_ordered_data(size, uid, addr, cap)`.
    NewRx,
    /// [`UnitRec`]: `add_rx_data_seg(addr, len, uid, offset)`.
    AddRx,
    /// [`UnitRec`]: `rx_flush_and_notify(uid, len, addr)`.
    FlushRx,
    /// [`PacketRec`], then the blueprint's bytes.
    Packet,
    /// [`TimerRec`]: (re)start.
    TimerStart,
    /// [`TimerRec`]: stop.
    TimerStop,
    /// [`ContextRec`]: `new_ctx`; the reserved slot becomes a context.
    NewContext,
    /// [`ContextRec`]: `del_ctx()`.
    DelContext,
    /// [`ContextRec`]: `add_id(id)`.
    AddId,
    /// [`ContextRec`]: `drop_id(id)`.
    DropId,
    /// [`NotifyRec`].
    Notify,
    /// [`RaiseRec`], then the event's bytes.
    Raise,
    /// [`SignalRec`], then the signal's bytes.
    Signal,
    /// [`QueueRec`]: `set_queue_rate`.
    QueueRate,
    /// [`QueueRec`]: `set_queue_prio`.
    QueuePrio,
    /// [`QueueRec`]: `queue_reset`.
    QueueReset,
    /// [`ExternRec`], then its arguments, 8 bytes each.
    Extern,
    /// [`UnitRec`]: `del_tx_ordered_data(uid)`.
    DelTx,
    /// [`UnitRec`]: `del_rx_ordered_data(uid)`.
    DelRx,
}

impl RecordKind {
    /// The kind with this number.
    #[must_use]
    #[inline]
    pub fn from_u8(n: u8) -> Option<RecordKind> {
        use RecordKind::*;
        const ALL: [RecordKind; 22] = [
            NewTx, AddTx, FlushTx, NewRx, AddRx, FlushRx, Packet, TimerStart, TimerStop, NewContext,
            DelContext, AddId, DropId, Notify, Raise, Signal, QueueRate, QueuePrio, QueueReset, Extern,
            DelTx, DelRx,
        ];
        ALL.get(usize::from(n).wrapping_sub(1)).copied()
    }
}

/// The record is about the chain's keyed context; about none where the chain has none.
pub const ON_KEYED: u8 = 0;
/// The record is about the context made by this chain's `new_ctx`.
pub const ON_FRESH: u8 = 1;
/// The record is about a `GLOBAL` context: [`RecordHeader::global`] says which. Only timers have such records.
pub const ON_GLOBAL: u8 = 2;
/// The record names its context by an id ([`RaiseRec::target`]); `NONE`, which `GLOBAL` contexts have, is no keyed one.
pub const ON_TARGET: u8 = 3;

/// The first 8 bytes of every record.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct RecordHeader {
    /// A [`RecordKind`].
    pub kind: u8,
    /// The context that the record is about: an `ON_…` constant.
    pub on: u8,
    /// With [`ON_GLOBAL`] the index of the context's type in [`crate::Module::contexts`], otherwise zero.
    pub global: u16,
    /// Bytes of the whole record, this header included; a multiple of 8.
    pub len: u32,
}

/// Ordered data. Fields that a kind does not use are zero.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct UnitRec {
    /// Common header.
    pub header: RecordHeader,
    /// The unit.
    pub uid: Id,
    /// Where the bytes are, or shall go.
    pub addr: Addr,
    /// Size of the unit ([`INF`]), or bytes concerned.
    pub len: u64,
    /// Offset in the unit (`AddRx`), or the most bytes kept beyond the flush point (`NewRx`).
    pub off: u64,
}

/// `INF`: an unbounded unit.
pub const INF: u64 = u64::MAX;

/// The maximum number of segmentation rules of one packet instruction.
pub const MAX_RULES: usize = 4;
/// The maximum number of arguments of all its rules together.
pub const MAX_RULE_ARGS: usize = 4;

/// `pkt_gen`. The blueprint's memory image follows, `bytes` long.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct PacketRec {
    /// Common header.
    pub header: RecordHeader,
    /// The network header to send with.
    pub net: Net,
    /// The rank in a RANK queue. In a queue with a rate, the bytes that each packet counts as; 0: its own.
    pub rank: u64,
    /// Arguments of the rules, in order.
    pub args: [u64; MAX_RULE_ARGS],
    /// Queue, an index in [`crate::Module::queues`]; 0 is the default.
    pub queue: u32,
    /// Index in [`crate::Module::blueprints`].
    pub blueprint: u16,
    /// Rules in use.
    pub rules: u16,
    /// Their indices in [`crate::Module::seg_rules`].
    pub rule: [u16; MAX_RULES],
    /// Where the blueprint keeps its [`Data`], from the start of its image; `u32::MAX`: no data.
    pub data_at: u32,
    /// Size of the blueprint's image.
    pub bytes: u32,
}

/// Timers.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct TimerRec {
    /// Common header.
    pub header: RecordHeader,
    /// When it fires, in nanoseconds (`TimerStart`).
    pub deadline: u64,
    /// Index among the context's timers.
    pub timer: u32,
    /// Zero.
    pub pad: u32,
}

/// Contexts and their ids.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct ContextRec {
    /// Common header.
    pub header: RecordHeader,
    /// The id (`NewContext`, `AddId`, `DropId`).
    pub id: Id,
    /// Index in [`crate::Module::contexts`].
    pub context: u32,
    /// Zero.
    pub pad: u32,
}

/// `notify`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct NotifyRec {
    /// Common header.
    pub header: RecordHeader,
    /// The context that an `ACCEPTED` speaks of.
    pub id: Id,
    /// A `NOTIFY_…` code.
    pub code: u32,
    /// An errno value for [`NOTIFY_FAILED`].
    pub error: u32,
    /// Program-defined values.
    pub arg: [u64; 4],
}

/// `notify(CONNECTED)`.
pub const NOTIFY_CONNECTED: u32 = 1;
/// `notify(EOF)`: the peer will send no more.
pub const NOTIFY_EOF: u32 = 2;
/// `notify(CLOSED)`: nothing more will happen on this handle.
pub const NOTIFY_CLOSED: u32 = 3;
/// `notify(ACCEPTED, id)`: the listener has a new connection.
pub const NOTIFY_ACCEPTED: u32 = 4;
/// `notify(FAILED, errno)`.
pub const NOTIFY_FAILED: u32 = 5;
/// `notify(NAME{…})`: a structure of the program's own, up to four words.
pub const NOTIFY_MESSAGE: u32 = 6;
/// `notify(RESET, code)`: the peer gave up what it sends, for a reason of its application.
pub const NOTIFY_RESET: u32 = 7;
/// `notify(STOPPED, code)`: the peer will not read what is sent, for a reason of its application.
pub const NOTIFY_STOPPED: u32 = 8;

/// `raise`. The event's bytes follow.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct RaiseRec {
    /// Common header.
    pub header: RecordHeader,
    /// With [`ON_TARGET`] the id of the context that the event is for; otherwise `NONE`.
    pub target: Id,
    /// Index in [`crate::Module::events`].
    pub event: u32,
    /// Size of the event.
    pub bytes: u32,
}

/// `signal`. The signal's bytes follow.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct SignalRec {
    /// Common header.
    pub header: RecordHeader,
    /// Index in [`crate::Module::signals`].
    pub signal: u32,
    /// Size of the signal's structure.
    pub bytes: u32,
}

/// Queues.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct QueueRec {
    /// Common header.
    pub header: RecordHeader,
    /// Rate in bits per second, or priority.
    pub value: u64,
    /// Index in [`crate::Module::queues`].
    pub queue: u32,
    /// Zero.
    pub pad: u32,
}

/// An effectful extern. Its arguments follow.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct ExternRec {
    /// Common header.
    pub header: RecordHeader,
    /// Index in [`crate::Module::externs`].
    pub extern_: u32,
    /// Number of arguments.
    pub args: u32,
}

/// Which of the packets of one `pkt_gen` is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// From 0.
    pub index: u32,
    /// How many there are.
    pub count: u32,
    /// Payload bytes of this one.
    pub len: u32,
}

/// What building one packet's header gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Built {
    /// Bytes written: the header, and behind it the trailer.
    pub len: usize,
    /// Bytes of the trailer, which goes behind the payload. A CRC-32 is left zero.
    pub trailer: usize,
    /// An Internet checksum left to complete: where summing starts, and where the field is. The
    /// field holds the folded pseudo-header sum, as Linux's virtio-net header wants it.
    pub csum: Option<(u16, u16)>,
}
