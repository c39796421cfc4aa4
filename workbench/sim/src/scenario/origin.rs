//! The origin of a scenario: an error names the key in its file, and the line.

use std::fmt;
use std::sync::Arc;

use super::{Scenario, ScenarioError};

/// The origin of a scenario. It does not affect the equality of two scenarios.
#[derive(Clone, Default)]
pub struct ScenarioOrigin {
    /// The text of its file, if known.
    text: Option<Arc<str>>,
    /// The number of hosts that its topology creates, each with a link; they are the first hosts.
    pub(super) hosts: usize,
    /// The number of switches that its topology creates.
    pub(super) switches: usize,
    /// The number of links that its topology creates: those of the hosts, and then those between switches.
    pub(super) links: usize,
}

impl PartialEq for ScenarioOrigin {
    fn eq(&self, _: &ScenarioOrigin) -> bool {
        true
    }
}

impl fmt::Debug for ScenarioOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin").finish_non_exhaustive()
    }
}

impl Scenario {
    /// Keeps the text of its file, so that errors at run time have lines.
    pub fn keep_text(&mut self, text: &str) {
        self.origin.text = Some(text.into());
    }
}

impl ScenarioOrigin {
    /// Returns an error with the key that the file has, and with its line if the text is known.
    #[must_use]
    pub fn place(&self, error: ScenarioError) -> ScenarioError {
        let path = self.written(&error.path).unwrap_or_else(|| error.path.clone());
        let error = ScenarioError { path, ..error };
        match &self.text {
            Some(text) => error.located(text),
            None => error,
        }
    }

    /// Translates the key of a host, a switch or a link into the key in the file. Parts of a topology are not
    /// listed there, and listed ones count from 0 without them.
    fn written(&self, path: &str) -> Option<String> {
        let (kind, rest) = path.split_once('[')?;
        let (number, rest) = rest.split_once(']')?;
        let number: usize = number.parse().ok()?;
        let (count, template) = match kind {
            "host" => (self.hosts, "topology.host"),
            "switch" => (self.switches, "topology.switch"),
            "link" if number < self.hosts => (self.links, "topology.host_link"),
            "link" => (self.links, "topology.core_link"),
            _ => return None,
        };
        if number >= count {
            return Some(format!("{kind}[{}]{rest}", number - count));
        }
        let rest = match kind {
            // A topology sets only rules for both directions; its links have no other key.
            "link" => rest.strip_prefix(".both").unwrap_or_default(),
            _ => rest,
        };
        Some(format!("{template}{rest}"))
    }
}
