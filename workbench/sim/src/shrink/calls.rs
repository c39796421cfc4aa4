//! Steps to fewer, smaller and plainer calls.

use super::Failing;
use super::network::{each_flow, flow_with, lower};
use crate::scenario::units::{Sizes, Span};
use crate::scenario::{Arrivals, Calls, Scenario};

pub(super) fn smaller_calls(scenario: &Scenario, _: &Failing) -> Vec<Scenario> {
    each_flow(scenario, |flow| {
        let Some(calls) = &flow.calls else {
            return Vec::new();
        };
        let mut forms = Vec::new();
        let mut with = |change: &dyn Fn(&mut Calls)| {
            forms.push(flow_with(flow, |flow| flow.calls.iter_mut().for_each(change)));
        };
        for count in lower(calls.count, 1) {
            with(&|calls| calls.count = count);
        }
        for size in lower(calls.size.map_or(0, |size| size.max), 1) {
            with(&|calls| calls.size = Some(Sizes::one(size)));
        }
        for reply in lower(calls.reply.map_or(0, |reply| reply.max), 1) {
            with(&|calls| calls.reply = Some(Sizes::one(reply)));
        }
        with(&|calls| calls.arrivals = Arrivals::Even);
        for interval in lower(calls.interval.0, 0) {
            with(&|calls| calls.interval = Span(interval));
        }
        with(&|calls| calls.outstanding = None);
        with(&|calls| calls.retry = Span(0));
        forms
    })
}
