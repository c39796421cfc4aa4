//! The ranking: a request through profiles, rows and policies.
//!
//! Each alternative of the request first passes the profiles, lowest priority first. Then the CIB keeps the
//! rows that state the demanded properties, and merges the request onto each. It keeps the best few,
//! including the request by itself. The candidates of all alternatives pass the policies. Each then has one
//! transport, and the best are returned.
//!
//! The changes to each candidate are recorded only on request.

mod explain;
mod lookup;

use std::sync::Arc;

use crate::cib::Rows;
use crate::limits::Limit;
use crate::names::{NameTable, keys};
use crate::pib::{Pib, PolicyStage};
use crate::properties::{Properties, Score};
use crate::property::Property;
use crate::request::Request;
use crate::socket;
use crate::value::{Scalar, Value};

pub use explain::{ChangeSource, Effect, PropertyChange, Rejection, RejectionReason, Step};

use explain::Trail;
use lookup::Lookup;

/// Options of a ranking: its size, and explanations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The number of rows that an alternative of the request keeps, including the request by itself: NEAT's
    /// 5.
    pub rows: usize,
    /// The number of candidates that are returned: NEAT's 10.
    pub candidates: usize,
    /// True to record the changes to each candidate, and the reasons for rejections.
    pub explain: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { rows: 5, candidates: 10, explain: false }
    }
}

/// One possibility to fulfil a request.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its properties, including those that have to be set.
    pub properties: Properties,
    /// The score by which it is ordered.
    pub score: Score,
    trail: Trail,
}

impl Candidate {
    fn new(properties: Properties, trail: Trail) -> Self {
        let score = properties.score();
        Self { properties, score, trail }
    }

    /// Returns the steps that made it, in order; empty unless requested.
    pub fn steps(&self) -> Vec<&Step> {
        self.trail.steps()
    }
}

/// The result of a ranking.
#[derive(Clone, Debug, Default)]
pub struct Ranking {
    /// The best candidates, best first.
    pub candidates: Vec<Candidate>,
    /// The rejected candidates; empty unless requested, and never more than
    /// [`REJECTIONS`](crate::limits::REJECTIONS).
    pub rejections: Vec<Rejection>,
    /// The number of rejections that are not in the list.
    pub unlisted: usize,
}

/// Ranks the candidates for a request.
///
/// # Errors
/// The policies exceed a limit for this request.
pub fn rank(
    request: &Request,
    pib: &Pib,
    rows: &Rows,
    names: &NameTable,
    options: &Options,
) -> Result<Ranking, Limit> {
    let mut lookup = Lookup::new(options);
    let mut requests = Vec::new();
    for (number, alternative) in request.alternatives.iter().enumerate() {
        let properties = local_endpoint(alternative);
        let trail = lookup.begin(ChangeSource::Request(number), &properties);
        requests.push(Candidate::new(properties, trail));
    }
    if requests.iter().any(is_pre_resolve) {
        requests.iter_mut().for_each(|request| {
            request.properties.remove(keys::REQUEST_TYPE);
        });
        return Ok(lookup.finish(requests));
    }
    let mut candidates = Vec::new();
    for request in requests {
        let expanded = lookup.apply(pib.list(PolicyStage::Profile), vec![request])?;
        let mut found = Vec::new();
        for request in expanded {
            let kept = lookup.rows(&rows.rows, request)?;
            lookup.join(&mut found, kept)?;
        }
        sort(&mut found);
        for candidate in found {
            let treated = lookup.apply(pib.list(PolicyStage::Policy), vec![candidate])?;
            lookup.join(&mut candidates, treated)?;
        }
    }
    let mut candidates = lookup.single(candidates)?;
    sort(&mut candidates);
    lookup.cut(&mut candidates, options.candidates);
    candidates
        .iter_mut()
        .for_each(|candidate| lookup.clean(candidate, names));
    Ok(lookup.finish(candidates))
}

/// Sorts candidates best first; equal ones keep their order.
fn sort(candidates: &mut [Candidate]) {
    candidates.sort_by(|one, other| {
        let evaluated = other.score.evaluated.total_cmp(&one.score.evaluated);
        evaluated.then(other.score.rest.total_cmp(&one.score.rest))
    });
}

fn is_pre_resolve(request: &Candidate) -> bool {
    let kind = request.properties.find(keys::REQUEST_TYPE);
    kind.is_some_and(|kind| kind.value == Value::One(Scalar::Text("pre-resolve".into())))
}

/// Splits `local_endpoint`, an address and an interface with `@` between them, into two properties. A value
/// of another form is left unchanged.
fn local_endpoint(request: &Properties) -> Properties {
    let mut properties = request.clone();
    let Some(endpoint) = request.find(keys::LOCAL_ENDPOINT) else {
        return properties;
    };
    let Value::One(Scalar::Text(text)) = &endpoint.value else {
        return properties;
    };
    let Some((address, interface)) = text.split_once('@') else {
        return properties;
    };
    for (key, part) in [(keys::LOCAL_IP, address), (keys::INTERFACE, interface)] {
        let value = Value::One(Scalar::Text(part.into()));
        let property = Property { value, ..endpoint.clone() };
        if properties.add(key, &property).is_err() {
            // If both are stated and differ, the separately stated property applies.
            continue;
        }
    }
    properties.remove(keys::LOCAL_ENDPOINT);
    properties
}

impl Lookup<'_> {
    /// Removes properties that callers cannot use: names for the lookup itself, and socket options without a
    /// number.
    fn clean(&mut self, candidate: &mut Candidate, names: &NameTable) {
        let is_internal = |key| [keys::UID, keys::DEFAULT_PROFILE].contains(&key);
        let keys = candidate.properties.iter().map(|(key, _)| key);
        let gone: Vec<_> = keys
            .filter(|key| is_internal(*key) || socket::is_unknown(names.text(*key)))
            .collect();
        if gone.is_empty() {
            return;
        }
        let before = self.is_explaining().then(|| candidate.properties.clone());
        for key in gone {
            candidate.properties.remove(key);
        }
        if let Some(before) = before {
            candidate.trail =
                candidate
                    .trail
                    .then(ChangeSource::Cleaning, &before, &candidate.properties, &[]);
        }
    }
}

/// The names of the nodes of a path through the CIB.
pub(crate) type Path = Arc<[Arc<str>]>;
