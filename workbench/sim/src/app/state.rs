//! The progress of an application.

use std::fmt;

use serde::Serialize;

/// The progress of an application, and the events that it waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Application {
    /// The number of bytes handed over. The next field holds the total to be handed over.
    pub sent: u64,
    /// See [`Application::sent`].
    pub to_send: u64,
    /// The number of bytes received. The next field holds the total to be received.
    pub received: u64,
    /// See [`Application::received`].
    pub to_receive: u64,
    /// True if it has closed.
    pub closed: bool,
    /// The events that it waits for; empty if it is done.
    pub waits_for: Vec<String>,
}

impl fmt::Display for Application {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Application { sent, to_send, received, to_receive, .. } = self;
        write!(
            f,
            "{sent} of {to_send} bytes handed over, {received} of {to_receive} received"
        )?;
        if self.closed {
            f.write_str(", closed")?;
        }
        match self.waits_for.is_empty() {
            true => f.write_str("; waits for nothing"),
            false => write!(f, "; waits for {}", self.waits_for.join(" and for ")),
        }
    }
}
