//! The values of properties that are in force over the transport that was selected (RFC 9622, 6.2 and 8).
//!
//! A property that has no effect reads as what happens instead, never as what was chosen.

use crate::candidates::provides;
use crate::plan::Plan;
use crate::property::{Preference, Property, TransportProperties, Value};
use hawser_connect::Features;

/// The value in force of a property of which `wanted` was chosen, or is the default; none where the property means
/// nothing. Read-only properties are not asked for here.
pub(super) fn effective(
    property: Property,
    wanted: Value,
    all: &TransportProperties,
    plan: &Plan,
    features: &Features,
) -> Option<Value> {
    if matches!(wanted, Value::Preference(_)) {
        // Of the others, which concern addresses, nothing is asked of the system.
        return Some(Value::Boolean(provides(features, property).unwrap_or(false)));
    }
    let only_if = |is_possible: bool, otherwise: &'static str| match is_possible {
        true => wanted.clone(),
        false => Value::Word(otherwise),
    };
    Some(match property {
        Property::Pvd => Value::Preferences(Default::default()),
        Property::Multipath => only_if(features.multipath, "Disabled"),
        Property::KeepAliveTimeout => only_if(features.tunable && is_short(all), "Disabled"),
        Property::ConnCapacityProfile => only_if(features.tunable, "Default"),
        // A message has the code point of its stream.
        Property::MsgCapacityProfile => {
            let connection = all.value_for(Property::ConnCapacityProfile, plan.action)?;
            return effective(Property::ConnCapacityProfile, connection, all, plan, features);
        }
        // Streams of one connection are sent by their priority; connections beside each other have no scheduler.
        Property::ConnScheduler => return features.multistreaming.then_some(Value::Word("Priority-Based")),
        // What was chosen at establishment. Several paths without several streams have the system's policy.
        Property::MultipathPolicy => match features.multipath && features.multistreaming {
            true => plan.properties.value_for(property, plan.action)?,
            false => Value::Word("Handover"),
        },
        Property::IsolateSession => plan.properties.value_for(property, plan.action)?,
        Property::MinSendRate | Property::MinRecvRate | Property::MaxRecvRate => Value::Word("Unlimited"),
        Property::TcpUserTimeoutValue => Value::Word("TCP default"),
        Property::AdvertisesAltaddr
        | Property::TcpUserTimeoutEnabled
        | Property::TcpUserTimeoutChangeable
        | Property::NoSegmentation => Value::Boolean(false),
        _ => wanted,
    })
}

/// Whether signs of life are asked for before the Connection times out (8.1.4).
fn is_short(all: &TransportProperties) -> bool {
    match (
        all.time(Property::KeepAliveTimeout),
        all.time(Property::ConnTimeout),
    ) {
        (Some(idle), Some(timeout)) => idle <= timeout,
        _ => true,
    }
}

/// Whether what holds is what was chosen.
pub(super) fn is_fulfilled(chosen: &Value, holds: &Value) -> bool {
    match (chosen, holds) {
        (Value::Preference(Preference::Require | Preference::Prefer), holds) => {
            *holds == Value::Boolean(true)
        }
        (Value::Preference(Preference::Avoid | Preference::Prohibit), holds) => {
            *holds == Value::Boolean(false)
        }
        (Value::Preference(Preference::NoPreference), _) => true,
        (chosen, holds) => chosen == holds,
    }
}
