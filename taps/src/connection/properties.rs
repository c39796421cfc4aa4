//! A Connection's properties: set, and asked for (RFC 9622, 8).

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use super::Connection;
use super::event::Event;
use super::inbox;
use super::state::{ConnectionState, Core};
use crate::CloneError;
use crate::candidates::provides;
use crate::property::{Class, Preference, Property, PropertyError, UnknownProperty, Value, check, parse};
use hawser_connect::Features;

/// What a Connection's properties were when they were asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionProperties {
    values: BTreeMap<Property, Value>,
}

impl ConnectionProperties {
    /// The value of one. Preferences of a Connection that is established are true or false: whether the
    /// transport that was selected has the property.
    #[must_use]
    pub fn get(&self, property: Property) -> Option<&Value> {
        self.values.get(&property)
    }

    /// The same by name, in any case.
    ///
    /// # Errors
    /// There is no such property.
    pub fn get_by_name(&self, name: &str) -> Result<Option<&Value>, UnknownProperty> {
        Ok(self.get(name.parse()?))
    }

    /// Whether a boolean property, or a preference, holds.
    #[must_use]
    pub fn has(&self, property: Property) -> bool {
        self.get(property) == Some(&Value::Boolean(true))
    }
}

impl Connection {
    /// Sets a connection property; all but `connPriority` for the whole group.
    ///
    /// # Errors
    /// It has no such value, cannot be set any more, or the transport refused it. Nothing has changed
    /// then, and the Connection goes on.
    pub fn set_property(&self, property: Property, value: impl Into<Value>) -> Result<(), PropertyError> {
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
        if let (Property::ConnPriority, Value::Integer(priority)) = (property, &value) {
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
                other.lock().notify(Event::CloneError(why));
            }
        }
        Ok(())
    }

    /// The same by name, in any case, with a value as text.
    ///
    /// # Errors
    /// As [`Connection::set_property`]; there is no such property.
    pub fn set_property_by_name(&self, name: &str, value: &str) -> Result<(), PropertyError> {
        let property: Property = name.parse()?;
        self.set_property(property, parse(property, value)?)
    }

    /// All properties, as they are now.
    #[must_use]
    pub fn properties(&self) -> ConnectionProperties {
        let core = &self.sender.core;
        let values = Property::all().filter_map(|property| Some((property, value(core, property)?)));
        ConnectionProperties {
            values: values.collect(),
        }
    }

    /// Where it stands.
    #[must_use]
    pub fn state(&self) -> ConnectionState {
        self.sender.core.lock().phase
    }
}

/// Has the transport act on the group's properties.
fn apply(core: &Core) -> io::Result<()> {
    let tuning = core.group.tuning();
    let mut state = core.lock();
    state.wake_driver();
    match &state.stream {
        Some(stream) => stream.tune(&tuning),
        None => Ok(()),
    }
}

fn value(core: &Core, property: Property) -> Option<Value> {
    let properties = core.group.properties();
    let (sends, receives) = core.directions();
    let state = core.lock();
    let is_open = matches!(
        state.phase,
        ConnectionState::Establishing | ConnectionState::Established
    );
    let can_send = sends && is_open && !state.is_final_given && state.ending.is_none();
    let can_receive = receives && !state.is_received && state.phase != ConnectionState::Closed;
    let limit = |can: bool, max: u64| Value::Integer(if can { max } else { 0 });
    Some(match property {
        Property::ConnState => Value::Word(state.phase.word()),
        Property::CanSend => Value::Boolean(can_send),
        Property::CanReceive => Value::Boolean(can_receive),
        // Every kind that there is cuts a stream of bytes as it likes.
        Property::SingularTransmissionMsgMaxLen => Value::Word("Not applicable"),
        Property::SendMsgMaxLen => limit(can_send, u64::MAX),
        Property::RecvMsgMaxLen => limit(can_receive, inbox::MAX_BUFFERED as u64),
        Property::ConnPriority => Value::Integer(state.priority),
        _ => {
            let value = match state.messages.chosen(property) {
                Some(value) => value.clone(),
                None => properties.value_for(property, core.action)?,
            };
            match value {
                Value::Preference(preference) if state.phase != ConnectionState::Establishing => {
                    Value::Boolean(holds(&state.features, property, preference))
                }
                value => value,
            }
        }
    })
}

/// Whether the transport that was selected has a property.
fn holds(features: &Features, property: Property, preference: Preference) -> bool {
    provides(features, property).unwrap_or(preference >= Preference::Prefer)
}
