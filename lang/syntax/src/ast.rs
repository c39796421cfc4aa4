//! The syntax tree: the parser's output and the checker's input.
//!
//! Every node keeps its span. Names are unresolved. The tree follows the source closely, in the MTP paper's
//! terms, without any desugaring.

/// A range of the source text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub struct Span {
    /// Index of the file in the [`crate::SourceMap`].
    pub file: u32,
    /// Offset of the first byte.
    pub start: u32,
    /// Offset one past the last byte.
    pub end: u32,
}

/// A name at its place in the source.
#[derive(Clone, Debug, PartialEq)]
pub struct Ident {
    pub name: String,
    pub span: Span,
}

/// One source file.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct File {
    /// The declarations, in order.
    pub items: Vec<Item>,
    /// Comments such as `//= RFC9293 3.10.7.4`: the trimmed text after `//=`, and its place.
    pub citations: Vec<(String, Span)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    pub span: Span,
    pub kind: ItemKind,
}

/// The kinds of top-level declaration.
#[derive(Clone, Debug, PartialEq)]
pub enum ItemKind {
    /// `import "file.mtp";`
    Import { path: String, path_span: Span },
    /// `const T NAME = e;`
    Const { ty: Type, name: Ident, value: Expr },
    /// `const T NAME[N] = {a, b, …};`: a table of constants; `N` may be omitted.
    Table { ty: Type, name: Ident, size: Option<Expr>, values: Vec<Expr> },
    /// `param T NAME = e;`
    Param { ty: Type, name: Ident, value: Expr },
    /// `enum name : T { A, B = 3 }`
    Enum { name: Ident, repr: Option<Type>, variants: Vec<(Ident, Option<Expr>)> },
    /// `struct name { … }`
    Struct { name: Ident, fields: Vec<Field> },
    /// `event name : KIND { … }`
    Event { name: Ident, kind: Ident, fields: Vec<Field> },
    /// `context name { … }`
    Context { name: Ident, members: Vec<Member> },
    /// `scratchpad_t name { … }` or `scratchpad { … }`
    Scratchpad { name: Option<Ident>, members: Vec<Member> },
    /// `extend context name { … }`: more members of something that is declared elsewhere.
    Extend { of: Extended, name: Ident, members: Vec<Member> },
    /// `signal name { … }`
    Signal { name: Ident, fields: Vec<Field> },
    /// `opt_t name { … }`: an option or a frame.
    Opt { name: Ident, fields: Vec<Field> },
    /// `opt_union name { a, b }`
    OptUnion { name: Ident, members: Vec<Ident> },
    /// `opt_list name { uint32 len = e; uint32 type_select = 8; pad 4; list<u, 6> opts; }`
    OptList { name: Ident, fields: Vec<Field>, pad: Option<Expr> },
    /// `pkt_bp name { … }`
    Blueprint { name: Ident, fields: Vec<Field> },
    /// `net_header name { … }`: names the fields of the built-in network header that the program uses.
    NetHeader { name: Ident, fields: Vec<Field> },
    /// `seg_rule r(x) [BP::f, first, mid, last, only];`
    SegRule {
        name: Ident,
        params: Vec<Ident>,
        blueprint: Ident,
        field: Ident,
        values: Vec<Expr>,
    },
    /// `coalesce BP (a, b) { … }`
    Coalesce { blueprint: Ident, a: Ident, b: Ident, body: Block },
    /// `sched nic = PRIO(8) { q0: RANK, q1: RATE(PER_FLOW) };`
    Sched {
        name: Ident,
        policy: Ident,
        args: Vec<Expr>,
        queues: Vec<(Ident, Ident, Vec<Expr>)>,
    },
    /// `extern T name(params);` or `extern instr_t name(params) -> event;`
    Extern { ret: Type, name: Ident, params: Vec<Param>, answer: Option<Ident> },
    /// `T name(params) { … }`: a helper, processor, parser or shim.
    Func { ret: Type, name: Ident, params: Vec<Param>, body: Block },
    /// `dispatch name { … }`
    Dispatch { name: Ident, entries: Vec<DispatchEntry> },
    /// `deploy { register_…(…); }`
    Deploy { calls: Vec<RegisterCall> },
    /// `attach name before anchor;`, `attach name after anchor;`
    Attach { processor: Ident, side: Side, anchor: Ident },
}

/// The kinds of declaration to which `extend` can add members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Extended {
    Context,
    Event,
    Scratchpad,
    Struct,
}

/// The side of a named processor on which an attached processor runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Directly before it.
    Before,
    /// Directly after it.
    After,
}

/// `name(args);` in `deploy`; an argument may be preceded by `select`.
#[derive(Clone, Debug, PartialEq)]
pub struct RegisterCall {
    /// `register_…`
    pub name: Ident,
    /// The arguments; `select e` is [`ExprKind::Unary`] with [`UnOp::Select`].
    pub args: Vec<Expr>,
}

/// A line of a dispatch table.
#[derive(Clone, Debug, PartialEq)]
pub struct DispatchEntry {
    /// True for `chain name = {…};`, false for `event -> {…};`.
    pub is_chain: bool,
    /// The name of the event or of the chain.
    pub name: Ident,
    /// The processors and chains, in order.
    pub processors: Vec<Listed>,
}

/// A processor or a chain in a dispatch table: `cubic`, or `cubic(primary)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// The name of the processor or chain.
    pub name: Ident,
    /// The name of the part that it runs on, if the type has several parts.
    pub part: Option<Ident>,
}

/// A parameter; `no_ctx` has no name.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    pub ty: Type,
    pub name: Option<Ident>,
}

/// A member of a context or a scratchpad.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant)] // nearly all members are fields
pub enum Member {
    /// An ordinary field, with its access.
    Field(Field),
    /// `timer_t rtx -> tcp_rtx;`
    Timer { name: Ident, event: Option<Ident>, span: Span },
    /// `part cc_t cc;`
    Part { ty: Ident, name: Ident },
    /// `invariant e;`
    Invariant { expr: Expr, span: Span },
}

/// A field declaration; `T a, b;` yields one field for each name.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub span: Span,
    /// `observable`, `modifiable(min, max)` or both, before the type.
    pub access: FieldAccess,
    pub ty: Type,
    pub name: Ident,
    /// `= e`: the initial value. On the wire, a constant or a fill.
    pub init: Option<Expr>,
    /// `when (e)`: the condition for its presence on the wire.
    pub when: Option<Expr>,
    /// `count(e)`: the number of repetitions of a field on the wire.
    pub count: Option<Expr>,
    /// `over (pseudo, this)`, `over (this mask{a, b})`.
    pub over: Option<Vec<OverTerm>>,
}

/// A term of the range that a checksum covers.
#[derive(Clone, Debug, PartialEq)]
pub struct OverTerm {
    /// `pseudo`, `this`, or a field.
    pub name: Ident,
    /// `mask{…}`: fields that count as ones.
    pub mask: Vec<Ident>,
}

/// See [`Field::access`].
#[derive(Clone, Debug, PartialEq, Default)]
pub struct FieldAccess {
    /// `observable`
    pub observable: bool,
    /// `modifiable(min, max)`
    pub modifiable: Option<(Expr, Expr)>,
}

/// A type as written.
#[derive(Clone, Debug, PartialEq)]
pub struct Type {
    pub span: Span,
    /// `uint32`, `list` or a user's type name.
    pub name: Ident,
    /// `<…>`.
    pub args: Vec<TypeArg>,
}

/// An argument of a type.
#[derive(Clone, Debug, PartialEq)]
pub enum TypeArg {
    /// A type or a constant's name; the checker decides which.
    Type(Type),
    /// A number or constant expression.
    Value(Expr),
    /// `by (a, b)`
    By(Vec<Ident>),
    /// `key k`
    Key(Ident),
}

/// `{ … }`
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// The block's range, including both braces.
    pub span: Span,
    pub stmts: Vec<Stmt>,
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    pub span: Span,
    pub kind: StmtKind,
}

/// The kinds of statement.
#[derive(Clone, Debug, PartialEq)]
pub enum StmtKind {
    /// `T a = e, b, c(x, y);`
    Declare { ty: Type, vars: Vec<Declarator> },
    /// `place = e;` and `place += e;`. The operator is stored without its `=`.
    Assign { place: Expr, op: Option<BinOp>, value: Expr },
    /// A call for its effects.
    Expr(Expr),
    /// `emit instr;`, with `-> event` for the answer of an extern.
    Emit { instr: Expr, answer: Option<Ident> },
    /// `if (e) s else s`
    If { cond: Expr, then: Block, otherwise: Option<Box<Stmt>> },
    /// `match (e) { A, B -> s  default -> s }`
    Match { value: Expr, arms: Vec<Arm> },
    /// `for (x in list, K) { … }`
    ForEach { var: Ident, list: Expr, max: Option<Expr>, body: Block },
    /// `for (i in a..b, K) { … }`
    ForRange { var: Ident, from: Expr, to: Expr, max: Option<Expr>, body: Block },
    /// `break;`
    Break,
    /// `continue;`
    Continue,
    /// `return e;`
    Return(Option<Expr>),
    /// `done;`
    Done,
    /// `refuse(code);`
    Refuse(Expr),
    /// `assert(e);`
    Assert(Expr),
    /// `{ … }`
    Block(Block),
    /// A statement that could not be parsed; the parser has reported it.
    Error,
}

/// An arm of a `match`.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// The arm's range, from its first case to the end of its body.
    pub span: Span,
    /// The variants, each a [`ExprKind::Name`] or an [`ExprKind::Path`]; none for `default`.
    pub cases: Vec<Expr>,
    pub body: Block,
}

/// A declared variable.
#[derive(Clone, Debug, PartialEq)]
pub struct Declarator {
    pub name: Ident,
    /// `= e`, or `(args)` as in `flow_id id(a, b);`
    pub init: Init,
}

/// The initial value of a variable.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant)] // most have a value
pub enum Init {
    /// All bytes zero, or the defaults of its fields.
    None,
    /// `= e`
    Value(Expr),
    /// `(a, b, …)`
    Args(Vec<Expr>),
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    pub span: Span,
    pub kind: ExprKind,
}

impl Expr {
    /// Returns the direct subexpressions, in the order of the text.
    #[must_use]
    pub fn parts(&self) -> Vec<&Expr> {
        match &self.kind {
            ExprKind::Unary(_, a) | ExprKind::Field(a, _) => vec![a],
            ExprKind::Binary(_, a, b) | ExprKind::Index(a, b) => vec![a, b],
            ExprKind::Conditional(c, a, b) => vec![c, a, b],
            ExprKind::Fields(sources) => sources.iter().collect(),
            ExprKind::In(a, set) => std::iter::once(&**a).chain(set).collect(),
            ExprKind::Call { callee, types: _, args } => {
                let args = args.iter().map(|CallArg { label: _, value }| value);
                std::iter::once(&**callee).chain(args).collect()
            }
            ExprKind::Struct { name: _, fields } => fields.iter().map(|(_, value)| value).collect(),
            ExprKind::Int(_)
            | ExprKind::Duration(_)
            | ExprKind::Bool(_)
            | ExprKind::Str(_)
            | ExprKind::Name(_)
            | ExprKind::Path(..)
            | ExprKind::Error => Vec::new(),
        }
    }
}

/// The kinds of expression.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// `5`, `0xff`
    Int(u64),
    /// `200ms`; the value is in nanoseconds.
    Duration(u64),
    /// `true`, `false`
    Bool(bool),
    /// A string, which occurs only in imports and `explain` texts. `192.0.2.1` has no literal.
    Str(String),
    /// A name, including `INF`, `NONE`, `this` and `prev`.
    Name(Ident),
    /// `a.b`, or `a->b` as the paper writes it.
    Field(Box<Expr>, Ident),
    /// `A::b`
    Path(Ident, Ident),
    /// `a[b]`
    Index(Box<Expr>, Box<Expr>),
    /// `f(a)`, `uint32(e)`, `seq<32>(e)` (type arguments kept), `x.m(a)` (callee is a `Field`).
    Call { callee: Box<Expr>, types: Vec<TypeArg>, args: Vec<CallArg> },
    /// `name{f: v, …}`; `new_ctx{f: v, …}`.
    Struct { name: Ident, fields: Vec<(Ident, Expr)> },
    /// `{a, b}`: the fields of structures, assigned by name. Only the whole value of an assignment or of a
    /// variable has this form.
    Fields(Vec<Expr>),
    /// `!`, `-`, `~`, `select`
    Unary(UnOp, Box<Expr>),
    /// `a op b`
    Binary(BinOp, Box<Expr>, Box<Expr>),
    /// `a in {b, c}`
    In(Box<Expr>, Vec<Expr>),
    /// `c ? a : b`
    Conditional(Box<Expr>, Box<Expr>, Box<Expr>),
    /// An expression that could not be parsed; the parser has reported it.
    Error,
}

/// An argument of a call; in `pkt_gen`, `queue nic.q0`, `rank e` and `cost e` are labelled arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct CallArg {
    /// `queue`, `rank` or `cost`.
    pub label: Option<Ident>,
    pub value: Expr,
}

/// Unary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum UnOp {
    Not,
    Neg,
    BitNot,
    /// `select e`, in `deploy`.
    Select,
}

/// Binary operators, with C's precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BinOp {
    Mul,
    Div,
    Rem,
    Add,
    Sub,
    Shl,
    Shr,
    Lt,
    Le,
    Gt,
    Ge,
    Eq,
    Ne,
    BitAnd,
    BitXor,
    BitOr,
    And,
    Or,
}
