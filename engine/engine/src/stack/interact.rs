//! The stack's side of the interactive layer: carries out the bus's orders and changes of attachments.

use std::sync::Arc;

use hawser_bus::{AttachmentChange, Refusal, Source};
use hawser_ir::Module;
use hawser_time::Instant;

use super::Stack;
use super::swap::Step;
use crate::interact::Interactive;
use crate::program::Program;

impl Stack {
    /// Returns the tables of the running program.
    #[must_use]
    pub fn module(&self) -> &Module {
        self.program().module()
    }

    /// Returns the running program.
    #[must_use]
    pub fn program(&self) -> &Arc<dyn Program> {
        &self.chains.program
    }

    /// Publishes to the interactive layer from now on. `source` is this stack's end of a bus, made for the
    /// [`schema`](crate::schema) of its program. [`Stack::poll`] carries out orders, and each [`Step`] of an
    /// attachable source.
    pub fn interact(&mut self, source: Source) {
        let interactive = Interactive::new(source, self.module());
        self.chains.interactive = Some(Box::new(interactive));
    }

    /// Records in the bus's log that `who` has changed the program's attachments without the bus.
    pub fn note_change(&mut self, now: Instant, who: &str, change: AttachmentChange<'_>) {
        if let Some(interactive) = &mut self.chains.interactive {
            interactive.note_change(now, who, change);
        }
    }

    /// Begins or ends a batch of signals: subscribers are woken once per turn of the stack, after its packets
    /// have left.
    pub(super) fn batch_signals(&mut self, begins: bool) {
        if let Some(interactive) = &mut self.chains.interactive {
            if begins {
                interactive.source().begin_batch();
            } else {
                interactive.source().end_batch();
            }
        }
    }

    /// Carries out the bus's orders; returns true if there was work.
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

    /// Carries out changes of the program's attachments.
    fn take_steps(&mut self, now: Instant) {
        while let Some((stepping, step)) = self
            .chains
            .interactive
            .as_mut()
            .and_then(|interactive| interactive.source().next_step())
        {
            let result = match step.downcast::<Step>() {
                Ok(step) => step(&mut |program| self.swap_program(program)).map_err(Refusal::unable),
                Err(_) => Err(Refusal::unable("the attachment is not for a stack")),
            };
            if let Some(interactive) = &mut self.chains.interactive {
                interactive.source().stepped(now, stepping, result);
            }
        }
    }

    /// Returns the time of the next work for [`Stack::poll_source`].
    pub(super) fn source_deadline(&self) -> Option<Instant> {
        self.chains.interactive.as_ref()?.next_deadline()
    }
}
