//! Every atomic condition of a program: the operands of `&&`, `||` and `!` wherever a truth value decides
//! something or is given a name.

use hawser_syntax::ast::{
    BinOp, Block, Declarator, Expr, ExprKind, File, Init, ItemKind, Span, Stmt, StmtKind, Type, UnOp,
};

/// Returns the conditions of a file, in order.
pub(super) fn conditions(file: &File) -> Vec<Span> {
    let mut found = Found(Vec::new());
    for item in &file.items {
        match &item.kind {
            ItemKind::Func { ret, body, .. } => found.block(body, is_bool(ret)),
            ItemKind::Coalesce { body, .. } => found.block(body, true),
            ItemKind::Import { .. }
            | ItemKind::Const { .. }
            | ItemKind::Table { .. }
            | ItemKind::Extend { .. }
            | ItemKind::Param { .. }
            | ItemKind::Enum { .. }
            | ItemKind::Struct { .. }
            | ItemKind::Event { .. }
            | ItemKind::Context { .. }
            | ItemKind::Scratchpad { .. }
            | ItemKind::Signal { .. }
            | ItemKind::Opt { .. }
            | ItemKind::OptUnion { .. }
            | ItemKind::OptList { .. }
            | ItemKind::Blueprint { .. }
            | ItemKind::NetHeader { .. }
            | ItemKind::SegRule { .. }
            | ItemKind::Sched { .. }
            | ItemKind::Extern { .. }
            | ItemKind::Dispatch { .. }
            | ItemKind::Deploy { .. }
            | ItemKind::Attach { .. } => {}
        }
    }
    found.0
}

fn is_bool(ty: &Type) -> bool {
    ty.name.name == "bool"
}

struct Found(Vec<Span>);

impl Found {
    fn block(&mut self, block: &Block, returns_bool: bool) {
        block.stmts.iter().for_each(|stmt| self.stmt(stmt, returns_bool));
    }

    fn stmt(&mut self, stmt: &Stmt, returns_bool: bool) {
        match &stmt.kind {
            StmtKind::Declare { ty, vars } => vars.iter().for_each(|var| self.declarator(var, is_bool(ty))),
            StmtKind::Assign { place: _, op: _, value } => self.value(value),
            StmtKind::Expr(expr) | StmtKind::Emit { instr: expr, .. } | StmtKind::Refuse(expr) => {
                self.inside(expr);
            }
            StmtKind::If { cond, then, otherwise } => {
                self.condition(cond);
                self.block(then, returns_bool);
                if let Some(otherwise) = otherwise {
                    self.stmt(otherwise, returns_bool);
                }
            }
            StmtKind::Match { value, arms } => {
                self.inside(value);
                arms.iter().for_each(|arm| self.block(&arm.body, returns_bool));
            }
            StmtKind::ForEach { body, .. } | StmtKind::ForRange { body, .. } => {
                self.block(body, returns_bool)
            }
            StmtKind::Return(Some(expr)) if returns_bool => self.named(expr),
            StmtKind::Return(Some(expr)) => self.inside(expr),
            StmtKind::Block(block) => self.block(block, returns_bool),
            // An assertion only observes, so negating it would not test the checks.
            StmtKind::Assert(_)
            | StmtKind::Return(None)
            | StmtKind::Break
            | StmtKind::Continue
            | StmtKind::Done
            | StmtKind::Error => {}
        }
    }

    fn declarator(&mut self, var: &Declarator, is_bool: bool) {
        match &var.init {
            Init::Value(expr) if is_bool => self.named(expr),
            Init::Value(expr) => self.inside(expr),
            Init::Args(args) => args.iter().for_each(|arg| self.inside(arg)),
            Init::None => {}
        }
    }

    /// Visits an assigned value. Its type is unknown here, so only expressions that must be truth values
    /// count.
    fn value(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Binary(op, ..) if is_logical(*op) || is_comparison(*op) => self.condition(expr),
            ExprKind::In(..) => self.condition(expr),
            _ => self.inside(expr),
        }
    }

    /// Visits a truth value that is given a name. A constant is no condition.
    fn named(&mut self, expr: &Expr) {
        if !matches!(expr.kind, ExprKind::Bool(_)) {
            self.condition(expr);
        }
    }

    /// Splits a condition into its atoms.
    fn condition(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Binary(op, a, b) if is_logical(*op) => {
                self.condition(a);
                self.condition(b);
            }
            ExprKind::Unary(UnOp::Not, a) => self.condition(a),
            ExprKind::Conditional(c, a, b) => {
                self.condition(c);
                self.named(a);
                self.named(b);
            }
            ExprKind::Bool(_) => {}
            _ => {
                self.0.push(expr.span);
                self.inside(expr);
            }
        }
    }

    /// Looks for conditions inside a value: those of `c ? a : b`, and truth values among arguments and
    /// fields.
    fn inside(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Conditional(c, a, b) => {
                self.condition(c);
                self.inside(a);
                self.inside(b);
            }
            ExprKind::Call { .. } | ExprKind::Struct { .. } => {
                expr.parts().into_iter().for_each(|part| self.value(part));
            }
            _ => expr.parts().into_iter().for_each(|part| self.inside(part)),
        }
    }
}

fn is_logical(op: BinOp) -> bool {
    matches!(op, BinOp::And | BinOp::Or)
}

fn is_comparison(op: BinOp) -> bool {
    matches!(
        op,
        BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge | BinOp::Eq | BinOp::Ne
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<&str> {
        let (file, diagnostics) = hawser_syntax::parse(source, 0);
        assert!(diagnostics.is_empty(), "{diagnostics:?}");
        conditions(&file)
            .iter()
            .map(|s| &source[s.start as usize..s.end as usize])
            .collect()
    }

    #[test]
    fn conditions_are_split_into_their_parts() {
        let source = "\
void f(c_t c) {
    if (c.a < 1 && !(c.b || c.c == 2)) done;
    bool d = c.a > 3;
    uint8 e = c.b ? 1 : 2;
    c.b = c.a >= 4;
    c.b = true;
    emit timer_start(c.t, c.d ? 1s : 2s);
}
bool g(c_t c) { return c.a == 5; }
uint8 h(c_t c) { return c.a; }
";
        let expected = [
            "c.a < 1", "c.b", "c.c == 2", "c.a > 3", "c.b", "c.a >= 4", "c.d", "c.a == 5",
        ];
        assert_eq!(texts(source), expected);
    }
}
