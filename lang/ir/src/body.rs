//! The contents of functions: places, expressions, statements, instructions.
//!
//! All types are resolved, all conversions are explicit, and all names are offsets. The meaning of every node
//! is total: no node traps, and no behaviour is undefined (docs/language.md, Expressions).

use crate::module::{
    BlueprintId, ContextId, EventId, ExternId, FuncId, OptMember, QueueId, RuleId, SignalId, TableId,
};
use crate::ty::Ty;

/// A range of the source text, for line marks and messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Span {
    /// Index in [`crate::Module::files`].
    pub file: u32,
    /// Offset of the first byte.
    pub start: u32,
    /// Offset one past the last byte.
    pub end: u32,
}

/// A region of bytes that a function can address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    /// The function's own frame: locals and temporaries, zeroed on entry.
    Local,
    /// The target of the n-th reference parameter.
    Ref(u16),
    /// The chain's event, including its header.
    Event,
    /// The chain's keyed context, including its header.
    Keyed,
    /// The context that this chain creates.
    Fresh,
    Global(ContextId),
    Scratch,
    /// In segmentation rules: the blueprint of the previous packet. In wire expressions (`when`, fills): the
    /// blueprint itself.
    Blueprint,
}

/// A value in memory: a region, a fixed offset, and offsets added at run time.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    pub base: Base,
    /// Fixed offset in bytes.
    pub offset: u32,
    /// The list elements on the path to the value; empty for most places.
    pub steps: Vec<Step>,
    pub ty: Ty,
}

/// A step from a list into one of its elements.
///
/// The list's `u32` length is at the place reached so far. An index at or beyond the length is harmless:
/// reading yields zero, and writing has no effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub index: Index,
    /// The distance in bytes between two elements.
    pub stride: u32,
    /// The number of bytes before the list's first element.
    pub header: u32,
    /// The list's capacity in elements.
    pub cap: u32,
    /// The fixed offset in bytes inside the element.
    pub offset: u32,
}

/// The way in which an element is selected.
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
    /// The type of its value; always a scalar.
    pub ty: Ty,
    pub kind: ExprKind,
}

/// The kinds of expression. Values are 64-bit registers: unsigned types zero-extended, signed
/// ones sign-extended from their width.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// A constant, already reduced to the type's width.
    Const(u64),
    /// The value of a `param` in this instance of the program.
    Param(u32),
    /// The table's value at an index; 0 if the index is out of range.
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
    /// `&&`: the right side is evaluated only if needed. Neither side has effects.
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    /// `c ? a : b`.
    Select(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `min`, `max` and so on. Operands have the result's type unless the builtin says otherwise.
    Builtin(Builtin, Vec<Expr>),
    /// Equality of two aggregates of the same type without inner padding: `Ip`, `Id`, `Bytes`.
    SameBytes(Place, Place),
    /// True if all bytes are zero: `== NONE` of an id.
    IsZero(Place),
    /// A query of a list, window or option list.
    Query(Query),
    /// SipHash-2-4 of the packed values, with the first two values as its key (docs/language.md, Built-in
    /// functions).
    KeyedHash(Box<[Expr; 2]>, Vec<IdPart>),
    /// A call of a helper function that returns a scalar.
    Call(FuncId, Vec<Arg>),
    /// The i-th argument of the running segmentation rule.
    RuleArg(u16),
    /// True if a subscriber wants a signal ([`crate::buf::RecordBuf::wanted`]). The checker wraps it around
    /// the code that makes and issues the signal; no other effect may depend on it.
    Wanted(SignalId),
    /// In wire expressions: a quantity of the packet being built or parsed.
    Wire(WireFact),
}

/// Arithmetic in the operands' width; it wraps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinOp {
    Add,
    Sub,
    Mul,
    /// `x / 0 == 0`; `INT_MIN / -1` wraps.
    Div,
    /// `x % 0 == x`; `INT_MIN % -1 == 0`.
    Rem,
    And,
    Or,
    Xor,
    /// Shifts by the amount modulo the width.
    Shl,
    /// Shifts by the amount modulo the width; arithmetic on signed types.
    Shr,
}

/// Comparisons. On `seq<W>`, `<` and its relatives are circular: `a < b` if `(a - b) mod 2^W` has its top bit
/// set; `a <= b` is `a == b || a < b`.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnOp {
    /// Two's complement; wraps.
    Neg,
    /// Bitwise complement in the width.
    Not,
    /// Logical negation, of a `Bool`.
    LogicalNot,
}

/// Built-in functions with scalar arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Builtin {
    /// `a < b ? a : b`; circular on `seq<W>`.
    Min,
    /// `a < b ? b : a`; circular on `seq<W>`.
    Max,
    /// `|a - b|` of two values of the type, unsigned; on `seq<W>` the shorter distance around the circle.
    AbsDiff,
    /// `a - b`, or 0 where `b > a`; unsigned types.
    SatSub,
    /// `a * b / c` with a 128-bit intermediate product, truncated to the width; 0 if `c == 0`.
    MulDiv,
    /// `unwrap(seq, ref64)`: the `uint64` nearest to `ref64` that is congruent to `seq`; of two that are
    /// equally near, the higher one (RFC 9000, A.3). The first operand is a `seq<W>`, the second operand and
    /// the result are `uint64`.
    Unwrap,
    /// The whole part of the cube root of a `uint64`.
    Cbrt,
    /// The whole part of the square root of a `uint64`.
    Sqrt,
    /// The number of leading zeros in the width.
    Clz,
    /// The number of bytes that a varint takes (RFC 9000, 16): 1, 2, 4 or 8.
    VarintLen,
}

/// Quantities of the packet being built or parsed.
///
/// In a parser, outside any blueprint, they describe the cursor. `DataLen` is the number of bytes that remain
/// (`p.len`), `HeaderLen` the number of bytes consumed, and `TotalLen` the sum of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WireFact {
    /// `len(this)`: header, options, payload and trailer bytes of this blueprint.
    TotalLen,
    /// Header bytes of this blueprint, options and padding included.
    HeaderLen,
    /// Payload bytes.
    DataLen,
}

/// Questions to the built-in containers, without effects.
#[derive(Clone, Debug, PartialEq)]
pub enum Query {
    /// The number of elements, entries or runs; of an id, the number of bytes in use.
    Len(Place),
    /// `h.opts[member].valid()`: true if an entry with this tag exists.
    HasTag(Place, u32),
    /// True if a sorted list has an element with this key.
    HasKey(Place, Box<Expr>),
    /// The position of the first element whose sort prefix is not less than the given values.
    FirstFrom(Place, Vec<Expr>),
    /// A window's head.
    WindowHead(Place),
    /// True if `x` is set.
    WindowIsSet(Place, Box<Expr>),
    /// The first set position at or above `x`. If no position is set there, the end of the last run, or the
    /// head of a window without runs.
    WindowFirstSet(Place, Box<Expr>),
    /// The first unset position at or above both `x` and the head; positions below the head do not exist.
    WindowFirstUnset(Place, Box<Expr>),
    /// The start of the i-th run; 0 beyond the last.
    WindowRunFrom(Place, Box<Expr>),
    /// The end of the i-th run, exclusive; 0 beyond the last.
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

/// A part of an id or of a hashed tuple.
#[derive(Clone, Debug, PartialEq)]
pub enum IdPart {
    /// A scalar, packed into this many bytes.
    Scalar(Expr, u8),
    /// An address, an id's used bytes, or `bytes<N>`.
    Bytes(Place),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    /// Its place in the source.
    pub span: Span,
    pub kind: StmtKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum StmtKind {
    /// Stores a scalar, truncated to the place's width.
    Store(Place, Expr),
    /// Copies an aggregate of the same type.
    Copy(Place, Place),
    /// Sets all bytes to zero, then assigns the defaults of the place's structure (docs/language.md,
    /// Expressions).
    Init(Place),
    /// `id_t x(a, b, …)`.
    MakeId(Place, Vec<IdPart>),
    /// `data(uid, off, len, seg_size)`.
    MakeData { dst: Place, uid: Place, off: Expr, len: Expr, seg_size: Expr },
    /// Sets an `ip_addr_t` from a 32-bit number (IPv4).
    MakeIpv4(Place, Expr),
    /// An operation on a container. `ok` receives true if the container had room, or if it found the element.
    Container { op: ContainerOp, ok: Option<Place> },
    /// Condition, statements if it holds, statements otherwise.
    If(Expr, Vec<Stmt>, Vec<Stmt>),
    /// Counts `var` from `from` (inclusive) to `to` (exclusive), at most `max` times. Both limits are
    /// evaluated once. An assignment to `var` does not change the count.
    For { var: Place, from: Expr, to: Expr, max: u32, body: Vec<Stmt> },
    /// Leaves the innermost loop.
    Break,
    /// Continues with the next iteration of the innermost loop.
    Continue,
    /// Ends the function. Aggregates are returned through a reference parameter.
    Return(Option<Expr>),
    /// Calls a function for its effects.
    Call(FuncId, Vec<Arg>),
    /// Issues an instruction.
    Emit(Instr),
    /// `done;`
    Done,
    /// `refuse(code);`
    Refuse(Expr),
    /// `assert(e);`, with its index in [`crate::Module::asserts`].
    Assert(Expr, u32),
    /// `p.extract(bp);` in a parser: parses a header at the packet's cursor, verifies its fills, and moves
    /// the cursor to the payload. Failure ends the parser with an error. If `ok` is present, the statement
    /// stores success or failure there instead.
    Extract { blueprint: BlueprintId, dst: Place, ok: Option<Place> },
    /// `set_flow_id(ev, a, b, c);`
    SetIds { event: Place, ids: Vec<Place> },
    /// `out.add(ev);` in a parser.
    PushEvent { event: EventId, from: Place },
    /// Ends a parser and counts a dropped packet.
    Drop,
}

/// Operations on the built-in containers.
#[derive(Clone, Debug, PartialEq)]
pub enum ContainerOp {
    /// `l.push_back(x)`: false when full.
    PushBack(Place, Operand),
    /// `l.pop_front()`: false when empty. The element is stored in the second place.
    PopFront(Place, Option<Place>),
    /// Empties a list or an option list.
    Clear(Place),
    /// `l.put(x)`: inserts in order, behind equal elements, or replaces the element with the same key; false
    /// when full. Unused slots of a container are zero, so that equal containers have equal bytes.
    Put(Place, Operand),
    /// `l.remove(key)`: false when absent.
    Remove(Place, Expr),
    /// `w.set(a, b)`: sets the part of [a, b) that is not below the head. It is false (and changes no
    /// position) if that would need more runs than the window has.
    WindowSet(Place, Expr, Expr),
    /// `w.unset(a, b)`: false (and no change) if that would need more runs than the window has.
    WindowUnset(Place, Expr, Expr),
    /// `w.slide(to)`: moves the head up to `to` and forgets all positions below it. A fresh window (head 0,
    /// no runs) can be moved to any position, so that a window over `seq<W>` can be placed. Otherwise a `to`
    /// at or below the head has no effect.
    WindowSlide(Place, Expr),
    /// `opts.add(member{…})`: appends an entry; false when full.
    OptionAdd(Place, OptMember, Place),
}

/// A value of any type, as an operand.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    Value(Expr),
    Ref(Place),
}

/// The id of a data unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Uid {
    /// The place of the id.
    pub id: Place,
    /// The context that owns the unit, if the program took the id from a context (`c.self`). Otherwise the
    /// unit belongs to the fresh context once the chain has created one, and to the keyed context before
    /// that.
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
    /// The place of the blueprint's `data_t`, if it has one.
    PktGen {
        net: Place,
        blueprint: BlueprintId,
        bp: Place,
        rules: Vec<(RuleId, Vec<Expr>)>,
        queue: QueueId,
        /// The rank in a RANK queue. In a queue with a rate, the number of bytes that each packet counts as.
        rank: Option<Expr>,
    },
    /// Also stores `now + dur` in the timer's field. The sum saturates and is at least 1, because 0 means
    /// "not armed". The field's place identifies the context that owns the timer: the keyed, the fresh or a
    /// `GLOBAL` context.
    TimerStart {
        timer: Place,
        index: u32,
        dur: Expr,
    },
    /// Also stores 0 in the timer's field.
    TimerStop {
        timer: Place,
        index: u32,
    },
    /// Takes effect where `new_ctx` is reached. It sets the slot to its defaults and its id to the first id
    /// of the event that was not found. The engine has put that id into the slot's header beforehand.
    NewCtx {
        context: ContextId,
    },
    /// `on` selects the context. If no context was found, this and every other instruction refers to the
    /// fresh context once it exists ([`crate::abi::ON_FRESH`]). If a context was found, units are those of
    /// [`Uid::of`]. Packets, instructions about their queues, and further ids refer to the fresh context once
    /// it exists.
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
    /// With a target, the event is for the context with that id; the id `NONE` selects no keyed context.
    /// Without a target, the event is for the chain's context.
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
