//! An address translator at an end of a link.

use serde::{Deserialize, Serialize};

use super::units::TimeSpan;
use super::{FlowSpec, LinkSpec, Scenario, ScenarioError, is_default};

/// The maximum number of rebindings.
const REBINDS_MAX: usize = 1000;

/// A translator: the other end of the link sees UDP packets come from a port that the translator has chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NatSpec {
    /// The host behind it; by default the first end of the link.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub inside: String,
    /// The times at which it forgets its choices and chooses other ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rebind: Vec<TimeSpan>,
    /// True if it also changes its address each time.
    #[serde(default, skip_serializing_if = "is_default")]
    pub moves: bool,
}

impl LinkSpec {
    /// Returns the host behind its translator, if it has one.
    #[must_use]
    pub fn inside(&self) -> Option<&String> {
        let nat = self.nat.as_ref()?;
        Some(if nat.inside.is_empty() {
            &self.between[0]
        } else {
            &nat.inside
        })
    }
}

impl Scenario {
    /// Returns true if a host is behind a translator.
    pub(super) fn is_inside(&self, host: &str) -> bool {
        self.link
            .iter()
            .any(|link| link.inside().is_some_and(|inside| inside == host))
    }

    pub(super) fn check_nat(&self, link: &LinkSpec, path: &str) -> Result<(), ScenarioError> {
        let (Some(nat), Some(inside)) = (&link.nat, link.inside()) else {
            return Ok(());
        };
        let at = |key: &str| format!("{path}.nat{key}");
        if !link.between.contains(inside) {
            let message = format!("`{inside}` is not an end of this link");
            return Err(ScenarioError::new(at(".inside"), message));
        }
        if self.host_number(inside).is_none() {
            let message = format!("`{inside}` is a switch, but a translator must be in front of a host");
            return Err(ScenarioError::new(at(".inside"), message));
        }
        if nat.rebind.len() > REBINDS_MAX {
            let message = format!("more than {REBINDS_MAX} times");
            return Err(ScenarioError::new(at(".rebind"), message));
        }
        let is_direct = link.between.iter().all(|end| self.host_number(end).is_some());
        if nat.moves && !is_direct {
            let message = "switches have no route to an address that no host has";
            let error = ScenarioError::new(at(".moves"), message);
            return Err(error.with_hint("only on a link between two hosts"));
        }
        Ok(())
    }

    /// Checks that no flow connects to a host behind a translator.
    pub(super) fn check_outside(&self, flow: &FlowSpec, path: &str) -> Result<(), ScenarioError> {
        let servers = flow.to.names().iter();
        match servers.into_iter().find(|host| self.is_inside(host)) {
            None => Ok(()),
            Some(host) => {
                let message = format!("`{host}` is behind a translator and cannot be connected to");
                Err(ScenarioError::new(format!("{path}.to"), message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Scenario;

    fn error(nat: &str, flow: &str) -> String {
        let text = format!(
            "program = 'x'\nhost = [{{ name = 'a' }}, {{ name = 'b' }}, {{ name = 'c' }}]\nswitch = [{{ name = 's' }}]\n\
             link = [{{ between = ['a', 'b'], nat = {{ {nat} }} }}, {{ between = ['a', 's'] }}, \
             {{ between = ['s', 'c'], nat = {{ inside = 'c' }} }}]\n\
             flow = [{{ {flow}, bulk = {{ bytes = 1 }} }}]\n"
        );
        match Scenario::parse(&text) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn translators_are_parsed_and_errors_reported() {
        let flow = "from = 'a', to = 'b'";
        assert_eq!(error("", flow), "");
        assert_eq!(
            error("inside = 'a', rebind = ['2s', '5s'], moves = true", flow),
            ""
        );
        for (nat, flow, wanted) in [
            (
                "inside = 'c'",
                flow,
                "`link[0].nat.inside`: `c` is not an end of this link",
            ),
            (
                "",
                "from = 'b', to = 'a'",
                "`flow[0].to`: `a` is behind a translator",
            ),
            (
                "",
                "from = 'a', to = 'c'",
                "`flow[0].to`: `c` is behind a translator",
            ),
            ("rebind = ['soon']", flow, "rebind"),
            ("colour = 1", flow, "colour"),
            (
                "",
                "from = 'a', to = 'b', count = 2, one_port = true",
                "`a` is behind a translator",
            ),
        ] {
            let error = error(nat, flow);
            assert!(error.contains(wanted), "{nat} {flow}: {error}");
        }
    }

    #[test]
    fn a_translator_at_a_switch_is_rejected() {
        let error = |nat: &str| {
            let text = format!(
                "program = 'x'\nhost = [{{ name = 'a' }}, {{ name = 'b' }}]\nswitch = [{{ name = 's' }}]\n\
                 link = [{{ between = ['s', 'a'], nat = {{ {nat} }} }}, {{ between = ['s', 'b'] }}]\n\
                 flow = [{{ from = 'a', to = 'b', bulk = {{ bytes = 1 }} }}]\n"
            );
            Scenario::parse(&text).expect_err(nat).to_string()
        };
        assert!(error("").contains("`link[0].nat.inside`: `s` is a switch"));
        assert!(error("inside = 'a', moves = true").contains("`link[0].nat.moves`"));
    }
}
