//! The attachments of a running program, as clients of the bus access them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use hawser_bus::{Attachable, Attachment, AttachmentChange, Bus, BusError, Refusal, Rights, SourceId};
use hawser_engine::Step;
use hawser_load::{Attachments, Installed};
use parking_lot::Mutex;

/// The owner of attachments that the process itself makes.
pub(crate) const APPLICATION: &str = "application";

/// The owner of the detaching of an attachment that broke an assertion.
const HAWSER: &str = "hawser";
/// The number of attempts to detach if other attachments change meanwhile.
const TRIES: usize = 8;
/// The maximum time that a stack may take for it.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A stack's attachments on the bus: checked in the thread of the client, and carried out by the stack.
pub struct OnBus {
    attachments: Arc<Attachments>,
    /// The names of attachments that are being detached because they broke an assertion.
    leaving: Arc<Mutex<BTreeSet<String>>>,
}

impl OnBus {
    /// Offers the present and future attachments of a program to the bus.
    #[must_use]
    pub fn new(attachments: Arc<Attachments>) -> OnBus {
        OnBus { attachments, leaving: Arc::default() }
    }
}

impl Attachable for OnBus {
    fn prepare(&self, change: AttachmentChange<'_>) -> Result<(hawser_bus::Step, String), Refusal> {
        let next = match change {
            AttachmentChange::Attach { name, text, params, who } => {
                self.attachments.attach(name, text, params, who)
            }
            AttachmentChange::Detach { name, .. } => self.attachments.detach(name),
        }
        .map_err(Refusal::unable)?;
        let warnings = next.warnings().to_owned();
        let attachments = self.attachments.clone();
        let step: Step = Box::new(move |swap| attachments.go(next, swap));
        Ok((Box::new(step), warnings))
    }

    fn attachments(&self) -> Vec<Attachment> {
        let shown = |Installed { name, who, places, .. }| Attachment { name, who, places };
        self.attachments.list().into_iter().map(shown).collect()
    }

    /// Checking the program without the attachment takes a while, so a separate thread does it.
    fn failed_assertion(&self, bus: &Bus, source: SourceId, event: u32, assertion: u32) {
        let mut leaving = self.leaving.lock();
        for name in self.attachments.suspects(event, assertion) {
            if !leaving.insert(name.clone()) {
                continue;
            }
            let (bus, list) = (bus.clone(), self.leaving.clone());
            let why = format!("an assertion failed: {}", self.attachments.assertion(assertion));
            let detach = move || {
                for _ in 0..TRIES {
                    if detach(&bus, source, &name, &why) != Ok(false) {
                        break;
                    }
                }
                list.lock().remove(&name);
            };
            if std::thread::Builder::new()
                .name("detach".to_owned())
                .spawn(detach)
                .is_err()
            {
                // It is tried again when the assertion is false the next time.
                leaving.clear();
            }
        }
    }
}

/// Detaches an attachment; returns false if another change came in between.
fn detach(bus: &Bus, source: SourceId, name: &str, why: &str) -> Result<bool, BusError> {
    let subscriber = bus.join(HAWSER, Rights { attach: true, ..Rights::observer() }, 0)?;
    Ok(subscriber.detach(source, name, why)?.wait(TIMEOUT)?.is_ok())
}
