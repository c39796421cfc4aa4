//! The contents of functions: places, expressions, statements, instructions. Each node states its facts
//! ([`crate::facts`]).
//!
//! All types are resolved, all conversions are explicit, and all names are offsets. The meaning of every node
//! is total: no node traps, and no behaviour is undefined (docs/language.md, Expressions).

use crate::abi::{ContextRec, ExternRec, NotifyRec, PacketRec, QueueRec, RaiseRec, SignalRec, TimerRec};
use crate::facts::{Exit, Home, PlaceAccess, Tail, Work};
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

nodes! {
    /// A region of bytes that a function can address.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Base: "base" {
        /// The function's own frame: locals and temporaries, zeroed on entry.
        Local;
        /// The target of the n-th reference parameter.
        Ref(n: u16);
        /// The chain's event, including its header.
        Event;
        /// The chain's keyed context, including its header.
        Keyed;
        /// The context that this chain creates.
        Fresh;
        Global(context: ContextId);
        Scratch;
        /// In segmentation rules: the blueprint of the previous packet. In wire expressions (`when`, fills):
        /// the blueprint itself.
        Blueprint;
    }
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

/// A step from a list or an array into one of its elements.
///
/// A list's `u32` length is at the place reached so far; an array has `cap` elements and no header. An index
/// at or beyond the length is harmless: reading yields zero, and writing has no effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub index: Index,
    /// The distance in bytes between two elements.
    pub stride: u32,
    /// The number of bytes before the first element.
    pub header: u32,
    /// The capacity in elements.
    pub cap: u32,
    /// The fixed offset in bytes inside the element.
    pub offset: u32,
}

nodes! {
    /// The way in which an element is selected.
    #[derive(Clone, Debug, PartialEq)]
    pub enum Index: "index" {
        /// By position.
        At(position: Box<Expr>) => value(position);
        /// By position in an array.
        Item(position: Box<Expr>) => value(position);
        /// The first entry of an option list with this tag.
        Tag(tag: u32);
        /// The element of a sorted list whose key equals this.
        Key(key: Box<Expr>, field: crate::ty::FieldRef) => value(key);
    }
}

/// A scalar value.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// The type of its value; always a scalar.
    pub ty: Ty,
    pub kind: ExprKind,
}

nodes! {
    /// The kinds of expression. Values are 64-bit registers: unsigned types zero-extended, signed ones
    /// sign-extended from their width.
    #[derive(Clone, Debug, PartialEq)]
    pub enum ExprKind: "expr" {
        /// A constant, already reduced to the type's width.
        Const(value: u64);
        /// The value of a `param` in this instance of the program.
        Param(index: u32);
        /// The table's value at an index; 0 if the index is out of range.
        Table(table: TableId, index: Box<Expr>) => value(index);
        /// The scalar at a place.
        Load(place: Place) => read(place);
        /// Reduces to the type's width: truncates or extends. `Bool` becomes `value != 0`.
        Cast(a: Box<Expr>) => value(a);
        /// Both operands have the result's type.
        Binary(op: BinOp, a: Box<Expr>, b: Box<Expr>) => node(op) value(a) value(b);
        /// Both operands have the same type, which gives signedness and circularity.
        Compare(op: CmpOp, a: Box<Expr>, b: Box<Expr>) => node(op) value(a) value(b);
        /// The operand has the result's type.
        Unary(op: UnOp, a: Box<Expr>) => node(op) value(a);
        /// `&&`: the right side is evaluated only if needed. Neither side has effects.
        And(a: Box<Expr>, b: Box<Expr>) => value(a) value(b);
        Or(a: Box<Expr>, b: Box<Expr>) => value(a) value(b);
        /// `c ? a : b`.
        Select(c: Box<Expr>, a: Box<Expr>, b: Box<Expr>) => value(c) value(a) value(b);
        /// `min`, `max` and so on. Operands have the result's type unless the builtin says otherwise.
        Builtin(function: Builtin, args: Vec<Expr>) => node(function) values(args);
        /// Equality of two aggregates of the same type without inner padding: `Ip`, `Id`, `Bytes`.
        SameBytes(a: Place, b: Place) => read(a) read(b) moves(a);
        /// True if all bytes are zero: `== NONE` of an id.
        IsZero(place: Place) => read(place) moves(place);
        /// A query of a list, window or option list.
        Query(query: Query) => node(query);
        /// SipHash-2-4 of the packed values, with the first two values as its key (docs/language.md, Built-in
        /// functions).
        KeyedHash(keys: Box<[Expr; 2]>, parts: Vec<IdPart>) => values(&**keys) hashes(parts);
        /// A call of a helper function that returns a scalar.
        Call(func: FuncId, args: Vec<Arg>) => call(*func, args);
        /// The i-th argument of the running segmentation rule.
        RuleArg(index: u16);
        /// True if a subscriber wants a signal ([`crate::buf::RecordBuf::wanted`]). The checker wraps it
        /// around the code that makes and issues the signal; no other effect may depend on it.
        Wanted(signal: SignalId);
        /// In wire expressions: a quantity of the packet being built or parsed.
        Wire(fact: WireFact) => node(fact);
    }

    /// Arithmetic in the operands' width; it wraps.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum BinOp: "binary" {
        Add;
        Sub;
        Mul;
        /// `x / 0 == 0`; `INT_MIN / -1` wraps.
        Div;
        /// `x % 0 == x`; `INT_MIN % -1 == 0`.
        Rem;
        And;
        Or;
        Xor;
        /// Shifts by the amount modulo the width.
        Shl;
        /// Shifts by the amount modulo the width; arithmetic on signed types.
        Shr;
    }

    /// Comparisons. On `seq<W>`, `<` and its relatives are circular: `a < b` if `(a - b) mod 2^W` has its top
    /// bit set; `a <= b` is `a == b || a < b`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum CmpOp: "compare" {
        Eq;
        Ne;
        Lt;
        Le;
        Gt;
        Ge;
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum UnOp: "unary" {
        /// Two's complement; wraps.
        Neg;
        /// Bitwise complement in the width.
        Not;
        /// Logical negation, of a `Bool`.
        LogicalNot;
    }

    /// Built-in functions with scalar arguments.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Builtin: "builtin" {
        /// `a < b ? a : b`; circular on `seq<W>`.
        Min;
        /// `a < b ? b : a`; circular on `seq<W>`.
        Max;
        /// `|a - b|` of two values of the type, unsigned; on `seq<W>` the shorter distance around the circle.
        AbsDiff;
        /// `a - b`, or 0 where `b > a`; unsigned types.
        SatSub;
        /// `a * b / c` with a 128-bit intermediate product, truncated to the width; 0 if `c == 0`.
        MulDiv;
        /// `unwrap(seq, ref64)`: the `uint64` nearest to `ref64` that is congruent to `seq`; of two that are
        /// equally near, the higher one (RFC 9000, A.3). The first operand is a `seq<W>`, the second operand
        /// and the result are `uint64`.
        Unwrap;
        /// The whole part of the cube root of a `uint64`.
        Cbrt;
        /// The whole part of the square root of a `uint64`.
        Sqrt;
        /// The number of leading zeros in the width.
        Clz;
        /// The number of bytes that a varint takes (RFC 9000, 16): 1, 2, 4 or 8.
        VarintLen;
    }

    /// Quantities of the packet being built or parsed.
    ///
    /// In a parser, outside any blueprint, they describe the cursor. `DataLen` is the number of bytes that
    /// remain (`p.len`), `HeaderLen` the number of bytes consumed, and `TotalLen` the sum of both.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum WireFact: "wire fact" {
        /// `len(this)`: header, options, payload and trailer bytes of this blueprint.
        TotalLen;
        /// Header bytes of this blueprint, options and padding included.
        HeaderLen;
        /// Payload bytes.
        DataLen;
    }

    /// Questions to the built-in containers, without effects.
    #[derive(Clone, Debug, PartialEq)]
    pub enum Query: "query" {
        /// The number of elements, entries or runs; of an id, the number of bytes in use.
        Len(list: Place) => read(list);
        /// `h.opts[member].valid()`: true if an entry with this tag exists.
        HasTag(list: Place, tag: u32) => searches(list);
        /// True if a sorted list has an element with this key.
        HasKey(list: Place, key: Box<Expr>) => value(key) searches(list);
        /// The position of the first element whose sort prefix is not less than the given values.
        FirstFrom(list: Place, prefix: Vec<Expr>) => values(prefix) searches(list);
        /// A window's head.
        WindowHead(window: Place) => read(window);
        /// True if `x` is set.
        WindowIsSet(window: Place, x: Box<Expr>) => value(x) searches(window);
        /// The first set position at or above `x`. If no position is set there, the end of the last run, or
        /// the head of a window without runs.
        WindowFirstSet(window: Place, x: Box<Expr>) => value(x) searches(window);
        /// The first unset position at or above both `x` and the head; positions below the head do not exist.
        WindowFirstUnset(window: Place, x: Box<Expr>) => value(x) searches(window);
        /// The start of the i-th run; 0 beyond the last.
        WindowRunFrom(window: Place, i: Box<Expr>) => value(i) read(window);
        /// The end of the i-th run, exclusive; 0 beyond the last.
        WindowRunTo(window: Place, i: Box<Expr>) => value(i) read(window);
    }

    /// An argument of a call.
    #[derive(Clone, Debug, PartialEq)]
    pub enum Arg: "argument" {
        /// Passed by value.
        Value(value: Expr) => value(value);
        /// Passed by reference: structures, lists, windows, ids, addresses.
        Ref(place: Place) => place(place, PlaceAccess::Reference);
    }

    /// A part of an id or of a hashed tuple.
    #[derive(Clone, Debug, PartialEq)]
    pub enum IdPart: "id part" {
        /// A scalar, packed into this many bytes.
        Scalar(value: Expr, bytes: u8) => value(value);
        /// An address, an id's used bytes, or `bytes<N>`.
        Bytes(place: Place) => read(place);
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    /// Its place in the source.
    pub span: Span,
    pub kind: StmtKind,
}

nodes! {
    #[derive(Clone, Debug, PartialEq)]
    pub enum StmtKind: "stmt" {
        /// Stores a scalar, truncated to the place's width.
        Store(to: Place, value: Expr) => value(value) write(to);
        /// Copies an aggregate of the same type.
        Copy(to: Place, from: Place) => read(from) write(to) moves(to);
        /// Sets all bytes to zero, then assigns the defaults of the place's structure (docs/language.md,
        /// Expressions).
        Init(to: Place) => write(to) moves(to);
        /// `id_t x(a, b, …)`.
        MakeId(to: Place, parts: Vec<IdPart>) => nodes(parts) write(to) moves(to);
        /// `data(uid, off, len, seg_size)`.
        MakeData { dst: Place, uid: Place, off: Expr, len: Expr, seg_size: Expr }
            => read(uid) values([off, len, seg_size]) write(dst) moves(dst);
        /// Sets an `ip_addr_t` from a 32-bit number (IPv4).
        MakeIpv4(to: Place, number: Expr) => value(number) write(to) moves(to);
        /// Sets an `ip_addr_t` from its first and its last eight bytes, as numbers.
        MakeIpv6(to: Place, high: Expr, low: Expr) => values([high, low]) write(to) moves(to);
        /// An operation on a container. `ok` receives true if the container had room, or if it found the
        /// element.
        Container { op: ContainerOp, ok: Option<Place> } => node(op) writes(ok);
        /// Condition, statements if it holds, statements otherwise.
        If(condition: Expr, then: Vec<Stmt>, otherwise: Vec<Stmt>)
            => value(condition) block(then) block(otherwise);
        /// Counts `var` from `from` (inclusive) to `to` (exclusive), at most `max` times. Both limits are
        /// evaluated once. An assignment to `var` does not change the count.
        For { var: Place, from: Expr, to: Expr, max: u32, body: Vec<Stmt> }
            => values([from, to]) write(var) block(body);
        /// Leaves the innermost loop.
        Break => exit(Exit::Loop);
        /// Continues with the next iteration of the innermost loop.
        Continue => exit(Exit::Loop);
        /// Ends the function. Aggregates are returned through a reference parameter.
        Return(value: Option<Expr>) => values(value) exit(Exit::Function);
        /// Calls a function for its effects.
        Call(func: FuncId, args: Vec<Arg>) => call(*func, args);
        /// Issues an instruction.
        Emit(instr: Instr) => node(instr) acts() only_in(Home::Chain);
        /// `done;`
        Done => exit(Exit::Run) only_in(Home::Chain);
        /// `refuse(code);`
        Refuse(code: Expr) => value(code) exit(Exit::Run) only_in(Home::Chain);
        /// `assert(e);`, with its index in [`crate::Module::asserts`].
        Assert(condition: Expr, index: u32) => value(condition) may_refuse() only_in(Home::Chain);
        /// `p.extract(bp);` in a parser: parses a header at the packet's cursor, verifies its fills, and
        /// moves the cursor to the payload. Failure ends the parser with an error. If `ok` is present, the
        /// statement stores success or failure there instead.
        Extract { blueprint: BlueprintId, dst: Place, ok: Option<Place> }
            => write(dst) writes(ok) work(Work::Header(*blueprint)) acts() may_refuse_without(ok)
               only_in(Home::Parser);
        /// `set_flow_id(ev, a, b, c);`
        SetIds { event: Place, ids: Vec<Place> } => reads(ids) write(event) only_in(Home::Parser);
        /// `out.add(ev);` in a parser.
        PushEvent { event: EventId, from: Place }
            => read(from) work(Work::Event(*event)) may_refuse() only_in(Home::Parser);
        /// Ends a parser and counts a dropped packet.
        Drop => exit(Exit::Run) only_in(Home::Parser);
    }

    /// Operations on the built-in containers.
    #[derive(Clone, Debug, PartialEq)]
    pub enum ContainerOp: "container" {
        /// `l.push_back(x)`: false when full.
        PushBack(list: Place, element: Operand) => node(element) changes(list);
        /// `l.pop_front()`: false when empty. The element is stored in the second place.
        PopFront(list: Place, to: Option<Place>) => changes(list) writes(to);
        /// Empties a list or an option list.
        Clear(list: Place) => changes(list);
        /// `l.put(x)`: inserts in order, behind equal elements, or replaces the element with the same key;
        /// false when full. Unused slots of a container are zero, so that equal containers have equal bytes.
        Put(list: Place, element: Operand) => node(element) changes(list);
        /// `l.remove(key)`: false when absent.
        Remove(list: Place, key: Expr) => value(key) changes(list);
        /// `w.set(a, b)`: sets the part of [a, b) that is not below the head. It is false (and changes no
        /// position) if that would need more runs than the window has.
        WindowSet(window: Place, a: Expr, b: Expr) => values([a, b]) changes(window);
        /// `w.unset(a, b)`: false (and no change) if that would need more runs than the window has.
        WindowUnset(window: Place, a: Expr, b: Expr) => values([a, b]) changes(window);
        /// `w.slide(to)`: moves the head up to `to` and forgets all positions below it. A fresh window (head
        /// 0, no runs) can be moved to any position, so that a window over `seq<W>` can be placed. Otherwise
        /// a `to` at or below the head has no effect.
        WindowSlide(window: Place, to: Expr) => value(to) changes(window);
        /// `opts.add(member{…})`: appends an entry; false when full.
        OptionAdd(list: Place, member: OptMember, from: Place) => read(from) changes(list);
    }

    /// A value of any type, as an operand.
    #[derive(Clone, Debug, PartialEq)]
    pub enum Operand: "operand" {
        Value(value: Expr) => value(value);
        Ref(place: Place) => read(place);
    }
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

nodes! {
    /// The transport instructions (docs/language.md, Instructions; the MTP paper, Table 1), with their names
    /// in the language. Fields are the instructions' arguments, in the MTP paper's order and names.
    #[derive(Clone, Debug, PartialEq)]
    pub enum Instr: "instr" {
        NewTxOrderedData = "new_tx_ordered_data" { size: Expr, uid: Uid, addr: Expr }
            => unit(uid) values([addr, size]);
        AddTxData = "add_tx_data" { addr: Expr, len: Expr, uid: Uid }
            => unit(uid) values([addr, len]);
        TxFlushAndNotify = "tx_flush_and_notify" { uid: Uid, len: Expr }
            => unit(uid) value(len);
        NewRxOrderedData = "new_rx_ordered_data" { size: Expr, uid: Uid, addr: Expr, cap: Expr }
            => unit(uid) values([addr, size, cap]);
        AddRxDataSeg = "add_rx_data_seg" { addr: Expr, len: Expr, uid: Uid, off: Expr }
            => unit(uid) values([addr, len, off]);
        RxFlushAndNotify = "rx_flush_and_notify" { uid: Uid, len: Expr, addr: Expr }
            => unit(uid) values([addr, len]);
        DelTxOrderedData = "del_tx_ordered_data" { uid: Uid } => unit(uid);
        DelRxOrderedData = "del_rx_ordered_data" { uid: Uid } => unit(uid);
        /// The place of the blueprint's `data_t`, if it has one.
        PktGen = "pkt_gen" {
            net: Place,
            blueprint: BlueprintId,
            bp: Place,
            rules: Vec<(RuleId, Vec<Expr>)>,
            queue: QueueId,
            /// The rank in a RANK queue. In a queue with a rate, the number of bytes that each packet counts
            /// as.
            rank: Option<Expr>,
        } => reads([net, bp]) values(rank) values(rules.iter().flat_map(|(_, args)| args))
             record(size_of::<PacketRec>()) tail(Tail::Image(*blueprint));
        /// Also stores `now + dur` in the timer's field. The sum saturates and is at least 1, because 0 means
        /// "not armed". The field's place identifies the context that owns the timer: the keyed, the fresh or
        /// a `GLOBAL` context.
        TimerStart = "timer_start" { timer: Place, index: u32, dur: Expr }
            => value(dur) write(timer) record(size_of::<TimerRec>());
        /// Also stores 0 in the timer's field.
        TimerStop = "timer_stop" { timer: Place, index: u32 }
            => write(timer) record(size_of::<TimerRec>());
        /// Takes effect where `new_ctx` is reached. It sets the slot to its defaults and its id to the first
        /// id of the event that was not found. The engine has put that id into the slot's header beforehand.
        NewCtx = "new_ctx" { context: ContextId } => record(size_of::<ContextRec>());
        /// `on` selects the context. If no context was found, this and every other instruction refers to the
        /// fresh context once it exists ([`crate::abi::ON_FRESH`]). If a context was found, units are those
        /// of [`Uid::of`]. Packets, instructions about their queues, and further ids refer to the fresh
        /// context once it exists.
        DelCtx = "del_ctx" { on: Base } => about_context() record(size_of::<ContextRec>());
        AddId = "add_id" { id: Place }
            => read(id) about_context() record(size_of::<ContextRec>());
        DropId = "drop_id" { id: Place }
            => read(id) about_context() record(size_of::<ContextRec>());
        Notify = "notify" { on: Base, code: u32, error: Option<Expr>, id: Option<Place>, args: Vec<Expr> }
            => values(error) reads(id) values(args) about_context() record(size_of::<NotifyRec>());
        /// With a target, the event is for the context with that id; the id `NONE` selects no keyed context.
        /// Without a target, the event is for the chain's context.
        Raise = "raise" { event: EventId, from: Place, target: Option<Place> }
            => reads(target) place(from, PlaceAccess::Update) record(size_of::<RaiseRec>()) tail(Tail::Event(*event));
        Signal = "signal" { signal: SignalId, from: Place }
            => read(from) record(size_of::<SignalRec>()) tail(Tail::Signal(*signal));
        SetQueueRate = "set_queue_rate" { queue: QueueId, rate: Expr }
            => value(rate) record(size_of::<QueueRec>());
        SetQueuePrio = "set_queue_prio" { queue: QueueId, prio: Expr }
            => value(prio) record(size_of::<QueueRec>());
        QueueReset = "queue_reset" { queue: QueueId } => record(size_of::<QueueRec>());
        /// A call of an extern; each extern has its own name.
        Extern = "extern" { callee: ExternId, args: Vec<Expr> }
            => values(args) record(size_of::<ExternRec>()) tail(Tail::Numbers(args.len()));
    }
}
