//! The statements of parsers that concern packets: `p.extract(h)`, `out.add(ev)`.

use hawser_ir::{Base, BlueprintId, EventId, Place};

use crate::emitter::Emitter;
use crate::scope::Scope;

/// `p.extract(dst)`: its success is stored in `ok`; without `ok`, failure ends the parser.
pub(crate) fn extract(e: &mut Emitter<'_>, s: &mut Scope, id: BlueprintId, dst: &Place, ok: Option<&Place>) {
    let target = e.target(s, dst);
    let name = e.wire_name(id);
    let there = format!("wire_extract_{name}(run, {})", target.at.address());
    let call = match &target.guard {
        _ if target.nowhere => format!("wire_extract_{name}_absent(run)"),
        Some(pointer) => format!("{pointer} ? {there} : wire_extract_{name}_absent(run)"),
        None => there,
    };
    let error = s.names.take("error");
    s.out.line(&format!("const uint32_t {error} = {call};"));
    match ok {
        Some(ok) => e.store(s, ok, &format!("({error} == 0)")),
        None => {
            s.out.open(&format!("if ({error})"));
            e.end_run(s, &format!("HW_OUTCOME(HW_DROPPED, {error})"));
            s.out.close("");
            e.look_up_options(s, id, dst);
        }
    }
}

/// `out.add(ev)`: if it exceeds the program's declared maximum, it ends the parser.
pub(crate) fn push_event(e: &mut Emitter<'_>, s: &mut Scope, event: EventId, from: &Place) {
    let size = e.module.event_size(event);
    let target = e.target(s, from);
    let is_in_place = |index: usize| from.base == Base::Local && s.locals[index].offset == from.offset;
    if s.in_place.is_some_and(is_in_place) {
        let head = target.at.member("head").address();
        s.out
            .line(&format!("hw_keep_event(run, {head}, {size}, {});", event.0));
        return;
    }
    let push = format!(
        "!hw_push_event(run, {}, {size}, {})",
        target.at.address(),
        event.0
    );
    let condition = match &target.guard {
        // The event is counted before the check whether there is one to add.
        _ if target.nowhere => "hw_events_full(run)".to_owned(),
        Some(pointer) => format!("{pointer} ? {push} : hw_events_full(run)"),
        None => push,
    };
    s.out.open(&format!("if ({condition})"));
    e.end_run(s, "HW_OUTCOME(HW_DROPPED, HW_EVENTS)");
    s.out.close("");
}
