//! A whole checked program: what `hawser check` produces and everything else reads.

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
    /// This signal's bit among those that are wanted. From the 64th on, signals share the last bit:
    /// asking for one of them records all of them.
    #[must_use]
    pub fn bit(self) -> u64 {
        1 << self.0.min(63)
    }
}

/// A checked transport program. The default is the empty one.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Module {
    /// The main file's name without its ending.
    pub name: String,
    /// All files, for spans: path as written, and text.
    pub files: Vec<(String, String)>,
    /// Tunable values, constant for one instance.
    pub params: Vec<Param>,
    /// Tables of constants.
    pub tables: Vec<Table>,
    /// Every structure.
    pub structs: Vec<Struct>,
    /// Every event.
    pub events: Vec<Event>,
    /// Every context type.
    pub contexts: Vec<Context>,
    /// Signals to the interactive layer: name and structure.
    pub signals: Vec<(String, StructId)>,
    /// Every enum: nothing that runs needs it; [`Ty::Enum`] refers to it.
    pub enums: Vec<EnumNames>,
    /// The scratchpad, zeroed for each packet or request.
    pub scratch: Option<StructId>,
    /// Every function: helpers, processors, parsers.
    pub funcs: Vec<Func>,
    /// By event: what runs when it happens.
    pub chains: Vec<Chain>,
    /// By event: on which keyed contexts its chain can create one. Empty where that is not known:
    /// then any may. With another keyed context, the event's remaining ids need not be looked up.
    pub creators: Vec<Vec<When>>,
    /// Where events come from.
    pub parsers: Vec<Parser>,
    /// Wire formats.
    pub blueprints: Vec<Blueprint>,
    /// Option and frame lists.
    pub opt_lists: Vec<OptList>,
    /// Segmentation rules.
    pub seg_rules: Vec<SegRule>,
    /// For each blueprint with each set of rules that an instruction uses: whether a device may cut
    /// its packets.
    pub offloads: Vec<Offload>,
    /// Coalescing rules.
    pub coalesce: Vec<Coalesce>,
    /// Packet queues; the first is the default one.
    pub queues: Vec<Queue>,
    /// Externs by name.
    pub externs: Vec<Extern>,
    /// It reads `op.sub`, the number of a stream, a message or a call.
    pub reads_sub: bool,
    /// Where each `assert` and `invariant` stands, with its text.
    pub asserts: Vec<(Span, String)>,
    /// `//= RFC9293 3.10.7.4`: citation and the line that it stands beside.
    pub citations: Vec<(String, Span)>,
    /// What comments say that stand on the line of a structure's name or of a field: the structure, the field
    /// (empty: the structure itself), the text.
    pub notes: Vec<(StructId, String, String)>,
}

/// What the numbers of an `enum` are called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnumNames {
    /// The type's name.
    pub name: String,
    /// Its variants in order of declaration: number and name.
    pub variants: Vec<(u64, String)>,
}

/// A `param`.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// A scalar type.
    pub ty: Ty,
    /// Its value where nobody sets one.
    pub default: u64,
}

/// A table of constants.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// The (scalar) type of its values.
    pub ty: Ty,
    /// At least one, each reduced to the type's width.
    pub values: Vec<u64>,
}

/// Who causes an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// An application's request.
    App,
    /// A packet, or an ICMP error.
    Net,
    /// A timer: carries its context, has no other fields.
    Timer,
    /// The target: `start`.
    Sys,
    /// `raise` only.
    Internal,
}

/// An event type.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its name.
    pub name: String,
    /// Its source.
    pub kind: EventKind,
    /// Its memory: [`crate::abi::EventHeader`], then the declared fields.
    pub body: StructId,
}

/// How many instances a context type has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Granularity {
    /// One per id, on one shard.
    Flow,
    /// One per id, replicated on every shard.
    Shard,
    /// Exactly one.
    Global,
}

/// Where a context has the two ends of its connection: offsets in its memory, addresses of 16 bytes and
/// ports of 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The local address.
    pub local_ip: u32,
    /// The local port.
    pub local_port: u32,
    /// The remote address.
    pub remote_ip: u32,
    /// The remote port.
    pub remote_port: u32,
}

/// A context type.
#[derive(Clone, Debug, PartialEq)]
pub struct Context {
    /// Its name.
    pub name: String,
    /// How many there are.
    pub granularity: Granularity,
    /// Its memory: [`crate::abi::ContextHeader`], then the declared fields; parts in place.
    pub body: StructId,
    /// `register_ctx_ends`: the connection's two ends.
    pub ends: Option<Ends>,
    /// `timer_t name -> event;` in order of declaration.
    pub timers: Vec<Timer>,
    /// Boolean expressions over the context ([`crate::Base::Keyed`]) that hold after every
    /// chain, with the index in [`Module::asserts`].
    pub invariants: Vec<(Expr, u32)>,
}

/// A timer of a context.
#[derive(Clone, Debug, PartialEq)]
pub struct Timer {
    /// Its name.
    pub name: String,
    /// Offset of its field in the context.
    pub offset: u32,
    /// The event that it raises.
    pub event: EventId,
}

/// A function.
#[derive(Clone, Debug, PartialEq)]
pub struct Func {
    /// Its name.
    pub name: String,
    /// In order: by value (copied to the frame at this offset) or by reference (n-th reference).
    pub params: Vec<FuncParam>,
    /// A scalar result, if any.
    pub ret: Option<Ty>,
    /// The frame's variables, for messages and for C declarations.
    pub locals: Vec<Field>,
    /// The frame's size in bytes.
    pub frame: u32,
    /// What it does.
    pub body: Vec<Stmt>,
    /// Where it stands.
    pub span: Span,
}

impl Func {
    /// What the variable or the parameter that begins at a place was declared as.
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

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq)]
pub enum FuncParam {
    /// A scalar, stored at this offset of the frame.
    Value { name: String, ty: Ty, offset: u32 },
    /// The next reference: [`crate::Base::Ref`] counts these alone.
    Ref { name: String, ty: Ty },
}

/// What runs on an event.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// The processors, in order.
    pub processors: Vec<Processor>,
    /// The most that it can need; the engine runs it only if that much is free.
    pub bounds: Bounds,
    /// The context type that it may create, if any.
    pub creates: Option<ContextId>,
    /// Global contexts that it touches.
    pub globals: Vec<ContextId>,
}

/// A function in a chain, with its arguments bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Processor {
    /// The function.
    pub func: FuncId,
    /// When it runs.
    pub when: When,
    /// Its reference arguments: event, contexts, scratchpad, or parts of them.
    pub args: Vec<Place>,
}

/// On which kind of keyed context a processor runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum When {
    /// Whatever was found, or nothing.
    Always,
    /// A context of this type was found.
    Found(ContextId),
    /// No context was found (`no_ctx`).
    NotFound,
}

/// The worst case of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Bounds {
    /// Records.
    pub records: u32,
    /// Bytes of records.
    pub record_bytes: u32,
    /// `pkt_gen` instructions.
    pub packets: u32,
    /// `raise` instructions.
    pub raises: u32,
    /// Units of ordered data made, sending and receiving.
    pub units: u32,
    /// Steps of work: statements, operations, rounds, elements searched, 8 bytes moved. The checker
    /// refuses what takes too many; nothing counts them while a chain runs.
    pub steps: u64,
}

/// What feeds a parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// Packets of an IP protocol.
    Ip(u8),
    /// Datagrams to a UDP port.
    Udp(u16),
    /// Packets of an IP protocol of which a switch has cut off data.
    Trimmed(u8),
    /// ICMP errors about packets of ours.
    IcmpError,
    /// An application's request.
    App(AppOp),
    /// Once, before anything else.
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
    /// No more will be sent.
    Close,
    /// Drop everything at once.
    Abort,
    /// Nobody holds the handle any more, so nobody will read; what was closed goes on to its end.
    Release,
    /// The option `op.option` becomes `op.arg`. Those given with `listen` or `connect` come right
    /// after it, before what it raised. A program refuses options that it does not know with
    /// ENOPROTOOPT, values that it does not take with EINVAL.
    Option,
    /// An endpoint sends a message to `op.remote_ip` and `op.remote_port`: `op.len` bytes at `op.addr`, all of them.
    /// `op.sub` is its number, which no other message or call of this stack has. The context that is made is the
    /// message's.
    Message,
    /// The same, and the peer's reply is awaited.
    Call,
    /// Open a stream within the connection: both ends send on it, or this one alone (`op.arg` is 1). `op.sub` is its
    /// number, which no other stream, message or call of this stack has. The context that is made is the stream's.
    Open,
    /// Nothing more is sent, and what has not arrived is given up, for a reason of the application: `op.arg`.
    Reset,
    /// Nothing more is read, for a reason of the application: `op.arg`.
    Stop,
    /// Work is posted: `op.code` and what belongs to it.
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

/// A parser or shim: turns an input into an ordered list of events.
///
/// Its reference parameters, by source: `Ip`, `Udp`: [`crate::abi::Net`]; `IcmpError`: `Net`,
/// [`crate::abi::Icmp`]; `App`: [`crate::abi::Op`]; `Start`: none. The packet itself is not a
/// parameter in the IR: `Extract` reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct Parser {
    /// What feeds it.
    pub source: Source,
    /// The function.
    pub func: FuncId,
    /// The maximum number of events that it can give.
    pub max_events: u32,
    /// The maximum number of steps that it takes, as in [`Bounds::steps`].
    pub steps: u64,
}

/// A wire format and its memory image.
#[derive(Clone, Debug, PartialEq)]
pub struct Blueprint {
    /// Its name.
    pub name: String,
    /// Its memory.
    pub body: StructId,
    /// The header on the wire, first to last; big-endian, packed from the most significant bit.
    pub header: Vec<WireField>,
    /// Offset of its `data_t` in memory, if it has one.
    pub data_at: Option<u32>,
    /// After the payload.
    pub trailer: Vec<WireField>,
    /// Bytes of the header without options and conditional parts.
    pub fixed_len: u32,
    /// The maximum number of bytes of its header.
    pub max_len: u32,
}

/// One field on the wire.
#[derive(Clone, Debug, PartialEq)]
pub enum WireField {
    /// `bits` bits of the scalar at `offset` of the image.
    Bits { name: String, offset: u32, ty: Ty, bits: u8, fill: Option<Fill> },
    /// A variable-length integer (RFC 9000, section 16).
    Varint { name: String, offset: u32 },
    /// Raw bytes: `bytes<N>`, or an address in its 4-byte (`v4`) or 16-byte form.
    Bytes { name: String, offset: u32, len: u32 },
    /// `bytes<N> name count(field);`: as many raw bytes as another field says, at most `cap`; the image
    /// has room for all, and zeros behind.
    Opaque { name: String, offset: u32, cap: u32, count_at: u32, count_ty: Ty },
    /// A nested header, present when the condition holds ([`crate::Base::Blueprint`] is the
    /// outer one).
    Nested { blueprint: BlueprintId, offset: u32, when: Option<Expr> },
    /// The options: they end the header, wherever they are declared.
    Options { list: OptListId, offset: u32, cap: u32 },
    /// `list<T, N> name count(field);`: `T`'s wire form, as often as another field says.
    Repeat {
        blueprint: BlueprintId,
        offset: u32,
        cap: u32,
        stride: u32,
        count_at: u32,
        count_ty: Ty,
    },
}

#[allow(clippy::large_enum_variant)] // There are few of them, and they are made once.
/// A field that is computed per packet and verified by `extract`.
#[derive(Clone, Debug, PartialEq)]
pub enum Fill {
    /// A constant or an expression over [`crate::WireFact`]s and the blueprint.
    Value(Expr),
    /// `hdrlen4_t`: header length in 4-byte words. Verified: not below the fixed header, not
    /// beyond the packet. It bounds the options.
    HeaderWords,
    /// `checksum16_t … over (pseudo, this)`: the Internet checksum (RFC 1071), with the
    /// pseudo-header of IPv4 or IPv6 when `pseudo`.
    Checksum16 { pseudo: bool },
    /// `crc32_t … over (…)`: CRC-32 (IEEE 802.3) of header, payload and trailer up to this field,
    /// with the named spans of the header taken as ones: first bit on the wire, number of bits. In
    /// the header, the field itself counts as zeros. The engine computes it for what is sent.
    ///
    /// `invariant`: over eight bytes of ones and the network's headers, too, in which what routers change
    /// counts as ones: InfiniBand's invariant CRC (annex A17 of its architecture), least significant byte first.
    Crc32 { masked: Vec<(u32, u32)>, invariant: bool },
}

/// An option or frame list.
#[derive(Clone, Debug, PartialEq)]
pub struct OptList {
    /// Its name.
    pub name: String,
    /// The union's members, in order: the index is the tag.
    pub members: Vec<OptKind>,
    /// The list's length in bytes on the wire, over the blueprint; `None`: to the end of the
    /// packet (frames), or as the header-length fill says.
    pub len: Option<Expr>,
    /// Bits of the field that selects the member.
    pub select_bits: u8,
    /// Where an unknown member has its length byte: skipped if so (TCP options), an error if
    /// not (frames). With a length byte, members that do not fill their length are skipped too, a
    /// bad length ends the list, members too short to have one are padding and not kept, and what
    /// finds no room is ignored.
    pub unknown_len_at: Option<u32>,
    /// Pads the list to a multiple of this many bytes with zeros (end-of-list), 0 for none.
    pub pad: u32,
}

/// A member of an option union.
#[derive(Clone, Debug, PartialEq)]
pub struct OptKind {
    /// The member's name.
    pub name: String,
    /// Its format; constant fields are [`Fill::Value`] constants and select the member.
    pub blueprint: BlueprintId,
    /// True for a one-byte member that ends the list (`kind == 0`, end of option list).
    pub ends_list: bool,
}

/// `seg_rule r(x) [BP::field, first, mid, last, only]`.
///
/// Expressions see the rule's arguments ([`crate::ExprKind::RuleArg`]) and the previous packet's
/// blueprint ([`crate::Base::Blueprint`]).
#[derive(Clone, Debug, PartialEq)]
pub struct SegRule {
    /// Its name.
    pub name: String,
    /// Number of arguments.
    pub args: u16,
    /// The blueprint that it belongs to.
    pub blueprint: BlueprintId,
    /// The field that it sets, in the image.
    pub field: Place,
    /// For the first of several packets.
    pub first: Expr,
    /// For those between.
    pub mid: Expr,
    /// For the last of several.
    pub last: Expr,
    /// For a packet that is the only one.
    pub only: Expr,
}

/// `coalesce BP (a, b) { … }`: whether the later packet replaces the earlier.
#[derive(Clone, Debug, PartialEq)]
pub struct Coalesce {
    /// The blueprint.
    pub blueprint: BlueprintId,
    /// Takes the two images by reference, returns `bool`.
    pub func: FuncId,
}

/// A packet queue of a `sched`.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    /// `sched.queue`; `default` for the first.
    pub name: String,
    /// How it serves its packets.
    pub policy: QueuePolicy,
    /// Priority among the queues of its block, 0 first.
    pub prio: u32,
}

/// How a queue serves its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueuePolicy {
    /// In order.
    Fifo,
    /// By `rank`, least first.
    Rank,
    /// Paced by a rate, one queue per flow.
    RatePerFlow,
    /// Paced by a rate, together.
    Rate,
}

impl QueuePolicy {
    /// As programs write it.
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
    /// Its name.
    pub name: String,
    /// Number of arguments.
    pub args: u32,
    /// True when it may stand in parsers and shims only, and returns a value.
    pub pure_: bool,
    /// The event that answers an effectful one.
    pub answer: Option<EventId>,
}

impl Module {
    /// The `GLOBAL` context whose memory has this type, if there is one.
    #[must_use]
    pub fn global_of(&self, ty: &Ty) -> Option<ContextId> {
        let is_it =
            |context: &Context| context.granularity == Granularity::Global && *ty == Ty::Struct(context.body);
        let index = self.contexts.iter().position(is_it)?;
        Some(ContextId(index as u32))
    }

    /// A structure by index.
    #[must_use]
    pub fn structure(&self, id: StructId) -> &Struct {
        &self.structs[id.0 as usize]
    }

    /// Bytes of an event, its header included.
    #[must_use]
    pub fn event_size(&self, id: EventId) -> usize {
        self.structure(self.events[id.0 as usize].body).size as usize
    }

    /// Bytes of a context, its header included.
    #[must_use]
    pub fn context_size(&self, id: ContextId) -> usize {
        self.structure(self.contexts[id.0 as usize].body).size as usize
    }

    /// The parser for a source.
    #[must_use]
    pub fn parser(&self, source: Source) -> Option<(usize, &Parser)> {
        self.parsers.iter().enumerate().find(|(_, p)| p.source == source)
    }

    /// The maximum number of steps of a chain or a parser, with the name of its event or function.
    #[must_use]
    pub fn max_steps(&self) -> Option<(u64, &str)> {
        let chains = self.events.iter().zip(&self.chains);
        let chains = chains.map(|(event, chain)| (chain.bounds.steps, event.name.as_str()));
        let name = |parser: &Parser| self.funcs[parser.func.0 as usize].name.as_str();
        let parsers = self.parsers.iter().map(|parser| (parser.steps, name(parser)));
        chains.chain(parsers).max_by_key(|(steps, _)| *steps)
    }

    /// The list with this index.
    #[must_use]
    pub fn opt_list(&self, id: OptListId) -> &OptList {
        &self.opt_lists[id.0 as usize]
    }

    /// For each option list, the size in bytes of its largest member: [`Layout::member_size`](crate::Layout::member_size).
    #[must_use]
    pub fn member_sizes(&self) -> Vec<u32> {
        let size = |kind: &OptKind| {
            let blueprint = &self.blueprints[kind.blueprint.0 as usize];
            self.structure(blueprint.body).size
        };
        let largest = |list: &OptList| list.members.iter().map(size).max().unwrap_or(0);
        self.opt_lists.iter().map(largest).collect()
    }

    /// The params' values, each the default unless `set` names it.
    ///
    /// # Errors
    /// The first name that is none of a param.
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
#[error("no param `{name}`; {program} has: {}", known.join(", "))]
pub struct UnknownParam {
    /// The name given.
    pub name: String,
    /// The program's name.
    pub program: String,
    /// The names of its params.
    pub known: Vec<String>,
}
