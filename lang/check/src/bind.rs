//! Binding: what a processor's parameters stand for in a chain, by their types.

use hawser_ir::{Base, ContextId, FuncId, Place, Processor, StructId, Ty, When};
use hawser_syntax::Diagnostic;
use hawser_syntax::ast::Span;

use crate::body::{inside, region};
use crate::codes;
use crate::state::{Checker, EVENT, MemberType, RecordKind};
use crate::types::Type;

/// One way to bind a processor's parameters.
struct Binding {
    args: Vec<Place>,
    keyed: Option<ContextId>,
    absent: bool,
    /// Part types that a keyed context is to provide: position among `args`, structure, place.
    parts: Vec<(usize, StructId, Span)>,
}

impl Checker<'_> {
    /// The keyed contexts that a chain's processors name outright.
    pub(crate) fn contexts_asked_for(&self, funcs: &[(usize, Span)]) -> Vec<ContextId> {
        let mut asked = Vec::new();
        for (func, _) in funcs {
            for ty in &self.funcs[*func].param_types {
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

    /// Binds a processor. With a part of a keyed context there is one result for each context
    /// type that has the part: at run time at most one of them is found.
    pub(crate) fn bind_processor(
        &mut self,
        event: u32,
        func: usize,
        at: Span,
        asked: &[ContextId],
    ) -> Vec<Processor> {
        let Some(binding) = self.bind_parameters(event, func, at) else {
            return Vec::new();
        };
        if binding.absent && (binding.keyed.is_some() || !binding.parts.is_empty()) {
            self.report(
                Diagnostic::error(
                    codes::TWO_KEYED,
                    at,
                    "a processor with a keyed context and `no_ctx`",
                )
                .label("it would never run")
                .hint("write two processors"),
            );
            return Vec::new();
        }
        let func_id = FuncId(func as u32);
        let when = |keyed: Option<ContextId>| match keyed {
            Some(context) => When::Found(context),
            None if binding.absent => When::NotFound,
            None => When::Always,
        };
        if binding.parts.is_empty() {
            return vec![Processor {
                func: func_id,
                when: when(binding.keyed),
                args: binding.args,
            }];
        }
        let candidates = self.contexts_with_parts(&binding, asked);
        if candidates.is_empty() {
            let (_, part, _) = binding.parts[0];
            let name = self.module.structs[part.0 as usize].name.clone();
            self.cannot_bind(
                at,
                func,
                &name,
                "no context, and no scratchpad, has it as a `part`",
            );
        }
        let mut processors = Vec::new();
        for context in candidates {
            let mut args = binding.args.clone();
            for (position, part, _) in &binding.parts {
                if let Some(offset) = self.part_offset(self.module.contexts[context.0 as usize].body, *part) {
                    let body = self.module.contexts[context.0 as usize].body;
                    args[*position] =
                        inside(&region(Base::Keyed, Ty::Struct(body)), offset, Ty::Struct(*part));
                }
            }
            processors.push(Processor {
                func: func_id,
                when: When::Found(context),
                args,
            });
        }
        processors
    }

    /// Keyed contexts with all the parts asked for; those that the chain names come first, and
    /// alone if there are some.
    fn contexts_with_parts(&self, binding: &Binding, asked: &[ContextId]) -> Vec<ContextId> {
        let all = (0..self.module.contexts.len() as u32)
            .map(ContextId)
            .filter(|c| !self.is_global(*c));
        let has_all = |context: &ContextId| {
            let body = self.module.contexts[context.0 as usize].body;
            binding
                .parts
                .iter()
                .all(|(_, part, _)| self.part_offset(body, *part).is_some())
                && binding.keyed.is_none_or(|keyed| keyed == *context)
        };
        let suited: Vec<ContextId> = all.filter(has_all).collect();
        let named: Vec<ContextId> = suited
            .iter()
            .copied()
            .filter(|context| asked.contains(context))
            .collect();
        if named.is_empty() { suited } else { named }
    }

    /// Where a record has a part of this type.
    fn part_offset(&self, body: StructId, part: StructId) -> Option<u32> {
        let record = self.record_of(body)?;
        let fields = &self.module.structs[body.0 as usize].fields;
        self.records[record]
            .members
            .iter()
            .filter(|member| matches!(member.ty, MemberType::Part(_)))
            .filter_map(|member| fields.iter().find(|field| field.name == member.name.name))
            .find(|field| field.ty == Ty::Struct(part))
            .map(|field| field.offset)
    }

    fn bind_parameters(&mut self, event: u32, func: usize, at: Span) -> Option<Binding> {
        let types = self.funcs[func].param_types.clone();
        let mut binding = Binding {
            args: Vec::new(),
            keyed: None,
            absent: false,
            parts: Vec::new(),
        };
        for ty in types {
            match ty {
                Type::NoContext => binding.absent = true,
                Type::Value(Ty::Struct(id)) => self.bind_structure(event, func, at, id, &mut binding)?,
                Type::Value(ty) => {
                    let name = self.show(&ty);
                    self.cannot_bind(
                        at,
                        func,
                        &name,
                        "parameters are bound by type, and this is a plain value",
                    );
                    return None;
                }
                Type::Packet => {
                    self.cannot_bind(
                        at,
                        func,
                        "pkt_t",
                        "a chain has no packet, only what its parser took from it",
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
        func: usize,
        at: Span,
        id: StructId,
        binding: &mut Binding,
    ) -> Option<()> {
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
                    self.report(
                        Diagnostic::error(
                            codes::TWO_KEYED,
                            at,
                            format!("`{}` asks for two keyed contexts", self.funcs[func].name.name),
                        )
                        .label("a chain has one")
                        .hint("to reach another context, `raise` an event for it"),
                    );
                    return None;
                } else {
                    binding.keyed = Some(context);
                    binding.args.push(whole(Base::Keyed));
                }
            }
            Some(RecordKind::Scratchpad) => binding.args.push(whole(Base::Scratch)),
            Some(RecordKind::Struct) => {
                let place = self.bind_part(id, at, binding);
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

    /// A part: of the scratchpad, of a global context, or of the keyed context, to be settled
    /// when all parameters are known.
    fn bind_part(&self, id: StructId, at: Span, binding: &mut Binding) -> Place {
        let part = |base, body, offset| inside(&region(base, Ty::Struct(body)), offset, Ty::Struct(id));
        if let Some((body, offset)) = self
            .module
            .scratch
            .and_then(|s| Some((s, self.part_offset(s, id)?)))
        {
            return part(Base::Scratch, body, offset);
        }
        for (index, context) in self.module.contexts.iter().enumerate() {
            let context_id = ContextId(index as u32);
            if self.is_global(context_id)
                && let Some(offset) = self.part_offset(context.body, id)
            {
                return part(Base::Global(context_id), context.body, offset);
            }
        }
        binding.parts.push((binding.args.len(), id, at));
        region(Base::Keyed, Ty::Struct(id))
    }

    fn cannot_bind(&mut self, at: Span, func: usize, ty: &str, why: &str) {
        let name = self.funcs[func].name;
        self.report(
            Diagnostic::error(codes::CANNOT_BIND, at, format!("the parameter `{ty}` of `{}` has nothing to stand for", name.name))
                .label(why.to_owned())
                .related(name.span, "declared here")
                .hint("a processor takes the event, the keyed context, GLOBAL contexts, the scratchpad, or parts of these"),
        );
    }
}
