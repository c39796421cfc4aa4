//! Every statement of a program's functions that can be deleted.

use hawser_syntax::ast::{Block, File, ItemKind, Span, Stmt, StmtKind};

/// Returns the statements of a file in order, including nested ones.
pub(super) fn statements(file: &File) -> Vec<Span> {
    let mut found = Vec::new();
    for item in &file.items {
        if let ItemKind::Func { body, .. } | ItemKind::Coalesce { body, .. } = &item.kind {
            block(body, &mut found);
        }
    }
    found
}

fn block(body: &Block, found: &mut Vec<Span>) {
    body.stmts.iter().for_each(|stmt| statement(stmt, found));
}

fn statement(stmt: &Stmt, found: &mut Vec<Span>) {
    match &stmt.kind {
        // A declared variable is used, or the checker warns; an assertion only observes.
        StmtKind::Declare { .. } | StmtKind::Assert(_) | StmtKind::Error => {}
        // Its statements are deleted one by one.
        StmtKind::Block(inner) => block(inner, found),
        StmtKind::Assign { .. }
        | StmtKind::Expr(_)
        | StmtKind::Emit { .. }
        | StmtKind::Break
        | StmtKind::Continue
        | StmtKind::Return(_)
        | StmtKind::Done
        | StmtKind::Refuse(_) => found.push(stmt.span),
        StmtKind::If { then, otherwise, .. } => {
            found.push(stmt.span);
            block(then, found);
            if let Some(otherwise) = otherwise {
                statement(otherwise, found);
            }
        }
        StmtKind::Match { arms, .. } => {
            found.push(stmt.span);
            arms.iter().for_each(|arm| block(&arm.body, found));
        }
        StmtKind::ForEach { body, .. } | StmtKind::ForRange { body, .. } => {
            found.push(stmt.span);
            block(body, found);
        }
    }
}
