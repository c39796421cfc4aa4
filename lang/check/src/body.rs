//! Lowering of one body: its scopes, its frame, and the statements written so far.
//!
//! The same machinery lowers functions, initial values, wire expressions, rules and invariants;
//! [`BodyKind`] says which. An expression may need statements before it (a temporary structure, a
//! call that returns one): they go to `out`. Only functions may keep them.

use std::collections::HashMap;

use hawser_ir as ir;
use hawser_ir::{Access, Base, BlueprintId, EventId, Expr, ExprKind, Field, Place, Stmt, StmtKind, Ty};
use hawser_syntax::ast::{self, Ident, Span};
use hawser_syntax::{Diagnostic, Hint};

use crate::codes;
use crate::index::Kind;
use crate::state::{Checker, MAX_SIZE, span};

/// What is lowered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum BodyKind {
    /// A value that is known when the program is compiled.
    Constant,
    /// A fill, a presence condition, an option list's length: over the blueprint.
    Wire,
    /// A segmentation rule of this blueprint.
    Rule(BlueprintId),
    /// `invariant`, over the context.
    Invariant,
    /// A function.
    Function(Returns),
}

/// What a function's `return` gives.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Returns {
    /// The signature was wrong: any `return` will do.
    Unknown,
    Nothing,
    Scalar(Ty),
    /// Through the last reference parameter.
    Aggregate(Ty, u16),
    /// `list<instr_t>`
    Instructions,
    /// `list<event_t>`
    Events,
    /// A shim's single event.
    Event(EventId),
}

/// What a variable is.
#[derive(Clone, Debug)]
pub(crate) enum Variable {
    Place(Place),
    /// The i-th argument of a segmentation rule.
    RuleArg(u16, Ty),
    /// The loop variable over an option list: the entry, its tag first.
    Entry(Place, ir::OptListId),
    /// `instr_t i = …`, its arguments evaluated; nothing where it is wrong.
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
    /// What a warning calls it, if it shall give one.
    pub(crate) warn: Option<&'static str>,
    /// May not be written: a parser's input.
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
    /// How many expressions are being lowered inside each other.
    pub(crate) nesting: u32,
    /// Something is wrong that somebody else has reported.
    pub(crate) poisoned: bool,
    /// The place of the statement being lowered.
    pub(crate) at: Span,
    /// The application's request in a shim.
    pub(crate) request: Option<Place>,
    /// Arguments of instructions are kept in temporaries: the instruction is issued later.
    pub(crate) keep_arguments: bool,
}

/// How deep expressions and statements may nest.
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

    /// For a value that is known when the program is compiled.
    pub(crate) fn constant(ck: &'c mut Checker<'a>) -> Body<'c, 'a> {
        Body::new(ck, BodyKind::Constant)
    }

    /// For an expression over a structure's fields, without statements.
    pub(crate) fn over(ck: &'c mut Checker<'a>, kind: BodyKind, this: Place) -> Body<'c, 'a> {
        Body { this: Some(this), ..Body::new(ck, kind) }
    }

    /// Writes a statement.
    pub(crate) fn push(&mut self, kind: StmtKind) {
        self.out.push(Stmt { span: span(self.at), kind });
    }

    /// Lowers with `lower` into a list of its own and returns the list.
    pub(crate) fn separately<T>(&mut self, lower: impl FnOnce(&mut Self) -> T) -> (T, Vec<Stmt>) {
        let outer = std::mem::take(&mut self.out);
        let result = lower(self);
        (result, std::mem::replace(&mut self.out, outer))
    }

    /// Lowers within a scope of its own, whose unused variables are reported.
    pub(crate) fn scoped<T>(&mut self, lower: impl FnOnce(&mut Self) -> T) -> T {
        self.scopes.push(HashMap::new());
        let result = lower(self);
        if let Some(scope) = self.scopes.pop() {
            self.report_unused(scope);
        }
        result
    }

    /// Reports variables that nothing reads or writes.
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
                        .label("nothing refers to it")
                        .hint(Hint::replacing(
                            format!("remove it, or call it `_{name}`"),
                            format!("_{name}"),
                        )),
                );
            }
        }
    }

    /// Makes a variable known; a second one of the name in the same scope is an error.
    pub(crate) fn bind(&mut self, name: &'a Ident, variable: Variable, warn: Option<&'static str>) {
        if name.name.is_empty() {
            return;
        }
        let kind = match self.scopes.len() {
            1 => Kind::Parameter,
            _ => Kind::Variable,
        };
        self.ck
            .note_local(name, kind, |ck| Self::show_variable(ck, &variable));
        let local = Local { variable, at: name.span, used: false, warn, read_only: false };
        // As in C, a function's parameters and its outermost block share their names.
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
            // What follows is about one of the two; which one is not known.
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

    /// The variable of this name, marked as used.
    pub(crate) fn local(&mut self, name: &Ident) -> Option<&mut Local> {
        let mut scopes = self.scopes.iter_mut().rev();
        let local = scopes.find_map(|scope| scope.get_mut(name.name.as_str()))?;
        self.ck.note_use(name.span, local.at);
        local.used = true;
        Some(local)
    }

    /// The type of a variable, as a program writes it.
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

    /// Room in the frame.
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
        self.locals
            .push(Field { name, ty: ty.clone(), offset, default: None, access: Access::default() });
        Place { base: Base::Local, offset, steps: Vec::new(), ty }
    }

    /// An unnamed variable.
    pub(crate) fn temporary(&mut self, ty: Ty) -> Place {
        self.allocate("", ty)
    }

    /// Keeps a scalar in a temporary.
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

    /// Keeps an aggregate in a temporary.
    pub(crate) fn keep_place(&mut self, place: Place) -> Place {
        let kept = self.temporary(place.ty.clone());
        self.push(StmtKind::Copy(kept.clone(), place));
        kept
    }

    /// Whether statements may stand where this is lowered; reports it where not.
    pub(crate) fn statements_allowed(&mut self, at: Span) -> bool {
        if matches!(self.kind, BodyKind::Function(_)) {
            return true;
        }
        self.ck.report(
            Diagnostic::error(
                codes::NOT_CONSTANT,
                at,
                "an expression that needs memory of its own",
            )
            .label("expected a plain expression here")
            .hint("compute it in a function"),
        );
        false
    }

    /// An error about the current body's expression.
    pub(crate) fn error(
        &mut self,
        code: &'static str,
        at: Span,
        message: impl Into<String>,
        label: impl Into<String>,
    ) {
        self.ck.report(Diagnostic::error(code, at, message).label(label));
    }

    /// An error with what to do about it.
    pub(crate) fn error_hint(
        &mut self,
        code: &'static str,
        at: Span,
        message: impl Into<String>,
        label: impl Into<String>,
        hint: impl Into<Hint>,
    ) {
        self.ck
            .report(Diagnostic::error(code, at, message).label(label).hint(hint));
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

    /// The arguments without their labels; a label is an error.
    pub(crate) fn unlabelled(&mut self, args: &'a [ast::CallArg]) -> Vec<&'a ast::Expr> {
        for arg in args {
            if let Some(label) = &arg.label {
                self.error(
                    codes::ARGUMENT_COUNT,
                    label.span,
                    format!("`{}` stands in `pkt_gen` only", label.name),
                    "expected a value",
                );
            }
        }
        args.iter().map(|arg| &arg.value).collect()
    }
}

/// What is at a place of a scalar type; a varint reads as `uint64`.
pub(crate) fn load(place: Place) -> Expr {
    let ty = place.ty.clone();
    let loaded = Expr { ty: ty.clone(), kind: ExprKind::Load(place) };
    match ty {
        Ty::Varint => Expr { ty: Ty::uint(64), kind: ExprKind::Cast(Box::new(loaded)) },
        _ => loaded,
    }
}

/// Something inside a place, `offset` bytes on.
pub(crate) fn inside(place: &Place, offset: u32, ty: Ty) -> Place {
    let mut inner = Place { ty, ..place.clone() };
    match inner.steps.last_mut() {
        Some(step) => step.offset += offset,
        None => inner.offset += offset,
    }
    inner
}

/// A place at the start of a region.
pub(crate) fn region(base: Base, ty: Ty) -> Place {
    Place { base, offset: 0, steps: Vec::new(), ty }
}
