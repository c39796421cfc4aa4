//! Faults in front of a device: the rules of a simulated link.

use std::io;
use std::os::fd::BorrowedFd;
use std::str::FromStr;
use std::time::Duration;

use hawser_documents::Fault;
use hawser_host::Clock;
use hawser_sim::faulty::Faulty;
use hawser_sim::link::{Pipe, Profile};
use hawser_sim::scenario::Rules;
use hawser_time::Instant;

use crate::device::Device;

/// Faults in front of a device, for each packet, the same in both directions: a link's rules, as in a
/// scenario.
#[derive(Clone, Debug)]
pub struct Faults {
    profile: Profile,
    seed: u64,
}

impl Faults {
    /// Returns the same rules with other random numbers; without this the seed is 1.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Faults {
        Faults { seed, ..self }
    }

    /// Returns the device behind the faults.
    pub(crate) fn before(&self, wire: impl Device + 'static) -> Box<dyn Device> {
        let pipe = |name| Pipe::new(&self.profile, self.seed, name);
        let (inward, outward) = (pipe("inward"), pipe("outward"));
        Box::new(Faulty::new(wire, || Clock.now(), inward, outward))
    }
}

/// A text does not describe faults.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultsError {
    /// A part of the text is not a rule.
    #[error("`{0}` is not a rule; write rules like loss=1%,reorder=1%,hold=1ms")]
    Form(String),
    /// Links have no such rule, or the rule takes another value.
    #[error("{0}")]
    Rule(String),
}

impl FromStr for Faults {
    type Err = FaultsError;

    /// Parses a link's keys (docs/scenarios.md), separated by commas: `loss=1%,reorder=1%,hold=1ms`.
    fn from_str(text: &str) -> Result<Faults, FaultsError> {
        let mut profile = Profile::default();
        rules(text)?.apply(&mut profile);
        Ok(Faults { profile, seed: 1 })
    }
}

/// Converts rules on one line to the lines of a TOML table, and parses them.
fn rules(text: &str) -> Result<Rules, FaultsError> {
    let line = |pair: &str| match pair.trim().split_once('=') {
        Some((key, value)) if value.parse::<f64>().is_ok() => Ok(format!("{key} = {value}\n")),
        Some((key, value)) if !value.contains(['"', '\\']) => Ok(format!("{key} = \"{value}\"\n")),
        _ => Err(FaultsError::Form(pair.to_owned())),
    };
    let table = text.split(',').map(line).collect::<Result<String, _>>()?;
    hawser_documents::toml(&table).map_err(|fault| {
        // The place is one in the table, not in the line that the user wrote.
        let fault = Fault { place: None, ..fault };
        FaultsError::Rule(fault.to_string())
    })
}

impl<D: Device, C: FnMut() -> Instant + Send> Device for Faulty<D, C> {
    fn readiness(&self) -> BorrowedFd<'_> {
        self.inner().readiness()
    }

    fn wait(&self, limit: Option<Duration>) -> io::Result<()> {
        self.inner().wait(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_the_rules_of_a_link() {
        let faults: Faults = "loss=1%,reorder=2%,hold=1ms,burst=3".parse().unwrap();
        assert_eq!(faults.profile.loss, 0.01);
        assert_eq!(faults.profile.reorder, 0.02);
        assert_eq!(faults.profile.hold, Duration::from_millis(1));
        assert_eq!(faults.profile.burst, 3.0);
        assert_eq!(
            "loss".parse::<Faults>().unwrap_err(),
            FaultsError::Form("loss".into())
        );
        let unknown = "los=1%".parse::<Faults>().unwrap_err();
        assert!(
            matches!(&unknown, FaultsError::Rule(why) if why.contains("los")),
            "{unknown}"
        );
    }
}
