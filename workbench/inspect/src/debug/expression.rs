//! Expressions in the language, evaluated at the debugger's position.

use crate::trace::{TraceValue, context};
use hawser_interp::{Halted, LastingMemory, Variable};
use hawser_ir::{ContextId, Granularity, Module, Ty};

use crate::debug::checked_expression::{PrintError, VisibleVariables};
use crate::debug::contexts::{Contexts, creates};
use crate::debug::debugger::Debugger;
use crate::debug::player::event_of;

impl Debugger {
    /// Evaluates an expression at the debugger's position, in the selected function and on the selected host.
    ///
    /// # Errors
    /// The fault in the expression.
    pub fn print(&mut self, text: &str) -> Result<TraceValue, PrintError> {
        let sight = self.sight(self.statement)?;
        let (ty, bytes) = self.value(text, &sight)?;
        Ok(self.programs[sight.host].reader().value(&ty, &bytes))
    }

    /// Returns whether a condition holds before a statement of this event. For a packet it may use the
    /// packet's fields.
    pub(crate) fn condition(
        &mut self,
        text: &str,
        statement: usize,
        packet: Option<(Ty, Vec<u8>)>,
    ) -> Result<bool, PrintError> {
        let current = self.current.as_ref().ok_or(PrintError::Over)?;
        let halted = current.halted(&self.programs[current.seen.host], statement);
        let mut sight = self.in_event(halted, 0, current.seen.host);
        if let Some((ty, bytes)) = packet {
            // The packet replaces the event, whose memory it uses.
            sight.halted.event = bytes;
            sight.variables.retain(|variable| variable.name != "ev");
            sight.this = Some(sight.variables.len());
            sight
                .variables
                .push(Variable::whole("packet", ty, LastingMemory::Event));
        }
        let (ty, bytes) = self.value(text, &sight)?;
        match (ty, bytes.first()) {
            (Ty::Bool, Some(byte)) => Ok(*byte != 0),
            _ => Err(PrintError::Condition),
        }
    }

    fn value(&mut self, text: &str, sight: &VisibleVariables) -> Result<(Ty, Vec<u8>), PrintError> {
        let program = &self.programs[sight.host];
        let ready = self.expressions.ready(program, text, sight)?;
        let value = sight
            .halted
            .evaluate(&ready.interpreter, ready.func, &sight.variables, &ready.ty);
        Ok((ready.ty.clone(), value.ok_or(PrintError::NoValue)?))
    }

    /// Returns the variables visible before a statement of this event, or on the selected host.
    pub(crate) fn sight(&self, statement: usize) -> Result<VisibleVariables, PrintError> {
        let current = self.current.as_ref();
        match (self.selected, current) {
            // This also covers the event's own host if the event has no context.
            (Some(host), Some(current))
                if host != current.seen.host || current.seen.kept.before.keyed.is_none() =>
            {
                Ok(self.on_host(host))
            }
            (Some(host), None) => Ok(self.on_host(host)),
            (_, Some(current)) => {
                let host = current.seen.host;
                let halted = current.halted(&self.programs[host], statement);
                Ok(self.in_event(halted, self.frame, host))
            }
            (None, None) => Err(PrintError::Over),
        }
    }

    fn in_event(&self, halted: Halted, frame: usize, host: usize) -> VisibleVariables {
        let module = &self.programs[host].module;
        let id = event_of(&halted.event);
        let mut variables = Vec::new();
        if let Some(event) = id.and_then(|id| module.events.get(id.0 as usize)) {
            variables.push(Variable::whole(
                "ev",
                Ty::Struct(event.body),
                LastingMemory::Event,
            ));
        }
        if let Some(scratch) = module.scratch {
            variables.push(Variable::whole(
                "scratch",
                Ty::Struct(scratch),
                LastingMemory::Scratch,
            ));
        }
        variables.extend(globals(module, &halted.globals));
        if let Some(id) = id
            .and_then(|id| creates(module, id))
            .filter(|_| halted.has_created())
        {
            variables.extend(whole(module, id, LastingMemory::Fresh));
        }
        let this = halted.keyed.as_ref().map(|(id, _)| {
            variables.extend(whole(module, *id, LastingMemory::Keyed));
            variables.len() - 1
        });
        let depth = halted.calls.len().checked_sub(frame + 1);
        if let Some(call) = depth.and_then(|depth| halted.calls.get(depth)) {
            variables.extend(halted.variables(module, call));
        }
        VisibleVariables { host, halted, variables, this }
    }

    /// Returns the context of a host at the other end of the event's connection, or else of its first
    /// connection.
    fn on_host(&self, host: usize) -> VisibleVariables {
        let module = &self.programs[host].module;
        let mut halted = Halted::default();
        let mut variables = Vec::new();
        let event = self.event().and_then(|event| event.context.as_ref());
        let peer = event.map(|context| (context.remote, context.local));
        let Contexts(contexts) = &self.contexts[host];
        let is_peer = |id: ContextId, bytes: &[u8]| {
            let ends = context(module, id, bytes);
            Some((ends.local, ends.remote)) == peer
        };
        let flows = contexts
            .iter()
            .filter(|((id, _), _)| module.contexts[id.0 as usize].granularity == Granularity::Flow);
        let best = flows.max_by_key(|((id, _), bytes)| {
            let ends = context(module, *id, bytes);
            (is_peer(*id, bytes), ends.remote.is_some())
        });
        halted.globals = vec![Vec::new(); module.contexts.len()];
        for ((id, _), bytes) in contexts {
            if module.contexts[id.0 as usize].granularity == Granularity::Global {
                halted.globals[id.0 as usize].clone_from(bytes);
            }
        }
        variables.extend(globals(module, &halted.globals));
        let this = best.map(|((id, _), bytes)| {
            halted.keyed = Some((*id, bytes.clone()));
            variables.extend(whole(module, *id, LastingMemory::Keyed));
            variables.len() - 1
        });
        VisibleVariables { host, halted, variables, this }
    }
}

/// Returns a context under the name of its type and as `ctx`.
fn whole(module: &Module, id: ContextId, memory: LastingMemory) -> Vec<Variable> {
    let context = &module.contexts[id.0 as usize];
    let variable = |name: &str| Variable::whole(name, Ty::Struct(context.body), memory);
    match memory {
        LastingMemory::Keyed => vec![variable("ctx"), variable(&context.name)],
        _ => vec![variable(&context.name)],
    }
}

fn globals(module: &Module, globals: &[Vec<u8>]) -> Vec<Variable> {
    let set = globals.iter().enumerate().filter(|(_, bytes)| !bytes.is_empty());
    set.flat_map(|(index, _)| {
        let id = ContextId(index as u32);
        whole(module, id, LastingMemory::Global(id))
    })
    .collect()
}
