//! Instructions: one function per node. Each writes one record directly into the output.
//!
//! The room for a chain's worst case was checked before the chain began, so single records are not checked
//! again. A record is begun only after all its operands have been evaluated, because they may issue records
//! themselves.

use hawser_ir::{Base, BlueprintId, ContextId, EventId, Expr, Instr, Place, QueueId, RuleId, Ty, Uid};

use crate::emitter::Emitter;
use crate::number::paren;
use crate::scope::{ContextSlot, FoundContext, Scope};

/// The value of a field in a record.
#[derive(Clone, Debug)]
enum Field {
    Value(String),
    /// A pointer to an id.
    Id(String),
}

/// Returns the fields behind a record's header, with their default values.
fn all_fields(record: &str) -> &'static [(&'static str, &'static str)] {
    const NO_ID: &str = "(hw_id){{0}}";
    match record {
        "unit" => &[("uid", NO_ID), ("addr", "0"), ("len", "0"), ("off", "0")],
        "packet" => &[
            ("net", "(hw_net){0}"),
            ("rank", "0"),
            ("args[0]", "0"),
            ("args[1]", "0"),
            ("args[2]", "0"),
            ("args[3]", "0"),
            ("queue", "0"),
            ("blueprint", "0"),
            ("rules", "0"),
            ("rule[0]", "0"),
            ("rule[1]", "0"),
            ("rule[2]", "0"),
            ("rule[3]", "0"),
            ("data_at", "UINT32_MAX"),
            ("bytes", "0"),
        ],
        "timer" => &[("deadline", "0"), ("timer", "0"), ("pad", "0")],
        "context" => &[("id", NO_ID), ("context", "0"), ("pad", "0")],
        "notify" => &[
            ("id", NO_ID),
            ("code", "0"),
            ("error", "0"),
            ("arg[0]", "0"),
            ("arg[1]", "0"),
            ("arg[2]", "0"),
            ("arg[3]", "0"),
        ],
        "raise" => &[("target", NO_ID), ("event", "0"), ("bytes", "0")],
        "signal" => &[("signal", "0"), ("bytes", "0")],
        "queue" => &[("value", "0"), ("queue", "0"), ("pad", "0")],
        _ => &[("extern_", "0"), ("args", "0")],
    }
}

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
            Instr::DelTxOrderedData { uid } => self.unit(s, "HW_DEL_TX", uid, [None; 3]),
            Instr::DelRxOrderedData { uid } => self.unit(s, "HW_DEL_RX", uid, [None; 3]),
            Instr::PktGen { net, blueprint, bp, rules, queue, rank } => {
                self.packet(s, [net, bp], *blueprint, rules, *queue, rank.as_ref());
            }
            Instr::TimerStart { timer, index, dur } => self.timer_start(s, timer, *index, dur),
            Instr::TimerStop { timer, index } => self.timer(s, "HW_TIMER_STOP", timer, *index, "0"),
            Instr::NewCtx { context } => self.new_context(s, *context),
            Instr::DelCtx { on } => self.delete(s, *on),
            Instr::AddId { id } => self.alias(s, "HW_ADD_ID", id),
            Instr::DropId { id } => self.alias(s, "HW_DROP_ID", id),
            Instr::Notify { on, code, error, id, args } => {
                self.notify(s, *on, *code, error.as_ref(), id.as_ref(), args)
            }
            Instr::Raise { event, from, target } => self.raise(s, *event, from, target.as_ref()),
            Instr::Signal { signal, from } => self.signal(s, signal.0, from),
            Instr::SetQueueRate { queue, rate } => self.queue(s, "HW_QUEUE_RATE", *queue, Some(rate)),
            Instr::SetQueuePrio { queue, prio } => self.queue(s, "HW_QUEUE_PRIO", *queue, Some(prio)),
            Instr::QueueReset { queue } => self.queue(s, "HW_QUEUE_RESET", *queue, None),
            Instr::Extern { callee, args } => self.call_extern(s, callee.0, args),
        }
    }

    /// Returns the context that an instruction refers to. This is the fresh context if the instruction says
    /// so or if no context was found; otherwise it is the keyed one.
    fn on(&self, s: &Scope, base: Base) -> &'static str {
        if base == Base::Fresh { "1" } else { self.subject(s) }
    }

    /// Returns the context that owns a unit, a packet or a further id. If `of` is given, it is the keyed or
    /// the fresh context. Otherwise it is the fresh one if it exists, and the keyed one before that.
    fn owner(&self, s: &Scope, of: Option<&Place>) -> String {
        let Some(context) = of else {
            return if s.slot == ContextSlot::Absent {
                "0"
            } else {
                "run->created"
            }
            .into();
        };
        let reference = match context.base {
            Base::Keyed => return "0".into(),
            Base::Ref(n) => s.refs.get(usize::from(n)).filter(|r| !r.kind.is_fresh()),
            Base::Fresh | Base::Local | Base::Event | Base::Global(_) | Base::Scratch | Base::Blueprint => {
                None
            }
        };
        match reference {
            Some(reference) => format!("(const void *){} != HW_AT(run->memory->keyed)", reference.name),
            None => "1".into(),
        }
    }

    /// Writes a record of fixed size. Fields that are not given are zero.
    fn record(&mut self, s: &mut Scope, kind: &str, on: &str, name: &str, fields: &[(&str, Field)]) {
        s.out.open("");
        self.begin(s, kind, on, name, fields, 0);
        s.out.close("");
    }

    /// Begins a record of a type, with `tail` bytes behind its fixed part, and returns the variable that
    /// points to it. Fields are stored one by one, because compilers build the value of a whole structure on
    /// the stack first.
    fn begin(
        &mut self,
        s: &mut Scope,
        kind: &str,
        on: &str,
        name: &str,
        fields: &[(&str, Field)],
        tail: u32,
    ) -> &'static str {
        let record = "hw_new";
        let len = match tail.next_multiple_of(8) {
            0 => format!("sizeof(hw_{name}_rec)"),
            tail => format!("sizeof(hw_{name}_rec) + {tail}"),
        };
        s.out.line(&format!(
            "hw_{name}_rec *{record} = (hw_{name}_rec *)HW_AT(run->at);"
        ));
        s.out.line(&format!("run->at += {len};"));
        s.out.line(&format!(
            "{record}->header = (hw_record){{{kind}, {on}, 0, {len}}};"
        ));
        for (field, zero) in all_fields(name) {
            match fields.iter().find(|(given, _)| given == field) {
                Some((_, Field::Value(value))) => s.out.line(&format!("{record}->{field} = {value};")),
                Some((_, Field::Id(at))) => s.out.line(&format!("hw_put_id(&{record}->{field}, {at});")),
                None => s.out.line(&format!("{record}->{field} = {zero};")),
            }
        }
        record
    }

    fn unit(&mut self, s: &mut Scope, kind: &str, uid: &Uid, values: [Option<&Expr>; 3]) {
        let present: Vec<&Expr> = values.iter().copied().flatten().collect();
        let plain = present.iter().all(|e| self.plain(e));
        let owner = uid.of.as_ref();
        let uid = self.id_field(s, &uid.id, plain);
        let texts = self.values(s, present);
        let names = ["addr", "len", "off"];
        let named = names
            .iter()
            .zip(values)
            .filter(|(_, value)| value.is_some())
            .map(|(name, _)| *name);
        let mut fields = vec![("uid", uid)];
        fields.extend(named.zip(texts.into_iter().map(Field::Value)));
        let on = self.owner(s, owner);
        self.record(s, kind, &on, "unit", &fields);
    }

    /// Returns an id as a record's field. If it cannot wait until the record is written, it is copied.
    fn id_field(&mut self, s: &mut Scope, place: &Place, can_wait: bool) -> Field {
        if self.is_nowhere(s, place) {
            return Field::Value("(hw_id){{0}}".into());
        }
        if can_wait {
            return Field::Id(self.seen_address(s, place));
        }
        let id = self.id(s, place);
        Field::Value(s.keep("hw_id", &id))
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
        let mut header = if self.is_nowhere(s, net) {
            "(hw_net){0}".into()
        } else {
            self.seen(s, net).lvalue()
        };
        let image = Place { ty: body.clone(), ..bp.clone() };
        let mut image_at = self.seen_address(s, &image);
        if exprs.iter().any(|e| !self.plain(e)) {
            header = s.keep("hw_net", &header);
        }
        if exprs.iter().any(|e| !self.plain(e)) && !s.is_image(bp) {
            let pointer = format!("const {} *", self.type_of(&body));
            image_at = s.keep(&pointer, &image_at).clone();
        }
        let mut texts = self.values(s, exprs);
        let rank = if rank.is_some() {
            texts.remove(0)
        } else {
            "0".into()
        };
        let mut fields = vec![("net", header), ("rank", rank)];
        fields.extend(
            ["args[0]", "args[1]", "args[2]", "args[3]"]
                .into_iter()
                .zip(texts),
        );
        fields.push(("queue", queue.0.to_string()));
        fields.push(("blueprint", id.0.to_string()));
        fields.push(("rules", rules.len().min(4).to_string()));
        let numbers = rules.iter().map(|(rule, _)| rule.0.to_string());
        fields.extend(
            ["rule[0]", "rule[1]", "rule[2]", "rule[3]"]
                .into_iter()
                .zip(numbers),
        );
        fields.extend(blueprint.data_at.map(|at| ("data_at", at.to_string())));
        fields.push(("bytes", bytes.to_string()));
        let fields: Vec<_> = fields
            .into_iter()
            .map(|(name, value)| (name, Field::Value(value)))
            .collect();
        let on = self.owner(s, None);
        s.out.open("");
        let record = self.begin(s, "HW_PACKET", &on, "packet", &fields, bytes);
        if bytes > 0 && !s.is_image(bp) {
            s.out.line(&format!("memcpy({record} + 1, {image_at}, {bytes});"));
        }
        s.out.close("");
    }

    fn timer_start(&mut self, s: &mut Scope, timer: &Place, index: u32, dur: &Expr) {
        let dur = self.expr(s, dur);
        // Never 0, which means "not armed", and never beyond the largest time.
        let deadline = s.keep("uint64_t", &format!("hw_max_u64(hw_sat_add(run->now, {dur}), 1)"));
        self.timer(s, "HW_TIMER_START", timer, index, &deadline);
    }

    /// Writes a timer record. A timer belongs to the context that contains its place.
    fn timer(&mut self, s: &mut Scope, kind: &str, timer: &Place, index: u32, deadline: &str) {
        self.store(s, timer, deadline);
        let (fresh, global) = match timer.base {
            Base::Fresh => (true, None),
            Base::Global(context) => (false, Some(context)),
            Base::Ref(n) => match s.refs.get(usize::from(n)) {
                Some(reference) => (reference.kind.is_fresh(), self.module.global_of(&reference.ty)),
                None => (false, None),
            },
            Base::Local | Base::Event | Base::Keyed | Base::Scratch | Base::Blueprint => (false, None),
        };
        let fields = [
            ("deadline", Field::Value(deadline.to_owned())),
            ("timer", Field::Value(index.to_string())),
        ];
        match global {
            Some(context) => {
                s.out.open("");
                let record = self.begin(s, kind, "2", "timer", &fields, 0);
                s.out.line(&format!("{record}->header.global = {};", context.0));
                s.out.close("");
            }
            None => self.record(s, kind, if fresh { "1" } else { "0" }, "timer", &fields),
        }
    }

    /// Turns the reserved slot into a context: all defaults, except for the id that the engine stored there.
    fn new_context(&mut self, s: &mut Scope, context: ContextId) {
        let ContextSlot::Present(_) = s.slot else { return };
        let ty = Ty::Struct(self.module.contexts[context.0 as usize].body);
        let name = self.type_of(&ty);
        let initial = self.initialised("*made", &ty);
        s.out.open("");
        s.out
            .line(&format!("{name} *made = ({name} *)HW_AT(run->memory->fresh);"));
        s.out.line("const hw_id made_id = hw_id_at(&made->head.id);");
        initial.iter().for_each(|line| s.out.line(line));
        s.out.line("made->head.id = made_id;");
        s.out.line("run->created = 1;");
        s.out.line("run->subject = run->memory->keyed_type == 0;");
        let fields = [
            ("id", Field::Value("made_id".into())),
            ("context", Field::Value(context.0.to_string())),
        ];
        self.begin(s, "HW_NEW_CONTEXT", "1", "context", &fields, 0);
        s.out.close("");
    }

    fn delete(&mut self, s: &mut Scope, on: Base) {
        match (on, s.slot) {
            (Base::Fresh, ContextSlot::Any | ContextSlot::Absent) => {}
            (Base::Fresh, ContextSlot::Present(_)) => self.context(s, "HW_DEL_CONTEXT", "1", None),
            _ => self.context(s, "HW_DEL_CONTEXT", self.subject(s), None),
        }
    }

    fn alias(&mut self, s: &mut Scope, kind: &str, id: &Place) {
        let id = self.id_field(s, id, true);
        let on = self.owner(s, None);
        self.context(s, kind, &on, Some(id));
    }

    /// Writes an instruction about the context itself. `on` is 1 for the fresh one and 0 for the keyed one.
    /// It can also be an expression that decides at run time.
    fn context(&mut self, s: &mut Scope, kind: &str, on: &str, id: Option<Field>) {
        let (fresh, keyed) = (
            "run->fresh_type".to_owned(),
            "run->memory->keyed_type - 1".to_owned(),
        );
        let keyed = match s.found {
            FoundContext::Context(context) => context.0.to_string(),
            FoundContext::Any | FoundContext::Nothing => keyed,
        };
        let context = match on {
            "0" => keyed,
            "1" => fresh,
            either => format!("{either} ? {fresh} : {keyed}"),
        };
        let fields: Vec<_> = id.map(|id| ("id", id)).into_iter().collect();
        let fields = [fields, vec![("context", Field::Value(context))]].concat();
        if on == "1" || matches!(s.found, FoundContext::Context(_)) {
            return self.record(s, kind, on, "context", &fields);
        }
        let is_there = match on {
            "0" => "if (run->memory->keyed_type != 0)".to_owned(),
            either => format!("if ({either} || run->memory->keyed_type != 0)"),
        };
        s.out.open(&is_there);
        self.begin(s, kind, on, "context", &fields, 0);
        s.out.close("");
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
        let mut fields = vec![("code", Field::Value(code.to_string()))];
        let plain = args.iter().all(|e| self.plain(e));
        if let Some(error) = error {
            let mut text = format!("(uint32_t){}", paren(&self.expr(s, error)));
            if !plain {
                text = s.keep("uint32_t", &text);
            }
            fields.push(("error", Field::Value(text)));
        }
        if let Some(id) = id {
            fields.push(("id", self.id_field(s, id, plain)));
        }
        let values = self.values(s, args);
        let values: Vec<String> = values
            .iter()
            .zip(args)
            .map(|(value, e)| widened(value, e))
            .collect();
        let slots = ["arg[0]", "arg[1]", "arg[2]", "arg[3]"];
        fields.extend(slots.into_iter().zip(values.into_iter().map(Field::Value)));
        let on = self.on(s, on);
        self.record(s, "HW_NOTIFY", on, "notify", &fields);
    }

    fn raise(&mut self, s: &mut Scope, event: EventId, from: &Place, target: Option<&Place>) {
        let bytes = self.module.event_size(event) as u32;
        let id = target.map(|place| ("target", self.id_field(s, place, true)));
        let header = Place { ty: Ty::Struct(hawser_ir::StructId(0)), ..from.clone() };
        let number = self.target(s, &header);
        let line = format!("({})->event = {};", number.at.address(), event.0);
        self.guarded(s, &number, |s| s.out.line(&line));
        let own = [
            ("event", Field::Value(event.0.to_string())),
            ("bytes", Field::Value(bytes.to_string())),
        ];
        let fields: Vec<_> = id.into_iter().chain(own).collect();
        let on = if target.is_some() { "3" } else { self.subject(s) };
        let at = self.seen_address(s, from);
        s.out.open("");
        let record = self.begin(s, "HW_RAISE", on, "raise", &fields, bytes);
        s.out.line(&format!("memcpy({record} + 1, {at}, {bytes});"));
        s.out.close("");
    }

    fn signal(&mut self, s: &mut Scope, signal: u32, from: &Place) {
        let (_, structure) = self.module.signals[signal as usize];
        let bytes = self.module.structure(structure).size;
        let at = self.seen_address(s, from);
        let on = self.subject(s);
        let fields = [
            ("signal", Field::Value(signal.to_string())),
            ("bytes", Field::Value(bytes.to_string())),
        ];
        s.out.open("");
        let record = self.begin(s, "HW_SIGNAL", on, "signal", &fields, bytes);
        if bytes > 0 {
            s.out.line(&format!("memcpy({record} + 1, {at}, {bytes});"));
        }
        s.out.close("");
    }

    fn queue(&mut self, s: &mut Scope, kind: &str, queue: QueueId, value: Option<&Expr>) {
        let value = value.map(|e| {
            let value = self.expr(s, e);
            ("value", Field::Value(widened(&value, e)))
        });
        let fields: Vec<_> = value
            .into_iter()
            .chain([("queue", Field::Value(queue.0.to_string()))])
            .collect();
        let on = self.owner(s, None);
        self.record(s, kind, &on, "queue", &fields);
    }

    fn call_extern(&mut self, s: &mut Scope, callee: u32, args: &[Expr]) {
        let values = self.values(s, args);
        let on = self.subject(s);
        let fields = [
            ("extern_", Field::Value(callee.to_string())),
            ("args", Field::Value(args.len().to_string())),
        ];
        s.out.open("");
        let record = self.begin(s, "HW_EXTERN", on, "extern", &fields, args.len() as u32 * 8);
        for (i, (value, e)) in values.iter().zip(args).enumerate() {
            s.out.line(&format!(
                "((uint64_t *)({record} + 1))[{i}] = {};",
                widened(value, e)
            ));
        }
        s.out.close("");
    }
}

/// Returns a value as a 64-bit register; signed values are sign-extended.
fn widened(value: &str, e: &Expr) -> String {
    if hawser_ir::number::ScalarShape::from_type(&e.ty).signed {
        format!("(uint64_t){}", paren(value))
    } else {
        value.to_owned()
    }
}
