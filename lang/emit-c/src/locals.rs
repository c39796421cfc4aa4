//! The places where a function's variables are declared.
//!
//! A frame is zero when a function begins. A variable is therefore declared, as zero, before the first
//! statement that mentions it, in the innermost block that contains all mentions. Inside a loop this is
//! possible only if that statement sets all of the variable, because frames are not zeroed again in each
//! round.

use std::collections::HashMap;

use hawser_ir::visit::{self, PlaceAccess, Visitor};
use hawser_ir::{Base, Place, Stmt, StmtKind, Ty};

/// The variables that are declared before each statement; statements are identified by address.
#[derive(Clone, Debug, Default)]
pub(crate) struct LocalsPlan {
    before: HashMap<usize, Vec<Declared>>,
}

/// A variable to be declared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Declared {
    /// Its index among the function's variables.
    pub(crate) local: usize,
    /// True if the statement sets all of it and reads no part of it.
    pub(crate) set_whole: bool,
}

impl LocalsPlan {
    /// Returns the variables to be declared before a statement.
    pub(crate) fn before(&self, stmt: &Stmt) -> &[Declared] {
        self.before.get(&address(stmt)).map_or(&[], Vec::as_slice)
    }

    /// Plans the declarations of variables, which are given as index, offset, size and type.
    pub(crate) fn new(body: &[Stmt], locals: &[(usize, u32, u32, &Ty)]) -> LocalsPlan {
        let mut mentions = Mentions::default();
        mentions.of_block(body);
        let mut plan = LocalsPlan::default();
        for (index, offset, size, ty) in locals {
            let variable = Variable { offset: *offset, end: *offset + (*size).max(1), ty };
            if let Some((at, set_whole)) = variable.sink(&mentions, body, false) {
                plan.before
                    .entry(at)
                    .or_default()
                    .push(Declared { local: *index, set_whole });
            }
        }
        plan
    }
}

fn address(stmt: &Stmt) -> usize {
    std::ptr::from_ref(stmt) as usize
}

/// The statements that mention each part of the frame, collected once for all variables.
#[derive(Default)]
struct Mentions {
    /// By the address of a block's first statement: the offsets that are mentioned, in order. Each has the
    /// number of the statement that mentions it, itself or in a nested block.
    blocks: HashMap<usize, Vec<(u32, usize)>>,
}

impl Mentions {
    /// Collects the mentions in a block and in the blocks inside it, and returns the offsets in order.
    fn of_block(&mut self, block: &[Stmt]) -> Vec<u32> {
        let Some(first) = block.first() else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for (number, stmt) in block.iter().enumerate() {
            let mut offsets = Offsets::default();
            visit::visit_own(&mut offsets, stmt);
            let inside = stmt
                .kind
                .blocks()
                .into_iter()
                .flat_map(|block| self.of_block(block));
            let mut all: Vec<u32> = offsets.found.into_iter().chain(inside).collect();
            all.sort_unstable();
            all.dedup();
            found.extend(all.into_iter().map(|offset| (offset, number)));
        }
        found.sort_unstable();
        let mut offsets: Vec<u32> = found.iter().map(|(offset, _)| *offset).collect();
        offsets.dedup();
        self.blocks.insert(address(first), found);
        offsets
    }

    /// Returns the first statement of a block that mentions a variable, and whether it is the only one.
    fn first(&self, block: &[Stmt], variable: Variable<'_>) -> Option<(usize, bool)> {
        let all = self.blocks.get(&address(block.first()?))?;
        let from = all.partition_point(|(offset, _)| *offset < variable.offset);
        let to = all.partition_point(|(offset, _)| *offset < variable.end);
        let statements = || all[from..to].iter().map(|(_, number)| *number);
        let first = statements().min()?;
        Some((first, statements().all(|number| number == first)))
    }
}

/// The offsets of the frame that are mentioned.
#[derive(Default)]
struct Offsets {
    found: Vec<u32>,
}

impl Visitor<'_> for Offsets {
    fn place(&mut self, place: &Place, _: PlaceAccess) {
        if place.base == Base::Local {
            self.found.push(place.offset);
        }
    }
}

/// A variable's part of the frame.
#[derive(Clone, Copy)]
struct Variable<'a> {
    offset: u32,
    end: u32,
    ty: &'a Ty,
}

impl<'a> Variable<'a> {
    /// Returns the statement before which to declare the variable, and whether that statement sets it.
    /// Returns `None` if the variable is not mentioned, or cannot be declared in this block.
    fn sink(self, mentions: &Mentions, block: &[Stmt], in_loop: bool) -> Option<(usize, bool)> {
        let (first, only) = mentions.first(block, self)?;
        let first = &block[first];
        if only && !self.mention_in(first).found {
            if let StmtKind::If(_, then, otherwise) = &first.kind {
                match [then, otherwise].map(|b| mentions.first(b, self).is_some()) {
                    [true, false] => return self.sink(mentions, then, in_loop),
                    [false, true] => return self.sink(mentions, otherwise, in_loop),
                    [true, true] | [false, false] => {}
                }
            } else if let StmtKind::For { body, .. } = &first.kind
                && let Some(found) = self.sink(mentions, body, true)
            {
                return Some(found);
            }
        }
        let whole = self.is_set_whole(first);
        (!in_loop || whole).then(|| (address(first), whole))
    }

    /// Returns the way in which a statement itself mentions the variable, without the blocks inside it.
    fn mention_in(self, stmt: &Stmt) -> Mention<'a> {
        let mut mention = Mention { variable: self, found: false, reads: false };
        visit::visit_own(&mut mention, stmt);
        mention
    }

    /// True if a statement sets all of it and reads no part of it.
    fn is_set_whole(self, stmt: &Stmt) -> bool {
        let (StmtKind::Store(to, _)
        | StmtKind::Copy(to, _)
        | StmtKind::Init(to)
        | StmtKind::MakeId(to, _)
        | StmtKind::Extract { dst: to, ok: None, .. }) = &stmt.kind
        else {
            return false;
        };
        !self.mention_in(stmt).reads
            && to.base == Base::Local
            && to.offset == self.offset
            && to.ty == *self.ty
            && to.steps.is_empty()
    }
}

struct Mention<'a> {
    variable: Variable<'a>,
    found: bool,
    /// True if its value may be used.
    reads: bool,
}

impl Visitor<'_> for Mention<'_> {
    fn place(&mut self, place: &Place, access: PlaceAccess) {
        let concerns =
            place.base == Base::Local && (self.variable.offset..self.variable.end).contains(&place.offset);
        self.found |= concerns;
        self.reads |= concerns && access != PlaceAccess::Write;
    }
}
