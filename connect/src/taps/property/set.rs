//! The properties that an application chose.

use std::collections::BTreeMap;
use std::time::Duration;

use super::table::{Action, Class, Initial};
use super::{Preference, Property, PropertyValue, Type, UnknownProperty};

/// The reasons for which a property is not set.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PropertyError {
    /// There is no property of that name.
    #[error(transparent)]
    Unknown(#[from] UnknownProperty),
    /// The property has no such value.
    #[error("{property} cannot be `{value}`; it is {}", expectation(.property.definition().kind))]
    Value {
        /// The property that was to be set.
        property: Property,
        /// The given value.
        value: String,
    },
    /// The property is read-only.
    #[error("{0} is read-only (RFC 9622, 8.1.11)")]
    ReadOnly(Property),
    /// The property is a selection property, which is fixed once a Connection is begun.
    #[error("{0} is a selection property: it is fixed by establishment (RFC 9622, 6.2)")]
    Fixed(Property),
    /// The property is a message property, and belongs to a message.
    #[error("{0} is a message property: set it in a MessageContext, or before establishment")]
    OfMessages(Property),
    /// The property is not a message property, and does not belong into a message context.
    #[error("{0} is not a message property")]
    NotOfMessages(Property),
    /// The selected transport does not support the property, or refused it.
    #[error("{property}: {why}")]
    Transport {
        /// The property that was to be set.
        property: Property,
        /// The message of the transport or the system.
        why: String,
    },
}

fn expectation(kind: Type) -> String {
    match kind {
        Type::Preference => "Require, Prefer, No Preference, Avoid or Prohibit".to_owned(),
        Type::Preferences => "a list such as `wlan0=prohibit, lan=prefer`".to_owned(),
        Type::Boolean => "true or false".to_owned(),
        Type::Integer { min, or } => {
            let or = or.map_or_else(String::new, |word| format!(", or {word}"));
            format!("a number of {min} or more{or}")
        }
        Type::Time { or } => format!("a time above zero, or {or}"),
        Type::Word(words) => format!("one of {}", words.join(", ")),
    }
}

/// Selection, connection and message properties that an application chose; all others have the RFC's
/// defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TransportProperties {
    chosen: BTreeMap<Property, PropertyValue>,
}

impl TransportProperties {
    /// Makes a set with all defaults.
    #[must_use]
    pub fn new() -> TransportProperties {
        TransportProperties::default()
    }

    /// Returns the profile reliable-inorder-stream (RFC 9622, appendix B.2.1).
    #[must_use]
    pub fn reliable_inorder_stream() -> TransportProperties {
        TransportProperties::profile(&[
            (Property::Reliability, Preference::Require),
            (Property::PreserveOrder, Preference::Require),
            (Property::CongestionControl, Preference::Require),
            (Property::PreserveMsgBoundaries, Preference::NoPreference),
        ])
    }

    /// Returns the profile reliable-message (B.2.2).
    #[must_use]
    pub fn reliable_message() -> TransportProperties {
        TransportProperties::profile(&[
            (Property::Reliability, Preference::Require),
            (Property::PreserveOrder, Preference::Require),
            (Property::CongestionControl, Preference::Require),
            (Property::PreserveMsgBoundaries, Preference::Require),
        ])
    }

    /// Returns the profile unreliable-datagram (B.2.3).
    #[must_use]
    pub fn unreliable_datagram() -> TransportProperties {
        let mut properties = TransportProperties::profile(&[
            (Property::Reliability, Preference::Avoid),
            (Property::PreserveOrder, Preference::Avoid),
            (Property::CongestionControl, Preference::NoPreference),
            (Property::PreserveMsgBoundaries, Preference::Require),
        ]);
        properties
            .chosen
            .insert(Property::SafelyReplayable, PropertyValue::Boolean(true));
        properties
    }

    fn profile(preferences: &[(Property, Preference)]) -> TransportProperties {
        let chosen = preferences
            .iter()
            .map(|&(property, preference)| (property, preference.into()));
        TransportProperties { chosen: chosen.collect() }
    }

    /// Chooses a value.
    ///
    /// # Errors
    /// When the property has no such value, or is read-only.
    pub fn set(
        &mut self,
        property: Property,
        value: impl Into<PropertyValue>,
    ) -> Result<&mut TransportProperties, PropertyError> {
        let value = check(property, value.into())?;
        self.chosen.insert(property, value);
        Ok(self)
    }

    /// Chooses a value by the property's name, in any case, with the value as text; times are in
    /// milliseconds.
    ///
    /// # Errors
    /// When there is no such property, when it has no such value, or when it is read-only.
    pub fn set_by_name(
        &mut self,
        name: &str,
        value: &str,
    ) -> Result<&mut TransportProperties, PropertyError> {
        let property: Property = name.parse()?;
        self.set(property, parse(property, value)?)
    }

    /// Sets a preference to [`Preference::Require`].
    ///
    /// # Errors
    /// When the property is not a preference.
    pub fn require(&mut self, property: Property) -> Result<&mut TransportProperties, PropertyError> {
        self.set(property, Preference::Require)
    }

    /// Sets a preference to [`Preference::Prefer`].
    ///
    /// # Errors
    /// When the property is not a preference.
    pub fn prefer(&mut self, property: Property) -> Result<&mut TransportProperties, PropertyError> {
        self.set(property, Preference::Prefer)
    }

    /// Sets a preference to [`Preference::NoPreference`].
    ///
    /// # Errors
    /// When the property is not a preference.
    pub fn no_preference(&mut self, property: Property) -> Result<&mut TransportProperties, PropertyError> {
        self.set(property, Preference::NoPreference)
    }

    /// Sets a preference to [`Preference::Avoid`].
    ///
    /// # Errors
    /// When the property is not a preference.
    pub fn avoid(&mut self, property: Property) -> Result<&mut TransportProperties, PropertyError> {
        self.set(property, Preference::Avoid)
    }

    /// Sets a preference to [`Preference::Prohibit`].
    ///
    /// # Errors
    /// When the property is not a preference.
    pub fn prohibit(&mut self, property: Property) -> Result<&mut TransportProperties, PropertyError> {
        self.set(property, Preference::Prohibit)
    }

    /// Sets the preference for an interface, by its name or type (RFC 9622, 6.2.11).
    pub fn interface(&mut self, name: &str, preference: Preference) -> &mut TransportProperties {
        let mut all = self.preferences(Property::Interface);
        all.insert(name.to_owned(), preference);
        self.chosen
            .insert(Property::Interface, PropertyValue::Preferences(all));
        self
    }

    /// Returns the chosen value.
    #[must_use]
    pub fn chosen(&self, property: Property) -> Option<&PropertyValue> {
        self.chosen.get(&property)
    }

    /// Returns the value that applies to Connections begun by `action`: the chosen one, or the default.
    /// `None` for values that only a Connection reports.
    #[must_use]
    pub fn value_for(&self, property: Property, action: Action) -> Option<PropertyValue> {
        if let Some(value) = self.chosen.get(&property) {
            return Some(value.clone());
        }
        match property.definition().initial {
            Initial::Of(other) => match self.value_for(other, action)? {
                PropertyValue::Preference(preference) => {
                    Some(PropertyValue::Boolean(preference >= Preference::Prefer))
                }
                value => Some(value),
            },
            _ => property.definition().value_for(action),
        }
    }

    /// Returns the value that applies to Connections begun by Initiate.
    #[must_use]
    pub fn get(&self, property: Property) -> Option<PropertyValue> {
        self.value_for(property, Action::Initiate)
    }

    /// Returns the value by the property's name, in any case.
    ///
    /// # Errors
    /// When there is no such property.
    pub fn get_by_name(&self, name: &str) -> Result<Option<PropertyValue>, PropertyError> {
        Ok(self.get(name.parse()?))
    }

    pub(crate) fn preference(&self, property: Property, action: Action) -> Preference {
        match self.value_for(property, action) {
            Some(PropertyValue::Preference(preference)) => preference,
            _ => Preference::NoPreference,
        }
    }

    pub(crate) fn preferences(&self, property: Property) -> BTreeMap<String, Preference> {
        match self.get(property) {
            Some(PropertyValue::Preferences(all)) => all,
            _ => BTreeMap::new(),
        }
    }

    pub(crate) fn word(&self, property: Property, action: Action) -> &'static str {
        match self.value_for(property, action) {
            Some(PropertyValue::Word(word)) => word,
            _ => "",
        }
    }

    pub(crate) fn is_true(&self, property: Property) -> bool {
        self.get(property) == Some(PropertyValue::Boolean(true))
    }

    pub(crate) fn time(&self, property: Property) -> Option<Duration> {
        match self.get(property) {
            Some(PropertyValue::Time(time)) => Some(time),
            _ => None,
        }
    }

    pub(crate) fn number(&self, property: Property) -> Option<u64> {
        match self.get(property) {
            Some(PropertyValue::Integer(number)) => Some(number),
            _ => None,
        }
    }

    /// Returns the chosen properties of one class.
    pub(crate) fn of_class(&self, class: Class) -> impl Iterator<Item = (Property, &PropertyValue)> {
        self.chosen
            .iter()
            .filter(move |(property, _)| property.definition().class == class)
            .map(|(property, value)| (*property, value))
    }
}

/// Converts a value to the form that the property uses.
pub(crate) fn check(property: Property, value: PropertyValue) -> Result<PropertyValue, PropertyError> {
    let definition = property.definition();
    if definition.is_read_only() {
        return Err(PropertyError::ReadOnly(property));
    }
    let text = value.to_string();
    definition
        .kind
        .admit(value)
        .ok_or(PropertyError::Value { property, value: text })
}

/// Parses a value.
pub(crate) fn parse(property: Property, text: &str) -> Result<PropertyValue, PropertyError> {
    let wrong = || PropertyError::Value { property, value: text.chars().take(100).collect() };
    property.definition().kind.parse(text).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_set_and_asked_for_by_name_in_any_case() {
        let mut properties = TransportProperties::new();
        let cases = [
            ("RELIABILITY", "no preference", "No Preference"),
            ("multiPath", "ACTIVE", "Active"),
            ("conntimeout", "1500", "1500"),
            ("connTimeout", "disabled", "Disabled"),
            ("TCP.userTimeoutValue", "2000", "2000"),
            ("connPriority", "0", "0"),
            ("maxSendRate", "unlimited", "Unlimited"),
            ("MsgLifetime", "20", "20"),
            ("final", "TRUE", "true"),
            (
                "interface",
                "wlan0=prohibit, Wi-Fi = avoid",
                "Wi-Fi=Avoid, wlan0=Prohibit",
            ),
            (
                "connCapacityProfile",
                "low latency/interactive",
                "Low Latency/Interactive",
            ),
        ];
        for (name, value, expected) in cases {
            properties.set_by_name(name, value).expect(name);
            let got = properties.get_by_name(&name.to_ascii_lowercase()).expect(name);
            assert_eq!(
                got.map(|value| value.to_string()).as_deref(),
                Some(expected),
                "{name}"
            );
        }
    }

    #[test]
    fn values_of_other_types_are_refused() {
        let mut properties = TransportProperties::new();
        for (name, value) in [
            ("reliability", "perhaps"),
            ("connTimeout", "0"),
            ("connTimeout", "-1"),
            ("maxSendRate", "0"),
            ("final", "1"),
            ("multipath", "Handover"),
            ("connState", "Closed"),
            ("interface", "wlan0"),
            ("nothing", "1"),
        ] {
            assert!(properties.set_by_name(name, value).is_err(), "{name} {value}");
        }
        assert!(properties.require(Property::ConnTimeout).is_err());
        assert!(properties.set(Property::ConnTimeout, 3u64).is_err());
        assert_eq!(properties, TransportProperties::new());
    }

    /// RFC 9622, 9.1.3.3 and 9.1.3.7.
    #[test]
    fn message_properties_inherit_selection_properties() {
        let mut properties = TransportProperties::new();
        assert_eq!(
            properties.get(Property::MsgOrdered),
            Some(PropertyValue::Boolean(true))
        );
        properties.avoid(Property::PreserveOrder).expect("a preference");
        assert_eq!(
            properties.get(Property::MsgOrdered),
            Some(PropertyValue::Boolean(false))
        );
        assert_eq!(
            properties.get(Property::MsgCapacityProfile),
            Some(PropertyValue::Word("Default"))
        );
    }
}
