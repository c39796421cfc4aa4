//! The causes of events.

use crate::visit::reached;
use crate::{EventId, Instr, Module, Parser, ParserInput, Span, StmtKind, statements};

/// Returns all causes of an event, each with its place.
pub(crate) fn causes(module: &Module, event: EventId) -> Vec<(String, Option<Span>)> {
    let parsers = module
        .parsers
        .iter()
        .filter(|parser| given(module, parser, event).is_some());
    let mut found: Vec<_> = parsers.map(|parser| of_parser(module, parser)).collect();
    for context in &module.contexts {
        let timers = context.timers.iter().filter(|timer| timer.event == event);
        found.extend(timers.map(|timer| {
            let text = format!("the timer `{}` of `{}`", timer.name, context.name);
            (text, None)
        }));
    }
    for func in &module.funcs {
        statements(&func.body, &mut |stmt| match &stmt.kind {
            StmtKind::Emit(Instr::Raise { event: raised, .. }) if *raised == event => {
                found.push(("`raise`".to_owned(), Some(stmt.span)));
            }
            StmtKind::Emit(Instr::Extern { callee, .. }) => {
                let called = &module.externs[callee.0 as usize];
                if called.answer == Some(event) {
                    found.push((format!("the extern `{}`", called.name), Some(stmt.span)));
                }
            }
            _ => {}
        });
    }
    found
}

fn of_parser(module: &Module, parser: &Parser) -> (String, Option<Span>) {
    let text = match parser.source {
        ParserInput::Ip(protocol) => format!("packets of IP protocol {protocol}"),
        ParserInput::Udp(port) => format!("datagrams to UDP port {port}"),
        ParserInput::Trimmed(_) => "packets with trimmed data".to_owned(),
        ParserInput::IcmpError => "ICMP errors".to_owned(),
        ParserInput::App(op) => format!("the application's request `{}`", op.name()),
        ParserInput::Start => "the stack's start".to_owned(),
    };
    (text, Some(module.funcs[parser.func.0 as usize].span))
}

/// Returns the place at which a parser produces an event, if it does.
pub(crate) fn given(module: &Module, parser: &Parser, event: EventId) -> Option<Span> {
    let mut at = None;
    for func in reached(module, parser.func) {
        statements(
            &module.funcs[func.0 as usize].body,
            &mut |stmt| match &stmt.kind {
                StmtKind::PushEvent { event: given, .. } if *given == event => {
                    at.get_or_insert(stmt.span);
                }
                _ => {}
            },
        );
    }
    at
}
