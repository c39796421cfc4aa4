//! Where a scenario is from: an error names the key that its file has, and the line.

use std::fmt;
use std::sync::Arc;

use super::{Scenario, ScenarioError};

/// Where a scenario is from. Two scenarios are equal whatever they are from.
#[derive(Clone, Default)]
pub struct Origin {
    /// The text of its file, where that is known.
    text: Option<Arc<str>>,
    /// The hosts that its topology stands for, each with a link; they are the first ones.
    pub(super) hosts: usize,
    /// The switches that its topology stands for.
    pub(super) switches: usize,
    /// The links that its topology stands for: those of the hosts, and then those between switches.
    pub(super) links: usize,
}

impl PartialEq for Origin {
    fn eq(&self, _: &Origin) -> bool {
        true
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin").finish_non_exhaustive()
    }
}

impl Scenario {
    /// Keeps the text of its file, so that errors that are found when it is run have lines.
    pub fn keep_text(&mut self, text: &str) {
        self.origin.text = Some(text.into());
    }
}

impl Origin {
    /// An error with the key that the file has, and its line where the text is known.
    #[must_use]
    pub fn place(&self, error: ScenarioError) -> ScenarioError {
        let path = self.written(&error.path).unwrap_or_else(|| error.path.clone());
        let error = ScenarioError { path, ..error };
        match &self.text {
            Some(text) => error.located(text),
            None => error,
        }
    }

    /// The key of the file behind one of a host, a switch or a link: what a topology stands for is not listed there,
    /// and what is listed counts from 0 without it.
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
            // A topology's rules are those of both directions, and a link has no other key.
            "link" => rest.strip_prefix(".both").unwrap_or_default(),
            _ => rest,
        };
        Some(format!("{template}{rest}"))
    }
}
