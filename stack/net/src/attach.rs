//! The attachments of a running program, as clients of the bus reach them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use hawser_bus::{Attachable, Attachment, Bus, BusError, Change, Refusal, Rights, SourceId};
use hawser_engine::Step;
use hawser_load::{Attachments, Installed};
use parking_lot::Mutex;

/// Whose an attachment is that the process makes itself.
pub(crate) const APPLICATION: &str = "application";

/// Whose it is that what broke an assertion is detached.
const HAWSER: &str = "hawser";
/// How often that is tried, where something else was attached meanwhile.
const TRIES: usize = 8;
/// How long a stack may take for it.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A stack's attachments on the bus: checked in the thread of who asks, and taken by the stack.
pub struct OnBus {
    attachments: Arc<Attachments>,
    /// Those that are being detached because they broke an assertion.
    leaving: Arc<Mutex<BTreeSet<String>>>,
}

impl OnBus {
    /// What is attached, and will be, to the program that these attachments belong to.
    #[must_use]
    pub fn new(attachments: Arc<Attachments>) -> OnBus {
        OnBus { attachments, leaving: Arc::default() }
    }
}

impl Attachable for OnBus {
    fn prepare(&self, change: Change<'_>) -> Result<(hawser_bus::Step, String), Refusal> {
        let next = match change {
            Change::Attach { name, text, params, who } => self.attachments.attach(name, text, params, who),
            Change::Detach { name, .. } => self.attachments.detach(name),
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

    /// To check what is left takes a while, so a thread of its own does it.
    fn failed_assertion(&self, bus: &Bus, source: SourceId, event: u32, assertion: u32) {
        let mut leaving = self.leaving.lock();
        for name in self.attachments.suspects(event, assertion) {
            if !leaving.insert(name.clone()) {
                continue;
            }
            let (bus, list) = (bus.clone(), self.leaving.clone());
            let why = format!(
                "an assertion was false: {}",
                self.attachments.assertion(assertion)
            );
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
                // The next time that the assertion is false it is tried again.
                leaving.clear();
            }
        }
    }
}

/// Detaches one; false where something else came in between.
fn detach(bus: &Bus, source: SourceId, name: &str, why: &str) -> Result<bool, BusError> {
    let subscriber = bus.join(HAWSER, Rights { attach: true, ..Rights::observer() }, 0)?;
    Ok(subscriber.detach(source, name, why)?.wait(TIMEOUT)?.is_ok())
}
