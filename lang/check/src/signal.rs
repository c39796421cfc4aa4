//! Signals, which are made and issued only if a subscriber wants them.

use hawser_ir::visit::{PlaceAccess, StmtEffects, Visitor, visit_block};
use hawser_ir::{Arg, Base, Expr, ExprKind, FuncId, Instr, Place, SignalId, Stmt, StmtKind, Ty};
use hawser_syntax::ast;

use crate::body::Body;
use crate::codes;
use crate::convert::Value;
use crate::state::{RecordKind, span};

impl<'a> Body<'_, 'a> {
    /// `signal(name{…})`
    pub(crate) fn signal(&mut self, signal: &'a ast::Expr) -> Option<Instr> {
        let value = self.value(signal, None);
        if let Value::Place(from) = &value
            && let Some(RecordKind::Signal(index)) = self.ck.kind_of(&from.ty)
        {
            self.ck.signalled.insert(index);
            let from = self.kept_place(from.clone());
            return Some(Instr::Signal { signal: SignalId(index), from });
        }
        if !matches!(value, Value::Error) {
            self.error(
                codes::SIGNAL,
                signal.span,
                "this is not a signal",
                "expected a signal: `name{f: v}`",
            );
        }
        None
    }

    /// Issues an instruction after the statements that make its operands. Those of a signal run only if it is
    /// wanted, unless they have other effects: a subscription must not change anything else.
    pub(crate) fn issue(&mut self, instruction: Instr, operands: Vec<Stmt>) {
        let Instr::Signal { signal, .. } = instruction else {
            self.out.extend(operands);
            self.push(StmtKind::Emit(instruction));
            return;
        };
        let mut wanted = operands;
        if !wanted.iter().all(only_sets_a_variable) {
            self.out.append(&mut wanted);
        }
        wanted.push(Stmt { span: span(self.at), kind: StmtKind::Emit(instruction) });
        let condition = Expr { ty: Ty::Bool, kind: ExprKind::Wanted(signal) };
        self.push(StmtKind::If(condition, wanted, Vec::new()));
    }
}

/// True if a statement's only effect is to set a variable of the function; it may read anything.
fn only_sets_a_variable(stmt: &Stmt) -> bool {
    struct Others(bool);
    impl Visitor<'_> for Others {
        fn stmt(&mut self, stmt: &Stmt) {
            self.0 |= stmt.kind.effects() != StmtEffects::default();
        }
        fn place(&mut self, place: &Place, access: PlaceAccess) {
            self.0 |= access.writes() && place.base != Base::Local;
        }
        fn call(&mut self, _: FuncId, _: &[Arg]) {
            self.0 = true;
        }
    }
    let mut others = Others(false);
    visit_block(&mut others, std::slice::from_ref(stmt));
    !others.0
}
