//! Warnings about constants and repetitions that are legal but probably mistakes, reported while statements
//! and expressions are lowered.

use hawser_ir as ir;
use hawser_syntax::Diagnostic;
use hawser_syntax::ast::{BinOp, Expr, ExprKind, Span, Stmt, StmtKind};

use crate::body::Body;
use crate::codes;
use crate::state::Checker;

impl Checker<'_> {
    fn warn(&mut self, code: &'static str, at: Span, message: impl Into<String>, label: impl Into<String>) {
        self.report(Diagnostic::warning(code, at, message).label(label));
    }

    /// True if two pieces of the source have the same text, ignoring blanks.
    pub(crate) fn reads_alike(&self, a: Span, b: Span) -> bool {
        let without_blanks = |at: Span| self.sources.text(at).chars().filter(|c| !c.is_whitespace());
        a != b && without_blanks(a).eq(without_blanks(b))
    }

    /// Warns of `c.x < c.x` and `c.x - c.x`. Calls are exempt, because their results may differ each time.
    pub(crate) fn warn_of_same_sides(&mut self, left: Span, right: Span) {
        if self.reads_alike(left, right) && !self.sources.text(left).contains('(') {
            self.warn(
                codes::REPEATED,
                right,
                "both sides are the same",
                "the result does not depend on the value",
            );
        }
    }

    /// Warns if both branches of a condition are the same.
    pub(crate) fn warn_of_same_ways(&mut self, a: Span, b: Span) {
        let inside = |at: Span| {
            let text: String = self
                .sources
                .text(at)
                .chars()
                .filter(|c| !c.is_whitespace())
                .collect();
            let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
            inner.map_or_else(|| text.clone(), str::to_owned)
        };
        if inside(a) == inside(b) {
            let message = "both branches are the same";
            self.warn(codes::REPEATED, b, message, "the condition has no effect");
        }
    }

    /// Warns of a condition of numbers alone, such as `1 > 2`. A condition on a named constant may switch
    /// code on and off.
    pub(crate) fn warn_of_numbers(&mut self, condition: &ir::Expr, at: Span) {
        if !self.sources.text(at).contains(char::is_alphabetic) {
            self.warn_of_constant(condition, at);
        }
    }

    /// Warns of a condition of a context or a statement that always has the same value.
    pub(crate) fn warn_of_constant(&mut self, condition: &ir::Expr, at: Span) {
        if let ir::ExprKind::Const(value) = condition.kind {
            let message = format!("this condition is always {}", value != 0);
            self.warn(
                codes::CONSTANT_COMPARISON,
                at,
                message,
                "it contains constants only",
            );
        }
    }
}

impl<'a> Body<'_, 'a> {
    /// Warns of the same condition twice in a chain of `if` and `else if`, because the second branch never
    /// runs.
    pub(crate) fn warn_of_repeated_branch(&mut self, cond: &'a Expr, mut otherwise: Option<&'a Stmt>) {
        while let Some(Stmt { kind: StmtKind::If { cond: later, otherwise: next, .. }, .. }) = otherwise {
            if !may_act(later) && self.ck.reads_alike(cond.span, later.span) {
                let message = "this condition was tested before";
                self.ck
                    .warn(codes::REPEATED, later.span, message, "this branch never runs");
            }
            otherwise = next.as_deref();
        }
    }

    /// Warns of `a && a` and `a || b || a`.
    pub(crate) fn warn_of_repeated_operand(&mut self, is_and: bool, left: &'a Expr, right: &'a Expr) {
        if may_act(right) {
            return;
        }
        let mut open = vec![left];
        while let Some(operand) = open.pop() {
            match &operand.kind {
                ExprKind::Binary(BinOp::And, a, b) if is_and => open.extend([&**a, &**b]),
                ExprKind::Binary(BinOp::Or, a, b) if !is_and => open.extend([&**a, &**b]),
                _ if self.ck.reads_alike(operand.span, right.span) => {
                    let message = "this operand appears twice";
                    self.ck.warn(
                        codes::REPEATED,
                        right.span,
                        message,
                        "the second one has no effect",
                    );
                    return;
                }
                _ => {}
            }
        }
    }

    /// Warns of `c.x = c.x;`.
    pub(crate) fn warn_of_own_value(&mut self, target: &'a Expr, value: &'a Expr) {
        if !may_act(value) && self.ck.reads_alike(target.span, value.span) {
            let message = "this assigns a variable to itself";
            self.ck.warn(
                codes::REPEATED,
                value.span,
                message,
                "the assignment has no effect",
            );
        }
    }

    /// Warns of `c.x = 1; c.x = 2;` if `c.x` is not read in between.
    pub(crate) fn warn_of_lost_value(&mut self, stmts: &'a [Stmt]) {
        for (number, stmt) in stmts.iter().enumerate() {
            if let StmtKind::Assign { place, value, .. } = &stmt.kind
                && !may_act(place)
                && !may_act(value)
                && !matches!(value.kind, ExprKind::Fields(_))
                && self.is_replaced(place, stmts[number + 1..].iter().take(NEAR))
            {
                let (message, label) = ("this value is never read", "the variable is assigned again first");
                self.ck.warn(codes::LOST_VALUE, place.span, message, label);
            }
        }
    }

    /// True if a place is certainly assigned again before a statement reads it.
    fn is_replaced<'s>(&self, place: &Expr, behind: impl Iterator<Item = &'s Stmt>) -> bool {
        let own = own_names(place);
        for stmt in behind {
            let StmtKind::Assign { place: other, op, value } = &stmt.kind else {
                return false;
            };
            if may_act(other) || may_act(value) || names(value, &own) || reads_whole(value, root_name(place))
            {
                return false;
            }
            if self.ck.reads_alike(place.span, other.span) {
                return op.is_none() && !matches!(value.kind, ExprKind::Fields(_));
            }
            // One place is used to find the other, or is part of it.
            if names(other, &own) || names(place, &own_names(other)) {
                return false;
            }
        }
        false
    }

    /// Warns of a position that no list of this size has.
    pub(crate) fn warn_of_position(&mut self, position: &ir::Expr, cap: u32, at: Span) {
        self.warn_beyond(position, u64::from(cap), "list", at);
    }

    /// Warns of a constant position beyond the `room` of a list or a table.
    pub(crate) fn warn_beyond(&mut self, position: &ir::Expr, room: u64, what: &str, at: Span) {
        if let ir::ExprKind::Const(value) = position.kind
            && value >= room
        {
            let label = format!("the {what} has room for {room}, the first is at 0");
            let message = format!("this position is beyond the end of the {what}");
            self.ck.warn(codes::OUT_OF_RANGE, at, message, label);
        }
    }

    /// Warns of a shift by the width or more.
    pub(crate) fn warn_of_shift(&mut self, amount: &ir::Expr, bits: u8, at: Span) {
        if let ir::ExprKind::Const(value) = amount.kind
            && value >= u64::from(bits)
        {
            let label = format!("the left side has {bits} bits; the amount is taken modulo {bits}");
            self.ck.warn(
                codes::OUT_OF_RANGE,
                at,
                "this shifts by the width of the operand or more",
                label,
            );
        }
    }

    /// Warns of `for (i in 8..0)`.
    pub(crate) fn warn_of_empty_range(&mut self, from: i128, to: i128, at: Span) {
        if from >= to {
            let label = format!("counting from {from} up to {to} takes no round");
            self.ck
                .warn(codes::OUT_OF_RANGE, at, "this loop never runs", label);
        }
    }
}

/// The number of statements behind an assignment that are searched for another one to the same place. Without
/// this limit, the work would grow with the square of the program's size.
const NEAR: usize = 16;

/// Returns the name of a place's variable.
fn root_name(place: &Expr) -> Option<&str> {
    match &place.kind {
        ExprKind::Name(name) => Some(&name.name),
        ExprKind::Field(base, _) | ExprKind::Index(base, _) => root_name(base),
        _ => None,
    }
}

/// Returns the names of the fields on the path to a place, or of its variable if the path has no fields. Two
/// places with different variables may be the same.
fn own_names(place: &Expr) -> Vec<&str> {
    match &place.kind {
        ExprKind::Name(name) => vec![&name.name],
        ExprKind::Index(base, _) => own_names(base),
        ExprKind::Field(base, name) if matches!(base.kind, ExprKind::Name(_)) => vec![&name.name],
        ExprKind::Field(base, name) => [own_names(base), vec![&name.name]].concat(),
        _ => Vec::new(),
    }
}

/// True if an expression contains one of these names.
fn names(e: &Expr, wanted: &[&str]) -> bool {
    let own = match &e.kind {
        ExprKind::Name(name) | ExprKind::Field(_, name) => wanted.contains(&name.name.as_str()),
        _ => false,
    };
    own || e.parts().into_iter().any(|part| names(part, wanted))
}

/// True if an expression uses a variable as a whole instead of one of its fields.
fn reads_whole(e: &Expr, variable: Option<&str>) -> bool {
    match &e.kind {
        ExprKind::Name(name) => Some(name.name.as_str()) == variable,
        ExprKind::Field(base, _) if matches!(base.kind, ExprKind::Name(_)) => false,
        _ => e.parts().into_iter().any(|part| reads_whole(part, variable)),
    }
}

/// True if an expression calls something, which may have an effect each time.
fn may_act(e: &Expr) -> bool {
    let mut open = vec![e];
    while let Some(e) = open.pop() {
        if matches!(e.kind, ExprKind::Call { .. }) {
            return true;
        }
        open.extend(e.parts());
    }
    false
}
