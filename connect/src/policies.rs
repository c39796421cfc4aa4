//! Chooses the transports to race for a destination, by policy. A ranking's candidates become transports, and
//! their ranks become classes, which the race turns into delays (NEAT's Algorithm 1).

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use serde::Serialize;

use crate::policy::{self, Candidate, Key, Limit, Manager, Options, Property, Request, Scalar, Value, keys};
use hawser_race::Family;

use super::transports::{LocalConstraint, Transports};
use super::{Destination, Transport, towards};

/// The maximum number of candidates of a ranking that are searched for transports of this process.
const MAX_CANDIDATES: usize = 64;
/// The maximum number of transports of one race.
const MAX_TRANSPORTS: usize = 16;

/// Chooses transports by a policy. Clones share their knowledge.
#[derive(Clone)]
pub struct Policies {
    manager: Arc<Mutex<Manager>>,
    transports: Transports,
    request: Request,
    ip_version: Key,
}

/// The reasons for which no transports can be chosen.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PolicyError {
    /// No profile has this name.
    #[error("unknown profile `{name}`; the profiles are {known}")]
    NoSuchProfile {
        /// The requested name.
        name: String,
        /// The known profiles.
        known: String,
    },
    /// The policies produce too many candidates.
    #[error(transparent)]
    Limit(#[from] Limit),
    /// No candidate that fulfils the policies is a transport of this process.
    #[error(
        "this process can use no candidate that the policies permit: they permit {left}, the process \
             has {here}"
    )]
    Nothing {
        /// The transports that the policies leave.
        left: String,
        /// The transports of this process.
        here: String,
    },
}

/// The choice of a policy for a destination.
#[derive(Clone, Debug)]
pub struct PolicyChoice {
    /// The transports, best first.
    pub transports: Arc<[Arc<dyn Transport>]>,
    /// The candidate of the ranking for each of them.
    pub candidates: Vec<ChosenCandidate>,
}

/// A candidate that was chosen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChosenCandidate {
    /// The name of its transport in policies.
    pub transport: Arc<str>,
    /// The local interface; empty if the system chooses.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub interface: Arc<str>,
    /// The family of addresses, if it is bound to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<Family>,
    /// Its class in the race: 0 is the best.
    pub class: u16,
    /// The sum of the evaluated scores, and that of the others.
    pub score: (f64, f64),
}

impl fmt::Debug for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policies")
            .field("transports", &self.transports)
            .finish_non_exhaustive()
    }
}

impl Policies {
    /// Returns the manager's options for this use. The ranking must not be cut before transports of this
    /// process that rank behind others.
    #[must_use]
    pub fn options() -> Options {
        Options { candidates: MAX_CANDIDATES, ..Options::default() }
    }

    /// Chooses by this manager's ranking, among these transports. `profile` names the profile whose
    /// properties each request has.
    ///
    /// # Errors
    /// When there is no such profile, or too many names.
    pub fn new(
        manager: Arc<Mutex<Manager>>,
        profile: &str,
        transports: Transports,
    ) -> Result<Policies, PolicyError> {
        let (request, ip_version) = {
            let mut manager = manager.lock();
            let pib = manager.pib();
            let Some(found) = pib.find(policy::PolicyStage::Profile, profile) else {
                let profiles = pib.iter().filter(|one| one.kind == policy::PolicyStage::Profile);
                let known: Vec<&str> = profiles.map(|one| &*one.uid).collect();
                return Err(PolicyError::NoSuchProfile { name: profile.to_owned(), known: known.join(", ") });
            };
            (
                Request::new(found.matches.clone()),
                manager.names_mut().intern("ip_version")?,
            )
        };
        Ok(Policies { manager, transports, request, ip_version })
    }

    /// Returns the transports to race for a destination.
    ///
    /// # Errors
    /// When no candidate can be used, or there are too many.
    pub fn choose(&self, destination: &Destination) -> Result<PolicyChoice, PolicyError> {
        let request = towards(&self.request, destination);
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0.0, |since| since.as_secs_f64());
        let ranking = {
            // A panic in another thread leaves the manager consistent.
            let mut manager = self.manager.lock();
            manager.select(&request, now)?
        };
        let chosen = self.usable(&ranking.candidates);
        if chosen.transports.is_empty() {
            let mut left: Vec<&str> = ranking
                .candidates
                .iter()
                .filter_map(transport)
                .map(|t| &**t)
                .collect();
            left.dedup();
            return Err(PolicyError::Nothing {
                left: if left.is_empty() {
                    "none".to_owned()
                } else {
                    left.join(", ")
                },
                here: self.transports.names().collect::<Vec<_>>().join(", "),
            });
        }
        Ok(chosen)
    }

    fn usable(&self, candidates: &[Candidate]) -> PolicyChoice {
        let (mut transports, mut ranked) = (Vec::new(), Vec::<ChosenCandidate>::new());
        for candidate in candidates {
            let Some(transport) = transport(candidate) else {
                continue;
            };
            let place = self.place(candidate);
            let score = (candidate.score.evaluated, candidate.score.rest);
            let class = match ranked.last() {
                None => 0,
                Some(last) if last.score == score => last.class,
                Some(last) => last.class + 1,
            };
            let Some(place) = self.transports.place(transport, place) else {
                continue;
            };
            let one = ChosenCandidate {
                transport: Arc::clone(transport),
                interface: place.interface.as_deref().unwrap_or_default().into(),
                family: place.family,
                class,
                score,
            };
            let is_same = |other: &ChosenCandidate| {
                (&other.transport, &other.interface, other.family)
                    == (&one.transport, &one.interface, one.family)
            };
            if ranked.iter().any(is_same) {
                continue;
            }
            let Some(transport) = self.transports.named(transport, &place, class) else {
                continue;
            };
            transports.push(transport);
            ranked.push(one);
            if transports.len() == MAX_TRANSPORTS {
                break;
            }
        }
        PolicyChoice { transports: transports.into(), candidates: ranked }
    }

    fn place(&self, candidate: &Candidate) -> LocalConstraint {
        let interface = candidate.properties.find(keys::INTERFACE).and_then(as_text);
        let version = candidate.properties.find(self.ip_version);
        let family = match version.map(|property| &property.value) {
            Some(Value::One(Scalar::Number(4.0))) => Some(Family::Ipv4),
            Some(Value::One(Scalar::Number(6.0))) => Some(Family::Ipv6),
            _ => None,
        };
        LocalConstraint { interface: interface.map(|name| name.to_string()), family }
    }
}

fn as_text(property: &Property) -> Option<&Arc<str>> {
    match &property.value {
        Value::One(Scalar::Text(text)) => Some(text),
        _ => None,
    }
}

fn transport(candidate: &Candidate) -> Option<&Arc<str>> {
    candidate.properties.find(keys::TRANSPORT).and_then(as_text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::document::{self, Format};

    fn manager(nodes: &str) -> Arc<Mutex<Manager>> {
        let mut manager = Manager::new(Policies::options());
        let pib = policy::builtin::pib(manager.names_mut()).expect("what is shipped is right");
        let nodes = document::nodes(nodes, Format::Json, "test", manager.names_mut())
            .expect("nodes")
            .value;
        let nodes = nodes.into_iter().map(|node| (node, 0.0)).collect();
        let names = manager.names().clone();
        manager.replace(names, pib, nodes, 0.0).expect("there is room");
        Arc::new(Mutex::new(manager))
    }

    fn choose(nodes: &str, profile: &str) -> Vec<String> {
        let policies = Policies::new(manager(nodes), profile, Transports::new()).expect("a profile");
        let chosen = policies
            .choose(&"www.example:80".parse().expect("a destination"))
            .expect("transports");
        assert_eq!(chosen.transports.len(), chosen.candidates.len());
        let line = |one: &ChosenCandidate| {
            format!("{} {} {}", one.class, one.transport, one.interface)
                .trim()
                .to_owned()
        };
        chosen.candidates.iter().map(line).collect()
    }

    /// The scores of the shipped profile: SCTP 4, MPTCP 3, TCP 2.
    #[test]
    fn places_in_the_ranking_become_classes() {
        assert_eq!(choose("[]", "defaults"), ["0 SCTP/UDP", "1 MPTCP", "2 TCP"]);
    }

    /// Computed by hand. On eth0 the round trip of 10 ms is within 0–50 (5, evaluated), and the transport (4,
    /// 3, 2) is evaluated, too. Without eth0 no property is evaluated. SCTP runs over all present interfaces,
    /// once.
    #[test]
    fn known_interfaces_make_further_candidates() {
        let nodes = r#"[{ "uid": "eth0", "root": true, "expire": -1, "properties": {
            "interface": { "value": "eth0", "precedence": 2 }, "rtt": { "value": 10 },
            "security": {}, "transport": {}, "remote_name": {}, "port": {} } }]"#;
        let expected = ["0 SCTP/UDP", "1 MPTCP eth0", "2 TCP eth0", "3 MPTCP", "4 TCP"];
        assert_eq!(choose(nodes, "low_latency"), expected);
    }

    #[test]
    fn an_unknown_profile_is_reported_with_the_known_ones() {
        let error = Policies::new(manager("[]"), "fast", Transports::new()).expect_err("no such profile");
        assert_eq!(
            error.to_string(),
            "unknown profile `fast`; the profiles are defaults, low_latency, reliable"
        );
    }
}
