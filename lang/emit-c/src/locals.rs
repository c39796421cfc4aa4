//! Where a function's variables are declared.
//!
//! A frame is zero when a function begins. So a variable is declared, as zero, before the first
//! statement that mentions it, in the innermost block that holds all mentions; inside a loop only if
//! that statement sets all of it, because frames are not zeroed again in each round.

use std::collections::HashMap;

use hawser_ir::{Arg, Base, FuncId, Place, Stmt, StmtKind, Ty};

use crate::walk::{self, Use, Visitor};

/// Before which statement each variable is declared; statements by their address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    before: HashMap<usize, Vec<Declared>>,
}

/// A variable to be declared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Declared {
    /// Its index among the function's variables.
    pub(crate) local: usize,
    /// Whether the statement sets all of it and reads nothing of it.
    pub(crate) set_whole: bool,
}

impl Plan {
    /// The variables to be declared before a statement.
    pub(crate) fn before(&self, stmt: &Stmt) -> &[Declared] {
        self.before.get(&address(stmt)).map_or(&[], Vec::as_slice)
    }

    /// Plans the declarations of variables given as index, offset, size and type.
    pub(crate) fn new(body: &[Stmt], locals: &[(usize, u32, u32, &Ty)]) -> Plan {
        let mut plan = Plan::default();
        for (index, offset, size, ty) in locals {
            let variable = Variable { offset: *offset, end: *offset + (*size).max(1), ty };
            if let Some((at, set_whole)) = variable.sink(body, false) {
                plan.before.entry(at).or_default().push(Declared { local: *index, set_whole });
            }
        }
        plan
    }
}

fn address(stmt: &Stmt) -> usize {
    std::ptr::from_ref(stmt) as usize
}

/// A variable's part of the frame.
#[derive(Clone, Copy)]
struct Variable<'a> {
    offset: u32,
    end: u32,
    ty: &'a Ty,
}

impl Variable<'_> {
    /// The statement before which to declare it, and whether that sets it; nothing where it is not
    /// mentioned, or cannot be declared in here.
    fn sink(self, block: &[Stmt], in_loop: bool) -> Option<(usize, bool)> {
        let mut mentions = block.iter().filter(|stmt| self.is_in(stmt));
        let first = mentions.next()?;
        if mentions.next().is_none() && !self.is_in_own(first) {
            if let StmtKind::If(_, then, otherwise) = &first.kind {
                match [then, otherwise].map(|b| b.iter().any(|stmt| self.is_in(stmt))) {
                    [true, false] => return self.sink(then, in_loop),
                    [false, true] => return self.sink(otherwise, in_loop),
                    [true, true] | [false, false] => {}
                }
            } else if let StmtKind::For { body, .. } = &first.kind
                && let Some(found) = self.sink(body, true)
            {
                return Some(found);
            }
        }
        let whole = self.is_set_whole(first);
        (!in_loop || whole).then(|| (address(first), whole))
    }

    fn is_in(self, stmt: &Stmt) -> bool {
        let mut mention = Mention { variable: self, reads: false, writes: false };
        walk::whole(&mut mention, stmt);
        mention.reads || mention.writes
    }

    fn is_in_own(self, stmt: &Stmt) -> bool {
        let mut mention = Mention { variable: self, reads: false, writes: false };
        walk::own(&mut mention, stmt);
        mention.reads || mention.writes
    }

    /// Whether a statement sets all of it and reads nothing of it.
    fn is_set_whole(self, stmt: &Stmt) -> bool {
        let (StmtKind::Store(to, _)
        | StmtKind::Copy(to, _)
        | StmtKind::Init(to)
        | StmtKind::MakeId(to, _)
        | StmtKind::Extract { dst: to, ok: None, .. }) = &stmt.kind
        else {
            return false;
        };
        let mut mention = Mention { variable: self, reads: false, writes: false };
        walk::own(&mut mention, stmt);
        !mention.reads
            && to.base == Base::Local
            && to.offset == self.offset
            && to.ty == *self.ty
            && to.steps.is_empty()
    }
}

struct Mention<'a> {
    variable: Variable<'a>,
    reads: bool,
    writes: bool,
}

impl Mention<'_> {
    fn concerns(&self, place: &Place) -> bool {
        place.base == Base::Local && (self.variable.offset..self.variable.end).contains(&place.offset)
    }
}

impl Visitor for Mention<'_> {
    fn place(&mut self, place: &Place, how: Use) {
        if self.concerns(place) {
            match how {
                Use::Read => self.reads = true,
                Use::Write => self.writes = true,
            }
        }
    }

    fn call(&mut self, _: FuncId, args: &[Arg]) {
        for arg in args {
            if let Arg::Ref(place) = arg {
                self.reads |= self.concerns(place);
            }
        }
    }
}
