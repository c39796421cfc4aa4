//! Every operator of a program's functions that can be exchanged for a neighbour.

use hawser_syntax::ast::{
    BinOp, Block, Declarator, Expr, ExprKind, File, Init, ItemKind, Span, Stmt, StmtKind,
};

/// Returns the operations of a file, each with another operator, in order.
pub(super) fn exchanges(file: &File, text: &str) -> Vec<(Span, String)> {
    let mut found = Found { text, exchanges: Vec::new() };
    for item in &file.items {
        if let ItemKind::Func { body, .. } | ItemKind::Coalesce { body, .. } = &item.kind {
            found.block(body);
        }
    }
    found.exchanges
}

/// Returns an operator's neighbour: bounds move by one, sums and products are inverted. `==`, `!=`, `&&` and
/// `||` have no neighbour, because they are negated as conditions.
fn neighbour(op: BinOp) -> Option<(&'static str, &'static str)> {
    match op {
        BinOp::Lt => Some(("<", "<=")),
        BinOp::Le => Some(("<=", "<")),
        BinOp::Gt => Some((">", ">=")),
        BinOp::Ge => Some((">=", ">")),
        BinOp::Add => Some(("+", "-")),
        BinOp::Sub => Some(("-", "+")),
        BinOp::Mul => Some(("*", "/")),
        BinOp::Div => Some(("/", "*")),
        BinOp::Shl => Some(("<<", ">>")),
        BinOp::Shr => Some((">>", "<<")),
        BinOp::Rem
        | BinOp::Eq
        | BinOp::Ne
        | BinOp::BitAnd
        | BinOp::BitXor
        | BinOp::BitOr
        | BinOp::And
        | BinOp::Or => None,
    }
}

struct Found<'a> {
    text: &'a str,
    exchanges: Vec<(Span, String)>,
}

impl Found<'_> {
    fn block(&mut self, block: &Block) {
        block.stmts.iter().for_each(|stmt| self.stmt(stmt));
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Declare { ty: _, vars } => {
                vars.iter().for_each(|Declarator { init, .. }| match init {
                    Init::Value(expr) => self.expr(expr),
                    Init::Args(args) => args.iter().for_each(|arg| self.expr(arg)),
                    Init::None => {}
                });
            }
            StmtKind::Assign { place: _, op: _, value } => self.expr(value),
            StmtKind::Expr(expr) | StmtKind::Emit { instr: expr, .. } | StmtKind::Return(Some(expr)) => {
                self.expr(expr);
            }
            StmtKind::If { cond, then, otherwise } => {
                self.expr(cond);
                self.block(then);
                if let Some(otherwise) = otherwise {
                    self.stmt(otherwise);
                }
            }
            StmtKind::Match { value, arms } => {
                self.expr(value);
                arms.iter().for_each(|arm| self.block(&arm.body));
            }
            StmtKind::ForEach { body, .. } => self.block(body),
            StmtKind::ForRange { from, to, body, .. } => {
                self.expr(from);
                self.expr(to);
                self.block(body);
            }
            StmtKind::Block(block) => self.block(block),
            StmtKind::Assert(_)
            | StmtKind::Refuse(_)
            | StmtKind::Return(None)
            | StmtKind::Break
            | StmtKind::Continue
            | StmtKind::Done
            | StmtKind::Error => {}
        }
    }

    fn expr(&mut self, expr: &Expr) {
        if let ExprKind::Binary(op, a, b) = &expr.kind
            && let Some((operator, other)) = neighbour(*op)
        {
            self.exchange(expr.span, a.span, b.span, operator, other);
        }
        expr.parts().into_iter().for_each(|part| self.expr(part));
    }

    /// Replaces the operator between two operands, which may stand in parentheses.
    fn exchange(&mut self, at: Span, left: Span, right: Span, operator: &str, other: &str) {
        let (start, end) = (left.end as usize, right.start as usize);
        let Some(between) = self.text.get(start..end) else {
            return;
        };
        if let Some(place) = between.find(operator) {
            let from = start + place;
            let whole = |range: std::ops::Range<usize>| self.text.get(range).unwrap_or_default();
            let before = whole(at.start as usize..from);
            let after = whole(from + operator.len()..at.end as usize);
            self.exchanges.push((at, format!("{before}{other}{after}")));
        }
    }
}
