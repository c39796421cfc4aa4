//! The ranking: a request through profiles, rows and policies.
//!
//! For each alternative of the request: profiles, lowest priority first; then the CIB, which keeps the
//! rows that hold what is demanded, merges the request onto each, and keeps the best few, the request by
//! itself among them. The candidates of all alternatives go through the policies. Each then has one
//! transport, and the best are given back.
//!
//! What touched a candidate is written down only if that was asked for.

mod explain;
mod lookup;

use std::sync::Arc;

use crate::cib::Rows;
use crate::limits::Limit;
use crate::names::{Names, keys};
use crate::pib::{Kind, Pib};
use crate::properties::{Properties, Score};
use crate::property::Property;
use crate::request::Request;
use crate::socket;
use crate::value::{Scalar, Value};

pub use explain::{Change, Effect, Rejection, Source, Step, Why};

use explain::Trail;
use lookup::Lookup;

/// How much is given back, and whether with reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Rows that an alternative of the request keeps, the request by itself among them: NEAT's 5.
    pub rows: usize,
    /// Candidates: NEAT's 10.
    pub candidates: usize,
    /// Write down what touched each candidate, and why others were rejected.
    pub explain: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { rows: 5, candidates: 10, explain: false }
    }
}

/// One way to fulfil a request.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// What it is, and what is to be set.
    pub properties: Properties,
    /// Its place among the others.
    pub score: Score,
    trail: Trail,
}

impl Candidate {
    fn new(properties: Properties, trail: Trail) -> Self {
        let score = properties.score();
        Self { properties, score, trail }
    }

    /// What made it what it is, in order; empty unless that was asked for.
    pub fn steps(&self) -> Vec<&Step> {
        self.trail.steps()
    }
}

/// The candidates, best first.
#[derive(Clone, Debug, Default)]
pub struct Ranking {
    /// Those that were kept.
    pub candidates: Vec<Candidate>,
    /// Those that were not; empty unless asked for, and never more than
    /// [`REJECTIONS`](crate::limits::REJECTIONS).
    pub rejections: Vec<Rejection>,
    /// Rejections that are not in the list.
    pub unlisted: usize,
}

/// Ranks the candidates for a request.
///
/// # Errors
/// Policies make more of it than there may be.
pub fn rank(
    request: &Request,
    pib: &Pib,
    rows: &Rows,
    names: &Names,
    options: &Options,
) -> Result<Ranking, Limit> {
    let mut lookup = Lookup::new(options);
    let mut requests = Vec::new();
    for (number, alternative) in request.alternatives.iter().enumerate() {
        let properties = local_endpoint(alternative);
        let trail = lookup.begin(Source::Request(number), &properties);
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
        let expanded = lookup.apply(pib.list(Kind::Profile), vec![request])?;
        let mut found = Vec::new();
        for request in expanded {
            let kept = lookup.rows(&rows.rows, request)?;
            lookup.join(&mut found, kept)?;
        }
        sort(&mut found);
        for candidate in found {
            let treated = lookup.apply(pib.list(Kind::Policy), vec![candidate])?;
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

/// Best first; of equals, the one that came first.
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

/// `local_endpoint`, an address and an interface with `@` between them, as the two properties it is.
/// What is of another form stays what it is.
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
            // Said twice and differently: what was said by itself counts.
            continue;
        }
    }
    properties.remove(keys::LOCAL_ENDPOINT);
    properties
}

impl Lookup<'_> {
    /// Takes out what nobody can use: names for the lookup itself, socket options without a number.
    fn clean(&mut self, candidate: &mut Candidate, names: &Names) {
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
            candidate.trail = candidate
                .trail
                .then(Source::Cleaning, &before, &candidate.properties, &[]);
        }
    }
}

/// Shared text of a path through the CIB.
pub(crate) type Path = Arc<[Arc<str>]>;
