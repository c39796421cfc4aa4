//! The needs of a program that a target does not meet.

use crate::{EventKind, Instr, Module, StmtKind, statements};

use crate::capabilities::document::Capabilities;
use crate::capabilities::offer::{Instruction, Offer};
use crate::capabilities::packet::obstacles;
use crate::capabilities::placement::{Placement, placements};
use crate::capabilities::reason::{Reason, Reasons};

/// Returns the needs of a program beyond a target's offer, each with its places; empty if the program runs
/// there. A target whose chains run in the kernel is of no use to a program without such chains.
#[must_use]
pub fn lacks(module: &Module, capabilities: &Capabilities) -> Vec<Reason> {
    let mut reasons = Reasons::default();
    of_stack(module, &capabilities.stack, &mut reasons);
    let placed = placements(module, capabilities);
    if capabilities.kernel.is_some() && placed.iter().all(|placed| placed.placement == Placement::User) {
        reasons.add("none of its chains can run in the kernel".to_owned(), None);
        for placed in &placed {
            let event = &module.events[placed.event.0 as usize];
            let own = placed.reasons.iter().filter(|_| event.kind == EventKind::Net);
            for Reason { text, spans } in own {
                let chain = if spans.is_empty() {
                    format!(", in `{}`", event.name)
                } else {
                    String::new()
                };
                reasons.add(format!("{text}{chain}"), spans.iter().copied());
            }
        }
    }
    reasons.into_vec()
}

fn of_stack(module: &Module, offer: &Offer, reasons: &mut Reasons) {
    for parser in &module.parsers {
        if !offer.sources.contains(&parser.source.into()) {
            let func = &module.funcs[parser.func.0 as usize];
            reasons.add(
                format!("the target has no source for the parser `{}`", func.name),
                Some(func.span),
            );
        }
    }
    for known in &module.externs {
        if !offer.externs.contains(&known.name) {
            reasons.add(format!("the target has no extern `{}`", known.name), None);
        }
    }
    for func in &module.funcs {
        statements(&func.body, &mut |stmt| {
            let StmtKind::Emit(instr) = &stmt.kind else {
                return;
            };
            if let Instr::Extern { callee, .. } = instr {
                let name = &module.externs[callee.0 as usize].name;
                if !offer.externs.contains(name) {
                    reasons.add(format!("the target has no extern `{name}`"), Some(stmt.span));
                }
            }
            if let Some(missing) =
                Instruction::from_instr(instr).filter(|known| !offer.instructions.contains(known))
            {
                reasons.add(
                    format!("the target has no instruction `{}`", missing.name()),
                    Some(stmt.span),
                );
            }
            for text in obstacles(module, instr, offer) {
                reasons.add(text, Some(stmt.span));
            }
            if !offer.payload && carries_payload(module, instr) {
                reasons.add("packets carry no payload".to_owned(), Some(stmt.span));
            }
        });
    }
    let steps = module
        .chains
        .iter()
        .map(|chain| chain.bounds.steps)
        .max()
        .unwrap_or(0);
    if let Some(limit) = offer.limits.steps.filter(|limit| steps > *limit) {
        reasons.add(
            format!("a chain takes up to {steps} steps, more than {limit}"),
            None,
        );
    }
}

fn carries_payload(module: &Module, instr: &Instr) -> bool {
    matches!(instr, Instr::PktGen { blueprint, .. } if module.blueprints[blueprint.0 as usize].data_at.is_some())
}
