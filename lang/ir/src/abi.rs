//! The data that crosses the border between a program and an engine, as bytes.
//!
//! Inputs are views ([`Net`], [`Op`], [`Icmp`]) and events; outputs are instruction records. Everything is
//! `#[repr(C)]`, without pointers and without padding. A record can therefore be compared, logged, replayed
//! and sent through a ring as it is.

use bytemuck::{Pod, Zeroable};

/// The identity of a context or of a data unit: a tuple of values, packed in order, most
/// significant byte first, addresses as 16 bytes.
///
/// Byte 39 holds the number of bytes used; an all-zero id is `NONE`.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Pod, Zeroable)]
pub struct Id(pub [u8; 40]);

impl Id {
    pub const NONE: Id = Id([0; 40]);
    /// The maximum number of bytes that a tuple can pack into.
    pub const MAX: usize = 39;

    /// True for [`Id::NONE`].
    #[must_use]
    #[inline]
    pub fn is_none(&self) -> bool {
        self.0[39] == 0
    }

    /// Appends the low `bytes` bytes of `value`. Panics if they do not fit.
    pub fn push(&mut self, value: u64, bytes: usize) {
        self.push_bytes(&value.to_be_bytes()[8 - bytes..]);
    }

    /// Appends raw bytes, such as an address. They must fit; for a program's tuples, the checker and the
    /// bytes that it puts in front of them guarantee this.
    ///
    /// # Panics
    ///
    /// If the tuple becomes longer than [`Id::MAX`], because truncation could make two ids equal.
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        let at = self.0[39] as usize;
        let end = at + bytes.len();
        assert!(end <= Id::MAX, "a tuple of {end} bytes does not fit into an id");
        self.0[at..end].copy_from_slice(bytes);
        self.0[39] = end as u8;
    }

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

/// An `addr_t`: a reference to bytes that an engine holds. 0 is `NONE`.
///
/// The upper 32 bits are 1 + the index of a buffer of the running batch (a frame, or an application request's
/// data). The lower 32 bits are the offset in that buffer; `+ n` moves the offset.
pub type Addr = u64;

#[must_use]
#[inline]
pub fn addr(buffer: u32, offset: u32) -> Addr {
    (u64::from(buffer) + 1) << 32 | u64::from(offset)
}

/// Splits an [`Addr`] into buffer index and offset; `None` for `NONE`.
#[must_use]
#[inline]
pub fn addr_parts(a: Addr) -> Option<(u32, u32)> {
    let buffer = (a >> 32) as u32;
    (buffer != 0).then(|| (buffer - 1, a as u32))
}

/// A `data_t`. In a blueprint to be sent, it selects bytes of a sending unit, cut into packets of at most
/// `seg_size` bytes (0: one packet). In an extracted packet, it is `len` bytes at `addr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Data {
    /// The sending unit.
    pub uid: Id,
    /// Offset in the unit, in bytes.
    pub off: u64,
    /// The address of an extracted packet's payload.
    pub addr: Addr,
    /// Length in bytes.
    pub len: u32,
    /// Payload bytes per generated packet.
    pub seg_size: u32,
}

/// `IPheader`: the network header of a received packet, or the header to send with.
///
/// Addresses are 16 bytes; IPv4 addresses are IPv4-mapped. When sending, zero means "the target's default".
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Net {
    pub src_ip: [u8; 16],
    pub dst_ip: [u8; 16],
    /// Bytes from the start of the network header to the end of the packet.
    pub tot_len: u32,
    /// Flow label (IPv6).
    pub flow_label: u32,
    /// Length of the network header in bytes.
    pub hdr_len: u16,
    /// The number of packets that a received super-segment stands for; at least 1.
    pub segs: u16,
    /// Payload bytes of each of those packets except the last; 0 for a single packet.
    pub seg_size: u16,
    /// IP protocol number. When sending, 0 stands for the program's first `ip(n)` parser.
    pub protocol: u8,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// The two ECN bits (RFC 3168).
    pub ecn: u8,
    /// The six DSCP bits.
    pub dscp: u8,
    /// Link-layer priority.
    pub prio: u8,
    /// IP version: 4 or 6.
    pub version: u8,
    /// The MTU of the path back to the sender, in bytes. It equals `op.path_mtu` for a connection opened from
    /// this host. The engine fills it on receipt; it has no meaning when sending.
    pub path_mtu: u32,
    /// UDP source port, if the program's packets are in UDP. When sending, 0 stands for the first `udp(port)`
    /// that the program registers.
    pub src_port: u16,
    /// UDP destination port, with the same default.
    pub dst_port: u16,
    pub pad: [u8; 4],
}

/// `op_t`: an application's request, as its parser (shim) sees it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Op {
    /// The id of the context bound to the application's handle, or `NONE`.
    pub self_id: Id,
    pub local_ip: [u8; 16],
    /// Remote address (`connect`).
    pub remote_ip: [u8; 16],
    /// The bytes of the request (`send`), valid until the program notifies.
    pub addr: Addr,
    /// Bytes accepted for sending (`send`), or taken by the application (`recv`). On a listener's handle,
    /// `recv` gives the number of connections that the application accepted.
    pub len: u64,
    pub sub: u64,
    /// Free for the application; for `option`, the value.
    pub arg: u64,
    /// The path's MTU in bytes.
    pub path_mtu: u32,
    /// The maximum number of connections that wait to be accepted (`listen`).
    pub backlog: u32,
    /// Local port; for `connect`, the engine has chosen one.
    pub local_port: u16,
    pub remote_port: u16,
    /// The option that is set (`option`): an `OPT_…` constant, or a number that the program defines.
    pub option: u32,
    /// The operation on registered memory (`post`): a `WORK_…` constant. `arg` is the application's number of
    /// the work request, `len` its length in bytes.
    pub code: u32,
    /// The `WORK_…` flags of the work request.
    pub flags: u32,
    /// The key of the local memory.
    pub key: u32,
    /// The key of the peer's memory.
    pub remote_key: u32,
    /// The address in the local memory.
    pub at: u64,
    /// The address in the peer's memory.
    pub remote_at: u64,
    /// The value to compare with, or the addend. For a send or write with immediate data, that data.
    pub value: u64,
    /// The replacement value of a compare-and-swap.
    pub swap: u64,
    /// The size in bytes of the largest packet that the link carries (`connect`, `listen`). A path may carry
    /// less.
    pub link_mtu: u32,
    /// The maximum number of bytes that the target buffers for a connection to receive (`connect`, `listen`).
    pub receive_limit: u32,
}

/// Work: sends bytes into the memory that the peer posts for them.
pub const WORK_SEND: u32 = 0;
/// Work: writes bytes into the peer's registered memory.
pub const WORK_WRITE: u32 = 1;
/// Work: reads bytes of the peer's registered memory into local memory.
pub const WORK_READ: u32 = 2;
/// Work: replaces eight bytes of the peer's registered memory by `swap` if they equal `value`. The previous
/// eight bytes are stored in local memory.
pub const WORK_COMPARE_SWAP: u32 = 3;
/// Work: adds `value` to eight bytes of the peer's registered memory. The previous eight bytes are stored in
/// local memory.
pub const WORK_FETCH_ADD: u32 = 4;
/// Work: posts local memory for the peer's next send.
pub const WORK_RECEIVE: u32 = 5;
/// Work: sends a message of one packet to the pair `sub` at `remote_ip`; `remote_key` is that pair's key for
/// datagrams.
pub const WORK_DATAGRAM: u32 = 6;
/// In a notice: the source of the datagram that the next notice reports.
pub const WORK_SOURCE: u32 = 7;
/// Flag of work: its success is reported, not only its failure.
pub const WORK_SIGNALED: u32 = 1;
/// Flag of a send or write: carries four more bytes (`value`) for the peer's application.
pub const WORK_IMMEDIATE: u32 = 2;
/// Flag of a send: invalidates the key `value` for the peer.
pub const WORK_INVALIDATE: u32 = 4;
/// Flag of a send or write: wakes the peer's application.
pub const WORK_SOLICITED: u32 = 8;
/// Flag of work: it begins after all earlier reads and atomic operations are complete.
pub const WORK_FENCE: u32 = 16;

/// Small segments leave at once: 1 or 0. In TCP, 1 disables Nagle's algorithm (RFC 9293, 3.7.4).
pub const OPT_NODELAY: u32 = 1;
/// Data that does not fill a packet waits until this is 0 again: 1 or 0.
pub const OPT_CORK: u32 = 2;
/// Received data is acknowledged at once: 1 or 0.
pub const OPT_QUICK_ACK: u32 = 3;
/// The idle time, in nanoseconds, after which a keepalive probe asks the peer for a sign of life; 0: never.
pub const OPT_KEEPALIVE: u32 = 4;
/// Nanoseconds between two keepalive probes.
pub const OPT_KEEPALIVE_INTERVAL: u32 = 5;
/// The number of unanswered keepalive probes after which the connection fails.
pub const OPT_KEEPALIVE_COUNT: u32 = 6;
/// Nanoseconds without progress after which the connection fails; 0: the program's default. In TCP, this is
/// the local part of RFC 5482.
pub const OPT_USER_TIMEOUT: u32 = 7;
/// 0: releasing a connection aborts it, and the peer sees a reset. Otherwise written data is still sent. The
/// caller decides itself how many nanoseconds it waits for that.
pub const OPT_LINGER: u32 = 8;
/// The maximum number of bytes under way to the application, read or unread.
pub const OPT_RECEIVE_BUFFER: u32 = 9;
/// The maximum number of unacknowledged bytes that are taken from the application. The engine obeys it
/// without asking the program.
pub const OPT_SEND_BUFFER: u32 = 10;
/// The maximum number of payload bytes of a packet, in either direction. In TCP, it is set before the
/// handshake.
pub const OPT_MAX_SEGMENT: u32 = 11;
/// Several listeners may share an address: 1 or 0, set before the listener opens. The engine obeys it without
/// asking the program, if the program's listeners are replicated.
pub const OPT_REUSE_PORT: u32 = 12;
/// The traffic class of packets: DSCP in the upper six bits (RFC 2474).
pub const OPT_TOS: u32 = 13;
/// Data is sent with the packet that opens a connection. In TCP, this is Fast Open (RFC 7413).
///
/// On a listener: the maximum number of connections that are open in this way before their handshakes are
/// complete. On a connection, before it opens: 1 or 0. The first data that is sent then travels with the
/// first packet, if the peer allows that.
pub const OPT_FAST_OPEN: u32 = 14;
/// The number of retransmissions of the packet that opens a connection, after which opening fails; 0: the
/// program's default.
pub const OPT_OPEN_REPEATS: u32 = 15;
/// Time to live of packets (IPv6: hop limit): 1 to 255; 0: the target's default.
pub const OPT_TTL: u32 = 16;
/// The maximum number of bytes that are taken from the application and not yet in a packet; 0: limited by
/// buffer space alone (Linux: TCP_NOTSENT_LOWAT). The engine obeys it without asking the program.
pub const OPT_NOT_SENT: u32 = 17;
/// Priority of a stream within its connection, 0 to 255. A stream of a higher priority sends first.
pub const OPT_PRIORITY: u32 = 18;
/// Queue pair: the protection domain of its memory.
pub const OPT_PAIR_DOMAIN: u32 = 19;
/// Queue pair: the memory access that its peer has, as `ACCESS_…` flags.
pub const OPT_PAIR_ACCESS: u32 = 20;
/// Queue pair: its peer's number.
pub const OPT_PAIR_PEER: u32 = 21;
/// Queue pair: the sequence number of the first packet that it expects.
pub const OPT_PAIR_EXPECTED: u32 = 22;
/// Queue pair: the sequence number of the first packet that it sends. Setting it allows the pair to send.
pub const OPT_PAIR_FIRST: u32 = 23;
/// Queue pair: the payload bytes of a packet, a power of two from 256 to 4096.
pub const OPT_PAIR_MTU: u32 = 24;
/// Queue pair: the maximum number of retransmissions of unacknowledged packets; 0 to 7.
pub const OPT_PAIR_RETRIES: u32 = 25;
/// Queue pair: the maximum number of retries towards a peer that has no memory posted; 7: unlimited.
pub const OPT_PAIR_RNR_RETRIES: u32 = 26;
/// Queue pair: the time that its peer waits before such a retry, as the InfiniBand architecture's code from 0
/// to 31.
pub const OPT_PAIR_RNR_TIMER: u32 = 27;
/// Queue pair: nanoseconds before unacknowledged packets are retransmitted; 0: never.
pub const OPT_PAIR_TIMEOUT: u32 = 28;
/// Queue pair: the maximum number of outstanding reads and atomic operations.
pub const OPT_PAIR_READS: u32 = 29;
/// Queue pair without a peer: the key that a sender must know for the pair to accept its datagrams.
pub const OPT_PAIR_DATAGRAMS: u32 = 30;

/// Its own host may write to the memory.
pub const ACCESS_LOCAL_WRITE: u32 = 1;
/// A peer may write to the memory.
pub const ACCESS_REMOTE_WRITE: u32 = 2;
/// A peer may read the memory.
pub const ACCESS_REMOTE_READ: u32 = 4;
/// A peer's atomic operations may change the memory.
pub const ACCESS_REMOTE_ATOMIC: u32 = 8;

/// `icmp_t`: an ICMP error about a packet that this host sent. The quoted packet is the parser's `pkt_t`, and
/// its network header is the `IPheader`.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Icmp {
    /// The meaning of the error, the same for ICMP and ICMPv6: an `ICMP_…` constant.
    pub kind: u32,
    /// The next hop's MTU in bytes, for [`ICMP_TOO_BIG`].
    pub mtu: u32,
    /// Type as received.
    pub icmp_type: u8,
    /// Code as received.
    pub icmp_code: u8,
    pub pad: [u8; 6],
}

/// Network, host or address unreachable: a soft error (RFC 1122, 4.2.3.9).
pub const ICMP_UNREACHABLE: u32 = 1;
/// Protocol or port unreachable, or administratively prohibited: a hard error.
pub const ICMP_REFUSED: u32 = 2;
/// Fragmentation needed (RFC 1191) or packet too big (RFC 8201).
pub const ICMP_TOO_BIG: u32 = 3;
/// Anything else: time exceeded, parameter problem.
pub const ICMP_OTHER: u32 = 4;

/// The first bytes of every event.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct EventHeader {
    /// `ev.now`, in nanoseconds.
    pub now: u64,
    /// `ev.rand`: 64 random bits, fresh for each event.
    pub rand: u64,
    /// `ev.hash`: a hash of the first id.
    pub hash: u32,
    /// Index of the event in [`crate::Module::events`].
    pub event: u16,
    /// The number of `id` entries in use.
    pub ids: u8,
    pub pad: u8,
    /// The ids that may name the context, in the order of lookup (docs/language.md, Ids).
    pub id: [Id; 3],
}

/// The first bytes of every context.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct ContextHeader {
    /// `ctx.self`.
    pub id: Id,
}

/// The state of a received packet's transport checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Csum {
    /// Verified, or trusted because the packet never left the machine.
    Complete,
    /// Not verified yet.
    Unverified,
}

/// A received packet from its transport header on.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The network header.
    pub net: &'a Net,
    /// The first bytes; they include all headers.
    pub head: &'a [u8],
    /// The bytes after `head`, if the wire holds the payload elsewhere.
    pub tail: &'a [u8],
    /// Payload bytes after `tail`, of packets that were merged with this one. They count as its own, but no
    /// parser reads them.
    pub merged: usize,
    /// The address of the first byte of `head`. The payload's addresses continue from it through `tail` and
    /// the merged bytes.
    pub addr: Addr,
    /// The state of the checksums.
    pub csum: Csum,
    /// For programs with an invariant CRC ([`crate::Fill::Crc32`]): the CRC of the bytes in front of `head`.
    /// If it is absent, no CRC is verified.
    pub crc: Option<u32>,
}

/// The reasons why an input yields no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ParseError {
    /// The input is shorter than its headers.
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

/// The result of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainOutcome {
    /// All processors ran to their end.
    Done,
    /// `done;`: the packet's later events are not run.
    Stop,
    /// `refuse(code)`: an application's request was refused; no state changed.
    Refused(u32),
    /// An `assert` was false, which is a bug of the program. The value is its index in
    /// [`crate::Module::asserts`].
    Assert(u32),
}

/// The kinds of instruction record.
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
    /// [`TimerRec`]: starts or restarts a timer.
    TimerStart,
    /// [`TimerRec`]: stops a timer.
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
    /// Returns the kind with this number.
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

/// The record refers to the chain's keyed context, or to no context if the chain has no keyed one.
pub const ON_KEYED: u8 = 0;
/// The record refers to the context that this chain's `new_ctx` creates.
pub const ON_FRESH: u8 = 1;
/// The record refers to the `GLOBAL` context that [`RecordHeader::global`] names. Only timer records do.
pub const ON_GLOBAL: u8 = 2;
/// The record names its context by an id ([`RaiseRec::target`]). `NONE`, the id of `GLOBAL` contexts, selects
/// no keyed context.
pub const ON_TARGET: u8 = 3;

/// The first 8 bytes of every record.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct RecordHeader {
    /// A [`RecordKind`].
    pub kind: u8,
    /// The context that the record refers to: an `ON_…` constant.
    pub on: u8,
    /// With [`ON_GLOBAL`], the index of the context's type in [`crate::Module::contexts`]; otherwise zero.
    pub global: u16,
    /// The size in bytes of the whole record, this header included; a multiple of 8.
    pub len: u32,
}

/// An instruction about ordered data. Fields that a kind does not use are zero.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct UnitRec {
    pub header: RecordHeader,
    pub uid: Id,
    /// The address of the bytes, or their destination.
    pub addr: Addr,
    /// The size of the unit ([`INF`]: unbounded), or the number of bytes concerned.
    pub len: u64,
    /// Offset in the unit (`AddRx`), or the maximum number of bytes kept beyond the flush point (`NewRx`).
    pub off: u64,
}

/// `INF`: the size of an unbounded unit.
pub const INF: u64 = u64::MAX;

/// The maximum number of segmentation rules of a packet instruction.
pub const MAX_RULES: usize = 4;
/// The maximum number of arguments of all rules of a packet instruction together.
pub const MAX_RULE_ARGS: usize = 4;

/// `pkt_gen`. The blueprint's memory image follows; it is `bytes` bytes long.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct PacketRec {
    pub header: RecordHeader,
    /// The network header to send with.
    pub net: Net,
    /// The rank in a RANK queue. In a queue with a rate, the number of bytes that each packet counts as; 0:
    /// its own size.
    pub rank: u64,
    /// Arguments of the rules, in order.
    pub args: [u64; MAX_RULE_ARGS],
    /// Index of the queue in [`crate::Module::queues`]; 0 is the default queue.
    pub queue: u32,
    /// Index in [`crate::Module::blueprints`].
    pub blueprint: u16,
    /// The number of rules in use.
    pub rules: u16,
    /// The rules' indices in [`crate::Module::seg_rules`].
    pub rule: [u16; MAX_RULES],
    /// The offset of the blueprint's [`Data`] in its image; `u32::MAX` if it has no data.
    pub data_at: u32,
    /// The size of the blueprint's image in bytes.
    pub bytes: u32,
}

/// An instruction about a timer.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct TimerRec {
    pub header: RecordHeader,
    /// The time at which it fires, in nanoseconds (`TimerStart`).
    pub deadline: u64,
    /// Index among the context's timers.
    pub timer: u32,
    pub pad: u32,
}

/// An instruction about a context or its ids.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct ContextRec {
    pub header: RecordHeader,
    /// The id (`NewContext`, `AddId`, `DropId`).
    pub id: Id,
    /// Index in [`crate::Module::contexts`].
    pub context: u32,
    pub pad: u32,
}

/// `notify`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct NotifyRec {
    pub header: RecordHeader,
    /// The new connection's context, for `ACCEPTED`.
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
/// `notify(CLOSED)`: no further notice follows on this handle.
pub const NOTIFY_CLOSED: u32 = 3;
/// `notify(ACCEPTED, id)`: the listener has a new connection.
pub const NOTIFY_ACCEPTED: u32 = 4;
/// `notify(FAILED, errno)`.
pub const NOTIFY_FAILED: u32 = 5;
/// `notify(NAME{…})`: a structure of the program's own, up to four words.
pub const NOTIFY_MESSAGE: u32 = 6;
/// `notify(RESET, code)`: the peer abandoned the data that it was sending; the code is its application's
/// reason.
pub const NOTIFY_RESET: u32 = 7;
/// `notify(STOPPED, code)`: the peer will not read further data; the code is its application's reason.
pub const NOTIFY_STOPPED: u32 = 8;

/// `raise`. The event's bytes follow.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct RaiseRec {
    pub header: RecordHeader,
    /// With [`ON_TARGET`], the id of the context that receives the event; otherwise `NONE`.
    pub target: Id,
    /// Index in [`crate::Module::events`].
    pub event: u32,
    /// The size of the event in bytes.
    pub bytes: u32,
}

/// `signal`. The signal's bytes follow.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct SignalRec {
    pub header: RecordHeader,
    /// Index in [`crate::Module::signals`].
    pub signal: u32,
    /// The size of the signal's structure in bytes.
    pub bytes: u32,
}

/// An instruction about a queue.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct QueueRec {
    pub header: RecordHeader,
    /// The rate in bits per second, or the priority.
    pub value: u64,
    /// Index in [`crate::Module::queues`].
    pub queue: u32,
    pub pad: u32,
}

/// A call of an extern with effects. Its arguments follow.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct ExternRec {
    pub header: RecordHeader,
    /// Index in [`crate::Module::externs`].
    pub extern_: u32,
    /// Number of arguments.
    pub args: u32,
}

/// The position of a packet among the packets of one `pkt_gen`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The packet's index, from 0.
    pub index: u32,
    /// The number of packets.
    pub count: u32,
    /// Payload bytes of this packet.
    pub len: u32,
}

/// The result of building one packet's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Built {
    /// The number of bytes written: the header, followed by the trailer.
    pub len: usize,
    /// The length in bytes of the trailer, which goes behind the payload. A CRC-32 in it is left zero.
    pub trailer: usize,
    /// An Internet checksum that remains to be completed: the offset where summing starts, and the offset of
    /// the field. The field holds the folded pseudo-header sum, as Linux's virtio-net header requires.
    pub csum: Option<(u16, u16)>,
}
