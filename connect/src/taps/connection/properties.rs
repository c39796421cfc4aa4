//! Setting and reading a Connection's properties (RFC 9622, 8).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use super::Connection;
use super::effective::{effective, is_fulfilled};
use super::event::ConnectionEvent;
use super::inbox;
use super::state::{ConnectionState, Core};
use crate::taps::CloneError;
use crate::taps::property::{Class, Property, PropertyError, PropertyValue, UnknownProperty, check, parse};

/// A snapshot of a Connection's properties.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionProperties {
    values: BTreeMap<Property, PropertyValue>,
    unmet: BTreeSet<Property>,
}

impl ConnectionProperties {
    /// Returns the value of a property. For an established Connection it is the value in force over the
    /// selected transport, whatever was chosen. Preferences are then true or false, and a property without
    /// effect has the value of the actual behaviour. `None` for a property without meaning there.
    #[must_use]
    pub fn get(&self, property: Property) -> Option<&PropertyValue> {
        self.values.get(&property)
    }

    /// Returns the value of a property by its name, in any case.
    ///
    /// # Errors
    /// When there is no such property.
    pub fn get_by_name(&self, name: &str) -> Result<Option<&PropertyValue>, UnknownProperty> {
        Ok(self.get(name.parse()?))
    }

    /// Returns whether a boolean property, or a preference, is true.
    #[must_use]
    pub fn has(&self, property: Property) -> bool {
        self.get(property) == Some(&PropertyValue::Boolean(true))
    }

    /// Returns whether the transport fulfils the chosen value of a property; true if none was chosen.
    #[must_use]
    pub fn is_in_force(&self, property: Property) -> bool {
        !self.unmet.contains(&property)
    }

    /// Returns the chosen properties that the selected transport does not fulfil: their values in force
    /// differ from the chosen ones.
    pub fn unmet(&self) -> impl Iterator<Item = Property> {
        self.unmet.iter().copied()
    }
}

impl Connection {
    /// Sets a connection property; all except `connPriority` apply to the whole group.
    ///
    /// # Errors
    /// When the property has no such value, cannot be set any more, or the transport refused it. The
    /// properties are then unchanged, and the Connection continues.
    pub fn set_property(
        &self,
        property: Property,
        value: impl Into<PropertyValue>,
    ) -> Result<(), PropertyError> {
        let value = check(property, value.into())?;
        match property.definition().class {
            Class::Selection => return Err(PropertyError::Fixed(property)),
            Class::Message => return Err(PropertyError::OfMessages(property)),
            Class::Connection => {}
        }
        if property.name().starts_with("tcp.") {
            let why = "the kernel's TCP does not have the option of RFC 5482".to_owned();
            return Err(PropertyError::Transport { property, why });
        }
        let core = &self.sender.core;
        if let (Property::ConnPriority, PropertyValue::Integer(priority)) = (property, &value) {
            let mut state = core.lock();
            state.priority = *priority;
            if let Some(stream) = &state.stream {
                stream.prioritize(*priority);
            }
            return Ok(());
        }
        let before = core.group.properties().get(property);
        core.group.set(property, value)?;
        if let Err(error) = apply(core) {
            if let Some(before) = before {
                core.group.set(property, before)?;
            }
            let why = error.to_string();
            return Err(PropertyError::Transport { property, why });
        }
        for other in core
            .group
            .members()
            .iter()
            .filter(|other| !Arc::ptr_eq(other, core))
        {
            if let Err(error) = apply(other) {
                let why = CloneError::Property(format!("{property}: {error}"));
                other.lock().notify(ConnectionEvent::CloneError(why));
            }
        }
        Ok(())
    }

    /// Sets a property by its name, in any case, with a value as text.
    ///
    /// # Errors
    /// As [`Connection::set_property`], and when there is no such property.
    pub fn set_property_by_name(&self, name: &str, value: &str) -> Result<(), PropertyError> {
        let property: Property = name.parse()?;
        self.set_property(property, parse(property, value)?)
    }

    /// Returns a snapshot of all properties.
    #[must_use]
    pub fn properties(&self) -> ConnectionProperties {
        let core = &self.sender.core;
        let values: BTreeMap<Property, PropertyValue> = Property::all()
            .filter_map(|property| Some((property, value(core, property)?)))
            .collect();
        let is_unmet = |property: &Property| is_unmet(core, *property, values.get(property));
        let unmet = Property::all().filter(is_unmet).collect();
        ConnectionProperties { values, unmet }
    }

    /// Returns the state of the Connection.
    #[must_use]
    pub fn state(&self) -> ConnectionState {
        self.sender.core.lock().phase
    }
}

/// Applies the group's properties to the transport.
fn apply(core: &Core) -> io::Result<()> {
    let tuning = core.group.tuning();
    let mut state = core.lock();
    state.wake_driver();
    match &state.stream {
        Some(stream) => stream.tune(&tuning),
        None => Ok(()),
    }
}

fn value(core: &Core, property: Property) -> Option<PropertyValue> {
    let properties = core.group.properties();
    let (sends, receives) = core.directions();
    let state = core.lock();
    let is_open = matches!(
        state.phase,
        ConnectionState::Establishing | ConnectionState::Established
    );
    let can_send = sends && is_open && !state.is_final_given && state.ending.is_none();
    let can_receive = receives && !state.is_received && state.phase != ConnectionState::Closed;
    let limit = |can: bool, max: u64| PropertyValue::Integer(if can { max } else { 0 });
    Some(match property {
        Property::ConnState => PropertyValue::Word(state.phase.word()),
        Property::CanSend => PropertyValue::Boolean(can_send),
        Property::CanReceive => PropertyValue::Boolean(can_receive),
        // Every kind of transport here segments a stream of bytes as it likes.
        Property::SingularTransmissionMsgMaxLen => PropertyValue::Word("Not applicable"),
        Property::SendMsgMaxLen => limit(can_send, u64::MAX),
        Property::RecvMsgMaxLen => limit(can_receive, inbox::MAX_BUFFERED as u64),
        Property::ConnPriority => PropertyValue::Integer(state.priority),
        _ => {
            let wanted = match state.messages.chosen(property) {
                Some(value) => value.clone(),
                None => properties.value_for(property, core.action)?,
            };
            match state.phase {
                ConnectionState::Establishing => wanted,
                _ => effective(property, wanted, &properties, &core.group.plan, &state.features)?,
            }
        }
    })
}

/// Returns whether a value was chosen for a property and another one is in force.
fn is_unmet(core: &Core, property: Property, holds: Option<&PropertyValue>) -> bool {
    let properties = core.group.properties();
    let state = core.lock();
    let chosen = state
        .messages
        .chosen(property)
        .or_else(|| properties.chosen(property));
    // Each Connection has a priority of its own (8.1.2).
    let is_shared = property != Property::ConnPriority;
    state.phase != ConnectionState::Establishing
        && is_shared
        && chosen.is_some_and(|chosen| !holds.is_some_and(|holds| is_fulfilled(chosen, holds)))
}
