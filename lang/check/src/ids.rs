//! Ids that consist of a context's id and more (`flow_id unit(c.self, number);`). They are rejected if they
//! cannot fit.
//!
//! The length of a context's id follows from the ids that parsers give to the events whose chains create it.
//! If it is unknown, 0 is assumed, and an id that does not fit ends its chain at run time (`aggregate`).

use hawser_ir::abi::Id;
use hawser_ir::{Base, ContextId, EventId, Func, IdPart, Instr, Place, Precondition, StmtKind, Ty};

use crate::codes;
use crate::state::{Checker, ast_span};

/// The possible lengths of an id in bytes; `None` if they are unknown.
type Widths = Option<Vec<usize>>;

impl Checker<'_> {
    /// Reports each tuple that is longer than an id even with the shortest ids of its contexts.
    pub(crate) fn check_ids(&mut self) {
        let contexts: Vec<usize> = (0..self.module.contexts.len())
            .map(|index| self.shortest(ContextId(index as u32)))
            .collect();
        let mut too_long = Vec::new();
        for func in &self.module.funcs {
            hawser_ir::statements(&func.body, &mut |stmt| {
                let StmtKind::MakeId(_, parts) = &stmt.kind else {
                    return;
                };
                let own = |place: &Place| self.whose(func, place).map_or(0, |c| contexts[c.0 as usize]);
                let bytes = self.min_bytes(parts, &own);
                if bytes > Id::MAX {
                    too_long.push((stmt.span, bytes));
                }
            });
        }
        for (at, bytes) in too_long {
            self.error_hint(
                codes::ID_TOO_LONG,
                ast_span(at),
                format!("this id has {bytes} bytes"),
                format!(
                    "expected at most {} bytes, with those of the context's id",
                    Id::MAX
                ),
                "a unit of data is found within its context: leave `self` out, or hash a part: \
                     `keyed_hash(k0, k1, …)`",
            );
        }
    }

    /// Returns the minimum length of a context's own id in bytes. This id is the event's first id that was
    /// not found when the context was created.
    fn shortest(&self, context: ContextId) -> usize {
        self.makers(context)
            .map(|event| self.shortest_made(event))
            .min()
            .unwrap_or(0)
    }

    fn makers(&self, context: ContextId) -> impl Iterator<Item = EventId> {
        let chains = self.module.chains.iter().zip(0..);
        chains
            .filter(move |(chain, _)| chain.creates == Some(context))
            .map(|(_, event)| EventId(event))
    }

    /// Returns the minimum length of the id of a context that an event's chain creates, in bytes.
    fn shortest_made(&self, event: EventId) -> usize {
        let creators = self
            .module
            .creators
            .get(event.0 as usize)
            .map_or(&[][..], Vec::as_slice);
        let of = |ids: &Vec<Widths>| {
            // If no context was found, no id was found, so the first id is used. The same holds if the found
            // context never has an id as long as the first one.
            let first = !creators.is_empty()
                && creators.iter().all(|when| match when {
                    Precondition::NotFound => true,
                    Precondition::Found(found) => {
                        ids[0].as_ref().is_some_and(|id| self.stands_apart(*found, id))
                    }
                    Precondition::Always => false,
                });
            let shortest = |id: &Widths| id.as_ref().and_then(|id| id.iter().min().copied()).unwrap_or(0);
            if first {
                shortest(&ids[0])
            } else {
                ids.iter().map(shortest).min().unwrap_or(0)
            }
        };
        self.ids_of(event).iter().map(of).min().unwrap_or(0)
    }

    /// True if no id of a context has one of these lengths.
    fn stands_apart(&self, context: ContextId, lengths: &[usize]) -> bool {
        let mut ids = self
            .makers(context)
            .flat_map(|event| self.ids_of(event))
            .flatten();
        !self.adds_ids() && ids.all(|id| id.is_some_and(|id| !id.iter().any(|len| lengths.contains(len))))
    }

    fn adds_ids(&self) -> bool {
        let mut found = false;
        for func in &self.module.funcs {
            hawser_ir::statements(&func.body, &mut |stmt| {
                found |= matches!(stmt.kind, StmtKind::Emit(Instr::AddId { .. }));
            });
        }
        found
    }

    /// Returns the ids that parsers give to an event, one entry for each occurrence. The id of a request's
    /// own handle does not count, because it names an existing context.
    fn ids_of(&self, event: EventId) -> Vec<Vec<Widths>> {
        let body = Ty::Struct(self.module.events[event.0 as usize].body);
        let mut found = Vec::new();
        for func in &self.module.funcs {
            hawser_ir::statements(&func.body, &mut |stmt| {
                let StmtKind::SetIds { event, ids } = &stmt.kind else {
                    return;
                };
                let of_handle = matches!(ids.as_slice(), [Place { base: Base::Ref(_), .. }]);
                if !ids.is_empty() && !of_handle && func.declared(event) == Some(&body) {
                    found.push(ids.iter().map(|id| self.widths(func, id)).collect());
                }
            });
        }
        found
    }

    /// Returns the possible lengths of an id variable, in bytes, if only tuples are stored in it.
    fn widths(&self, func: &Func, id: &Place) -> Widths {
        let mut found = Some(Vec::new());
        hawser_ir::statements(&func.body, &mut |stmt| match &stmt.kind {
            StmtKind::MakeId(place, parts) if place == id => {
                let nested = |part: &IdPart| matches!(part, IdPart::Bytes(place) if place.ty == Ty::Id);
                let bytes = (!parts.iter().any(nested)).then(|| self.min_bytes(parts, &|_| 0));
                found = found
                    .take()
                    .zip(bytes)
                    .map(|(found, bytes)| [found, vec![bytes]].concat());
            }
            StmtKind::Copy(place, _) | StmtKind::Init(place) if place == id => found = None,
            _ => {}
        });
        found.filter(|found| !found.is_empty() && id.base == Base::Local && id.steps.is_empty())
    }

    fn min_bytes(&self, parts: &[IdPart], own: &dyn Fn(&Place) -> usize) -> usize {
        let part = |part: &IdPart| match part {
            IdPart::Scalar(_, bytes) => usize::from(*bytes),
            IdPart::Bytes(place) if place.ty == Ty::Id => own(place),
            IdPart::Bytes(place) => self.layout().size(&place.ty) as usize,
        };
        parts.iter().map(part).sum()
    }

    /// Returns the context of which a place is the `self`.
    fn whose(&self, func: &Func, place: &Place) -> Option<ContextId> {
        if place.offset != 0 || !place.steps.is_empty() {
            return None;
        }
        if place.base == Base::Fresh {
            return created(func);
        }
        self.context_of(func.declared(place)?)
    }
}

/// Returns the context that a function creates.
fn created(func: &Func) -> Option<ContextId> {
    let mut found = None;
    hawser_ir::statements(&func.body, &mut |stmt| {
        if let StmtKind::Emit(Instr::NewCtx { context }) = &stmt.kind {
            found = Some(*context);
        }
    });
    found
}
