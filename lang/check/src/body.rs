//! Lowering of one body: its scopes, its frame, and the statements written so far.
//!
//! The same machinery lowers functions, initial values, wire expressions, rules and invariants, as
//! [`BodyKind`] says. An expression may need statements before it, such as for a temporary structure or a
//! call that returns one. They go to `out`; only functions may keep them.

use std::collections::HashMap;

use hawser_ir as ir;
use hawser_ir::visit::{self, Visitor};
use hawser_ir::{
    AccessRights, Arg, Base, BlueprintId, EventId, Expr, ExprKind, Field, FuncId, Index, Place, Stmt,
    StmtKind, Ty,
};
use hawser_syntax::ast::{self, Ident, Span};
use hawser_syntax::{Diagnostic, Hint};

use crate::codes;
use crate::fold;
use crate::index::DefKind;
use crate::state::{Checker, MAX_SIZE, span};

/// The kind of body that is lowered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum BodyKind {
    /// A value that is known at compile time.
    Constant,
    /// A fill, a presence condition or the length of an option list, over the blueprint.
    Wire,
    /// A segmentation rule of this blueprint.
    Rule(BlueprintId),
    /// `invariant`, over the context.
    Invariant,
    /// A function.
    Function(Returns),
}

/// The result of a function.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Returns {
    /// The signature was wrong, so any `return` is accepted.
    Unknown,
    Nothing,
    Scalar(Ty),
    /// An aggregate, returned through the last reference parameter.
    Aggregate(Ty, u16),
    /// `list<instr_t>`
    Instructions,
    /// `list<event_t>`
    Events,
    /// The single event of a shim.
    Event(EventId),
}

/// The meaning of a variable's name.
#[derive(Clone, Debug)]
pub(crate) enum Variable {
    Place(Place),
    /// The i-th argument of a segmentation rule.
    RuleArg(u16, Ty),
    /// The loop variable over an option list: the entry, its tag first.
    Entry(Place, ir::OptListId),
    /// `instr_t i = …`, with its arguments evaluated; `None` if it is wrong.
    Instruction(Option<Box<ir::Instr>>),
    InstructionList,
    EventList,
    Packet,
    NoContext,
    Error,
}

#[derive(Debug)]
pub(crate) struct Local {
    pub(crate) variable: Variable,
    pub(crate) at: Span,
    pub(crate) used: bool,
    /// The word for the variable in a warning, if it is to cause one.
    pub(crate) warn: Option<&'static str>,
    /// True for a parser's input, which may not be written.
    pub(crate) read_only: bool,
}

/// The state of lowering.
pub(crate) struct Body<'c, 'a> {
    pub(crate) ck: &'c mut Checker<'a>,
    pub(crate) kind: BodyKind,
    pub(crate) out: Vec<Stmt>,
    pub(crate) scopes: Vec<HashMap<&'a str, Local>>,
    pub(crate) locals: Vec<Field>,
    pub(crate) frame: u32,
    /// A structure whose fields can be named without a prefix.
    pub(crate) this: Option<Place>,
    pub(crate) loops: u32,
    /// The number of expressions that are being lowered inside each other.
    pub(crate) nesting: u32,
    /// True if something is wrong that has been reported elsewhere.
    pub(crate) poisoned: bool,
    /// The place of the statement being lowered.
    pub(crate) at: Span,
    /// The application's request, in a shim.
    pub(crate) request: Option<Place>,
    /// True if the arguments of instructions are kept in temporaries, because the instruction is issued
    /// later.
    pub(crate) keep_arguments: bool,
}

/// The maximum nesting depth of expressions and statements.
pub(crate) const MAX_NESTING: u32 = hawser_syntax::MAX_HEIGHT + 2 * hawser_syntax::MAX_DEPTH;

impl<'c, 'a> Body<'c, 'a> {
    pub(crate) fn new(ck: &'c mut Checker<'a>, kind: BodyKind) -> Body<'c, 'a> {
        Body {
            ck,
            kind,
            out: Vec::new(),
            scopes: vec![HashMap::new()],
            locals: Vec::new(),
            frame: 0,
            this: None,
            loops: 0,
            nesting: 0,
            poisoned: false,
            at: Span::default(),
            request: None,
            keep_arguments: false,
        }
    }

    /// Creates a body for a value that is known at compile time.
    pub(crate) fn constant(ck: &'c mut Checker<'a>) -> Body<'c, 'a> {
        Body::new(ck, BodyKind::Constant)
    }

    /// Creates a body for an expression over a structure's fields, without statements.
    pub(crate) fn over(ck: &'c mut Checker<'a>, kind: BodyKind, this: Place) -> Body<'c, 'a> {
        Body { this: Some(this), ..Body::new(ck, kind) }
    }

    pub(crate) fn push(&mut self, kind: StmtKind) {
        self.out.push(Stmt { span: span(self.at), kind });
    }

    /// Runs `lower` with a statement list of its own, and returns that list.
    pub(crate) fn separately<T>(&mut self, lower: impl FnOnce(&mut Self) -> T) -> (T, Vec<Stmt>) {
        let outer = std::mem::take(&mut self.out);
        let result = lower(self);
        (result, std::mem::replace(&mut self.out, outer))
    }

    /// Runs `lower` in a scope of its own, and reports unused variables.
    pub(crate) fn scoped<T>(&mut self, lower: impl FnOnce(&mut Self) -> T) -> T {
        self.scopes.push(HashMap::new());
        let result = lower(self);
        if let Some(scope) = self.scopes.pop() {
            self.report_unused(scope);
        }
        result
    }

    /// Reports variables that are neither read nor written.
    pub(crate) fn report_unused(&mut self, scope: HashMap<&'a str, Local>) {
        for (name, local) in scope {
            if let (Some(what), false, false) = (local.warn, local.used, name.starts_with('_')) {
                let code = if what == "parameter" {
                    codes::UNUSED_PARAMETER
                } else {
                    codes::UNUSED_VARIABLE
                };
                self.ck.report(
                    Diagnostic::warning(code, local.at, format!("the {what} `{name}` is not used"))
                        .label("no statement refers to it")
                        .hint(Hint::replacing(
                            format!("remove it, or call it `_{name}`"),
                            format!("_{name}"),
                        )),
                );
            }
        }
    }

    /// Declares a variable. A second one of the same name in the same scope is an error.
    pub(crate) fn bind(&mut self, name: &'a Ident, variable: Variable, warn: Option<&'static str>) {
        if name.name.is_empty() {
            return;
        }
        let kind = match self.scopes.len() {
            1 => DefKind::Parameter,
            _ => DefKind::Variable,
        };
        self.ck
            .note_local(name, kind, |ck| Self::show_variable(ck, &variable));
        let local = Local { variable, at: name.span, used: false, warn, read_only: false };
        // As in C, a function's parameters and its outermost block share one scope for names.
        let in_function = matches!(self.kind, BodyKind::Function(_)) && self.scopes.len() == 2;
        let parameter = self
            .scopes
            .first()
            .filter(|_| in_function)
            .and_then(|scope| scope.get(name.name.as_str()));
        let parameter = parameter.map(|parameter| parameter.at);
        let Some(scope) = self.scopes.last_mut() else {
            return;
        };
        if let Some(first) = scope.get(name.name.as_str()).map(|first| first.at).or(parameter) {
            // Later uses refer to one of the two; it is unknown to which.
            let unclear = Local {
                variable: Variable::Error,
                at: name.span,
                used: true,
                warn: None,
                read_only: false,
            };
            scope.insert(&name.name, unclear);
            self.ck.report(
                Diagnostic::error(
                    codes::DEFINED_TWICE,
                    name.span,
                    format!("`{}` is declared twice", name.name),
                )
                .label("expected a name that is free in this block")
                .related(first, "first declared here")
                .hint("rename one of them"),
            );
            return;
        }
        scope.insert(&name.name, local);
    }

    /// Returns the variable of this name, and marks it as used.
    pub(crate) fn local(&mut self, name: &Ident) -> Option<&mut Local> {
        let mut scopes = self.scopes.iter_mut().rev();
        let local = scopes.find_map(|scope| scope.get_mut(name.name.as_str()))?;
        self.ck.note_use(name.span, local.at);
        local.used = true;
        Some(local)
    }

    /// Returns the type of a variable as a program writes it.
    fn show_variable(checker: &Checker<'a>, variable: &Variable) -> String {
        match variable {
            Variable::Place(place) => checker.show(&place.ty),
            Variable::RuleArg(_, ty) => checker.show(ty),
            Variable::Entry(..) | Variable::Error => String::new(),
            Variable::Instruction(_) => "instr_t".to_owned(),
            Variable::InstructionList => "list<instr_t>".to_owned(),
            Variable::EventList => "list<event_t>".to_owned(),
            Variable::Packet => "pkt_t".to_owned(),
            Variable::NoContext => "no_ctx".to_owned(),
        }
    }

    /// Allocates a variable in the frame.
    pub(crate) fn allocate(&mut self, name: &str, ty: Ty) -> Place {
        let (size, align) = (self.ck.layout().size(&ty), self.ck.layout().align(&ty).max(1));
        let offset = self.frame.next_multiple_of(align);
        if u64::from(offset) + u64::from(size) > MAX_SIZE {
            if u64::from(self.frame) <= MAX_SIZE {
                self.ck.too_large(self.at);
                self.frame = MAX_SIZE as u32 + 1;
            }
            return Place { base: Base::Local, offset: 0, steps: Vec::new(), ty };
        }
        self.frame = offset + size;
        let name = if name.is_empty() {
            format!("t{}", self.locals.len())
        } else {
            name.to_owned()
        };
        self.locals.push(Field {
            name,
            ty: ty.clone(),
            offset,
            default: None,
            access: AccessRights::default(),
        });
        Place { base: Base::Local, offset, steps: Vec::new(), ty }
    }

    /// Allocates an unnamed variable.
    pub(crate) fn temporary(&mut self, ty: Ty) -> Place {
        self.allocate("", ty)
    }

    /// Stores a scalar in a temporary.
    pub(crate) fn keep(&mut self, value: Expr) -> Expr {
        match value.kind {
            ExprKind::Const(_) | ExprKind::Param(_) => value,
            _ => {
                let place = self.temporary(value.ty.clone());
                self.push(StmtKind::Store(place.clone(), value));
                load(place)
            }
        }
    }

    /// Copies an aggregate into a temporary.
    pub(crate) fn keep_place(&mut self, place: Place) -> Place {
        let kept = self.temporary(place.ty.clone());
        self.push(StmtKind::Copy(kept.clone(), place));
        kept
    }

    /// Returns a place whose indices are evaluated here, once. It may stand several times, also behind
    /// statements that change what an index depends on.
    pub(crate) fn frozen(&mut self, mut place: Place) -> Place {
        for step in &mut place.steps {
            let index = match &mut step.index {
                Index::At(index) | Index::Item(index) | Index::Key(index, _) => index,
                Index::Tag(_) => continue,
            };
            let value = std::mem::replace(&mut **index, fold::constant(0, Ty::Bool));
            **index = self.keep(value);
        }
        place
    }

    /// Returns a place that may stand several times in one expression: if an index calls a function, the
    /// indices are evaluated here.
    pub(crate) fn repeatable(&mut self, place: Place) -> Place {
        match place_calls(&place) && matches!(self.kind, BodyKind::Function(_)) {
            true => self.frozen(place),
            false => place,
        }
    }

    /// Returns true if statements may stand at this point, and reports an error otherwise.
    pub(crate) fn statements_allowed(&mut self, at: Span) -> bool {
        if matches!(self.kind, BodyKind::Function(_)) {
            return true;
        }
        self.ck.report(
            Diagnostic::error(codes::NOT_CONSTANT, at, "this expression needs memory of its own")
                .label("expected a plain expression here")
                .hint("compute the value in a function"),
        );
        false
    }

    /// Reports an error about the current body's expression.
    pub(crate) fn error(
        &mut self,
        code: &'static str,
        at: Span,
        message: impl Into<String>,
        label: impl Into<String>,
    ) {
        self.ck.error(code, at, message, label);
    }

    /// Reports an error with a hint.
    pub(crate) fn error_hint(
        &mut self,
        code: &'static str,
        at: Span,
        message: impl Into<String>,
        label: impl Into<String>,
        hint: impl Into<Hint>,
    ) {
        self.ck.error_hint(code, at, message, label, hint);
    }

    /// Reports a wrong number of arguments.
    pub(crate) fn argument_count(&mut self, at: Span, name: &str, expected: &str, found: usize) {
        let plural = if found == 1 { "" } else { "s" };
        self.error(
            codes::ARGUMENT_COUNT,
            at,
            format!("`{name}` is given {found} argument{plural}"),
            format!("expected {expected}"),
        );
    }

    /// Returns the arguments without labels; a label is an error.
    pub(crate) fn unlabelled(&mut self, args: &'a [ast::CallArg]) -> Vec<&'a ast::Expr> {
        for arg in args {
            if let Some(label) = &arg.label {
                self.error(
                    codes::ARGUMENT_COUNT,
                    label.span,
                    format!("`{}` is allowed in `pkt_gen` only", label.name),
                    "expected a value",
                );
            }
        }
        args.iter().map(|arg| &arg.value).collect()
    }
}

/// Loads the value at a place of a scalar type; a varint is read as `uint64`.
pub(crate) fn load(place: Place) -> Expr {
    let ty = place.ty.clone();
    let loaded = Expr { ty: ty.clone(), kind: ExprKind::Load(place) };
    match ty {
        Ty::Varint => Expr { ty: Ty::uint(64), kind: ExprKind::Cast(Box::new(loaded)) },
        _ => loaded,
    }
}

/// True if an expression calls a function, which may change what other expressions read.
pub(crate) fn calls(expr: &Expr) -> bool {
    let mut calls = Calls(false);
    visit::visit_expr(&mut calls, expr);
    calls.0
}

/// True if an index of a place calls a function.
pub(crate) fn place_calls(place: &Place) -> bool {
    let mut calls = Calls(false);
    for step in &place.steps {
        visit::visit_node(&mut calls, &step.index);
    }
    calls.0
}

struct Calls(bool);

impl Visitor<'_> for Calls {
    fn call(&mut self, _: FuncId, _: &[Arg]) {
        self.0 = true;
    }
}

/// Returns a place inside another, at an offset in bytes.
pub(crate) fn inside(place: &Place, offset: u32, ty: Ty) -> Place {
    let mut inner = Place { ty, ..place.clone() };
    match inner.steps.last_mut() {
        Some(step) => step.offset += offset,
        None => inner.offset += offset,
    }
    inner
}

/// Returns a place at the start of a region.
pub(crate) fn region(base: Base, ty: Ty) -> Place {
    Place { base, offset: 0, steps: Vec::new(), ty }
}
