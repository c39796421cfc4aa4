//! Without verbs: no notice is about a queue pair, and nobody waits for completions.

use hawser_engine::{Handle, Notice};

use crate::Endpoint;

impl Endpoint {
    /// Takes a notice; false when it is not about a queue pair.
    #[allow(clippy::unused_self)] // As where there are verbs.
    pub(crate) fn note_pair(&mut self, _: Handle, _: &Notice) -> bool {
        false
    }
}

/// Who waits for completions: nobody.
#[derive(Default)]
pub(crate) struct CompletionWakers();

#[allow(clippy::unused_self)] // As where there are verbs.
impl CompletionWakers {
    pub(crate) fn wake(&mut self, _: &mut Endpoint) {}

    pub(crate) fn wake_all(&mut self) {}
}
