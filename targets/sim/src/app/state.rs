//! How far an application is.

use std::fmt;

use serde::Serialize;

/// What an application has done, and waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Application {
    /// Bytes handed over, and to be handed over in all.
    pub sent: u64,
    /// See [`Application::sent`].
    pub to_send: u64,
    /// Bytes received, and to be received in all.
    pub received: u64,
    /// See [`Application::received`].
    pub to_receive: u64,
    /// It has closed.
    pub closed: bool,
    /// What it waits for; nothing when it is done.
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
