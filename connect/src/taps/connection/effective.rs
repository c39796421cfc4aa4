//! The values of properties that are in force over the selected transport (RFC 9622, 6.2 and 8).
//!
//! A property without effect reads as the actual behaviour, never as the chosen value.

use crate::Features;
use crate::taps::candidates::provides;
use crate::taps::plan::ConnectionPlan;
use crate::taps::property::{Preference, Property, PropertyValue, TransportProperties};

/// Returns the value in force of a property for which `wanted` was chosen, or is the default; `None` if the
/// property has no meaning. Read-only properties are not handled here.
pub(super) fn effective(
    property: Property,
    wanted: PropertyValue,
    all: &TransportProperties,
    plan: &ConnectionPlan,
    features: &Features,
) -> Option<PropertyValue> {
    if matches!(wanted, PropertyValue::Preference(_)) {
        // The other properties concern addresses, and the system is not asked for them.
        return Some(PropertyValue::Boolean(
            provides(features, property).unwrap_or(false),
        ));
    }
    let only_if = |is_possible: bool, otherwise: &'static str| match is_possible {
        true => wanted.clone(),
        false => PropertyValue::Word(otherwise),
    };
    Some(match property {
        Property::Pvd => PropertyValue::Preferences(Default::default()),
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
        Property::ConnScheduler => {
            return features
                .multistreaming
                .then_some(PropertyValue::Word("Priority-Based"));
        }
        // The value chosen at establishment. Several paths without several streams have the system's policy.
        Property::MultipathPolicy => match features.multipath && features.multistreaming {
            true => plan.properties.value_for(property, plan.action)?,
            false => PropertyValue::Word("Handover"),
        },
        Property::IsolateSession => plan.properties.value_for(property, plan.action)?,
        Property::MinSendRate | Property::MinRecvRate | Property::MaxRecvRate => {
            PropertyValue::Word("Unlimited")
        }
        Property::TcpUserTimeoutValue => PropertyValue::Word("TCP default"),
        Property::AdvertisesAltaddr
        | Property::TcpUserTimeoutEnabled
        | Property::TcpUserTimeoutChangeable
        | Property::NoSegmentation => PropertyValue::Boolean(false),
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
pub(super) fn is_fulfilled(chosen: &PropertyValue, holds: &PropertyValue) -> bool {
    match (chosen, holds) {
        (PropertyValue::Preference(Preference::Require | Preference::Prefer), holds) => {
            *holds == PropertyValue::Boolean(true)
        }
        (PropertyValue::Preference(Preference::Avoid | Preference::Prohibit), holds) => {
            *holds == PropertyValue::Boolean(false)
        }
        (PropertyValue::Preference(Preference::NoPreference), _) => true,
        (chosen, holds) => chosen == holds,
    }
}
