//! Sends the process's reports to the program.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::sctp::protocol::{self, ProcessReport};

/// A sender of reports. The program always reads them, and they need no answer.
#[derive(Clone)]
pub(crate) struct Reports(pub(crate) Arc<OwnedFd>);

impl Reports {
    /// Sends a report. If it cannot be delivered, the program is gone, which ends the process.
    pub(crate) fn send(&self, report: &ProcessReport) {
        if let Err(error) = protocol::send(&*self.0, report, None) {
            tracing::debug!(%error, "a report was not sent");
        }
    }
}
