//! `deploy`: granularities come first, because chains depend on them; parsers come last.

use hawser_ir as ir;
use hawser_ir::{AppOp, EndpointOffsets, EventKind, FuncId, Granularity, Parser, ParserInput, Ty};
use hawser_syntax::Diagnostic;
use hawser_syntax::ast::{Expr, ExprKind, Ident, RegisterCall, Span, UnOp};

use crate::bounds::Costs;
use crate::codes;
use crate::names::Def;
use crate::state::{Checker, ICMP, NET, OP, RecordKind, ast_span};
use crate::steps::{MAX_STEPS, in_groups};
use crate::types::Type;
use crate::vocabulary::{Sort, names};

/// The maximum number of events that one packet or request may yield.
const MAX_EVENTS: u32 = 256;

impl<'a> Checker<'a> {
    /// Settles granularities, and the dispatch tables that are in force.
    pub(crate) fn deploy_contexts(&mut self) {
        // A file that is only imported has no `deploy` block, but is checked nevertheless.
        if self.deploys.is_empty() {
            self.dispatches.iter_mut().for_each(|d| d.registered = true);
        }
        // A table that has only named chains needs no registration.
        for dispatch in &mut self.dispatches {
            dispatch.registered |= dispatch.entries.iter().all(|entry| entry.is_chain);
        }
        for calls in self.deploys.clone() {
            for call in calls {
                match call.name.name.as_str() {
                    "register_ep_chains" => self.register_chains(call),
                    "register_ctx_spec" => self.register_context(call),
                    "register_ctx_ends" => self.register_ends(call),
                    "register_ev_parser" => {}
                    "register_seg_rule" => {
                        self.register_known(call, "a segmentation rule", |d| matches!(d, Def::Rule(_)))
                    }
                    "register_pkt_sched" => {
                        self.register_known(call, "a `sched`", |d| matches!(d, Def::Sched(_)))
                    }
                    "register_coalescing_rule" => {
                        self.register_known(call, "a coalesced `pkt_bp`", |d| matches!(d, Def::Record(_)));
                    }
                    "" => {}
                    other => {
                        let hint = self.nearest_member(other, names(Sort::Registration));
                        let mut diagnostic = Diagnostic::error(
                            codes::REGISTRATION,
                            call.name.span,
                            format!("unknown registration `{other}`"),
                        )
                        .label("expected `register_…`");
                        diagnostic.hint = hint;
                        self.report(diagnostic);
                    }
                }
            }
        }
        self.globals_have_plain_defaults();
    }

    fn name_argument(&mut self, call: &'a RegisterCall, expected: &str) -> Option<&'a Ident> {
        match call.args.first().map(|arg| &arg.kind) {
            Some(ExprKind::Name(name)) => Some(name),
            Some(ExprKind::Error) => None,
            Some(_) | None => {
                self.error(
                    codes::REGISTRATION,
                    call.name.span,
                    format!("`{}` without a name", call.name.name),
                    format!("expected the name of {expected}"),
                );
                None
            }
        }
    }

    fn register_known(&mut self, call: &'a RegisterCall, expected: &str, suits: impl Fn(Def) -> bool) {
        let Some(name) = self.name_argument(call, expected) else {
            return;
        };
        if !self.lookup(name).is_some_and(&suits) {
            let hint = self.suggestion(name, suits, []);
            self.unknown(name, expected, hint);
        }
    }

    fn register_chains(&mut self, call: &'a RegisterCall) {
        let Some(name) = self.name_argument(call, "a dispatch table") else {
            return;
        };
        match self.dispatches.iter_mut().find(|d| d.name.name == name.name) {
            Some(dispatch) => {
                dispatch.registered = true;
                let declared = dispatch.name.span;
                self.note_use(name.span, declared);
            }
            None => {
                let hint = self.suggestion(name, |def| def == Def::Dispatch, []);
                self.unknown(name, "a dispatch table", hint);
            }
        }
    }

    /// `register_ctx_spec(context, FLOW);`, or for a replicated context `SHARD, select ev.hash`. Any other
    /// choice among instances is rejected instead of being replaced by this one.
    fn register_context(&mut self, call: &'a RegisterCall) {
        let Some((name, context)) = self.context_argument(call) else {
            return;
        };
        let granularity = match call.args.get(1).map(|arg| &arg.kind) {
            None => Some(Granularity::Flow),
            Some(ExprKind::Name(word)) => match word.name.as_str() {
                "FLOW" => Some(Granularity::Flow),
                "SHARD" => Some(Granularity::Shard),
                "GLOBAL" => Some(Granularity::Global),
                _ => None,
            },
            Some(ExprKind::Error) => return,
            Some(_) => None,
        };
        match granularity {
            Some(granularity) if call.args.len() <= 2 => {
                self.module.contexts[context as usize].granularity = granularity;
            }
            Some(Granularity::Shard) if call.args.len() == 3 && selects_by_hash(&call.args[2]) => {
                self.module.contexts[context as usize].granularity = Granularity::Shard;
            }
            _ => self.error_hint(
                codes::GRANULARITY,
                call.name.span,
                format!("`{}` has no granularity of this form", name.name),
                "expected FLOW, GLOBAL, SHARD, or `SHARD, select ev.hash`",
                "instances that share an id are chosen among by the hash of the event's first id",
            ),
        }
    }

    /// Returns the offset of a structure's field, which may lie in a part: `ends.local_ip`.
    fn field_path(&mut self, body: ir::StructId, path: &Expr) -> Option<(u32, Ty)> {
        let (base, inside, name) = match &path.kind {
            ExprKind::Name(name) => (0, body, name),
            ExprKind::Field(outer, name) => match self.field_path(body, outer)? {
                (offset, Ty::Struct(inside)) => (offset, inside, name),
                _ => return None,
            },
            _ => return None,
        };
        self.note_field(inside, name);
        self.note_read(inside, name);
        let field = self.field_named(inside, &name.name)?;
        Some((base + field.offset, field.ty.clone()))
    }

    /// `register_ctx_ends(context, local_ip, local_port, remote_ip, remote_port);`, with fields of the
    /// context.
    fn register_ends(&mut self, call: &'a RegisterCall) {
        let Some((name, context)) = self.context_argument(call) else {
            return;
        };
        let body = self.module.contexts[context as usize].body;
        let offset = |checker: &mut Checker<'_>, at: usize, ty: &Ty| {
            let (offset, found) = checker.field_path(body, call.args.get(at)?)?;
            (found == *ty).then_some(offset)
        };
        let (ip, port) = (Ty::Ip, Ty::uint(16));
        let ends = [(1, &ip), (2, &port), (3, &ip), (4, &port)].map(|(at, ty)| offset(self, at, ty));
        match ends {
            [
                Some(local_ip),
                Some(local_port),
                Some(remote_ip),
                Some(remote_port),
            ] if call.args.len() == 5 => {
                self.module.contexts[context as usize].ends =
                    Some(EndpointOffsets { local_ip, local_port, remote_ip, remote_port });
            }
            _ => self.error_hint(
                codes::ENDS,
                call.name.span,
                format!("these fields are not the two ends of `{}`", name.name),
                "expected four fields of the context: local address, local port, remote address, remote port",
                "an address is an `ip_addr_t`, a port a `uint16`",
            ),
        }
    }

    /// Returns the context that is the first argument of a registration.
    fn context_argument(&mut self, call: &'a RegisterCall) -> Option<(&'a Ident, u32)> {
        let name = self.name_argument(call, "a context")?;
        if let Some(Def::Record(record)) = self.lookup(name)
            && let RecordKind::Context(index) = self.records[record].kind
        {
            return Some((name, index));
        }
        let hint = self.nearest_member(&name.name, self.module.contexts.iter().map(|c| c.name.as_str()));
        self.unknown(name, "a context", hint);
        None
    }

    /// GLOBAL contexts are created by the engine, which does not evaluate expressions.
    fn globals_have_plain_defaults(&mut self) {
        for record in 0..self.records.len() {
            let RecordKind::Context(index) = self.records[record].kind else {
                continue;
            };
            if self.is_global(hawser_ir::ContextId(index)) && self.has_computed_defaults(record, 0) {
                let first = self.records[record].computed.first().map(|(_, value)| value.span);
                let at = first.unwrap_or(self.records[record].span);
                self.error_hint(
                    codes::NOT_CONSTANT,
                    at,
                    "a GLOBAL context cannot have a computed initial value",
                    "the context exists before the program computes a value",
                    "set it in the chain of a SYS_EVENT, from `register_ev_parser(…, start)`",
                );
            }
        }
    }

    /// Registers the parsers.
    pub(crate) fn deploy(&mut self) {
        let mut places: Vec<(ParserInput, Span)> = Vec::new();
        for calls in self.deploys.clone() {
            for call in calls.iter().filter(|call| call.name.name == "register_ev_parser") {
                self.register_parser(call, &mut places);
            }
        }
        self.check_coalescing();
    }

    fn register_parser(&mut self, call: &'a RegisterCall, places: &mut Vec<(ParserInput, Span)>) {
        let Some(name) = self.name_argument(call, "a parser") else {
            return;
        };
        let Some(Def::Func(func)) = self.lookup(name) else {
            let hint = self.suggestion(name, |def| matches!(def, Def::Func(_)), []);
            self.unknown(name, "a parser", hint);
            return;
        };
        self.funcs[func].used = true;
        let Some(source_expr) = call.args.get(1) else {
            self.error_hint(
                codes::SOURCE,
                name.span,
                "this parser has no source",
                "expected a source after the parser's name",
                "write `register_ev_parser(parse, ip(6));`, `udp(4791)`, `icmp_error`, `connect`, …",
            );
            return;
        };
        let Some(source) = self.source(source_expr) else {
            return;
        };
        if let Some((_, first)) = places.iter().find(|(other, _)| *other == source) {
            let first = *first;
            self.report(
                Diagnostic::error(
                    codes::SOURCE_TWICE,
                    source_expr.span,
                    "this source already has a parser",
                )
                .label("a source can have one parser only")
                .related(first, "the first one"),
            );
            return;
        }
        places.push((source, source_expr.span));
        if !self.check_parser(func, source, name.span) {
            return;
        }
        let id = FuncId(func as u32);
        let cost = Costs::new(&self.module, &self.member_size).function(id);
        self.limit_steps_of(&name.name, name.span, cost.steps);
        if cost.events == 0 {
            self.report(
                Diagnostic::warning(
                    codes::NO_EVENTS,
                    self.funcs[func].name.span,
                    format!("`{}` never returns an event", name.name),
                )
                .label("its input has no effect")
                .hint("add the event to the list that it returns: `out.add(ev);`"),
            );
        }
        let max_events = u32::try_from(cost.events).unwrap_or(u32::MAX);
        if max_events > MAX_EVENTS {
            self.error(
                codes::PARSER,
                name.span,
                format!("one packet may give up to {max_events} events"),
                format!("expected at most {MAX_EVENTS}"),
            );
        }
        self.module
            .parsers
            .push(Parser { source, func: id, max_events, steps: cost.steps });
    }

    /// Limits the work of functions that run outside chains.
    fn limit_steps_of(&mut self, name: &str, at: Span, steps: u64) {
        if steps > MAX_STEPS {
            self.error_hint(
                codes::TOO_MANY_STEPS,
                at,
                "the work for one input exceeds the limit",
                format!(
                    "`{name}` takes up to {} steps, the limit is {}",
                    in_groups(steps),
                    in_groups(MAX_STEPS)
                ),
                "lower the loops' bounds",
            );
        }
    }

    fn source(&mut self, e: &'a Expr) -> Option<ParserInput> {
        let found = match &e.kind {
            ExprKind::Name(name) => match name.name.as_str() {
                "icmp_error" => Some(ParserInput::IcmpError),
                "connect" => Some(ParserInput::App(AppOp::Connect)),
                "listen" => Some(ParserInput::App(AppOp::Listen)),
                "send" => Some(ParserInput::App(AppOp::Send)),
                "recv" => Some(ParserInput::App(AppOp::Recv)),
                "close" => Some(ParserInput::App(AppOp::Close)),
                "abort" => Some(ParserInput::App(AppOp::Abort)),
                "release" => Some(ParserInput::App(AppOp::Release)),
                "option" => Some(ParserInput::App(AppOp::Option)),
                "message" => Some(ParserInput::App(AppOp::Message)),
                "call" => Some(ParserInput::App(AppOp::Call)),
                "open" => Some(ParserInput::App(AppOp::Open)),
                "reset" => Some(ParserInput::App(AppOp::Reset)),
                "stop" => Some(ParserInput::App(AppOp::Stop)),
                "post" => Some(ParserInput::App(AppOp::Post)),
                "start" => Some(ParserInput::Start),
                _ => None,
            },
            ExprKind::Call { callee, args, .. } => match (&callee.kind, &args[..]) {
                (ExprKind::Name(name), [number]) if name.name == "ip" => Some(ParserInput::Ip(
                    self.constant_expr(&number.value, &Ty::uint(8))? as u8,
                )),
                (ExprKind::Name(name), [number]) if name.name == "trimmed" => Some(ParserInput::Trimmed(
                    self.constant_expr(&number.value, &Ty::uint(8))? as u8,
                )),
                (ExprKind::Name(name), [number]) if name.name == "udp" => Some(ParserInput::Udp(
                    self.constant_expr(&number.value, &Ty::uint(16))? as u16,
                )),
                _ => None,
            },
            ExprKind::Error => return None,
            _ => None,
        };
        if found.is_none() {
            let near = match &e.kind {
                ExprKind::Name(name) => hawser_syntax::nearest(&name.name, names(Sort::Source)),
                _ => None,
            };
            let mut diagnostic = Diagnostic::error(codes::SOURCE, e.span, "this is not a source of a parser")
                .label("expected `ip(n)`, `udp(port)`, `trimmed(n)`, `icmp_error`, `start`, or an application's request");
            diagnostic.hint = Some(
                near.map_or(
                    "requests are: connect, listen, send, recv, close, abort, release, option, message, call"
                        .into(),
                    crate::names::did_you_mean,
                ),
            );
            self.report(diagnostic);
        }
        found
    }

    /// Checks that a parser takes the arguments of its source, returns events of its kind, and issues no
    /// instructions.
    fn check_parser(&mut self, func: usize, source: ParserInput, at: Span) -> bool {
        let name = self.funcs[func].name;
        let types = self.funcs[func].param_types.clone();
        let result = self.funcs[func].result.clone();
        if types.contains(&Type::Error) || result == Type::Error {
            return false;
        }
        let value = |id| Type::Value(Ty::Struct(id));
        let (expected, form, kind) = match source {
            ParserInput::Ip(_) | ParserInput::Udp(_) | ParserInput::Trimmed(_) => (
                vec![Type::Packet, value(NET)],
                "(pkt_t p, IPheader i)",
                EventKind::Net,
            ),
            ParserInput::IcmpError => {
                let types = vec![Type::Packet, value(NET), value(ICMP)];
                (types, "(pkt_t p, IPheader i, icmp_t e)", EventKind::Net)
            }
            ParserInput::App(_) => (vec![value(OP)], "(op_t op)", EventKind::App),
            ParserInput::Start => (vec![], "()", EventKind::Sys),
        };
        let makes_events = match &result {
            Type::EventList => true,
            Type::Value(ty) => self.event_of(ty).is_some(),
            _ => false,
        };
        if types != expected || !makes_events {
            self.report(
                Diagnostic::error(
                    codes::PARSER,
                    at,
                    format!(
                        "`{}` does not have the form of a parser for this source",
                        name.name
                    ),
                )
                .label(format!(
                    "expected `list<event_t> {}{form}`, or one event type as its result",
                    name.name
                ))
                .related(name.span, "declared here"),
            );
            return false;
        }
        let facts = self.facts[func].clone();
        if let Some(reacts) = facts.reacts {
            self.report(
                Diagnostic::error(
                    codes::CHAIN_ONLY,
                    ast_span(reacts),
                    "this is allowed in chains only",
                )
                .label("a parser only returns events")
                .related(at, format!("`{}` is a parser", name.name)),
            );
        }
        for (event, pushed_at) in facts.pushes {
            let event = &self.module.events[event.0 as usize];
            if event.kind != kind {
                let event_name = event.name.clone();
                self.report(
                    Diagnostic::error(
                        codes::PARSER,
                        ast_span(pushed_at),
                        format!("`{event_name}` is not an event of this source"),
                    )
                    .label(format!("expected an event of kind {}", kind_name(kind)))
                    .related(at, format!("`{}` is registered here", name.name)),
                );
            }
        }
        true
    }

    /// Checks that coalescing rules only compare two blueprints.
    fn check_coalescing(&mut self) {
        for coalesce in self.module.coalesce.clone() {
            let steps = Costs::new(&self.module, &self.member_size)
                .function(coalesce.func)
                .steps;
            let func = &self.module.funcs[coalesce.func.0 as usize];
            let (name, at) = (func.name.clone(), ast_span(func.span));
            self.limit_steps_of(&name, at, steps);
            let facts = &self.facts[coalesce.func.0 as usize];
            if let Some(effect) = facts.reacts.or(facts.parses) {
                self.error(
                    codes::CHAIN_ONLY,
                    ast_span(effect),
                    "a coalescing rule cannot have effects",
                    "a coalescing rule only compares two blueprints",
                );
            }
        }
    }
}

fn kind_name(kind: EventKind) -> &'static str {
    match kind {
        EventKind::App => "APP_EVENT",
        EventKind::Net => "NET_EVENT",
        EventKind::Timer => "TIMER_EVENT",
        EventKind::Sys => "SYS_EVENT",
        EventKind::Internal => "EVENT",
    }
}

/// True for `select ev.hash`, and for an argument that did not parse, which has been reported.
fn selects_by_hash(argument: &Expr) -> bool {
    let ExprKind::Unary(UnOp::Select, key) = &argument.kind else {
        return false;
    };
    let ExprKind::Field(event, field) = &key.kind else {
        return matches!(key.kind, ExprKind::Error);
    };
    field.name == "hash" && matches!(&event.kind, ExprKind::Name(name) if name.name == "ev")
}
