//! Variables of congestion control and loss recovery under qlog's names.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// The bound below which JSON readers keep integers exact; a larger value means that there is no limit.
const EXACT: u64 = 1 << 53;

/// The suffix of a variable's name, qlog's name for it, and whether it is a time.
const METRICS: [(&str, &str, bool); 8] = [
    (".cc.cwnd", "congestion_window", false),
    (".cc.ssthresh", "ssthresh", false),
    (".srtt", "smoothed_rtt", true),
    (".rttvar", "rtt_variance", true),
    (".rack.min_rtt", "min_rtt", true),
    (".flight", "bytes_in_flight", false),
    (".timeouts", "pto_count", false),
    (".cc.pacing_rate", "pacing_rate", false),
];

fn metric(name: &str) -> Option<(&'static str, bool)> {
    METRICS
        .iter()
        .find(|(end, ..)| name.ends_with(end))
        .map(|(_, metric, is_time)| (*metric, *is_time))
}

/// Returns whether any of the values is a metric.
pub(super) fn any(values: &BTreeMap<String, u64>) -> bool {
    values.keys().any(|name| metric(name).is_some())
}

/// The values that were written last.
#[derive(Debug, Default)]
pub(super) struct Metrics(BTreeMap<&'static str, u64>);

impl Metrics {
    /// Returns the metrics that changed.
    pub(super) fn update(&mut self, values: &BTreeMap<String, u64>) -> Option<Value> {
        let mut out = Map::new();
        for (name, value) in values {
            let Some((metric, is_time)) = metric(name) else {
                continue;
            };
            let unknown = *value >= EXACT || (is_time && *value == 0);
            if unknown || self.0.get(metric) == Some(value) {
                continue;
            }
            self.0.insert(metric, *value);
            let value = if is_time {
                super::milliseconds(*value).into()
            } else {
                Value::from(*value)
            };
            out.insert(metric.to_owned(), value);
        }
        (!out.is_empty()).then_some(Value::Object(out))
    }
}
