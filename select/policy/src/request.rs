//! The request of an application.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::properties::Properties;
use crate::value::{Scalar, Value};

/// A request, expanded. Each alternative is processed separately, and all candidates are ranked together.
#[derive(Clone, Debug)]
pub struct Request {
    /// The alternatives, of which there is at least one.
    pub(crate) alternatives: Arc<[Properties]>,
    fingerprint: u64,
}

impl Request {
    /// Makes a request without alternatives.
    pub fn new(properties: Properties) -> Self {
        Self::any_of(vec![properties])
    }

    /// Makes a request that any of these fulfils. There has to be at least one.
    pub fn any_of(alternatives: Vec<Properties>) -> Self {
        let mut hasher = DefaultHasher::new();
        alternatives
            .iter()
            .for_each(|properties| digest(properties, &mut hasher));
        Self { fingerprint: hasher.finish(), alternatives: alternatives.into() }
    }

    /// Returns the alternatives of the request.
    pub fn alternatives(&self) -> &[Properties] {
        &self.alternatives
    }

    /// Returns a hash that is the same for equal requests, and rarely for others.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }
}

impl PartialEq for Request {
    fn eq(&self, other: &Self) -> bool {
        let is_shared = Arc::ptr_eq(&self.alternatives, &other.alternatives);
        is_shared || self.fingerprint == other.fingerprint && self.alternatives == other.alternatives
    }
}

/// Hashes names and single values, in which requests usually differ.
fn digest(properties: &Properties, hasher: &mut DefaultHasher) {
    properties.len().hash(hasher);
    for (key, property) in properties.iter() {
        key.hash(hasher);
        if let Value::One(Scalar::Text(text)) = &property.value {
            text.hash(hasher);
        }
    }
}
