//! Without verbs: no notice is about a queue pair.

use hawser_engine::{Handle, Notice};

use crate::Endpoint;

impl Endpoint {
    /// Takes a notice; false when it is not about a queue pair.
    #[allow(clippy::unused_self)] // As where there are verbs.
    pub(crate) fn note_pair(&mut self, _: Handle, _: &Notice) -> bool {
        false
    }
}
