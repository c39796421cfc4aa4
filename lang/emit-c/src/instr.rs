//! Instructions: one function per node. Each writes one record straight into the output.
//!
//! The room for a chain's worst case was measured before it began, so that no record checks again. A
//! record is begun only when all its operands have been evaluated: they may issue records themselves.

use hawser_ir::{Base, BlueprintId, ContextId, EventId, Expr, Instr, Place, QueueId, RuleId, Ty};

use crate::emitter::Emitter;
use crate::number::paren;
use crate::scope::{Found, Scope, Slot};

impl Emitter<'_> {
    pub(crate) fn instruction(&mut self, s: &mut Scope, instr: &Instr) {
        match instr {
            Instr::NewTxOrderedData { size, uid, addr } => {
                self.unit(s, "HW_NEW_TX", uid, [Some(addr), Some(size), None]);
            }
            Instr::AddTxData { addr, len, uid } => {
                self.unit(s, "HW_ADD_TX", uid, [Some(addr), Some(len), None]);
            }
            Instr::TxFlushAndNotify { uid, len } => self.unit(s, "HW_FLUSH_TX", uid, [None, Some(len), None]),
            Instr::NewRxOrderedData { size, uid, addr, cap } => {
                self.unit(s, "HW_NEW_RX", uid, [Some(addr), Some(size), Some(cap)]);
            }
            Instr::AddRxDataSeg { addr, len, uid, off } => {
                self.unit(s, "HW_ADD_RX", uid, [Some(addr), Some(len), Some(off)]);
            }
            Instr::RxFlushAndNotify { uid, len, addr } => {
                self.unit(s, "HW_FLUSH_RX", uid, [Some(addr), Some(len), None]);
            }
            Instr::PktGen { net, blueprint, bp, rules, queue, rank } => {
                self.packet(s, [net, bp], *blueprint, rules, *queue, rank.as_ref());
            }
            Instr::TimerStart { timer, index, dur } => self.timer_start(s, timer, *index, dur),
            Instr::TimerStop { timer, index } => self.timer(s, "HW_TIMER_STOP", timer, *index, "0"),
            Instr::NewCtx { context } => self.new_context(s, *context),
            Instr::DelCtx { on } => self.context(s, "HW_DEL_CONTEXT", *on, "(hw_id){{0}}"),
            Instr::AddId { id } => self.alias(s, "HW_ADD_ID", id),
            Instr::DropId { id } => self.alias(s, "HW_DROP_ID", id),
            Instr::Notify { on, code, error, id, args } => {
                self.notify(s, *on, *code, error.as_ref(), id.as_ref(), args);
            }
            Instr::Raise { event, from, target } => self.raise(s, *event, from, target.as_ref()),
            Instr::Signal { signal, from } => self.signal(s, signal.0, from),
            Instr::SetQueueRate { queue, rate } => self.queue(s, "HW_QUEUE_RATE", *queue, Some(rate)),
            Instr::SetQueuePrio { queue, prio } => self.queue(s, "HW_QUEUE_PRIO", *queue, Some(prio)),
            Instr::QueueReset { queue } => self.queue(s, "HW_QUEUE_RESET", *queue, None),
            Instr::Extern { callee, args } => self.call_extern(s, callee.0, args),
        }
    }

    /// Whom an instruction speaks of: the keyed context, or the fresh one when it says so or nothing
    /// was found.
    fn on(&self, s: &Scope, base: Base) -> &'static str {
        if base == Base::Fresh { "1" } else { self.subject(s) }
    }

    /// Writes a record of fixed size: its fields as designated initialisers.
    fn record(&mut self, s: &mut Scope, kind: &str, on: &str, name: &str, fields: &[String]) {
        self.record_with(s, kind, on, name, fields, 0);
    }

    /// Begins a record of a type, with `tail` bytes behind its fixed part; gives the variable that points
    /// to it.
    fn record_with(
        &mut self,
        s: &mut Scope,
        kind: &str,
        on: &str,
        name: &str,
        fields: &[String],
        tail: u32,
    ) -> String {
        let record = s.names.take("record");
        let len = format!("sizeof(hw_{name}_rec) + {}", tail.next_multiple_of(8));
        s.out.line(&format!("hw_{name}_rec *{record} = (hw_{name}_rec *)run->at;"));
        s.out.line(&format!("run->at += {len};"));
        let fields: String = fields.iter().map(|field| format!(", {field}")).collect();
        s.out.line(&format!("*{record} = (hw_{name}_rec){{.header = {{{kind}, {on}, 0, {len}}}{fields}}};"));
        record
    }

    /// Instructions on ordered data.
    fn unit(&mut self, s: &mut Scope, kind: &str, uid: &Place, values: [Option<&Expr>; 3]) {
        let present: Vec<&Expr> = values.iter().copied().flatten().collect();
        let mut uid = self.id(s, uid);
        if present.iter().any(|e| !self.plain(e)) {
            uid = s.keep("hw_id", &uid);
        }
        let texts = self.values(s, present);
        let names = ["addr", "len", "off"];
        let named = names.iter().zip(values).filter(|(_, value)| value.is_some()).map(|(name, _)| name);
        let mut fields = vec![format!(".uid = {uid}")];
        fields.extend(named.zip(&texts).map(|(name, text)| format!(".{name} = {text}")));
        let on = self.subject(s);
        s.out.open("");
        self.record(s, kind, on, "unit", &fields);
        s.out.close("");
    }

    fn packet(
        &mut self,
        s: &mut Scope,
        [net, bp]: [&Place; 2],
        id: BlueprintId,
        rules: &[(RuleId, Vec<Expr>)],
        queue: QueueId,
        rank: Option<&Expr>,
    ) {
        let module = self.module;
        let blueprint = &module.blueprints[id.0 as usize];
        let body = Ty::Struct(blueprint.body);
        let bytes = module.structure(blueprint.body).size;
        let args: Vec<&Expr> = rules.iter().take(4).flat_map(|(_, args)| args).take(4).collect();
        let exprs: Vec<&Expr> = rank.into_iter().chain(args.iter().copied()).collect();
        let mut header =
            if self.is_nowhere(s, net) { "(hw_net){0}".into() } else { self.seen(s, net).lvalue() };
        let image = Place { ty: body.clone(), ..bp.clone() };
        let mut image_at = self.seen_address(s, &image);
        if exprs.iter().any(|e| !self.plain(e)) {
            header = s.keep("hw_net", &header);
            let pointer = format!("const {} *", self.type_of(&body));
            image_at = s.keep(&pointer, &image_at).clone();
        }
        let mut texts = self.values(s, exprs);
        let rank = if rank.is_some() { Some(texts.remove(0)) } else { None };
        let mut fields = vec![format!(".net = {header}")];
        fields.extend(rank.map(|rank| format!(".rank = {rank}")));
        if !texts.is_empty() {
            fields.push(format!(".args = {{{}}}", texts.join(", ")));
        }
        fields.push(format!(".queue = {}, .blueprint = {}, .rules = {}", queue.0, id.0, rules.len().min(4)));
        if !rules.is_empty() {
            let numbers: Vec<String> = rules.iter().take(4).map(|(rule, _)| rule.0.to_string()).collect();
            fields.push(format!(".rule = {{{}}}", numbers.join(", ")));
        }
        let data_at = blueprint.data_at.map_or("UINT32_MAX".to_owned(), |at| at.to_string());
        fields.push(format!(".data_at = {data_at}, .bytes = {bytes}"));
        let on = self.subject(s);
        s.out.open("");
        let record = self.record_with(s, "HW_PACKET", on, "packet", &fields, bytes);
        s.out.line(&format!("memcpy({record} + 1, {image_at}, {bytes});"));
        s.out.close("");
    }

    fn timer_start(&mut self, s: &mut Scope, timer: &Place, index: u32, dur: &Expr) {
        let dur = self.expr(s, dur);
        // Never 0, which means "not armed"; never past the end of time.
        let deadline = s.keep("uint64_t", &format!("hw_max_u64(hw_sat_add(run->now, {dur}), 1)"));
        self.timer(s, "HW_TIMER_START", timer, index, &deadline);
    }

    /// Timers run in the keyed context or in the fresh one: which, its place tells.
    fn timer(&mut self, s: &mut Scope, kind: &str, timer: &Place, index: u32, deadline: &str) {
        self.store(s, timer, deadline);
        let fresh = match timer.base {
            Base::Fresh => true,
            Base::Ref(n) => s.refs.get(usize::from(n)).is_some_and(|r| r.kind.is_fresh()),
            Base::Local | Base::Event | Base::Keyed | Base::Global(_) | Base::Scratch | Base::Blueprint => {
                false
            }
        };
        let fields = [format!(".deadline = {deadline}"), format!(".timer = {index}")];
        s.out.open("");
        self.record(s, kind, if fresh { "1" } else { "0" }, "timer", &fields);
        s.out.close("");
    }

    /// Makes the reserved slot a context: all defaults, but for the id that the engine put there.
    fn new_context(&mut self, s: &mut Scope, context: ContextId) {
        let Slot::Present(_) = s.slot else { return };
        let ty = Ty::Struct(self.module.contexts[context.0 as usize].body);
        let name = self.type_of(&ty);
        let value = self.initial(&ty);
        s.out.open("");
        s.out.line(&format!("{name} *made = ({name} *)run->memory->fresh;"));
        s.out.line("const hw_id made_id = hw_id_at(&made->head.id);");
        if value == "{0}" {
            s.out.line("memset(made, 0, sizeof *made);");
        } else {
            s.out.line(&format!("*made = ({name}){value};"));
        }
        s.out.line("made->head.id = made_id;");
        s.out.line("run->created = 1;");
        s.out.line("run->subject = run->memory->keyed_type == 0;");
        let fields = [".id = made_id".to_owned(), format!(".context = {}", context.0)];
        self.record(s, "HW_NEW_CONTEXT", "1", "context", &fields);
        s.out.close("");
    }

    /// Instructions on the context itself.
    fn context(&mut self, s: &mut Scope, kind: &str, on: Base, id: &str) {
        let fresh = match s.slot {
            Slot::Present(context) => Some(context),
            Slot::Any | Slot::Absent => None,
        };
        let fields = |context: &str| [format!(".id = {id}"), format!(".context = {context}")];
        match (on, s.found, fresh) {
            (Base::Fresh, _, None) => {}
            (Base::Fresh, _, Some(context)) => {
                s.out.open("");
                self.record(s, kind, "1", "context", &fields(&context.0.to_string()));
                s.out.close("");
            }
            (_, Found::Context(context), _) => {
                s.out.open("");
                self.record(s, kind, "0", "context", &fields(&context.0.to_string()));
                s.out.close("");
            }
            // What was made, if anything was: then it is known what, for nothing else is made.
            (_, Found::Any | Found::Nothing, _) => {
                s.out.open("if (run->subject || run->memory->keyed_type != 0)");
                let context = "run->subject ? run->fresh_type : run->memory->keyed_type - 1";
                self.record(s, kind, "run->subject", "context", &fields(context));
                s.out.close("");
            }
        }
    }

    fn alias(&mut self, s: &mut Scope, kind: &str, id: &Place) {
        let id = self.id(s, id);
        self.context(s, kind, Base::Keyed, &id);
    }

    fn notify(
        &mut self,
        s: &mut Scope,
        on: Base,
        code: u32,
        error: Option<&Expr>,
        id: Option<&Place>,
        args: &[Expr],
    ) {
        let args = &args[..args.len().min(4)];
        let mut fields = vec![format!(".code = {code}")];
        let plain = args.iter().all(|e| self.plain(e));
        if let Some(error) = error {
            let mut text = format!("(uint32_t){}", paren(&self.expr(s, error)));
            if !plain {
                text = s.keep("uint32_t", &text);
            }
            fields.push(format!(".error = {text}"));
        }
        if let Some(id) = id {
            let mut text = self.id(s, id);
            if !plain {
                text = s.keep("hw_id", &text);
            }
            fields.push(format!(".id = {text}"));
        }
        let values = self.values(s, args);
        if !values.is_empty() {
            let values: Vec<String> = values.iter().zip(args).map(|(value, e)| widened(value, e)).collect();
            fields.push(format!(".arg = {{{}}}", values.join(", ")));
        }
        let on = self.on(s, on);
        s.out.open("");
        self.record(s, "HW_NOTIFY", on, "notify", &fields);
        s.out.close("");
    }

    fn raise(&mut self, s: &mut Scope, event: EventId, from: &Place, target: Option<&Place>) {
        let bytes = self.module.event_size(event) as u32;
        let id = target.map(|place| self.id(s, place));
        let header = Place { ty: Ty::Struct(hawser_ir::StructId(0)), ..from.clone() };
        let number = self.target(s, &header);
        let pointer = number.at.address();
        let line = format!("({pointer})->event = {};", event.0);
        self.guarded(s, &number, |s| s.out.line(&line));
        let mut fields: Vec<String> = id.map(|id| format!(".target = {id}")).into_iter().collect();
        fields.push(format!(".event = {}, .bytes = {bytes}", event.0));
        let on = self.subject(s);
        let at = self.seen_address(s, from);
        s.out.open("");
        let record = self.record_with(s, "HW_RAISE", on, "raise", &fields, bytes);
        s.out.line(&format!("memcpy({record} + 1, {at}, {bytes});"));
        s.out.close("");
    }

    fn signal(&mut self, s: &mut Scope, signal: u32, from: &Place) {
        let (_, structure) = self.module.signals[signal as usize];
        let bytes = self.module.structure(structure).size;
        let at = self.seen_address(s, from);
        let on = self.subject(s);
        let fields = [format!(".signal = {signal}, .bytes = {bytes}")];
        s.out.open("");
        let record = self.record_with(s, "HW_SIGNAL", on, "signal", &fields, bytes);
        if bytes > 0 {
            s.out.line(&format!("memcpy({record} + 1, {at}, {bytes});"));
        }
        s.out.close("");
    }

    fn queue(&mut self, s: &mut Scope, kind: &str, queue: QueueId, value: Option<&Expr>) {
        let mut fields = vec![format!(".queue = {}", queue.0)];
        fields.extend(value.map(|e| {
            let value = self.expr(s, e);
            format!(".value = {}", widened(&value, e))
        }));
        let on = self.subject(s);
        s.out.open("");
        self.record(s, kind, on, "queue", &fields);
        s.out.close("");
    }

    fn call_extern(&mut self, s: &mut Scope, callee: u32, args: &[Expr]) {
        let values = self.values(s, args);
        let on = self.subject(s);
        let fields = [format!(".extern_ = {callee}, .args = {}", args.len())];
        s.out.open("");
        let record = self.record_with(s, "HW_EXTERN", on, "extern", &fields, args.len() as u32 * 8);
        for (i, (value, e)) in values.iter().zip(args).enumerate() {
            s.out.line(&format!("((uint64_t *)({record} + 1))[{i}] = {};", widened(value, e)));
        }
        s.out.close("");
    }
}

/// A value as a 64-bit register: signed ones extended by their sign.
fn widened(value: &str, e: &Expr) -> String {
    if crate::number::Shape::of(&e.ty).signed {
        format!("(uint64_t){}", paren(value))
    } else {
        value.to_owned()
    }
}
