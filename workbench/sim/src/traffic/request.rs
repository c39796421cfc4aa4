//! Requests and responses, one after another.

use hawser_time::Instant;
use serde::{Deserialize, Serialize};

use super::connection::{ConnectionScript, sizes_rng, talk};
use super::{Checked, SmallerForms, Traffic, Volume, check_one_way};
use crate::app::request::{self, Exchanges};
use crate::scenario::units::{Sizes, TimeSpan};
use crate::scenario::{FlowSpec, Scenario};

/// Requests and responses, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestSpec {
    /// The number of requests, each sent after the previous response.
    #[serde(default = "crate::scenario::defaults::one")]
    pub count: u64,
    /// The size of each request.
    pub size: Sizes,
    /// The size of each response.
    pub response: Sizes,
    /// The client's pause after each response.
    #[serde(default)]
    pub think: TimeSpan,
}

impl Traffic for RequestSpec {
    fn check(&self, _: &Scenario, flow: &FlowSpec, path: &str) -> Checked {
        check_one_way(flow, path, true)
    }

    fn exchanges(&self) -> u64 {
        self.count
    }

    fn volume(&self) -> Volume {
        let total = |sizes: Sizes| sizes.max.saturating_mul(self.count);
        Volume { bytes: total(self.size), back: total(self.response), pause: self.think }
    }

    fn takes_turns(&self) -> bool {
        true
    }

    fn talk(&self, _: Instant, seed: u64, label: &str) -> ConnectionScript {
        let (size, response) = (self.size.bounds(), self.response.bounds());
        let exchanges = Exchanges::draw(self.count, size, response, &mut sizes_rng(seed, label));
        talk(|side| request::RequestEnd::new(side, exchanges.clone(), self.think.into()))
    }

    fn smaller(&self, forms: &mut SmallerForms<'_, RequestSpec>) {
        forms.lower(self.count, 1, |request, count| request.count = count);
        forms.lower(self.think.0, 0, |request, think| request.think = TimeSpan(think));
        forms.lower(self.size.max, 1, |request, size| request.size = Sizes::one(size));
        forms.lower(self.response.max, 1, |request, size| {
            request.response = Sizes::one(size);
        });
    }
}
