//! What functions are made of: places, expressions, statements, instructions.
//!
//! All types are resolved, all conversions explicit, all names are offsets. The meaning of each
//! node is total: nothing traps, nothing is undefined (docs/language.md, Expressions).

use crate::module::{
    BlueprintId, ContextId, EventId, ExternId, FuncId, OptMember, QueueId, RuleId, SignalId, TableId,
};
use crate::ty::Ty;

/// A place in the source: file number and byte range, for line marks and messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Span {
    /// Index in [`crate::Module::files`].
    pub file: u32,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

/// A region of bytes that a function can address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    /// The function's own frame: locals and temporaries, zeroed on entry.
    Local,
    /// What the n-th reference parameter refers to.
    Ref(u16),
    /// The chain's event, its header included.
    Event,
    /// The chain's keyed context, its header included.
    Keyed,
    /// The context that this chain creates.
    Fresh,
    /// A `GLOBAL` context.
    Global(ContextId),
    /// The scratchpad.
    Scratch,
    /// In segmentation rules: the blueprint as it was for the previous packet. In wire
    /// expressions (`when`, fills): the blueprint itself.
    Blueprint,
}

/// A value in memory: a region, a fixed offset, and what is added at run time.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The region.
    pub base: Base,
    /// Fixed offset in bytes.
    pub offset: u32,
    /// List elements passed through; empty for most places.
    pub steps: Vec<Step>,
    /// What is there.
    pub ty: Ty,
}

/// Goes from a list to something inside one of its elements.
///
/// The list's `u32` length is at the place reached so far. An index that is not below it leads
/// nowhere: reading gives zero, writing does nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Which element.
    pub index: Index,
    /// Bytes from one element to the next.
    pub stride: u32,
    /// Bytes from the list's start to its first element.
    pub header: u32,
    /// The maximum number of elements that the list has room for.
    pub cap: u32,
    /// Fixed offset inside the element.
    pub offset: u32,
}

/// How an element is found.
#[derive(Clone, Debug, PartialEq)]
pub enum Index {
    /// By position.
    At(Box<Expr>),
    /// The first entry of an option list with this tag.
    Tag(u32),
    /// The element of a sorted list whose key equals this.
    Key(Box<Expr>, crate::ty::FieldRef),
}

/// A scalar value.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// Its type; always a scalar.
    pub ty: Ty,
    /// How it comes about.
    pub kind: ExprKind,
}

/// The kinds of expression. Values are 64-bit registers: unsigned types zero-extended, signed
/// ones sign-extended from their width.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// A constant, already reduced to the type's width.
    Const(u64),
    /// A `param`'s value for this instance of the program.
    Param(u32),
    /// A value of a table, by its index; 0 for an index that is not below their number.
    Table(TableId, Box<Expr>),
    /// The scalar at a place.
    Load(Place),
    /// Reduces to the type's width: truncates or extends. `Bool` becomes `value != 0`.
    Cast(Box<Expr>),
    /// Both operands have the result's type.
    Binary(BinOp, Box<Expr>, Box<Expr>),
    /// Both operands have the same type, which gives signedness and circularity.
    Compare(CmpOp, Box<Expr>, Box<Expr>),
    /// The operand has the result's type.
    Unary(UnOp, Box<Expr>),
    /// `&&`: the right side is evaluated only if needed (it has no effects either way).
    And(Box<Expr>, Box<Expr>),
    /// `||`.
    Or(Box<Expr>, Box<Expr>),
    /// `c ? a : b`.
    Select(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `min`, `max`, …; operands have the result's type unless the builtin says otherwise.
    Builtin(Builtin, Vec<Expr>),
    /// Equality of two aggregates of the same type without inner padding: `Ip`, `Id`, `Bytes`.
    SameBytes(Place, Place),
    /// Whether all bytes are zero: `== NONE` of an id.
    IsZero(Place),
    /// A query of a list, window or option list.
    Query(Query),
    /// SipHash-2-4 under the first two values over the packed rest (docs/language.md, Built-in functions).
    KeyedHash(Box<[Expr; 2]>, Vec<IdPart>),
    /// A call of a helper function that returns a scalar.
    Call(FuncId, Vec<Arg>),
    /// The i-th argument of the running segmentation rule.
    RuleArg(u16),
    /// Whether anybody asked for a signal ([`crate::buf::RecordBuf::wanted`]). The checker puts it
    /// around what makes and issues the signal; no other effect may depend on it.
    Wanted(SignalId),
    /// In wire expressions: a quantity of the packet being built or taken apart.
    Wire(WireFact),
}

/// Arithmetic in the operands' width, wrapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinOp {
    /// Wraps.
    Add,
    /// Wraps.
    Sub,
    /// Wraps.
    Mul,
    /// `x / 0 == 0`; `INT_MIN / -1` wraps.
    Div,
    /// `x % 0 == x`; `INT_MIN % -1 == 0`.
    Rem,
    /// Bitwise.
    And,
    /// Bitwise.
    Or,
    /// Bitwise.
    Xor,
    /// By the amount modulo the width.
    Shl,
    /// Arithmetic on signed types; by the amount modulo the width.
    Shr,
}

/// Comparisons; `<` and the like are circular on `seq<W>`: `a < b` when `(a - b) mod 2^W` has
/// its top bit set; `a <= b` is `a == b || a < b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum CmpOp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// Unary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnOp {
    /// Two's complement; wraps.
    Neg,
    /// Bitwise complement in the width.
    Not,
    /// Logical; on `Bool`.
    LogicalNot,
}

/// Functions of the language with scalar arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Builtin {
    /// `a < b ? a : b`; circular on `seq<W>`.
    Min,
    /// `a < b ? b : a`; circular on `seq<W>`.
    Max,
    /// `|a - b|` of two values of the type, unsigned; on `seq<W>` the shorter way round.
    AbsDiff,
    /// `a - b`, or 0 where `b > a`; unsigned types.
    SatSub,
    /// `a * b / c` with a 128-bit middle, truncated to the width; 0 where `c == 0`.
    MulDiv,
    /// `unwrap(seq, ref64)`: the `uint64` nearest to `ref64` that is congruent to `seq`, the higher
    /// of two that are equally near (RFC 9000, A.3). The first operand is a `seq<W>`, the second
    /// and the result are `uint64`.
    Unwrap,
    /// The whole part of the cube root of a `uint64`.
    Cbrt,
    /// The whole part of the square root of a `uint64`.
    Sqrt,
    /// The number of leading zeros in the width.
    Clz,
    /// How many bytes a varint takes (RFC 9000, 16): 1, 2, 4 or 8.
    VarintLen,
}

/// Quantities of the packet being built or taken apart.
///
/// In a parser, outside any blueprint, they speak of the cursor: `DataLen` bytes remain (`p.len`),
/// `HeaderLen` were taken, `TotalLen` is both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WireFact {
    /// `len(this)`: header, options, payload and trailer bytes of this blueprint.
    TotalLen,
    /// Header bytes of this blueprint, options and padding included.
    HeaderLen,
    /// Payload bytes.
    DataLen,
}

/// Questions to the built-in containers. None has an effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Query {
    /// Number of elements, entries or runs; of an id, the bytes in use.
    Len(Place),
    /// `h.opts[member].valid()`: whether an entry with this tag is there.
    HasTag(Place, u32),
    /// Whether a sorted list has an element with this key.
    HasKey(Place, Box<Expr>),
    /// The position of the first element whose sort prefix is not below the given values.
    FirstFrom(Place, Vec<Expr>),
    /// A window's head.
    WindowHead(Place),
    /// Whether `x` is set.
    WindowIsSet(Place, Box<Expr>),
    /// The first set position not below `x`; where there is none, the end of the last run, and the
    /// head of a window without runs.
    WindowFirstSet(Place, Box<Expr>),
    /// The first unset position not below `x`, nor below the head: positions there do not exist.
    WindowFirstUnset(Place, Box<Expr>),
    /// Where the i-th run starts; 0 beyond the last.
    WindowRunFrom(Place, Box<Expr>),
    /// One past where the i-th run ends; 0 beyond the last.
    WindowRunTo(Place, Box<Expr>),
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    /// Passed by value.
    Value(Expr),
    /// Passed by reference: structures, lists, windows, ids, addresses.
    Ref(Place),
}

/// A piece of an id or of a hashed tuple.
#[derive(Clone, Debug, PartialEq)]
pub enum IdPart {
    /// A scalar, packed in this many bytes.
    Scalar(Expr, u8),
    /// An address, an id's used bytes, or `bytes<N>`.
    Bytes(Place),
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    /// Where it stands in the source.
    pub span: Span,
    /// What it does.
    pub kind: StmtKind,
}

/// The kinds of statement.
#[derive(Clone, Debug, PartialEq)]
pub enum StmtKind {
    /// Stores a scalar, truncated to the place's width.
    Store(Place, Expr),
    /// Copies an aggregate of the same type.
    Copy(Place, Place),
    /// Sets all bytes to zero, then the defaults of the place's structure (docs/language.md, Expressions).
    Init(Place),
    /// `id_t x(a, b, …)`.
    MakeId(Place, Vec<IdPart>),
    /// `data(uid, off, len, seg_size)`.
    MakeData { dst: Place, uid: Place, off: Expr, len: Expr, seg_size: Expr },
    /// Sets an `ip_addr_t` from a 32-bit number (IPv4).
    MakeIpv4(Place, Expr),
    /// An operation on a container; `ok` receives whether it had room, or found something.
    Container { op: ContainerOp, ok: Option<Place> },
    /// Two-way branch.
    If(Expr, Vec<Stmt>, Vec<Stmt>),
    /// Counts `var` from `from` to below `to`, both taken once, at most `max` times. Assigning to
    /// `var` does not change the count.
    For { var: Place, from: Expr, to: Expr, max: u32, body: Vec<Stmt> },
    /// Leaves the innermost loop.
    Break,
    /// Goes on with the next round of the innermost loop.
    Continue,
    /// Ends the function; aggregates are returned through a reference parameter.
    Return(Option<Expr>),
    /// Calls a function for its effects.
    Call(FuncId, Vec<Arg>),
    /// Issues an instruction.
    Emit(Instr),
    /// `done;`
    Done,
    /// `refuse(code);`
    Refuse(Expr),
    /// `assert(e);`: its index in [`crate::Module::asserts`].
    Assert(Expr, u32),
    /// `p.extract(bp);` in a parser: takes a header apart at the packet's cursor, verifies its
    /// fills, and moves the cursor to its payload. Failure ends the parser with an error. With
    /// `ok` it stores whether it worked instead.
    Extract { blueprint: BlueprintId, dst: Place, ok: Option<Place> },
    /// `set_flow_id(ev, a, b, c);`
    SetIds { event: Place, ids: Vec<Place> },
    /// `out.add(ev);` in a parser.
    PushEvent { event: EventId, from: Place },
    /// Ends a parser with a counted drop.
    Drop,
}

/// Operations on the built-in containers.
#[derive(Clone, Debug, PartialEq)]
pub enum ContainerOp {
    /// `l.push_back(x)`: false when full.
    PushBack(Place, Operand),
    /// `l.pop_front()`: false when empty; the element goes to the second place.
    PopFront(Place, Option<Place>),
    /// Empties a list or an option list.
    Clear(Place),
    /// `l.put(x)`: inserts in order, behind its equals, or replaces the element of equal key; false
    /// when full. Slots that a container does not use are zero, so equal ones are equal bytes.
    Put(Place, Operand),
    /// `l.remove(key)`: false when absent.
    Remove(Place, Expr),
    /// `w.set(a, b)`: sets [a, b), or what of it is not below the head; false (and no change) when a run too many would be needed.
    WindowSet(Place, Expr, Expr),
    /// `w.unset(a, b)`: false (and no change) when a run too many would be needed.
    WindowUnset(Place, Expr, Expr),
    /// `w.slide(to)`: moves the head up to `to` and forgets what lies below. A fresh window (head 0,
    /// no runs) goes anywhere, so that one over `seq<W>` can be placed; otherwise a `to` that is
    /// not above the head changes nothing.
    WindowSlide(Place, Expr),
    /// `opts.add(member{…})`: appends an entry; false when full.
    OptionAdd(Place, OptMember, Place),
}

/// A value of any type, as an operand.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A scalar.
    Value(Expr),
    /// An aggregate.
    Ref(Place),
}

/// The id of a data unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Uid {
    /// Where the id is.
    pub id: Place,
    /// The context that has the unit, where the program took the id from one (`c.self`). Otherwise
    /// the unit is the fresh context's once the chain has made one, and the keyed one's before.
    pub of: Option<Place>,
}

/// The transport instructions (docs/language.md, Instructions; the MTP paper, Table 1).
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // Fields are the instructions' arguments, in the MTP paper's order and names.
pub enum Instr {
    NewTxOrderedData {
        size: Expr,
        uid: Uid,
        addr: Expr,
    },
    AddTxData {
        addr: Expr,
        len: Expr,
        uid: Uid,
    },
    TxFlushAndNotify {
        uid: Uid,
        len: Expr,
    },
    NewRxOrderedData {
        size: Expr,
        uid: Uid,
        addr: Expr,
        cap: Expr,
    },
    AddRxDataSeg {
        addr: Expr,
        len: Expr,
        uid: Uid,
        off: Expr,
    },
    RxFlushAndNotify {
        uid: Uid,
        len: Expr,
        addr: Expr,
    },
    DelTxOrderedData {
        uid: Uid,
    },
    DelRxOrderedData {
        uid: Uid,
    },
    /// `data` is the place of the blueprint's `data_t`, if it has one.
    PktGen {
        net: Place,
        blueprint: BlueprintId,
        bp: Place,
        rules: Vec<(RuleId, Vec<Expr>)>,
        queue: QueueId,
        /// The rank in a RANK queue; in a queue with a rate, the bytes that each packet counts as.
        rank: Option<Expr>,
    },
    /// Stores `now + dur` in the timer's field, too: saturating, and at least 1, because 0 means
    /// "not armed". The field's place says whose timer it is: that of the keyed, the fresh or a `GLOBAL` context.
    TimerStart {
        timer: Place,
        index: u32,
        dur: Expr,
    },
    /// Stores 0 in the timer's field.
    TimerStop {
        timer: Place,
        index: u32,
    },
    /// Runs when `new_ctx` is reached: sets the slot to its defaults and its id to the event's
    /// first unfound one (which the engine put into the slot's header beforehand).
    NewCtx {
        context: ContextId,
    },
    /// `on` says which context. Where nothing was found, this and every other instruction speaks of
    /// the fresh context, once there is one ([`crate::abi::ON_FRESH`]). Where one was found, units are
    /// those of [`Uid::of`]; packets, what concerns their queues, and further ids are the fresh context's
    /// once there is one.
    DelCtx {
        on: Base,
    },
    AddId {
        id: Place,
    },
    DropId {
        id: Place,
    },
    Notify {
        on: Base,
        code: u32,
        error: Option<Expr>,
        id: Option<Place>,
        args: Vec<Expr>,
    },
    /// With a target the event is for the context with that id, for no keyed one where the id is `NONE`;
    /// without one for that of the chain.
    Raise {
        event: EventId,
        from: Place,
        target: Option<Place>,
    },
    Signal {
        signal: SignalId,
        from: Place,
    },
    SetQueueRate {
        queue: QueueId,
        rate: Expr,
    },
    SetQueuePrio {
        queue: QueueId,
        prio: Expr,
    },
    QueueReset {
        queue: QueueId,
    },
    Extern {
        callee: ExternId,
        args: Vec<Expr>,
    },
}
