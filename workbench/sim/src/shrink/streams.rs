//! Steps to fewer, smaller and plainer streams.

use super::Failing;
use super::network::{each_flow, flow_with, lower};
use crate::scenario::units::{Share, Sizes};
use crate::scenario::{Openers, Scenario, Streams};

pub(super) fn smaller_streams(scenario: &Scenario, _: &Failing) -> Vec<Scenario> {
    each_flow(scenario, |flow| {
        let Some(streams) = flow.streams else {
            return Vec::new();
        };
        let mut forms = Vec::new();
        let mut with = |change: &dyn Fn(&mut Streams)| {
            forms.push(flow_with(flow, |flow| flow.streams.iter_mut().for_each(change)));
        };
        for count in lower(streams.count, 1) {
            with(&|streams| streams.count = count);
        }
        with(&|streams| streams.opened_by = Openers::Client);
        with(&|streams| streams.reset = Share(0.0));
        with(&|streams| streams.stop = Share(0.0));
        with(&|streams| streams.one_way = Share(0.0));
        for size in lower(streams.size.max, 0) {
            with(&|streams| streams.size = Sizes::one(size));
        }
        for back in lower(streams.back.unwrap_or(streams.size).max, 0) {
            with(&|streams| streams.back = Some(Sizes::one(back)));
        }
        for concurrent in lower(streams.concurrent, 1) {
            with(&|streams| streams.concurrent = concurrent);
        }
        forms
    })
}
