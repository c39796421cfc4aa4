//! From properties to candidates. Required and prohibited properties exclude transports; preferred and
//! avoided ones put the others in order (RFC 9622, 6.2; RFC 9623, 4.1).
//!
//! Transports are known here only by the features that they declare. Paths come before protocols (RFC 9622,
//! 6.2): a candidate over a preferred interface precedes all candidates over others.

use std::net::SocketAddr;
use std::sync::Arc;

use super::EstablishmentError;
use super::plan::ConnectionPlan;
use super::property::{Action, Preference, Property};
use crate::{Candidate, Destination, Features, Security, Transport};
use hawser_race::resolve::ServiceRecord;

/// Returns whether a transport has a selection property; `None` if transports do not differ in it, or if it
/// is about paths.
pub(super) fn provides(features: &Features, property: Property) -> Option<bool> {
    Some(match property {
        Property::Reliability => features.reliability,
        Property::PreserveMsgBoundaries => features.boundaries,
        Property::PerMsgReliability => features.message_reliability,
        Property::PreserveOrder => features.order,
        Property::ZeroRttMsg => features.zero_rtt,
        Property::Multistreaming => features.multistreaming,
        Property::FullChecksumSend | Property::FullChecksumRecv => features.full_checksum,
        Property::CongestionControl => features.congestion_control,
        Property::KeepAlive => features.keep_alive,
        Property::SoftErrorNotify => features.soft_errors,
        Property::ActiveReadBeforeSend => features.announces_itself,
        _ => return None,
    })
}

/// Returns a transport's features together with those that framers add: a framer marks the ends of messages.
fn with_framers(features: Features, plan: &ConnectionPlan) -> Features {
    Features {
        boundaries: features.boundaries || !plan.framers.is_empty(),
        ..features
    }
}

/// Returns the property that excludes a transport; `None` if the transport is a candidate.
pub(super) fn objection(features: &Features, plan: &ConnectionPlan) -> Option<Property> {
    let features = with_framers(*features, plan);
    let properties = &plan.properties;
    let multipath = properties.word(Property::Multipath, plan.action);
    if multipath == "Disabled" && features.multipath {
        return Some(Property::Multipath);
    }
    Property::all().find(|&property| {
        let preference = properties.preference(property, plan.action);
        provides(&features, property).is_some_and(|provided| !preference.admits(provided))
    })
}

/// Returns the score of a transport, by the preferences.
pub(super) fn score(features: &Features, plan: &ConnectionPlan) -> i32 {
    let features = with_framers(*features, plan);
    let properties = &plan.properties;
    let scores = Property::all().filter_map(|property| {
        let preference = properties.preference(property, plan.action);
        Some(preference.score(provides(&features, property)?))
    });
    // Values other than Disabled are a preference (6.2.14).
    let multipath = properties.word(Property::Multipath, plan.action);
    scores.sum::<i32>() + 2 * i32::from(multipath != "Disabled" && features.multipath)
}

/// Returns the transports that fulfil the required properties, best first. Among equals the order stays.
///
/// # Errors
/// When no transport fulfils them, with the reason for each.
pub(super) fn fulfilling(
    transports: Vec<Arc<dyn Transport>>,
    plan: &ConnectionPlan,
) -> Result<Vec<Arc<dyn Transport>>, EstablishmentError> {
    let mut objections: Vec<Property> = Vec::new();
    let mut left = Vec::new();
    for transport in transports {
        match objection(&transport.features(), plan) {
            None => left.push(transport),
            Some(property) => objections.push(property),
        }
    }
    if left.is_empty() {
        return Err(unfulfilled(&mut objections, plan));
    }
    left.sort_by_key(|transport| -score(&transport.features(), plan));
    Ok(left)
}

fn unfulfilled(objections: &mut Vec<Property>, plan: &ConnectionPlan) -> EstablishmentError {
    objections.sort();
    objections.dedup();
    if objections.is_empty() {
        return EstablishmentError::Properties("no transport supports these endpoints".into());
    }
    let words: Vec<String> = objections
        .iter()
        .map(|property| {
            let value = plan.properties.value_for(*property, plan.action);
            format!(
                "{property} = {}",
                value.map_or_else(String::new, |value| value.to_string())
            )
        })
        .collect();
    EstablishmentError::Properties(format!(
        "no transport here fulfils {} together with the requested security",
        words.join(" and ")
    ))
}

/// Fails if a required property is one that no transport and no path here has information about.
pub(super) fn unknown(plan: &ConnectionPlan) -> Result<(), EstablishmentError> {
    let pvd = plan.properties.preferences(Property::Pvd);
    if pvd.values().any(|preference| *preference == Preference::Require) {
        let why = "pvd: this system does not know provisioning domains (RFC 8801)";
        return Err(EstablishmentError::Properties(why.into()));
    }
    if plan.action == Action::Initiate
        && plan.properties.chosen(Property::UseTemporaryLocalAddress) == Some(&Preference::Require.into())
    {
        let why = "useTemporaryLocalAddress cannot be required yet: the system chooses (RFC 6724, rule 7)";
        return Err(EstablishmentError::Properties(why.into()));
    }
    Ok(())
}

/// A transport in its rank. Its offer has the class of the rank, and only the endpoint's protocol.
#[derive(Debug)]
pub(super) struct RankedTransport {
    pub(super) transport: Arc<dyn Transport>,
    pub(super) priority: u16,
    pub(super) protocol: Option<String>,
}

impl RankedTransport {
    fn place(&self, candidates: Vec<Candidate>) -> Vec<Candidate> {
        let is_meant = |candidate: &Candidate| {
            self.protocol
                .as_ref()
                .is_none_or(|name| *candidate.description.transport == **name)
        };
        candidates
            .into_iter()
            .filter(is_meant)
            .map(|candidate| Candidate { priority: self.priority, ..candidate })
            .collect()
    }
}

impl Transport for RankedTransport {
    fn to_address(&self, address: SocketAddr, service: Option<&ServiceRecord>) -> Vec<Candidate> {
        self.place(self.transport.to_address(address, service))
    }

    fn to_destination(&self, destination: &Destination) -> Vec<Candidate> {
        self.place(self.transport.to_destination(destination))
    }

    fn features(&self) -> Features {
        self.transport.features()
    }

    fn datagrams(&self) -> Option<crate::transports::LocalConstraint> {
        self.transport.datagrams()
    }

    fn is_https(&self) -> bool {
        self.transport.is_https()
    }

    fn needs_addresses(&self) -> bool {
        self.transport.needs_addresses()
    }
}

/// Returns the interfaces that a Connection may use, best first; an empty entry lets the system choose.
///
/// `up` lists the present interfaces, with their type's name and whether they are the loopback.
pub(super) fn paths(
    plan: &ConnectionPlan,
    up: &[(String, &'static str)],
) -> Result<Vec<Option<String>>, EstablishmentError> {
    let chosen = plan.properties.preferences(Property::Interface);
    let required: Vec<&String> = plan
        .locals
        .iter()
        .filter_map(|local| local.interface.as_ref())
        .collect();
    if chosen.is_empty() {
        let bound: Vec<_> = required.into_iter().cloned().map(Some).collect();
        return Ok(if bound.is_empty() { vec![None] } else { bound });
    }
    let of = |name: &str, transport: &str| {
        let by_name = chosen.get(name).copied();
        let by_transport = chosen
            .iter()
            .find(|(word, _)| word.eq_ignore_ascii_case(transport))
            .map(|(_, one)| *one);
        by_name.or(by_transport).unwrap_or_default()
    };
    let must = chosen
        .values()
        .any(|preference| *preference == Preference::Require);
    let mut left: Vec<(i32, String)> = up
        .iter()
        .filter(|(name, _)| required.is_empty() || required.contains(&name))
        .map(|(name, transport)| (of(name, transport), name))
        .filter(|(preference, _)| match preference {
            Preference::Prohibit => false,
            Preference::Require => true,
            _ => !must,
        })
        .map(|(preference, name)| (preference.score(true), name.clone()))
        .collect();
    left.sort_by_key(|(score, _)| -score);
    if left.is_empty() {
        let why = "interface: the required and prohibited interfaces leave none of this host";
        return Err(EstablishmentError::Properties(why.into()));
    }
    Ok(left.into_iter().map(|(_, name)| Some(name)).collect())
}

/// Returns whether a transport gives the required protection.
pub(super) fn is_secure_enough(features: &Features, min_security: Security) -> bool {
    features.security >= min_security
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::taps::property::TransportProperties;
    use crate::taps::{Preconnection, SecurityParameters};

    fn plan(properties: TransportProperties) -> Arc<ConnectionPlan> {
        Preconnection::new(SecurityParameters::disabled())
            .with_properties(properties)
            .plan(Action::Initiate)
    }

    const MULTIPATH: Features = Features { multipath: true, ..Features::STREAM };
    const STREAMS: Features = Features { multistreaming: true, ..Features::STREAM };
    const DATAGRAMS: Features =
        Features { reliability: false, order: false, boundaries: true, ..Features::STREAM };

    #[test]
    fn requirements_exclude_transports() {
        let plain = plan(TransportProperties::new());
        assert_eq!(objection(&Features::STREAM, &plain), None);
        assert_eq!(
            objection(&MULTIPATH, &plain),
            Some(Property::Multipath),
            "Disabled is the default"
        );
        assert_eq!(objection(&DATAGRAMS, &plain), Some(Property::Reliability));
        let datagrams = plan(TransportProperties::unreliable_datagram());
        assert_eq!(objection(&DATAGRAMS, &datagrams), None);
        assert_eq!(
            objection(&Features::STREAM, &datagrams),
            Some(Property::PreserveMsgBoundaries)
        );
        let mut properties = TransportProperties::new();
        properties
            .prohibit(Property::Multistreaming)
            .expect("a preference");
        assert_eq!(
            objection(&STREAMS, &plan(properties)),
            Some(Property::Multistreaming)
        );
    }

    /// RFC 9622, 6.2.18: a transport that announces a stream with its first byte does not support reading
    /// first.
    #[test]
    fn reading_first_needs_a_transport_that_announces_streams() {
        let quiet = Features { announces_itself: false, ..Features::STREAM };
        let mut properties = TransportProperties::new();
        properties
            .require(Property::ActiveReadBeforeSend)
            .expect("a preference");
        let first = plan(properties);
        assert_eq!(objection(&quiet, &first), Some(Property::ActiveReadBeforeSend));
        assert_eq!(objection(&Features::STREAM, &first), None);
    }

    #[test]
    fn preferences_put_kinds_in_order() {
        let plain = plan(TransportProperties::new());
        assert!(
            score(&STREAMS, &plain) > score(&Features::STREAM, &plain),
            "Prefer is the default"
        );
        let mut properties = TransportProperties::new();
        properties.avoid(Property::Multistreaming).expect("a preference");
        let avoiding = plan(properties);
        assert!(score(&STREAMS, &avoiding) < score(&Features::STREAM, &avoiding));
        let mut properties = TransportProperties::new();
        properties.set(Property::Multipath, "Active").expect("a word");
        let active = plan(properties);
        assert!(score(&MULTIPATH, &active) > score(&STREAMS, &active));
    }

    #[test]
    fn interfaces_are_required_preferred_avoided_and_prohibited() {
        let up = [
            ("wlan0".to_owned(), "Wi-Fi"),
            ("eth0".to_owned(), "Wired"),
            ("wwan0".to_owned(), "Cellular"),
        ];
        let paths = |text: &str| {
            let mut properties = TransportProperties::new();
            properties.set_by_name("interface", text).expect("preferences");
            paths(&plan(properties), &up).map(|paths| {
                let names: Vec<String> = paths.into_iter().map(Option::unwrap_or_default).collect();
                names.join(" ")
            })
        };
        assert_eq!(paths("").as_deref(), Ok(""), "the system chooses");
        assert_eq!(paths("eth0=require").as_deref(), Ok("eth0"));
        assert_eq!(paths("eth0=prefer").as_deref(), Ok("eth0 wlan0 wwan0"));
        assert_eq!(
            paths("cellular=prohibit, wlan0=avoid").as_deref(),
            Ok("eth0 wlan0")
        );
        assert_eq!(
            paths("wi-fi=require, wlan0=prefer, eth0=require").as_deref(),
            Ok("eth0")
        );
        assert!(paths("tun0=require").is_err());
    }
}
