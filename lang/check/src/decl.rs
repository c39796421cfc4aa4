//! Declarations of variables.

use hawser_ir as ir;
use hawser_ir::{Base, Place, StmtKind, Ty};
use hawser_syntax::ast::{self, Declarator, Expr, ExprKind, Ident, Init};

use crate::body::{Body, BodyKind, Returns, Variable, region};
use crate::codes;
use crate::state::{Checker, ICMP, OP, RecordKind};
use crate::types::Type;

impl<'a> Body<'_, 'a> {
    pub(crate) fn declare(&mut self, ty: &'a ast::Type, vars: &'a [Declarator]) {
        let resolved = self.ck.resolve(ty);
        for var in vars {
            match &resolved {
                Type::Value(value) => self.declare_value(ty, value, var),
                Type::Instr => self.declare_instruction(var),
                Type::InstrList => self.declare_list(var, Variable::InstructionList),
                Type::EventList => self.declare_list(var, Variable::EventList),
                Type::Error => self.bind(&var.name, Variable::Error, None),
                Type::Void | Type::Packet | Type::NoContext => {
                    self.error(
                        codes::TYPE_NOT_HERE,
                        ty.span,
                        format!("a variable cannot be of type `{}`", ty.name.name),
                        "expected a type of values",
                    );
                    self.bind(&var.name, Variable::Error, None);
                }
            }
        }
    }

    fn declare_value(&mut self, written: &'a ast::Type, ty: &Ty, var: &'a Declarator) {
        if let Ty::Struct(id) = ty {
            let kind = self.ck.record_of(*id).map(|record| self.ck.records[record].kind);
            match kind {
                Some(RecordKind::Context(_)) => return self.declare_context(ty, var),
                Some(RecordKind::Scratchpad) => {
                    self.error_hint(
                        codes::TYPE_NOT_HERE,
                        written.span,
                        "the scratchpad cannot be declared as a variable",
                        "each packet or request has one scratchpad",
                        "take it as a parameter of the processor",
                    );
                    return self.bind(&var.name, Variable::Error, None);
                }
                None if [OP, ICMP, crate::state::EVENT].contains(id) => {
                    self.error(
                        codes::TYPE_NOT_HERE,
                        written.span,
                        format!("a variable cannot be of type `{}`", written.name.name),
                        "this type is allowed in signatures only",
                    );
                    return self.bind(&var.name, Variable::Error, None);
                }
                Some(
                    RecordKind::Struct
                    | RecordKind::Event(..)
                    | RecordKind::Signal(_)
                    | RecordKind::Opt
                    | RecordKind::Blueprint,
                )
                | None => {}
            }
        }
        let place = self.allocate(&var.name.name, ty.clone());
        match &var.init {
            Init::None => self.begin(&place),
            Init::Value(value) => self.begin_with(&place, value),
            Init::Args(args) => {
                let args: Vec<&Expr> = args.iter().collect();
                if *ty == Ty::Id {
                    self.make_id_at(&place, &args, var.name.span);
                } else {
                    let found = self.ck.show(ty);
                    self.error_hint(
                        codes::MISMATCH,
                        var.name.span,
                        format!("`{found}` cannot be made from arguments"),
                        "only ids are made from arguments",
                        "write `= e`, or set its fields",
                    );
                }
            }
        }
        // The name is known only from here on, so its own initial value does not see it.
        self.bind(&var.name, Variable::Place(place.clone()), Some("variable"));
        self.address_the_handle(&place);
    }

    /// Initialises a variable without a value. The frame is zeroed at the start, so only structures with
    /// initial values and variables in loops need code.
    fn begin(&mut self, place: &Place) {
        let record = match place.ty {
            Ty::Struct(id) => self.ck.record_of(id),
            _ => None,
        };
        let has_defaults = record.is_some_and(|record| self.ck.has_defaults(record, 0));
        if has_defaults || self.loops > 0 {
            self.push(StmtKind::Init(place.clone()));
        }
        if let Some(record) = record {
            self.computed_defaults(place, record, &[]);
        }
    }

    fn begin_with(&mut self, place: &Place, value: &'a Expr) {
        if let (ExprKind::Struct { name, fields }, Ty::Struct(id)) = (&value.kind, &place.ty) {
            let record = self.ck.record_of(*id);
            if let Some(record) = record.filter(|r| self.ck.records[*r].name == name.name) {
                self.ck.lookup(name);
                return self.fill_struct(place, record, fields);
            }
        }
        if let (Ty::Id, ExprKind::Call { callee, args, .. }) = (&place.ty, &value.kind)
            && matches!(&callee.kind, ExprKind::Name(n) if matches!(n.name.as_str(), "id_t" | "flow_id"))
        {
            let args = self.unlabelled(args);
            self.make_id_at(place, &args, value.span);
            return;
        }
        if matches!(value.kind, ExprKind::Fields(_)) {
            self.begin(place);
        }
        self.store(place, value);
    }

    /// In a shim, an event is addressed to the context bound to the handle, unless the program sets another.
    fn address_the_handle(&mut self, place: &Place) {
        let Some(op) = self.request.clone() else { return };
        if self.is_parser() && self.ck.event_of(&place.ty).is_some() {
            self.push(StmtKind::SetIds {
                event: place.clone(),
                ids: vec![crate::body::inside(&op, 0, Ty::Id)],
            });
        }
    }

    /// `T c = new_ctx{…};`
    fn declare_context(&mut self, ty: &Ty, var: &'a Declarator) {
        let fields = match &var.init {
            Init::Value(Expr { kind: ExprKind::Struct { name, fields }, .. }) if name.name == "new_ctx" => {
                fields
            }
            Init::Value(Expr { kind: ExprKind::Error, .. }) => {
                return self.bind(&var.name, Variable::Error, None);
            }
            Init::Value(_) | Init::None | Init::Args(_) => {
                let name = self.ck.show(ty);
                self.error_hint(
                    codes::NEW_CONTEXT,
                    var.name.span,
                    "a context cannot be declared as a variable",
                    "expected `= new_ctx{…}`",
                    format!(
                        "`{name} c = new_ctx{{f: v}};` creates one; an existing one is a parameter of \
                             the processor"
                    ),
                );
                return self.bind(&var.name, Variable::Error, None);
            }
        };
        if self.loops > 0 {
            self.error(
                codes::NEW_CONTEXT,
                var.name.span,
                "a context cannot be created in a loop",
                "a chain creates at most one context",
            );
        }
        let (Some(context), Ty::Struct(id)) = (self.ck.context_of(ty), ty) else {
            return;
        };
        let place = region(Base::Fresh, ty.clone());
        self.push(StmtKind::Emit(ir::Instr::NewCtx { context }));
        if let Some(record) = self.ck.record_of(*id) {
            self.store_fields(&place, record, fields);
            self.computed_defaults(&place, record, fields);
        }
        self.bind(&var.name, Variable::Place(place), None);
    }

    fn declare_instruction(&mut self, var: &'a Declarator) {
        let instruction = match &var.init {
            Init::Value(value) => {
                self.keep_arguments = true;
                let instruction = self.instruction(value, None);
                self.keep_arguments = false;
                instruction
            }
            Init::None | Init::Args(_) => {
                self.error_hint(
                    codes::INSTRUCTION_VARIABLE,
                    var.name.span,
                    format!("the instruction `{}` has no value", var.name.name),
                    "an instruction is set once, where it is declared",
                    format!("write `instr_t {} = pkt_gen(…);`", var.name.name),
                );
                None
            }
        };
        self.bind(
            &var.name,
            Variable::Instruction(instruction.map(Box::new)),
            Some("variable"),
        );
    }

    fn declare_list(&mut self, var: &'a Declarator, list: Variable) {
        let (expected, suits) = match list {
            Variable::EventList => (
                "list<event_t>",
                matches!(self.kind, BodyKind::Function(Returns::Events)),
            ),
            _ => (
                "list<instr_t>",
                matches!(self.kind, BodyKind::Function(Returns::Instructions)),
            ),
        };
        if !suits && !matches!(self.kind, BodyKind::Function(Returns::Unknown)) {
            self.error_hint(
                codes::RETURN,
                var.name.span,
                format!("a `{expected}` in a function that returns something else"),
                format!("expected in a function that returns `{expected}`"),
                if expected == "list<instr_t>" {
                    "use `emit` in other functions"
                } else {
                    "parsers return it"
                },
            );
        }
        if !matches!(var.init, Init::None) {
            self.error(
                codes::RETURN,
                var.name.span,
                "the list is empty at first",
                "expected no initial value",
            );
        }
        self.bind(&var.name, list, None);
    }

    /// Lowers the variable that is added to an event list, to a place and its event.
    pub(crate) fn add_event(&mut self, value: &'a Expr) {
        let place = match self.value(value, None) {
            crate::convert::Value::Place(place) => place,
            crate::convert::Value::Error => return,
            _ => {
                self.error(
                    codes::MISMATCH,
                    value.span,
                    "this is not an event",
                    "expected an event",
                );
                return;
            }
        };
        match self.ck.event_of(&place.ty) {
            Some(event) => self.push(StmtKind::PushEvent { event, from: place }),
            None => {
                let found = self.ck.show(&place.ty);
                self.error(
                    codes::MISMATCH,
                    value.span,
                    format!("{found} is not an event"),
                    "expected an event",
                );
            }
        }
    }

    /// Binds a parameter.
    pub(crate) fn bind_parameter(
        &mut self,
        name: &'a Ident,
        variable: Variable,
        warn: bool,
        read_only: bool,
    ) {
        self.bind(name, variable, warn.then_some("parameter"));
        if let Some(local) = self
            .scopes
            .last_mut()
            .and_then(|scope| scope.get_mut(name.name.as_str()))
        {
            local.read_only = read_only;
        }
    }
}

impl Checker<'_> {
    /// True if a structure, or a structure nested in it, has initial values other than zero.
    pub(crate) fn has_defaults(&self, record: usize, depth: u32) -> bool {
        let fields = &self.module.structs[Checker::struct_of(record).0 as usize].fields;
        depth <= crate::state::MAX_DEPTH
            && fields.iter().any(|field| {
                field.default.is_some_and(|value| value != 0)
                    || match field.ty {
                        Ty::Struct(id) => self
                            .record_of(id)
                            .is_some_and(|r| self.has_defaults(r, depth + 1)),
                        _ => false,
                    }
            })
    }
}
