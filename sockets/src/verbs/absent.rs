//! Stand-ins without the feature `verbs`: no notice concerns a queue pair, and no task waits for completions.

use hawser_engine::{Handle, Notice};

use crate::Endpoint;

impl Endpoint {
    /// Handles a notice; returns false if it does not concern a queue pair.
    #[allow(clippy::unused_self)] // The same signature as with verbs.
    pub(crate) fn note_pair(&mut self, _: Handle, _: &Notice) -> bool {
        false
    }
}

/// An empty stand-in for the tasks that wait for completions.
#[derive(Default)]
pub(crate) struct CompletionWakers();

#[allow(clippy::unused_self)] // The same signature as with verbs.
impl CompletionWakers {
    pub(crate) fn wake(&mut self, _: &mut Endpoint) {}

    pub(crate) fn wake_all(&mut self) {}
}
