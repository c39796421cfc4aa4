//! The values of properties that are in force over the selected transport (RFC 9622, 6.2 and 8).
//!
//! A property without effect reads as the actual behaviour, never as the chosen value.

use crate::Features;
use crate::taps::candidates::provides;
use crate::taps::plan::Plan;
use crate::taps::property::{Preference, Property, TransportProperties, Value};

/// Returns the value in force of a property for which `wanted` was chosen, or is the default; `None` if the
/// property has no meaning. Read-only properties are not handled here.
pub(super) fn effective(
    property: Property,
    wanted: Value,
    all: &TransportProperties,
    plan: &Plan,
    features: &Features,
) -> Option<Value> {
    if matches!(wanted, Value::Preference(_)) {
        // The other properties concern addresses, and the system is not asked for them.
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
        // Streams of one connection are sent by their priority; separate connections have no common
        // scheduler.
        Property::ConnScheduler => return features.multistreaming.then_some(Value::Word("Priority-Based")),
        // The value chosen at establishment. Several paths without several streams have the system's policy.
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

/// Returns whether keep-alive packets are sent before the Connection times out (8.1.4).
fn is_short(all: &TransportProperties) -> bool {
    match (
        all.time(Property::KeepAliveTimeout),
        all.time(Property::ConnTimeout),
    ) {
        (Some(idle), Some(timeout)) => idle <= timeout,
        _ => true,
    }
}

/// Returns whether the value in force is the chosen one.
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
