//! What is attached to a running program, as the bus's members reach it.

use std::sync::Arc;

use hawser_bus::{Attachable, Attachment, Change};
use hawser_engine::Step;
use hawser_programs::{Attachments, Installed};

/// Whose an attachment is that the process makes itself.
pub(crate) const APPLICATION: &str = "application";

/// A stack's attachments on the bus: checked in the thread of who asks, and taken by the stack.
pub(crate) struct OnBus(pub(crate) Arc<Attachments>);

impl Attachable for OnBus {
    fn prepare(&self, change: Change<'_>) -> Result<(hawser_bus::Step, String), String> {
        let next = match change {
            Change::Attach { name, text, who } => self.0.attach(name, text, who)?,
            Change::Detach { name } => self.0.detach(name)?,
        };
        let warnings = next.warnings().to_owned();
        let attachments = self.0.clone();
        let step: Step = Box::new(move |swap| attachments.go(next, swap));
        Ok((Box::new(step), warnings))
    }

    fn attachments(&self) -> Vec<Attachment> {
        let shown = |Installed { name, who, places, .. }| Attachment { name, who, places };
        self.0.list().into_iter().map(shown).collect()
    }
}
