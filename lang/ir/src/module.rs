//! A whole checked program, as `hawser check` produces it and all other stages read it.

use crate::body::{Base, Expr, Place, Span, Stmt};
use crate::offload::Offload;
use crate::ty::{Field, OptListId, Struct, StructId, Ty};

macro_rules! index {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);
    )*};
}

index! {
    /// Index in [`Module::tables`].
    TableId;
    /// Index in [`Module::events`].
    EventId;
    /// Index in [`Module::contexts`].
    ContextId;
    /// Index in [`Module::funcs`].
    FuncId;
    /// Index in [`Module::blueprints`].
    BlueprintId;
    /// Index in [`Module::seg_rules`].
    RuleId;
    /// Index in [`Module::queues`]; 0 is the default queue.
    QueueId;
    /// Index in [`Module::signals`].
    SignalId;
    /// Index in [`Module::externs`].
    ExternId;
    /// Index of a member in its option union.
    OptMember;
}

impl SignalId {
    /// This signal's bit in the set of wanted signals. From the 64th on, signals share the last bit, so that
    /// wanting one of them records all of them.
    #[must_use]
    pub fn bit(self) -> u64 {
        1 << self.0.min(63)
    }
}

/// A checked transport program. The default is the empty one.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Module {
    /// The main file's name without its extension.
    pub name: String,
    /// All files, for spans: the path as written, and the text.
    pub files: Vec<(String, String)>,
    /// Tunable values, constant for one instance of the program.
    pub params: Vec<Param>,
    pub tables: Vec<Table>,
    pub structs: Vec<Struct>,
    pub events: Vec<Event>,
    pub contexts: Vec<Context>,
    /// Signals to the interactive layer: name and structure.
    pub signals: Vec<(String, StructId)>,
    /// Every enum. [`Ty::Enum`] refers to it; execution does not need it.
    pub enums: Vec<EnumNames>,
    /// The scratchpad, zeroed for each packet or request.
    pub scratch: Option<StructId>,
    /// Every function: helpers, processors and parsers.
    pub funcs: Vec<Func>,
    /// The chain of each event.
    pub chains: Vec<Chain>,
    /// For each event, the keyed contexts on which its chain can create a context; empty if unknown, in which
    /// case any chain may create one. With a keyed context outside this set, the event's remaining ids need
    /// not be looked up.
    pub creators: Vec<Vec<Precondition>>,
    /// The sources of events.
    pub parsers: Vec<Parser>,
    /// Wire formats.
    pub blueprints: Vec<Blueprint>,
    /// Option and frame lists.
    pub opt_lists: Vec<OptList>,
    /// Segmentation rules.
    pub seg_rules: Vec<SegRule>,
    /// For each blueprint and each set of rules that an instruction uses with it: whether a device may cut
    /// its packets.
    pub offloads: Vec<Offload>,
    /// Coalescing rules.
    pub coalesce: Vec<Coalesce>,
    /// Packet queues; the first is the default one.
    pub queues: Vec<PacketQueue>,
    /// Externs by name.
    pub externs: Vec<Extern>,
    /// True if the program reads `op.sub`, the number of a stream, a message or a call.
    pub reads_sub: bool,
    /// The place of each `assert` and `invariant` in the source, with its text.
    pub asserts: Vec<(Span, String)>,
    /// Citations such as `//= RFC9293 3.10.7.4`, each with the line that it stands beside.
    pub citations: Vec<(String, Span)>,
    /// Comments on the line of a structure's name or of a field: the structure, the field (empty for the
    /// structure itself), the text.
    pub notes: Vec<(StructId, String, String)>,
}

/// The names of an `enum`'s numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnumNames {
    /// The type's name.
    pub name: String,
    /// Its variants, in order of declaration: number and name.
    pub variants: Vec<(u64, String)>,
}

impl EnumNames {
    /// Returns the name of the variant with a number of this many bits. Numbers of variants are those of
    /// registers, where negative ones are extended to 64 bits.
    #[must_use]
    pub fn name_of(&self, number: u64, bits: u8) -> Option<&str> {
        let unused = 64 - u32::from(bits.clamp(1, 64));
        let mut variants = self.variants.iter();
        let variant = variants.find(|(known, _)| known << unused == number << unused);
        variant.map(|(_, name)| name.as_str())
    }
}

/// Behind its name, the two numbers as which a param that is an address is carried: those of its first and of
/// its last eight bytes. A program's own names have no dot.
pub const ADDRESS_HALVES: [&str; 2] = [".high", ".low"];

/// A `param`.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    pub name: String,
    /// A scalar type.
    pub ty: Ty,
    /// Its value if the caller sets no other.
    pub default: u64,
}

/// A table of constants.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    pub name: String,
    /// The (scalar) type of its values.
    pub ty: Ty,
    /// The values, at least one, each reduced to the type's width.
    pub values: Vec<u64>,
}

/// The causes of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// An application's request.
    App,
    /// A packet, or an ICMP error.
    Net,
    /// A timer. The event carries its context and has no other fields.
    Timer,
    /// The target: `start`.
    Sys,
    /// A `raise`, and no other source.
    Internal,
}

/// An event type.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub name: String,
    pub kind: EventKind,
    /// Its memory layout: [`crate::abi::EventHeader`], then the declared fields.
    pub body: StructId,
}

/// The number of instances of a context type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Granularity {
    /// One per id, on a single shard.
    Flow,
    /// One per id, replicated on every shard.
    Shard,
    /// Exactly one.
    Global,
}

/// The places of a connection's two ends in a context, as offsets in its memory. Addresses have 16 bytes,
/// ports 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointOffsets {
    pub local_ip: u32,
    pub local_port: u32,
    pub remote_ip: u32,
    pub remote_port: u32,
}

/// A context type.
#[derive(Clone, Debug, PartialEq)]
pub struct Context {
    pub name: String,
    /// The number of its instances.
    pub granularity: Granularity,
    /// Its memory layout: [`crate::abi::ContextHeader`], then the declared fields, with parts in place.
    pub body: StructId,
    /// `register_ctx_ends`: the connection's two ends.
    pub ends: Option<EndpointOffsets>,
    /// `timer_t name -> event;` in order of declaration.
    pub timers: Vec<Timer>,
    /// Boolean expressions over the context ([`crate::Base::Keyed`]) that hold after every chain, each with
    /// its index in [`Module::asserts`].
    pub invariants: Vec<(Expr, u32)>,
}

/// A timer of a context.
#[derive(Clone, Debug, PartialEq)]
pub struct Timer {
    pub name: String,
    /// The offset of its field in the context.
    pub offset: u32,
    /// The event that its expiry raises.
    pub event: EventId,
}

/// A function.
#[derive(Clone, Debug, PartialEq)]
pub struct Func {
    pub name: String,
    /// The parameters in order, each by value (copied to the frame at an offset) or by reference (the n-th
    /// reference).
    pub params: Vec<FuncParam>,
    /// A scalar result, if any.
    pub ret: Option<Ty>,
    /// The frame's variables, for messages and for C declarations.
    pub locals: Vec<Field>,
    /// The frame's size in bytes.
    pub frame: u32,
    pub body: Vec<Stmt>,
    pub span: Span,
}

impl Func {
    /// Returns the declared type of the variable or parameter that begins at a place.
    #[must_use]
    pub fn declared(&self, place: &Place) -> Option<&Ty> {
        match place.base {
            Base::Local => self
                .locals
                .iter()
                .find(|local| local.offset == place.offset)
                .map(|local| &local.ty),
            Base::Ref(n) => {
                let refs = self.params.iter().filter_map(|param| match param {
                    FuncParam::Ref { ty, .. } => Some(ty),
                    FuncParam::Value { .. } => None,
                });
                refs.filter(|_| place.offset == 0).nth(usize::from(n))
            }
            Base::Event | Base::Keyed | Base::Fresh | Base::Global(_) | Base::Scratch | Base::Blueprint => {
                None
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum FuncParam {
    /// A scalar, stored at this offset in the frame.
    Value { name: String, ty: Ty, offset: u32 },
    /// The next reference; [`crate::Base::Ref`] counts references alone.
    Ref { name: String, ty: Ty },
}

/// The processors that run on an event.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// The processors, in order.
    pub processors: Vec<Processor>,
    /// The worst case of its needs. The engine runs the chain only if that much is free.
    pub bounds: Bounds,
    /// The context type that it may create, if any.
    pub creates: Option<ContextId>,
    /// The global contexts that it touches.
    pub globals: Vec<ContextId>,
}

/// A function in a chain, with its arguments bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Processor {
    pub func: FuncId,
    /// The condition on which it runs.
    pub when: Precondition,
    pub args: Vec<Place>,
}

/// The kinds of keyed context on which a processor runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precondition {
    /// Any result of the lookup, or no result.
    Always,
    /// A context of this type was found.
    Found(ContextId),
    /// No context was found (`no_ctx`).
    NotFound,
}

/// The worst case of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Bounds {
    /// The number of records.
    pub records: u32,
    /// The size of all records in bytes.
    pub record_bytes: u32,
    /// The number of `pkt_gen` instructions.
    pub packets: u32,
    /// The number of `raise` instructions.
    pub raises: u32,
    /// The number of units of ordered data created, for sending and for receiving.
    pub units: u32,
    /// Steps of work: statements, operations, rounds, elements searched, 8 bytes moved. The checker refuses a
    /// chain that takes too many; steps are not counted at run time.
    pub steps: u64,
}

/// The source of a parser's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParserInput {
    /// Packets of an IP protocol.
    Ip(u8),
    /// Datagrams to a UDP port.
    Udp(u16),
    /// Packets of an IP protocol from which a switch has cut off data.
    Trimmed(u8),
    /// ICMP errors about packets of this host.
    IcmpError,
    /// An application's request.
    App(AppOp),
    /// The start of the program, before any other input.
    Start,
}

/// Requests of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AppOp {
    /// Open a listener.
    Listen,
    /// Open a connection.
    Connect,
    /// `op.len` bytes were accepted for sending.
    Send,
    /// `op.len` bytes were taken by the application.
    Recv,
    /// Announces that no more will be sent.
    Close,
    /// Drops the connection and its data at once.
    Abort,
    /// The application has released the handle, so it will not read any more. A stream that was closed before
    /// goes on to its end.
    Release,
    /// The option `op.option` becomes `op.arg`. Options given with `listen` or `connect` follow it directly,
    /// before the events that it raised. A program refuses unknown options with ENOPROTOOPT and unacceptable
    /// values with EINVAL.
    Option,
    /// An endpoint sends a message to `op.remote_ip` and `op.remote_port`: all of the `op.len` bytes at
    /// `op.addr`. Its number is `op.sub`, which no other message or call of this stack has. The context that
    /// is created belongs to the message.
    Message,
    /// Like a message, but the peer's reply is awaited.
    Call,
    /// Opens a stream within the connection. Both ends send on it, or only this end (`op.arg` is 1). Its
    /// number is `op.sub`, which no other stream, message or call of this stack has. The context that is
    /// created belongs to the stream.
    Open,
    /// Ends sending and abandons all data that has not arrived. `op.arg` is the application's reason.
    Reset,
    /// Ends reading. `op.arg` is the application's reason.
    Stop,
    /// Posts work on registered memory: `op.code` and the fields that belong to it.
    Post,
}

impl AppOp {
    /// Its name in the language.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            AppOp::Listen => "listen",
            AppOp::Connect => "connect",
            AppOp::Send => "send",
            AppOp::Recv => "recv",
            AppOp::Close => "close",
            AppOp::Abort => "abort",
            AppOp::Release => "release",
            AppOp::Option => "option",
            AppOp::Message => "message",
            AppOp::Call => "call",
            AppOp::Open => "open",
            AppOp::Reset => "reset",
            AppOp::Stop => "stop",
            AppOp::Post => "post",
        }
    }
}

/// A parser or shim, which turns an input into an ordered list of events.
///
/// Its reference parameters depend on the source. `Ip`, `Udp`: [`crate::abi::Net`]; `IcmpError`: `Net`,
/// [`crate::abi::Icmp`]; `App`: [`crate::abi::Op`]; `Start`: none. The packet itself is not a parameter in
/// the intermediate form: `Extract` reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct Parser {
    /// The source of its input.
    pub source: ParserInput,
    pub func: FuncId,
    /// The maximum number of events that it can yield.
    pub max_events: u32,
    /// The maximum number of steps that it takes, as in [`Bounds::steps`].
    pub steps: u64,
}

/// A wire format and its memory image.
#[derive(Clone, Debug, PartialEq)]
pub struct Blueprint {
    pub name: String,
    /// The layout of its image.
    pub body: StructId,
    /// The header on the wire, in order; big-endian, packed from the most significant bit.
    pub header: Vec<WireField>,
    /// The offset of its `data_t` in the image, if it has one.
    pub data_at: Option<u32>,
    /// The fields after the payload.
    pub trailer: Vec<WireField>,
    /// The length in bytes of the header without options and conditional parts.
    pub fixed_len: u32,
    /// The maximum length of its header in bytes.
    pub max_len: u32,
}

nodes! {
    /// One field on the wire.
    #[derive(Clone, Debug, PartialEq)]
    pub enum WireField: "wire" {
        /// `bits` bits of the scalar at `offset` of the image. If it is `little`, it is whole bytes, the least
        /// significant one first.
        Bits { name: String, offset: u32, ty: Ty, bits: u8, little: bool, fill: Option<Fill> } => nodes(fill);
        /// A variable-length integer (RFC 9000, section 16).
        Varint { name: String, offset: u32 };
        /// Raw bytes: `bytes<N>`, or an address in its 4-byte (`v4`) or 16-byte form.
        Bytes { name: String, offset: u32, len: u32 };
        /// `bytes<N> name count(field);`: raw bytes whose number another field gives, at most `cap`. The
        /// image has room for `cap` bytes; unused bytes are zero.
        Opaque { name: String, offset: u32, cap: u32, count_at: u32, count_ty: Ty };
        /// A nested header, present if the condition holds ([`crate::Base::Blueprint`] is the outer header).
        Nested { blueprint: BlueprintId, offset: u32, when: Option<Expr> } => values(when);
        /// The options. They end the header, regardless of the place of their declaration.
        Options { list: OptListId, offset: u32, cap: u32 };
        /// `list<T, N> name count(field);`: the wire form of `T`, repeated the number of times that another
        /// field gives.
        Repeat {
            blueprint: BlueprintId,
            offset: u32,
            cap: u32,
            stride: u32,
            count_at: u32,
            count_ty: Ty,
        };
    }

    /// A computed field: calculated for each packet and verified by `extract`.
    #[derive(Clone, Debug, PartialEq)]
    #[allow(clippy::large_enum_variant)] // There are few of them, and they are made once.
    pub enum Fill: "fill" {
        /// A constant or an expression over [`crate::WireFact`]s and the blueprint.
        Value(value: Expr) => value(value);
        /// `hdrlen4_t`: the header length in 4-byte words. Verified to be at least the fixed header and at
        /// most the packet. It bounds the options.
        HeaderWords;
        /// `checksum16_t … over (pseudo, this)`: the Internet checksum (RFC 1071), with the pseudo-header of
        /// IPv4 or IPv6 if `pseudo` is set.
        Checksum16 { pseudo: bool };
        /// `crc32_t … over (…)`: the CRC-32 (IEEE 802.3) of header, payload and trailer up to this field. The
        /// named spans of the header (first bit on the wire, number of bits) count as ones. In the header,
        /// the field itself counts as zeros. The engine computes it for packets that it sends.
        ///
        /// `invariant`: the CRC also covers eight bytes of ones and the network's headers, in which the
        /// fields that routers change count as ones. This is InfiniBand's invariant CRC (annex A17 of its
        /// architecture), least significant byte first.
        Crc32 { masked: Vec<(u32, u32)>, invariant: bool };
    }
}

/// An option or frame list.
#[derive(Clone, Debug, PartialEq)]
pub struct OptList {
    pub name: String,
    /// The union's members, in order. The index is the tag.
    pub members: Vec<OptKind>,
    /// The list's length in bytes on the wire, as an expression over the blueprint. `None` means that it
    /// extends to the end of the packet (frames), or that the header-length fill gives its length.
    pub len: Option<Expr>,
    /// The number of bits of the field that selects the member.
    pub select_bits: u8,
    /// The offset of an unknown member's length byte. If present, unknown members are skipped (TCP options);
    /// otherwise they are an error (frames).
    ///
    /// With a length byte, members that do not fill their length are skipped too, and a bad length ends the
    /// list. Members too short to have a length byte are padding and are not kept. Members that find no room
    /// are ignored.
    pub unknown_len_at: Option<u32>,
    /// The list is padded with zeros (end of list) to a multiple of this many bytes; 0 for no padding.
    pub pad: u32,
}

/// A member of an option union.
#[derive(Clone, Debug, PartialEq)]
pub struct OptKind {
    /// The member's name.
    pub name: String,
    /// Its format. Constant fields are [`Fill::Value`] constants and select the member.
    pub blueprint: BlueprintId,
    /// True for a one-byte member that ends the list (`kind == 0`, end of option list).
    pub ends_list: bool,
}

/// `seg_rule r(x) [BP::field, first, mid, last, only]`.
///
/// Its expressions see the rule's arguments ([`crate::ExprKind::RuleArg`]) and the previous packet's
/// blueprint ([`crate::Base::Blueprint`]).
#[derive(Clone, Debug, PartialEq)]
pub struct SegRule {
    pub name: String,
    /// The number of arguments.
    pub args: u16,
    /// The blueprint that it belongs to.
    pub blueprint: BlueprintId,
    /// The field that it sets, in the image.
    pub field: Place,
    /// The value for the first of several packets.
    pub first: Expr,
    /// The value for packets between the first and the last.
    pub mid: Expr,
    /// The value for the last of several packets.
    pub last: Expr,
    /// The value for a single packet.
    pub only: Expr,
}

/// `coalesce BP (a, b) { … }`: decides whether the later packet replaces the earlier one.
#[derive(Clone, Debug, PartialEq)]
pub struct Coalesce {
    pub blueprint: BlueprintId,
    pub func: FuncId,
}

/// A packet queue of a `sched`.
#[derive(Clone, Debug, PartialEq)]
pub struct PacketQueue {
    /// `sched.queue`; `default` for the first.
    pub name: String,
    pub policy: QueuePolicy,
    /// Its priority among the queues of its block; 0 is served first.
    pub prio: u32,
}

/// The order in which a queue serves its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueuePolicy {
    /// First in, first out.
    Fifo,
    /// By `rank`, lowest first.
    Rank,
    /// Paced by a rate, with one queue per flow.
    RatePerFlow,
    /// Paced by a rate, with one queue for all flows.
    Rate,
}

impl QueuePolicy {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            QueuePolicy::Fifo => "FIFO",
            QueuePolicy::Rank => "RANK",
            QueuePolicy::RatePerFlow => "RATE(PER_FLOW)",
            QueuePolicy::Rate => "RATE",
        }
    }
}

/// An extern of the target.
#[derive(Clone, Debug, PartialEq)]
pub struct Extern {
    pub name: String,
    /// The number of arguments.
    pub args: u32,
    /// True if it may stand only in parsers and shims, and returns a value.
    pub pure_: bool,
    /// The event with which an extern with effects answers.
    pub answer: Option<EventId>,
}

impl Module {
    /// Returns the `GLOBAL` context whose memory has this type, if any.
    #[must_use]
    pub fn global_of(&self, ty: &Ty) -> Option<ContextId> {
        let is_it =
            |context: &Context| context.granularity == Granularity::Global && *ty == Ty::Struct(context.body);
        let index = self.contexts.iter().position(is_it)?;
        Some(ContextId(index as u32))
    }

    #[must_use]
    pub fn structure(&self, id: StructId) -> &Struct {
        &self.structs[id.0 as usize]
    }

    /// Returns the size of an event in bytes, header included.
    #[must_use]
    pub fn event_size(&self, id: EventId) -> usize {
        self.structure(self.events[id.0 as usize].body).size as usize
    }

    /// Returns the size of a context in bytes, header included.
    #[must_use]
    pub fn context_size(&self, id: ContextId) -> usize {
        self.structure(self.contexts[id.0 as usize].body).size as usize
    }

    /// Returns the parser for a source, with its index.
    #[must_use]
    pub fn parser(&self, source: ParserInput) -> Option<(usize, &Parser)> {
        self.parsers.iter().enumerate().find(|(_, p)| p.source == source)
    }

    /// Returns the maximum number of steps over all chains and parsers, with the name of the event or
    /// function.
    #[must_use]
    pub fn max_steps(&self) -> Option<(u64, &str)> {
        let chains = self.events.iter().zip(&self.chains);
        let chains = chains.map(|(event, chain)| (chain.bounds.steps, event.name.as_str()));
        let name = |parser: &Parser| self.funcs[parser.func.0 as usize].name.as_str();
        let parsers = self.parsers.iter().map(|parser| (parser.steps, name(parser)));
        chains.chain(parsers).max_by_key(|(steps, _)| *steps)
    }

    #[must_use]
    pub fn opt_list(&self, id: OptListId) -> &OptList {
        &self.opt_lists[id.0 as usize]
    }

    /// Returns the size in bytes of each option list's largest member:
    /// [`Layout::member_size`](crate::Layout::member_size).
    #[must_use]
    pub fn member_sizes(&self) -> Vec<u32> {
        let size = |kind: &OptKind| {
            let blueprint = &self.blueprints[kind.blueprint.0 as usize];
            self.structure(blueprint.body).size
        };
        let largest = |list: &OptList| list.members.iter().map(size).max().unwrap_or(0);
        self.opt_lists.iter().map(largest).collect()
    }

    /// Returns the values of all params: the defaults, with the values in `set` in their place.
    ///
    /// # Errors
    /// Fails on the first name in `set` that is no param of the program.
    pub fn params_with(&self, set: &[(String, u64)]) -> Result<Vec<u64>, UnknownParam> {
        let mut values: Vec<u64> = self.params.iter().map(|p| p.default).collect();
        for (name, value) in set {
            let Some(i) = self.params.iter().position(|p| p.name == *name) else {
                return Err(UnknownParam {
                    name: name.clone(),
                    program: self.name.clone(),
                    known: self.params.iter().map(|p| p.name.clone()).collect(),
                });
            };
            values[i] = *value;
        }
        Ok(values)
    }
}

/// A value was given for a param that the program does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown param `{name}`: the program {program} has {}", known.join(", "))]
pub struct UnknownParam {
    pub name: String,
    pub program: String,
    /// The names of the program's params.
    pub known: Vec<String>,
}
