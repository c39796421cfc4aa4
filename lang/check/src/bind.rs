//! Binding: the arguments of a processor's parameters in a chain, chosen by their types.

use hawser_ir::{Base, ContextId, FuncId, Place, Precondition, Processor, StructId, Ty};
use hawser_syntax::Diagnostic;
use hawser_syntax::ast::Span;

use crate::body::{inside, region};
use crate::chain::ProcessorEntry;
use crate::codes;
use crate::state::{Checker, EVENT, MemberType, RecordKind};
use crate::types::Type;

/// The diagnostic has been recorded.
struct Reported;

/// A way to bind a processor's parameters.
struct Binding {
    args: Vec<Place>,
    keyed: Option<ContextId>,
    absent: bool,
    /// Part types that a keyed context must provide: position in `args`, structure.
    parts: Vec<(usize, StructId)>,
}

impl Checker<'_> {
    /// Returns the keyed contexts that a chain's processors name explicitly.
    pub(crate) fn contexts_asked_for(&self, funcs: &[ProcessorEntry<'_>]) -> Vec<ContextId> {
        let mut asked = Vec::new();
        for entry in funcs {
            for ty in &self.funcs[entry.func].param_types {
                let Type::Value(ty) = ty else { continue };
                if let Some(context) = self.context_of(ty)
                    && !self.is_global(context)
                    && !asked.contains(&context)
                {
                    asked.push(context);
                }
            }
        }
        asked
    }

    /// Binds a processor. If it takes a part of a keyed context, there is one result for each context type
    /// that has the part. At most one of them is found at run time.
    pub(crate) fn bind_processor(
        &mut self,
        event: u32,
        entry: &ProcessorEntry<'_>,
        asked: &[ContextId],
    ) -> Vec<Processor> {
        let (func, at) = (entry.func, entry.at);
        let Some(binding) = self.bind_parameters(event, entry) else {
            return Vec::new();
        };
        if binding.absent && (binding.keyed.is_some() || !binding.parts.is_empty()) {
            self.error_hint(
                codes::TWO_KEYED,
                at,
                "a processor cannot take both a keyed context and `no_ctx`",
                "this processor would never run",
                "write one processor for each case",
            );
            return Vec::new();
        }
        let func_id = FuncId(func as u32);
        let when = |keyed: Option<ContextId>| match keyed {
            Some(context) => Precondition::Found(context),
            None if binding.absent => Precondition::NotFound,
            None => Precondition::Always,
        };
        if binding.parts.is_empty() {
            return vec![Processor { func: func_id, when: when(binding.keyed), args: binding.args }];
        }
        let Some(candidates) = self.contexts_with_parts(&binding, entry, asked) else {
            return Vec::new();
        };
        if candidates.is_empty() {
            let (_, part) = binding.parts[0];
            let name = self.module.structs[part.0 as usize].name.clone();
            self.cannot_bind(
                at,
                func,
                &name,
                "neither a context nor the scratchpad has it as a `part`",
            );
        }
        let mut processors = Vec::new();
        for (context, offsets) in candidates {
            let mut args = binding.args.clone();
            let body = self.module.contexts[context.0 as usize].body;
            for ((position, part), offset) in binding.parts.iter().zip(offsets) {
                args[*position] = inside(&region(Base::Keyed, Ty::Struct(body)), offset, Ty::Struct(*part));
            }
            processors.push(Processor { func: func_id, when: Precondition::Found(context), args });
        }
        processors
    }

    /// Returns the keyed contexts that have all the required parts, with the offsets of these parts. If the
    /// chain names some of them, only those are returned. Returns `None` if an error was reported.
    fn contexts_with_parts(
        &mut self,
        binding: &Binding,
        entry: &ProcessorEntry<'_>,
        asked: &[ContextId],
    ) -> Option<Vec<(ContextId, Vec<u32>)>> {
        let mut suited = Vec::new();
        for context in (0..self.module.contexts.len() as u32).map(ContextId) {
            let is_other = binding.keyed.is_some_and(|keyed| keyed != context);
            if self.is_global(context) || is_other {
                continue;
            }
            let body = self.module.contexts[context.0 as usize].body;
            let mut offsets = Vec::new();
            for (_, part) in &binding.parts {
                offsets.extend(self.part_offset(body, *part, entry).ok()?);
            }
            if offsets.len() == binding.parts.len() {
                suited.push((context, offsets));
            }
        }
        if suited.iter().any(|(context, _)| asked.contains(context)) {
            suited.retain(|(context, _)| asked.contains(context));
        }
        Some(suited)
    }

    /// Returns the offset of the part on which a processor runs in a record. If there are several parts of a
    /// type, the processor names one.
    fn part_offset(
        &mut self,
        body: StructId,
        part: StructId,
        entry: &ProcessorEntry<'_>,
    ) -> Result<Option<u32>, Reported> {
        let Some(record) = self.record_of(body) else {
            return Ok(None);
        };
        let fields = &self.module.structs[body.0 as usize].fields;
        let parts: Vec<_> = self.records[record]
            .members
            .iter()
            .filter(|member| matches!(member.ty, MemberType::Part(_)))
            .filter_map(|member| fields.iter().find(|field| field.name == member.name.name))
            .filter(|field| field.ty == Ty::Struct(part))
            .collect();
        if let [] | [_] = parts[..] {
            return Ok(parts.first().map(|field| field.offset));
        }
        let named = parts
            .iter()
            .find(|field| entry.part.is_some_and(|name| name.name == field.name));
        if let (Some(field), Some(name)) = (named, entry.part) {
            let offset = field.offset;
            self.note_field(body, name);
            self.parts_met.insert(name.span);
            self.note_field(body, name);
            return Ok(Some(offset));
        }
        self.parts_met.extend(entry.part.map(|name| name.span)); // report each only once, here
        let names: Vec<String> = parts.iter().map(|field| field.name.clone()).collect();
        self.which_part(entry, record, part, &names);
        Err(Reported)
    }

    fn which_part(&mut self, entry: &ProcessorEntry<'_>, record: usize, part: StructId, names: &[String]) {
        let owner = &self.records[record].name;
        let part = &self.module.structs[part.0 as usize].name;
        let func = self.funcs[entry.func].name;
        let listed: Vec<String> = names
            .iter()
            .map(|name| format!("`{}({name})`", func.name))
            .collect();
        self.report(
            Diagnostic::error(
                codes::WHICH_PART,
                entry.part.map_or(entry.at, |name| name.span),
                format!(
                    "`{}` does not say on which `{part}` of `{owner}` it runs",
                    func.name
                ),
            )
            .label(format!("`{owner}` has {} parts of this type", names.len()))
            .related(func.span, "declared here")
            .hint(format!("write {}", listed.join(" or "))),
        );
    }

    /// Reports names of parts that no processor of a chain needed.
    pub(crate) fn report_parts_not_met(&mut self, entries: &[ProcessorEntry<'_>]) {
        let mut seen = Vec::new();
        for name in entries.iter().filter_map(|entry| entry.part) {
            if self.parts_met.contains(&name.span) || seen.contains(&name.span) {
                continue;
            }
            seen.push(name.span);
            self.error_hint(
                codes::WHICH_PART,
                name.span,
                format!("no processor here runs on `{}`", name.name),
                "no processor here takes a part of which there are several",
                "remove the name: a part that is the only one of its type needs none",
            );
        }
    }

    fn bind_parameters(&mut self, event: u32, entry: &ProcessorEntry<'_>) -> Option<Binding> {
        let (func, at) = (entry.func, entry.at);
        let types = self.funcs[func].param_types.clone();
        let mut binding = Binding { args: Vec::new(), keyed: None, absent: false, parts: Vec::new() };
        for ty in types {
            match ty {
                Type::NoContext => binding.absent = true,
                Type::Value(Ty::Struct(id)) => self.bind_structure(event, entry, id, &mut binding)?,
                Type::Value(ty) => {
                    let name = self.show(&ty);
                    self.cannot_bind(
                        at,
                        func,
                        &name,
                        "a parameter is bound by its type, and this type is a plain value",
                    );
                    return None;
                }
                Type::Packet => {
                    self.cannot_bind(
                        at,
                        func,
                        "pkt_t",
                        "a chain has no packet, only the values that its parser extracted",
                    );
                    return None;
                }
                Type::Error | Type::Void | Type::Instr | Type::InstrList | Type::EventList => return None,
            }
        }
        Some(binding)
    }

    fn bind_structure(
        &mut self,
        event: u32,
        entry: &ProcessorEntry<'_>,
        id: StructId,
        binding: &mut Binding,
    ) -> Option<()> {
        let (func, at) = (entry.func, entry.at);
        let whole = |base| region(base, Ty::Struct(id));
        if id == EVENT {
            binding.args.push(whole(Base::Event));
            return Some(());
        }
        let kind = self.record_of(id).map(|record| self.records[record].kind);
        match kind {
            Some(RecordKind::Event(index, _)) if index == event => binding.args.push(whole(Base::Event)),
            Some(RecordKind::Event(..)) => {
                let name = self.module.structs[id.0 as usize].name.clone();
                let own = self.module.events[event as usize].name.clone();
                self.cannot_bind(
                    at,
                    func,
                    &name,
                    &format!("this is a chain of `{own}`; `event_t` serves every event"),
                );
                return None;
            }
            Some(RecordKind::Context(index)) => {
                let context = ContextId(index);
                if self.is_global(context) {
                    binding.args.push(whole(Base::Global(context)));
                } else if binding.keyed.is_some() {
                    self.error_hint(
                        codes::TWO_KEYED,
                        at,
                        format!("`{}` takes two keyed contexts", self.funcs[func].name.name),
                        "a chain has one keyed context",
                        "to reach another context, `raise` an event for it",
                    );
                    return None;
                } else {
                    binding.keyed = Some(context);
                    binding.args.push(whole(Base::Keyed));
                }
            }
            Some(RecordKind::Scratchpad) => binding.args.push(whole(Base::Scratch)),
            Some(RecordKind::Struct) => {
                let place = self.bind_part(id, entry, binding).ok()?;
                binding.args.push(place);
            }
            Some(RecordKind::Signal(_) | RecordKind::Opt | RecordKind::Blueprint) | None => {
                let name = self.module.structs[id.0 as usize].name.clone();
                self.cannot_bind(at, func, &name, "a chain has events, contexts and the scratchpad");
                return None;
            }
        }
        Some(())
    }

    /// Binds a part: of the scratchpad, of a global context, or of the keyed context. The last case is
    /// settled when all parameters are known.
    fn bind_part(
        &mut self,
        id: StructId,
        entry: &ProcessorEntry<'_>,
        binding: &mut Binding,
    ) -> Result<Place, Reported> {
        let part = |base, body, offset| inside(&region(base, Ty::Struct(body)), offset, Ty::Struct(id));
        if let Some(body) = self.module.scratch
            && let Some(offset) = self.part_offset(body, id, entry)?
        {
            return Ok(part(Base::Scratch, body, offset));
        }
        for context in (0..self.module.contexts.len() as u32).map(ContextId) {
            let body = self.module.contexts[context.0 as usize].body;
            if self.is_global(context)
                && let Some(offset) = self.part_offset(body, id, entry)?
            {
                return Ok(part(Base::Global(context), body, offset));
            }
        }
        binding.parts.push((binding.args.len(), id));
        Ok(region(Base::Keyed, Ty::Struct(id)))
    }

    fn cannot_bind(&mut self, at: Span, func: usize, ty: &str, why: &str) {
        let name = self.funcs[func].name;
        self.report(
            Diagnostic::error(codes::CANNOT_BIND, at, format!("the parameter `{ty}` of `{}` cannot be bound", name.name))
                .label(why.to_owned())
                .related(name.span, "declared here")
                .hint("a processor takes the event, the keyed context, GLOBAL contexts, the scratchpad, or parts of these"),
        );
    }
}
