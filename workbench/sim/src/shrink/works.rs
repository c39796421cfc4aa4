//! Steps to fewer, smaller and plainer works.

use super::Failing;
use super::network::{each_flow, flow_with, lower};
use crate::scenario::units::{Share, Sizes, Span};
use crate::scenario::{Scenario, Works};

pub(super) fn smaller_works(scenario: &Scenario, _: &Failing) -> Vec<Scenario> {
    each_flow(scenario, |flow| {
        let Some(works) = &flow.works else {
            return Vec::new();
        };
        let mut forms = Vec::new();
        let mut with = |change: &dyn Fn(&mut Works)| {
            forms.push(flow_with(flow, |flow| flow.works.iter_mut().for_each(change)));
        };
        for count in works.count.map(|count| lower(count, 1)).into_iter().flatten() {
            with(&|works| works.count = Some(count));
        }
        with(&|works| works.both_ways = false);
        for kind in works.kinds.iter().filter(|_| works.kinds.len() > 1) {
            with(&|works| works.kinds = vec![*kind]);
        }
        for size in lower(works.size.max, 0) {
            with(&|works| works.size = Sizes::one(size));
        }
        for depth in lower(works.depth, 1) {
            with(&|works| works.depth = depth);
        }
        with(&|works| works.immediate = Share(0.0));
        with(&|works| works.fence = Share(0.0));
        with(&|works| works.refill = Span(0));
        forms
    })
}
