//! The way of the process's reports to the program.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::protocol::{self, Report};

/// Sends reports. The program always reads them; it waits for none.
#[derive(Clone)]
pub(crate) struct Reports(pub(crate) Arc<OwnedFd>);

impl Reports {
    /// Sends one. One that does not arrive belongs to a program that is gone, which ends the process.
    pub(crate) fn send(&self, report: &Report) {
        if let Err(error) = protocol::send(&*self.0, report, None) {
            tracing::debug!(%error, "a report was not sent");
        }
    }
}
