//! Headers that are built directly in their packet's record instead of being copied there.
//!
//! A function may fill a header and then send it, without issuing another instruction in between. Then the
//! packet's record will begin at the next record's place, and the header becomes a pointer behind the
//! record's fixed part.
//!
//! Invariant: a record's room exists from the beginning, because the chain's worst case was compared with it.
//! Data that a function leaves there without sending it is not a record.

use hawser_ir::visit::{self, PlaceAccess, Visitor};
use hawser_ir::{Arg, Base, Func, FuncId, Instr, Place, Stmt, StmtKind, Ty};

use crate::analysis::Summary;
use crate::emitter::Emitter;
use crate::function::LARGE;
use crate::scope::{Local, Scope};

impl Emitter<'_> {
    /// Returns the indices of a function's variables that are built in their packets' records.
    pub(crate) fn images_in_place(&self, s: &Scope, func: &Func) -> Vec<usize> {
        let sent = func.body.iter().enumerate().filter_map(|(at, stmt)| {
            let StmtKind::Emit(Instr::PktGen { blueprint, bp, .. }) = &stmt.kind else {
                return None;
            };
            let body = Ty::Struct(self.module.blueprints[blueprint.0 as usize].body);
            let index = s.locals.iter().position(|local| {
                (bp.base, bp.steps.is_empty(), bp.offset) == (Base::Local, true, local.offset)
                    && local.ty == body
                    && local.size > 0
            })?;
            Some((at, index))
        });
        sent.filter(|(at, index)| self.is_filled_alone(&s.locals[*index], &func.body, *at))
            .map(|(_, index)| index)
            .collect()
    }

    /// True if no instruction is issued between a header's first mention and its packet, and the header is
    /// not mentioned later.
    fn is_filled_alone(&self, local: &Local, body: &[Stmt], sent: usize) -> bool {
        let scan = |stmts: &[Stmt]| {
            let part = local.offset..local.offset + local.size;
            let mut found = Filling { summaries: &self.summaries, part, mentioned: false, emits: false };
            visit::visit_block(&mut found, stmts);
            found
        };
        let Some(first) = (0..=sent).find(|at| scan(&body[*at..=*at]).mentioned) else {
            return false;
        };
        !emits(&body[first..sent]) && !scan(&body[first..=sent]).emits && !scan(&body[sent + 1..]).mentioned
    }

    /// Declares a pointer to the image's place in its record, with its initial value.
    pub(crate) fn declare_image(&mut self, s: &mut Scope, local: usize, value: &str) {
        let Local { name, ty, size, .. } = s.locals[local].clone();
        let text = self.type_of(&ty);
        s.out.line(&format!(
            "{text} *const {name} = ({text} *)((hw_packet_rec *)HW_AT(run->at) + 1);"
        ));
        match value {
            "{0}" if size > LARGE => s.out.line(&format!("hw_zero({name}, sizeof *{name});")),
            "{0}" => s.out.line(&format!("memset({name}, 0, sizeof *{name});")),
            value if value.starts_with('{') => s.out.line(&format!("*{name} = ({text}){value};")),
            value => s.out.line(&format!("*{name} = {value};")),
        }
    }
}

impl Scope {
    /// True if an image lies in its future record.
    pub(crate) fn is_image(&self, place: &Place) -> bool {
        let is_it = |index: &usize| self.locals[*index].offset == place.offset;
        place.base == Base::Local && self.images.iter().any(is_it)
    }
}

/// True if statements issue instructions themselves.
fn emits(stmts: &[Stmt]) -> bool {
    stmts
        .iter()
        .any(|stmt| matches!(stmt.kind, StmtKind::Emit(_)) || stmt.kind.blocks().into_iter().any(emits))
}

/// Finds out whether a part of the frame is mentioned, and whether called functions issue instructions.
struct Filling<'a> {
    summaries: &'a [Summary],
    part: std::ops::Range<u32>,
    mentioned: bool,
    emits: bool,
}

impl Visitor<'_> for Filling<'_> {
    fn place(&mut self, place: &Place, _: PlaceAccess) {
        self.mentioned |= place.base == Base::Local && self.part.contains(&place.offset);
    }

    fn call(&mut self, func: FuncId, _: &[Arg]) {
        self.emits |= self.summaries[func.0 as usize].emits;
    }
}
