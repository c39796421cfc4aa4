//! A stack at the interactive layer: it takes the bus's orders, and changes of what is attached.

use std::sync::Arc;

use hawser_bus::{Change, Refusal, Source};
use hawser_ir::Module;
use hawser_time::Instant;

use super::Stack;
use super::swap::Step;
use crate::interact::Interactive;
use crate::program::Program;

impl Stack {
    /// The tables of the program that runs.
    #[must_use]
    pub fn module(&self) -> &Module {
        self.program().module()
    }

    /// The program that it runs.
    #[must_use]
    pub fn program(&self) -> &Arc<dyn Program> {
        &self.chains.program
    }

    /// Publishes to the interactive layer from now on: `source` is this stack's end of a bus, made for
    /// the [`schema`](crate::schema) of its program. Orders are taken by [`Stack::poll`]; so is each
    /// [`Step`] that an attachable source has.
    pub fn interact(&mut self, source: Source) {
        let interactive = Interactive::new(source, self.module());
        self.chains.interactive = Some(Box::new(interactive));
    }

    /// Writes into the bus's log that `who` has changed what is attached to the program, past the bus.
    pub fn note_change(&mut self, now: Instant, who: &str, change: Change<'_>) {
        if let Some(interactive) = &mut self.chains.interactive {
            interactive.note_change(now, who, change);
        }
    }

    /// Subscribers are woken once for a turn of the stack, when what it sends has left.
    pub(super) fn batch_signals(&mut self, begins: bool) {
        if let Some(interactive) = &mut self.chains.interactive {
            if begins {
                interactive.source().begin_batch();
            } else {
                interactive.source().end_batch();
            }
        }
    }

    /// Takes the bus's orders; true when it did something.
    pub(super) fn poll_source(&mut self, now: Instant) -> bool {
        let chains = &mut self.chains;
        let Some(interactive) = &mut chains.interactive else {
            return false;
        };
        let any = interactive.poll(now, &mut chains.state.contexts);
        chains.memory.records.want(interactive.wanted());
        if any {
            self.take_steps(now);
        }
        any
    }

    /// Takes the changes of what is attached to the program.
    fn take_steps(&mut self, now: Instant) {
        while let Some((stepping, step)) = self
            .chains
            .interactive
            .as_mut()
            .and_then(|interactive| interactive.source().next_step())
        {
            let result = match step.downcast::<Step>() {
                Ok(step) => step(&mut |program| self.swap_program(program)).map_err(Refusal::unable),
                Err(_) => Err(Refusal::unable("what is attached is not for a stack")),
            };
            if let Some(interactive) = &mut self.chains.interactive {
                interactive.source().stepped(now, stepping, result);
            }
        }
    }

    /// When [`Stack::poll_source`] has something to do.
    pub(super) fn source_deadline(&self) -> Option<Instant> {
        self.chains.interactive.as_ref()?.next_deadline()
    }
}
