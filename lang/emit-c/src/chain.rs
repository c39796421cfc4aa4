//! Chains in C: a function for each chain and kind of keyed context, and the dispatch.

use hawser_ir::{Chain, ContextId, EventId, EventKind, Granularity, Place, Precondition, Processor, Ty};

use crate::emitter::Emitter;
use crate::number::paren;
use crate::scope::{ContextSlot, FoundContext, Instance, ObjectExpr, Scope};
use crate::writer::Writer;

impl Emitter<'_> {
    /// Prints all chains, and returns the text of the function `mtp_react`, which stands behind them.
    pub(crate) fn chains(&mut self) -> String {
        for context in 0..self.module.contexts.len() {
            self.invariants(ContextId(context as u32));
        }
        for event in self.printed_chains() {
            self.chain(event);
        }
        self.react()
    }

    fn printed_chains(&self) -> Vec<EventId> {
        let all = || (0..self.module.chains.len() as u32).map(EventId).collect();
        self.options.chains.clone().unwrap_or_else(all)
    }

    /// Prints the function that returns the first broken invariant of a context as an outcome.
    fn invariants(&mut self, context: ContextId) {
        let module = self.module;
        let found = &module.contexts[context.0 as usize];
        if found.invariants.is_empty() {
            return;
        }
        let ty = self.structure(found.body);
        let name = self.invariants_name(context);
        let head = format!("HW_PART uint64_t {name}(hw_run *run, const {ty} *keyed)");
        self.prototypes += &format!("{head};\n");
        let mut s = Scope::new();
        s.names.take("keyed");
        s.keyed = Some((ObjectExpr::Pointer("keyed".into()), Ty::Struct(found.body)));
        s.out.open(&head);
        for (condition, index) in &found.invariants {
            let holds = self.expr(&mut s, condition);
            s.out.open(&format!("if (HW_UNLIKELY(!{}))", paren(&holds)));
            s.out.line(&format!("return HW_OUTCOME(HW_ASSERT, {index});"));
            s.out.close("");
        }
        s.out.line("return HW_DONE;");
        s.out.close("");
        self.functions += &s.out.finish();
        self.functions.push('\n');
    }

    fn invariants_name(&self, context: ContextId) -> String {
        format!("invariants_{}", context.0)
    }

    fn chain_name(&self, event: EventId) -> String {
        format!(
            "chain_{}_{}",
            crate::names::identifier(&self.module.events[event.0 as usize].name),
            event.0
        )
    }

    /// Prints a chain. It disarms the timer that raised its event, and branches by the context that was
    /// found.
    fn chain(&mut self, event: EventId) {
        let module = self.module;
        let chain = &module.chains[event.0 as usize];
        let name = self.chain_name(event);
        let ty = self.structure(module.events[event.0 as usize].body);
        let head = format!("HW_PART uint64_t {name}(hw_run *run, {ty} *event)");
        self.prototypes += &format!("{head};\n");
        let mut out = Writer::default();
        out.open(&head);
        if let Some(context) = chain.creates {
            out.line(&format!("run->fresh_type = {};", context.0));
        }
        out.open("switch (run->memory->keyed_type)");
        for found in self.cases(event) {
            let label = match found {
                FoundContext::Nothing => "case 0:".to_owned(),
                FoundContext::Context(context) => format!("case {}:", context.0 + 1),
                FoundContext::Any => "default:".to_owned(),
            };
            out.line(&label);
            if self.is_idle(event, chain, found) {
                out.line("    return HW_DONE;");
            } else {
                let case = self.case(event, chain, found);
                out.line(&format!("    return {case}(run, event);"));
            }
        }
        out.close("");
        out.close("");
        self.functions += &out.finish();
        self.functions.push('\n');
    }

    /// Returns the cases of the lookup: no context, a context of each type for which something runs or must
    /// hold here, any other context.
    fn cases(&self, event: EventId) -> Vec<FoundContext> {
        let chain = &self.module.chains[event.0 as usize];
        let keyed = |(_, context): &(usize, &hawser_ir::Context)| context.granularity != Granularity::Global;
        let concerned = |(i, context): &(usize, &hawser_ir::Context)| {
            let id = ContextId(*i as u32);
            !context.invariants.is_empty()
                || chain.processors.iter().any(|p| p.when == Precondition::Found(id))
                || context.timers.iter().any(|timer| timer.event == event)
        };
        let contexts = self
            .module
            .contexts
            .iter()
            .enumerate()
            .filter(keyed)
            .filter(concerned);
        let contexts = contexts.map(|(i, _)| FoundContext::Context(ContextId(i as u32)));
        std::iter::once(FoundContext::Nothing)
            .chain(contexts)
            .chain([FoundContext::Any])
            .collect()
    }

    /// True if a case has no effect: no processor runs, no timer is disarmed, and no invariant must hold.
    fn is_idle(&self, event: EventId, chain: &Chain, found: FoundContext) -> bool {
        let context = |id: ContextId| &self.module.contexts[id.0 as usize];
        let held = chain.globals.iter().any(|id| !context(*id).invariants.is_empty());
        let concerned = match found {
            FoundContext::Context(id) => {
                let disarms = context(id).timers.iter().any(|timer| timer.event == event);
                disarms || !context(id).invariants.is_empty()
            }
            FoundContext::Nothing | FoundContext::Any => false,
        };
        !held && !concerned && running(chain, found).next().is_none()
    }

    /// Prints the function for one case of a chain, and returns its name.
    fn case(&mut self, event: EventId, chain: &Chain, found: FoundContext) -> String {
        let module = self.module;
        let suffix = match found {
            FoundContext::Nothing => "nothing".to_owned(),
            FoundContext::Any => "other".to_owned(),
            FoundContext::Context(context) => {
                format!(
                    "{}_{}",
                    crate::names::identifier(&module.contexts[context.0 as usize].name),
                    context.0
                )
            }
        };
        let name = format!("{}_{suffix}", self.chain_name(event));
        let body = module.events[event.0 as usize].body;
        let ty = self.structure(body);
        let head = format!("HW_PART uint64_t {name}(hw_run *run, {ty} *event)");
        self.prototypes += &format!("{head};\n");
        let mut s = Scope::new();
        s.names.take("event");
        s.names.take("keyed");
        s.names.take("scratch");
        s.event = Some((ObjectExpr::Pointer("event".into()), Ty::Struct(body)));
        s.found = found;
        s.out.open(&head);
        if let FoundContext::Context(context) = found {
            let body = module.contexts[context.0 as usize].body;
            let ty = self.structure(body);
            s.out
                .line(&format!("{ty} *keyed = ({ty} *)HW_AT(run->memory->keyed);"));
            s.keyed = Some((ObjectExpr::Pointer("keyed".into()), Ty::Struct(body)));
            self.disarm(&mut s, event, context);
        }
        if let Some(id) = module.scratch {
            let ty = self.structure(id);
            s.out
                .line(&format!("{ty} *scratch = ({ty} *)HW_AT(run->memory->scratch);"));
            s.scratch = Some((ObjectExpr::Pointer("scratch".into()), Ty::Struct(id)));
        }
        self.processors(&mut s, chain, found);
        self.outcome(&mut s, chain, found);
        s.out.close("");
        self.functions += &s.out.finish();
        self.functions.push('\n');
        name
    }

    /// Sets the field of an expired timer to zero, so that its own event finds it unarmed. If several timers
    /// raise this event, the earliest one has expired.
    fn disarm(&mut self, s: &mut Scope, event: EventId, context: ContextId) {
        let module = self.module;
        if module.events[event.0 as usize].kind != EventKind::Timer {
            return;
        }
        let timers = &module.contexts[context.0 as usize].timers;
        let places: Vec<Place> = timers
            .iter()
            .filter(|timer| timer.event == event)
            .map(|t| Place {
                base: hawser_ir::Base::Keyed,
                offset: t.offset,
                steps: Vec::new(),
                ty: Ty::Timer,
            })
            .collect();
        if let [only] = &places[..] {
            self.store(s, only, "0");
            return;
        }
        if places.is_empty() {
            return;
        }
        s.out.line("uint64_t *due = HW_NONE;");
        for place in &places {
            let at = self.target(s, place).at;
            s.out
                .line(&format!("if ({0} != 0 && (!due || {0} < *due))", at.lvalue()));
            s.out.line(&format!("    due = {};", at.address()));
        }
        s.out.line("if (due)");
        s.out.line("    *due = 0;");
    }

    /// Calls the processors that run in this case, in order, until one ends the run.
    fn processors(&mut self, s: &mut Scope, chain: &Chain, found: FoundContext) {
        let running: Vec<&Processor> = running(chain, found).collect();
        if running.is_empty() {
            return;
        }
        s.out.open("do");
        for processor in running {
            let uses_fresh = self.summaries[processor.func.0 as usize].fresh;
            match (uses_fresh, chain.creates) {
                (true, Some(context)) => {
                    s.out.open("if (HW_AT(run->memory->fresh))");
                    s.slot = ContextSlot::Present(context);
                    self.processor(s, processor);
                    s.out.otherwise();
                    s.slot = ContextSlot::Absent;
                    self.processor(s, processor);
                    s.out.close("");
                    s.slot = ContextSlot::Any;
                }
                (true, None) => {
                    s.slot = ContextSlot::Absent;
                    self.processor(s, processor);
                    s.slot = ContextSlot::Any;
                }
                (false, _) => self.processor(s, processor),
            }
        }
        s.out.close(" while (0);");
    }

    fn processor(&mut self, s: &mut Scope, processor: &Processor) {
        let summary = self.summaries[processor.func.0 as usize].clone();
        let params = self.func(processor.func).params.clone();
        let (mut kinds, mut texts) = (Vec::new(), Vec::new());
        for (i, (place, param)) in processor.args.iter().zip(&params).enumerate() {
            let (hawser_ir::FuncParam::Ref { ty, .. } | hawser_ir::FuncParam::Value { ty, .. }) = param;
            let written = summary.writes.get(i).copied().unwrap_or(false);
            let (text, kind) = self.reference(s, place, ty, written, false);
            texts.push(format!(", {text}"));
            kinds.push(kind);
        }
        let func = processor.func;
        let name = self.instance(Instance { func, refs: kinds, found: s.found, slot: s.slot });
        let result = self.func(func).ret.is_some() && summary.halts;
        let tail = if result { ", &(uint64_t){0}" } else { "" };
        let call = format!("{name}(run{}{tail})", texts.concat());
        if summary.halts {
            s.out.line(&format!("if ({call})"));
            s.out.line("    break;");
        } else {
            s.out.line(&format!("{call};"));
        }
    }

    /// Prints the outcome: the statement that ended the run, unless an invariant is broken.
    fn outcome(&mut self, s: &mut Scope, chain: &Chain, found: FoundContext) {
        let module = self.module;
        let has = |id: &ContextId| !module.contexts[id.0 as usize].invariants.is_empty();
        let mut checks = Vec::new();
        if let FoundContext::Context(context) = found
            && has(&context)
        {
            checks.push((context, "keyed".to_owned(), String::new()));
        }
        let creates = running(chain, found).any(|p| self.summaries[p.func.0 as usize].fresh);
        if let Some(context) = chain.creates.filter(has).filter(|_| creates) {
            let ty = self.structure(module.contexts[context.0 as usize].body);
            checks.push((
                context,
                format!("({ty} *)HW_AT(run->memory->fresh)"),
                "run->created && ".to_owned(),
            ));
        }
        for context in chain.globals.iter().filter(|id| has(id)) {
            let ty = self.structure(module.contexts[context.0 as usize].body);
            checks.push((
                *context,
                format!("({ty} *)HW_AT(HW_AT(run->memory->globals)[{}])", context.0),
                String::new(),
            ));
        }
        if !checks.is_empty() {
            // Refusals and false assertions are reported unchanged.
            s.out.line("if (run->outcome & 2)");
            s.out.line("    return run->outcome;");
            s.out.line("uint64_t broken;");
        }
        for (context, at, condition) in checks {
            let name = self.invariants_name(context);
            s.out
                .line(&format!("if ({condition}(broken = {name}(run, {at})) != 0)"));
            s.out.line("    return broken;");
        }
        s.out.line("return run->outcome;");
    }

    /// Prints a program for each chain in eBPF, because the verifier has to check each by itself.
    pub(crate) fn chain_entries(&mut self) -> String {
        let mut out = Writer::default();
        out.line("");
        for event in self.printed_chains() {
            let (index, name) = (event.0 as usize, self.chain_name(event));
            let ty = self.structure(self.module.events[index].body);
            let bytes = self.module.chains[index].bounds.record_bytes;
            out.line(&format!("HW_CHAIN({index}, {name}, {ty}, {bytes})"));
        }
        self.packet_parsers(&mut out);
        out.finish()
    }

    /// Prints the dispatch, which checks the room and branches by the event's number.
    fn react(&mut self) -> String {
        let module = self.module;
        let mut out = Writer::default();
        if self.is_ebpf() {
            return out.finish();
        }
        out.open("HW_INLINE uint64_t mtp_chain(hw_run *run, hw_event *event, size_t room)");
        out.line("uint64_t outcome = HW_DONE;");
        out.open("switch (event->event)");
        for event in self.printed_chains() {
            let index = event.0 as usize;
            let (chain, name) = (&module.chains[index], self.chain_name(event));
            let ty = self.structure(module.events[index].body);
            out.line(&format!("case {index}:"));
            if chain.bounds.record_bytes > 0 {
                out.line(&format!("    if (room < {})", chain.bounds.record_bytes));
                out.line("        return HW_NO_ROOM;");
            }
            out.line(&format!("    outcome = {name}(run, ({ty} *)event);"));
            out.line("    break;");
        }
        out.line("default:");
        out.line("    break;");
        out.close("");
        out.line("/* Only parsers give inputs up; a chain that would is over. */");
        out.line("return (uint32_t)outcome == HW_DROPPED ? HW_STOP : outcome;");
        out.close("");
        out.line("");
        self.react_entry(&mut out);
        out.finish()
    }

    /// Prints the entry points that the program's table names.
    fn react_entry(&self, out: &mut Writer) {
        out.line(
            "static uint64_t mtp_react(const uint64_t *params, uint8_t *event, const hw_memory *memory,",
        );
        out.open("                          hw_records *out)");
        out.line("hw_event *head = (hw_event *)event;");
        let wanted = if self.module.signals.is_empty() {
            ""
        } else {
            ", .wanted = out->wanted"
        };
        out.line(&format!(
            "hw_run state = {{.now = head->now, .params = params, .at = out->at, .memory = memory, .event = event{wanted}}};"
        ));
        out.line("const uint64_t outcome = mtp_chain(&state, head, (size_t)(out->end - out->at));");
        out.line("out->at = state.at;");
        out.line("return outcome;");
        out.close("");
        out.line("");
    }
}

/// Returns the processors of a chain that run in a case.
fn running(chain: &Chain, found: FoundContext) -> impl Iterator<Item = &Processor> {
    chain
        .processors
        .iter()
        .filter(move |processor| match processor.when {
            Precondition::Always => true,
            Precondition::Found(context) => found == FoundContext::Context(context),
            Precondition::NotFound => found == FoundContext::Nothing,
        })
}
