//! Instructions: `emit …`, `instr_t i = …`, `out.add(…)`.

use hawser_ir as ir;
use hawser_ir::abi;
use hawser_ir::{Base, Instr, Place, QueueId, QueuePolicy, Ty, Uid};
use hawser_syntax::ast::{Expr, ExprKind, Ident, Span};

use crate::body::{Body, Variable};
use crate::codes;
use crate::convert::Value;
use crate::fold;
use crate::index::{DefKind, member};
use crate::names::Def;
use crate::state::RecordKind;
use crate::types::Type;
use crate::vocabulary::{self, Sort};

impl<'a> Body<'_, 'a> {
    /// Issues an instruction, or the instruction that a variable holds.
    pub(crate) fn emit(&mut self, e: &'a Expr, answer: Option<&'a Ident>) {
        if let ExprKind::Name(name) = &e.kind
            && let Some(Variable::Instruction(held)) = self.local(name).map(|l| l.variable.clone())
        {
            if let Some(instruction) = held {
                self.issue(*instruction, Vec::new());
            }
            return;
        }
        let (instruction, operands) = self.separately(|body| body.instruction(e, answer));
        match instruction {
            Some(instruction) => self.issue(instruction, operands),
            None => self.out.extend(operands),
        }
    }

    /// Lowers an instruction.
    pub(crate) fn instruction(&mut self, e: &'a Expr, answer: Option<&'a Ident>) -> Option<Instr> {
        if matches!(e.kind, ExprKind::Error) {
            return None;
        }
        if let ExprKind::Struct { name, .. } = &e.kind
            && name.name == "new_ctx"
        {
            self.error_hint(
                codes::NEW_CONTEXT,
                e.span,
                "`new_ctx` is a declaration",
                "expected another instruction",
                "write `some_context c = new_ctx{…};`",
            );
            return None;
        }
        let call = match &e.kind {
            ExprKind::Call { callee, args, .. } => match &callee.kind {
                ExprKind::Name(name) => Some((name, args)),
                _ => None,
            },
            _ => None,
        };
        let Some((name, args)) = call else {
            self.error(
                codes::NOT_AN_INSTRUCTION,
                e.span,
                "this is not an instruction",
                "expected an instruction",
            );
            return None;
        };
        if let Some(answer) = answer {
            self.check_answer(name, answer);
        }
        if name.name == "pkt_gen" {
            return self.pkt_gen(args, e.span);
        }
        let args = self.unlabelled(args);
        self.plain_instruction(name, &args, e.span)
    }

    fn plain_instruction(&mut self, name: &'a Ident, args: &[&'a Expr], at: Span) -> Option<Instr> {
        match (name.name.as_str(), args) {
            ("new_tx_ordered_data", [size, uid, rest @ ..]) if rest.len() <= 1 => {
                let size = self.word(size);
                let (uid, addr) = (self.uid(uid)?, self.address(rest.first().copied()));
                Some(Instr::NewTxOrderedData { size, uid, addr })
            }
            ("add_tx_data" | "add_tx_data_seg", [addr, len, uid]) => {
                let (addr, len) = (self.address(Some(addr)), self.word(len));
                Some(Instr::AddTxData { addr, len, uid: self.uid(uid)? })
            }
            ("tx_flush_and_notify", [uid, len]) => {
                let uid = self.uid(uid)?;
                Some(Instr::TxFlushAndNotify { uid, len: self.word(len) })
            }
            ("new_rx_ordered_data", [size, uid, rest @ ..]) if rest.len() <= 2 => {
                let size = self.word(size);
                let (uid, addr) = (self.uid(uid)?, self.address(rest.first().copied()));
                let cap = match rest.get(1) {
                    Some(cap) => self.word(cap),
                    None => fold::constant(abi::INF, Ty::uint(64)),
                };
                Some(Instr::NewRxOrderedData { size, uid, addr, cap })
            }
            ("add_rx_data_seg" | "add_data_seg", [addr, len, uid, off]) => {
                let (addr, len) = (self.address(Some(addr)), self.word(len));
                let uid = self.uid(uid)?;
                Some(Instr::AddRxDataSeg { addr, len, uid, off: self.word(off) })
            }
            ("rx_flush_and_notify", [uid, len, rest @ ..]) if rest.len() <= 1 => {
                let uid = self.uid(uid)?;
                let len = self.word(len);
                Some(Instr::RxFlushAndNotify { uid, len, addr: self.address(rest.first().copied()) })
            }
            ("del_tx_ordered_data", [uid]) => Some(Instr::DelTxOrderedData { uid: self.uid(uid)? }),
            ("del_rx_ordered_data", [uid]) => Some(Instr::DelRxOrderedData { uid: self.uid(uid)? }),
            ("timer_start" | "timer_restart", [timer, dur]) => {
                let (timer, index) = self.timer(timer, true)?;
                let dur = self.argument(dur, &Ty::Duration);
                Some(Instr::TimerStart { timer, index, dur: self.kept(dur) })
            }
            ("timer_stop", [timer]) => {
                let (timer, index) = self.timer(timer, false)?;
                Some(Instr::TimerStop { timer, index })
            }
            ("del_ctx", []) => Some(Instr::DelCtx { on: Base::Keyed }),
            ("add_id", [id]) => Some(Instr::AddId { id: self.keyed_id(id)? }),
            ("drop_id", [id]) => Some(Instr::DropId { id: self.keyed_id(id)? }),
            ("raise", [event, target @ ..]) if target.len() <= 1 => {
                self.raise(event, target.first().copied())
            }
            ("signal", [signal]) => self.signal(signal),
            ("set_queue_rate", [queue, rate]) => self.queue_rate(queue, rate),
            ("set_queue_prio", [queue, prio]) => {
                let queue = self.queue(queue)?;
                Some(Instr::SetQueuePrio { queue, prio: self.word(prio) })
            }
            ("queue_reset", [queue]) => Some(Instr::QueueReset { queue: self.queue(queue)? }),
            ("notify", [what, rest @ ..]) => self.notify(what, rest, at),
            (known, _) => match form(known) {
                Some(form) => {
                    self.argument_count(at, known, &format!("`{form}`"), args.len());
                    None
                }
                None => self.extern_instruction(name, args, at),
            },
        }
    }

    fn extern_instruction(&mut self, name: &'a Ident, args: &[&'a Expr], at: Span) -> Option<Instr> {
        if let Some(Def::Extern(index)) = self.ck.lookup(name)
            && self.ck.externs[index].result == Type::Instr
        {
            let args = self.extern_arguments(index, name, args, at)?;
            let args = args.into_iter().map(|arg| self.kept(arg)).collect();
            return Some(Instr::Extern { callee: ir::ExternId(index as u32), args });
        }
        match self.ck.lookup(name) {
            Some(Def::Func(_)) => self.error_hint(
                codes::NOT_AN_INSTRUCTION,
                name.span,
                format!("`{}` is a function", name.name),
                "expected an instruction",
                format!("call it: `{}(…);`", name.name),
            ),
            Some(other) => self.error(
                codes::NOT_AN_INSTRUCTION,
                name.span,
                format!("`{}` is {}", name.name, other.what()),
                "expected an instruction",
            ),
            None => {
                let near = hawser_syntax::nearest(&name.name, vocabulary::names(Sort::Instruction));
                let mut diagnostic = hawser_syntax::Diagnostic::error(
                    codes::NOT_AN_INSTRUCTION,
                    name.span,
                    format!("unknown instruction `{}`", name.name),
                )
                .label("expected an instruction");
                diagnostic.hint = near.map(crate::names::did_you_mean);
                self.ck.report(diagnostic);
            }
        }
        None
    }

    fn check_answer(&mut self, name: &Ident, answer: &Ident) {
        self.ck.lookup(answer);
        let declared = match self.ck.lookup(name) {
            Some(Def::Extern(index)) => self.ck.externs[index].answer.map(|a| a.name.clone()),
            _ => None,
        };
        if declared.as_ref() != Some(&answer.name) {
            let label = match declared {
                Some(declared) => format!("`{}` is answered by `{declared}`", name.name),
                None => format!("`{}` is not answered by an event", name.name),
            };
            self.error(
                codes::EXTERN,
                answer.span,
                format!("`{}` does not answer this", answer.name),
                label,
            );
        }
    }

    /// Returns a scalar argument, kept in a temporary if the instruction is issued later.
    pub(crate) fn kept(&mut self, value: ir::Expr) -> ir::Expr {
        if self.keep_arguments {
            self.keep(value)
        } else {
            value
        }
    }

    pub(crate) fn kept_place(&mut self, place: Place) -> Place {
        if self.keep_arguments {
            self.keep_place(place)
        } else {
            place
        }
    }

    pub(crate) fn word(&mut self, e: &'a Expr) -> ir::Expr {
        let value = self.argument(e, &Ty::uint(64));
        self.kept(value)
    }

    fn id(&mut self, e: &'a Expr) -> Option<Place> {
        let place = self.aggregate(e, &Ty::Id)?;
        Some(self.kept_place(place))
    }

    /// Lowers the id of a unit, with the context from which it is taken: `c.self`.
    fn uid(&mut self, e: &'a Expr) -> Option<Uid> {
        let id = self.keyed_id(e)?;
        let of = self.named_context(e).map(|(context, _)| context);
        Some(Uid { id, of })
    }

    /// Lowers the id of a context. GLOBAL contexts are rejected, because they have no id.
    pub(crate) fn keyed_id(&mut self, e: &'a Expr) -> Option<Place> {
        let id = self.id(e)?;
        let named = self.named_context(e).map(|(_, context)| context);
        let Some(context) = named.filter(|context| self.ck.is_global(*context)) else {
            return Some(id);
        };
        let name = self.ck.module.contexts[context.0 as usize].name.clone();
        self.error(
            codes::NO_CONTEXT,
            e.span,
            format!("`{name}` is GLOBAL: it has no id"),
            "expected the id of a context of granularity FLOW or SHARD",
        );
        None
    }

    /// Returns the context from which an id is taken, and its type: `c.self`.
    fn named_context(&mut self, e: &'a Expr) -> Option<(Place, ir::ContextId)> {
        match &e.kind {
            ExprKind::Field(base, name) if name.name == "self" => match self.value(base, None) {
                Value::Place(place) => self.ck.context_of(&place.ty).map(|context| (place, context)),
                _ => None,
            },
            _ => None,
        }
    }

    fn address(&mut self, e: Option<&'a Expr>) -> ir::Expr {
        match e {
            None => fold::constant(0, Ty::Addr),
            Some(e) => {
                let value = self.argument(e, &Ty::Addr);
                self.kept(value)
            }
        }
    }

    /// Lowers a context's timer to its place and its number.
    fn timer(&mut self, e: &'a Expr, starts: bool) -> Option<(Place, u32)> {
        let value = self.value(e, None);
        if let (Value::Place(place), ExprKind::Field(base, name)) = (&value, &e.kind)
            && place.ty == Ty::Timer
        {
            let Value::Place(owner) = self.value(base, None) else {
                return None;
            };
            let context = self.ck.context_of(&owner.ty)?;
            if starts {
                self.ck.started.insert((context, name.name.clone()));
            }
            let timers = &self.ck.module.contexts[context.0 as usize].timers;
            // A timer without an event has been reported at its declaration.
            let index = timers.iter().position(|timer| timer.name == name.name)?;
            return Some((place.clone(), index as u32));
        }
        if !matches!(value, Value::Error) {
            self.error(
                codes::TIMER,
                e.span,
                "this is not a timer",
                "expected a context's timer: `c.rtx`",
            );
        }
        None
    }

    fn raise(&mut self, event: &'a Expr, target: Option<&'a Expr>) -> Option<Instr> {
        let value = self.value(event, None);
        let Value::Place(from) = value else {
            if !matches!(value, Value::Error) {
                self.error(
                    codes::RAISE,
                    event.span,
                    "this is not an event",
                    "expected an event: `ev{f: v}`",
                );
            }
            return None;
        };
        match self.ck.kind_of(&from.ty) {
            Some(RecordKind::Event(index, ir::EventKind::Internal)) => {
                let target = match target {
                    Some(target) => Some(self.id(target)?),
                    None => None,
                };
                let from = self.kept_place(from);
                Some(Instr::Raise { event: ir::EventId(index), from, target })
            }
            Some(RecordKind::Event(..)) => {
                let name = self.ck.show(&from.ty);
                self.error_hint(
                    codes::RAISE,
                    event.span,
                    format!("a program cannot raise `{name}`"),
                    "expected an event of kind EVENT",
                    format!(
                        "declare an event of its own: `event … : EVENT {{ }}` with what `{name}` carries"
                    ),
                );
                None
            }
            _ => {
                self.error(
                    codes::RAISE,
                    event.span,
                    "this is not an event",
                    "expected an event: `ev{f: v}`",
                );
                None
            }
        }
    }

    /// Lowers a queue such as `nic.q0`.
    pub(crate) fn queue(&mut self, e: &'a Expr) -> Option<QueueId> {
        if let ExprKind::Field(base, name) = &e.kind
            && let ExprKind::Name(sched) = &base.kind
            && let Some(Def::Sched(index)) = self.ck.lookup(sched)
        {
            let decl = &self.ck.scheds[index];
            self.ck.answer(name.span, || {
                let queue = |(queue, policy, _): &(Ident, Ident, _)| {
                    member(&queue.name, DefKind::Queue, &policy.name)
                };
                decl.queues.iter().map(queue).collect()
            });
            if let Some(i) = decl.queues.iter().position(|(queue, ..)| queue.name == name.name) {
                self.ck.note_use(name.span, decl.queues[i].0.span);
                return Some(QueueId(decl.first + i as u32));
            }
            let known = decl.queues.iter().map(|(queue, ..)| queue.name.as_str());
            let hint = self.ck.nearest_member(&name.name, known);
            self.unknown_member(name, &sched.name, hint);
            return None;
        }
        if !matches!(e.kind, ExprKind::Error) {
            self.error_hint(
                codes::QUEUE,
                e.span,
                "this is not a queue",
                "expected a queue of a `sched`: `nic.q0`",
                "declare it: `sched nic = PRIO(8) { q0: RANK };`",
            );
        }
        None
    }

    fn queue_rate(&mut self, queue: &'a Expr, rate: &'a Expr) -> Option<Instr> {
        let at = queue.span;
        let queue = self.queue(queue)?;
        self.require_policy(queue, at, "rate", &[QueuePolicy::Rate, QueuePolicy::RatePerFlow]);
        let rate = self.word(rate);
        Some(Instr::SetQueueRate { queue, rate })
    }

    /// Reports a queue whose policy lacks the required property: a rate, ranks or costs.
    pub(crate) fn require_policy(&mut self, queue: QueueId, at: Span, what: &str, policies: &[QueuePolicy]) {
        let queue = &self.ck.module.queues[queue.0 as usize];
        if !policies.contains(&queue.policy) {
            let known: Vec<&str> = policies.iter().map(|policy| policy.name()).collect();
            let message = format!(
                "the queue `{}` has no {what}: it is {}",
                queue.name,
                queue.policy.name()
            );
            let label = format!("expected a queue that is {}", known.join(" or "));
            self.error(codes::QUEUE, at, message, label);
        }
    }

    fn notify(&mut self, what: &'a Expr, rest: &[&'a Expr], at: Span) -> Option<Instr> {
        let on = Base::Keyed;
        let plain = |code| Instr::Notify { on, code, error: None, id: None, args: Vec::new() };
        if let ExprKind::Name(name) = &what.kind {
            match (name.name.as_str(), rest) {
                ("CONNECTED", []) => return Some(plain(abi::NOTIFY_CONNECTED)),
                ("EOF", []) => return Some(plain(abi::NOTIFY_EOF)),
                ("CLOSED", []) => return Some(plain(abi::NOTIFY_CLOSED)),
                ("ACCEPTED", [id]) => {
                    let id = Some(self.keyed_id(id)?);
                    return Some(Instr::Notify {
                        on,
                        code: abi::NOTIFY_ACCEPTED,
                        error: None,
                        id,
                        args: Vec::new(),
                    });
                }
                ("FAILED", [error]) => {
                    let error = self.argument(error, &Ty::uint(32));
                    let error = Some(self.kept(error));
                    let code = abi::NOTIFY_FAILED;
                    return Some(Instr::Notify { on, code, error, id: None, args: Vec::new() });
                }
                ("RESET" | "STOPPED", [reason]) => {
                    let reason = self.argument(reason, &Ty::uint(64));
                    let args = vec![self.kept(reason)];
                    let code = if name.name == "RESET" {
                        abi::NOTIFY_RESET
                    } else {
                        abi::NOTIFY_STOPPED
                    };
                    return Some(Instr::Notify { on, code, error: None, id: None, args });
                }
                _ => {}
            }
        }
        if let (ExprKind::Struct { .. }, []) = (&what.kind, rest) {
            return self.notify_message(what);
        }
        if !matches!(what.kind, ExprKind::Error) {
            self.error_hint(
                codes::NOTIFY,
                at,
                "unknown form of a notice",
                "expected CONNECTED, EOF, CLOSED, `ACCEPTED, id`, `FAILED, errno`, `RESET, code`, `STOPPED, code`, or a structure",
                "`notify(name{a: x, b: y})` sends up to four values of the program's own",
            );
        }
        None
    }

    /// `notify(wc{wr_id: …, status: …})`: a structure of up to four scalars.
    fn notify_message(&mut self, what: &'a Expr) -> Option<Instr> {
        let Value::Place(place) = self.value(what, None) else {
            return None;
        };
        let Ty::Struct(id) = place.ty else { return None };
        let fields = self.ck.module.structs[id.0 as usize].fields.clone();
        if fields.len() > 4 || fields.iter().any(|field| !field.ty.is_scalar()) {
            self.error(
                codes::NOTIFY,
                what.span,
                "this notice has too many or unsuitable fields",
                "expected at most four scalar fields",
            );
            return None;
        }
        let word = Ty::uint(64);
        let mut args = Vec::new();
        for field in fields {
            self.ck.read.insert((id, field.name.clone()));
            let value = crate::body::load(crate::body::inside(&place, field.offset, field.ty));
            args.push(self.kept(fold::cast(value, &word)));
        }
        let code = abi::NOTIFY_MESSAGE;
        Some(Instr::Notify { on: Base::Keyed, code, error: None, id: None, args })
    }
}

/// Returns the written form of an instruction, for messages.
fn form(name: &str) -> Option<&'static str> {
    Some(match name {
        "new_tx_ordered_data" => "new_tx_ordered_data(size, uid[, addr])",
        "add_tx_data" | "add_tx_data_seg" => "add_tx_data(addr, len, uid)",
        "tx_flush_and_notify" => "tx_flush_and_notify(uid, len)",
        "new_rx_ordered_data" => "new_rx_ordered_data(size, uid, addr, cap)",
        "add_rx_data_seg" | "add_data_seg" => "add_rx_data_seg(addr, len, uid, offset)",
        "rx_flush_and_notify" => "rx_flush_and_notify(uid, len, addr)",
        "del_tx_ordered_data" => "del_tx_ordered_data(uid)",
        "del_rx_ordered_data" => "del_rx_ordered_data(uid)",
        "timer_start" | "timer_restart" => "timer_start(c.timer, duration)",
        "timer_stop" => "timer_stop(c.timer)",
        "new_ctx" => "some_context c = new_ctx{…};",
        "del_ctx" => "del_ctx()",
        "add_id" => "add_id(id)",
        "drop_id" => "drop_id(id)",
        "raise" => "raise(event{…}[, id])",
        "signal" => "signal(name{…})",
        "set_queue_rate" => "set_queue_rate(queue, rate)",
        "set_queue_prio" => "set_queue_prio(queue, prio)",
        "queue_reset" => "queue_reset(queue)",
        "notify" => "notify(what)",
        _ => return None,
    })
}
