//! Calls: an application that no connection carries.

use serde::{Deserialize, Serialize};

use super::units::{Sizes, Span};
use super::{Arrivals, Closing, Flow, Opening, ScenarioError, is_default};

/// The longest message of a call, in bytes: what a stack holds of one for sending by default.
const LONGEST: u64 = 4 << 20;

/// Messages from endpoint to endpoint, each with a reply or without.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calls {
    /// How many each host of `from` makes.
    #[serde(default = "super::defaults::one")]
    pub count: u64,
    /// Size of each message.
    pub size: Sizes,
    /// Size of each reply; without it nobody replies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<Sizes>,
    /// From one to the next of a host, or the mean of that.
    #[serde(default, skip_serializing_if = "is_default")]
    pub interval: Span,
    /// Whether they are due evenly, or at random times.
    #[serde(default, skip_serializing_if = "is_default")]
    pub arrivals: Arrivals,
    /// How many of a host may be under way; others wait for one of them to be over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outstanding: Option<u64>,
    /// How long after it has failed a call is made again; 0: never, and a call that fails is a failure of the run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retry: Span,
}

/// Checks a flow of calls; of others that have none there is nothing to check.
pub(super) fn check(flow: &Flow, path: &str) -> Result<(), ScenarioError> {
    let Some(calls) = &flow.calls else {
        return Ok(());
    };
    let connections = [
        ("count", flow.count != 1),
        ("one_port", flow.one_port),
        ("spacing", flow.spacing != Span::default()),
        ("again", flow.again > 0),
        ("open", flow.open != Opening::default()),
        ("close", flow.close != Closing::default()),
        ("one_way", flow.one_way),
        ("abort", flow.abort.is_some()),
        ("refusals", flow.refusals),
        ("read_rate", flow.read_rate.is_some()),
        ("read_stop", flow.read_stop != Span::default()),
        ("send_buffer", flow.send_buffer.is_some()),
        ("receive_buffer", flow.receive_buffer.is_some()),
    ];
    if let Some((key, _)) = connections.into_iter().find(|(_, given)| *given) {
        let message = "calls are made from endpoints, and this is about connections";
        let error = ScenarioError::new(format!("{path}.{key}"), message);
        return Err(match key {
            "count" => error.with_hint("how many calls there are is `count` of `calls`"),
            _ => error,
        });
    }
    let at = |key: &str| format!("{path}.calls.{key}");
    let sizes = [("size", Some(calls.size)), ("reply", calls.reply)];
    for (key, Sizes { min, max }) in sizes.into_iter().filter_map(|(key, size)| Some((key, size?))) {
        if min == 0 {
            return Err(ScenarioError::new(at(key), "a message has a byte at least"));
        }
        if max > LONGEST {
            let message = format!("a message of {max} bytes is longer than the limit of {LONGEST}");
            return Err(ScenarioError::new(at(key), message));
        }
    }
    if calls.count > u64::from(u32::MAX) {
        return Err(ScenarioError::new(
            at("count"),
            "that many calls cannot be numbered",
        ));
    }
    if calls.outstanding == Some(0) {
        let message = "nothing is called while no call may be under way";
        return Err(ScenarioError::new(at("outstanding"), message));
    }
    Ok(())
}
