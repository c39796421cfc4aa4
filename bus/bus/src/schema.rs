//! Schemas: the events with their fields, and the state variables with their rights, that a provider offers.

use std::collections::BTreeMap;
use std::fmt;

use crate::pattern::Pattern;

/// The index of an event in [`Schema::events`]; below 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(pub u16);

/// The index of a variable in [`Schema::variables`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VariableId(pub u16);

/// The meaning of a value, which is always one word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// A number: bytes, packets, a count.
    Number,
    /// 0 or 1.
    Bool,
    /// Nanoseconds.
    Duration,
    /// Nanoseconds of the provider's clock.
    Time,
    /// One of these values, each with its name.
    Enum(Vec<(u64, String)>),
}

impl ValueKind {
    /// Returns its name in documents.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            ValueKind::Number => "number",
            ValueKind::Bool => "bool",
            ValueKind::Duration => "duration",
            ValueKind::Time => "time",
            ValueKind::Enum(_) => "enum",
        }
    }

    /// Returns the name of one of an enumeration's values.
    #[must_use]
    pub fn label(&self, value: u64) -> Option<&str> {
        let ValueKind::Enum(names) = self else { return None };
        names
            .iter()
            .find(|(number, _)| *number == value)
            .map(|(_, name)| name.as_str())
    }
}

/// A field of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    pub kind: ValueKind,
}

/// An event that a provider can signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventType {
    /// The whole name: `tcp.acked`.
    pub name: String,
    /// The fields, in the order of their values in a signal.
    pub fields: Vec<Field>,
}

/// The access that the provider allows at most, whatever the rights of the subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It may be read.
    Observable,
    /// It may also be set, to a value within both bounds.
    Modifiable {
        /// The smallest allowed value.
        min: u64,
        /// The largest allowed value.
        max: u64,
    },
}

/// A state variable of a provider's flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// The whole name: `tcp.conn.cc.cwnd`.
    pub name: String,
    pub kind: ValueKind,
    pub access: Access,
}

/// The maximum number of events of a provider: a source has one bit of a word for each, set while the event
/// has subscribers.
pub const MAX_EVENTS: usize = 64;
/// The maximum number of fields of an event.
pub const MAX_FIELDS: usize = 8;
/// The maximum number of variables of a provider.
pub const MAX_VARIABLES: usize = 4096;

/// The errors of a schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// There are more events than bits in a word.
    #[error("a provider has at most {MAX_EVENTS} events, not {0}")]
    Events(usize),
    /// An event has more fields than fit into a signal.
    #[error("the event `{0}` has {1} fields; the limit is {MAX_FIELDS}")]
    Fields(String, usize),
    /// There are more variables than ids.
    #[error("a provider has at most {MAX_VARIABLES} variables, not {0}")]
    Variables(usize),
    /// Two events, fields or variables have the same name.
    #[error("`{0}` is defined twice")]
    Twice(String),
    /// A name does not begin with the provider's.
    #[error("`{0}` does not begin with `{1}.`, the provider's name")]
    Name(String, String),
}

/// The events and variables that a provider offers. Names are resolved once, at subscription; afterwards only
/// numbers are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    provider: String,
    events: Vec<EventType>,
    /// A bit for each event that is no longer offered.
    retired: u64,
    variables: Vec<Variable>,
    /// Descriptions for people, by whole name.
    about: BTreeMap<String, String>,
}

impl Schema {
    /// Makes the schema of a provider, such as `tcp` or `kernel.tcp`. All other names begin with the
    /// provider's.
    ///
    /// # Errors
    /// The first rule of schemas that is violated.
    pub fn new(
        provider: impl Into<String>,
        events: Vec<EventType>,
        variables: Vec<Variable>,
    ) -> Result<Schema, SchemaError> {
        let provider = provider.into();
        if events.len() > MAX_EVENTS {
            return Err(SchemaError::Events(events.len()));
        }
        if variables.len() > MAX_VARIABLES {
            return Err(SchemaError::Variables(variables.len()));
        }
        if let Some(wide) = events.iter().find(|event| event.fields.len() > MAX_FIELDS) {
            return Err(SchemaError::Fields(wide.name.clone(), wide.fields.len()));
        }
        let mut names: Vec<&str> = events.iter().map(|e| e.name.as_str()).collect();
        names.extend(variables.iter().map(|v| v.name.as_str()));
        let within = |name: &str| {
            name.strip_prefix(provider.as_str())
                .is_some_and(|rest| rest.starts_with('.'))
        };
        if let Some(name) = names.iter().find(|name| !within(name)) {
            return Err(SchemaError::Name((*name).to_owned(), provider));
        }
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(SchemaError::Twice(pair[0].to_owned()));
        }
        Ok(Schema { provider, events, retired: 0, variables, about: BTreeMap::new() })
    }

    /// Adds descriptions, which name a value's unit: of events and variables by their whole names, of fields
    /// by `EVENT.FIELD`.
    #[must_use]
    pub fn described(mut self, about: impl IntoIterator<Item = (String, String)>) -> Schema {
        self.about.extend(about);
        self
    }

    /// Returns the description of an event, a variable, or (`EVENT.FIELD`) a field, if there is one.
    #[must_use]
    pub fn about(&self, name: &str) -> Option<&str> {
        self.about.get(name).map(String::as_str)
    }

    /// Returns the schema of a provider that now offers `next` in place of this: the same variables, and
    /// other events. An event of the same name and number of fields keeps its number. The number of a removed
    /// event is reused only when no other is free, so that queued signals keep their meaning.
    ///
    /// # Errors
    /// When the variables differ, or no number is left.
    pub fn followed_by(&self, next: &Schema) -> Result<Schema, SchemaError> {
        if self.variables.len() != next.variables.len() {
            return Err(SchemaError::Variables(next.variables.len()));
        }
        let (mut events, mut kept) = (self.events.clone(), 0u64);
        let mut fresh = Vec::new();
        for (_, event) in next.offered() {
            let same = |(_, known): &(EventId, &EventType)| {
                known.name == event.name && known.fields.len() == event.fields.len()
            };
            match self.offered().find(same) {
                Some((id, _)) => {
                    events[usize::from(id.0)] = event.clone();
                    kept |= 1 << id.0;
                }
                None => fresh.push(event.clone()),
            }
        }
        for event in fresh {
            let free = (0..events.len()).find(|at| kept >> at & 1 == 0);
            match free {
                _ if events.len() < MAX_EVENTS => {
                    kept |= 1 << events.len();
                    events.push(event);
                }
                Some(at) => {
                    kept |= 1 << at;
                    events[at] = event;
                }
                None => return Err(SchemaError::Events(MAX_EVENTS + 1)),
            }
        }
        let all = u64::MAX >> (64 - events.len().clamp(1, 64));
        Ok(Schema {
            provider: self.provider.clone(),
            events,
            retired: all & !kept,
            variables: next.variables.clone(),
            about: next.about.clone(),
        })
    }

    /// Returns the names of events, fields and variables that have no description.
    #[must_use]
    pub fn undescribed(&self) -> Vec<String> {
        let of_event = |event: &EventType| {
            let fields = event
                .fields
                .iter()
                .map(|field| format!("{}.{}", event.name, field.name));
            [event.name.clone()].into_iter().chain(fields).collect::<Vec<_>>()
        };
        let events = self.offered().flat_map(|(_, event)| of_event(event));
        let variables = self.variables.iter().map(|variable| variable.name.clone());
        events
            .chain(variables)
            .filter(|name| self.about(name).is_none())
            .collect()
    }

    /// Returns the provider's name.
    #[must_use]
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// Returns its events, including those no longer offered; an [`EventId`] is an index.
    #[must_use]
    pub fn events(&self) -> &[EventType] {
        &self.events
    }

    /// Returns whether an event is still offered.
    #[must_use]
    pub fn is_offered(&self, id: EventId) -> bool {
        usize::from(id.0) < self.events.len() && self.retired >> id.0 & 1 == 0
    }

    /// Returns the events that are offered.
    pub fn offered(&self) -> impl Iterator<Item = (EventId, &EventType)> {
        let numbered = (0u16..).map(EventId).zip(&self.events);
        numbered.filter(|(id, _)| self.is_offered(*id))
    }

    /// Returns its variables; a [`VariableId`] is an index.
    #[must_use]
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// Finds an event by its whole name.
    #[must_use]
    pub fn event(&self, name: &str) -> Option<EventId> {
        self.offered()
            .find(|(_, event)| event.name == name)
            .map(|(id, _)| id)
    }

    /// Finds a variable by its whole name.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<VariableId> {
        self.variables
            .iter()
            .position(|v| v.name == name)
            .map(|at| VariableId(at as u16))
    }

    /// Returns the name and fields of an event.
    #[must_use]
    pub fn event_type(&self, id: EventId) -> Option<&EventType> {
        self.events.get(usize::from(id.0))
    }

    /// Returns the name, kind and access of a variable.
    #[must_use]
    pub fn variable_type(&self, id: VariableId) -> Option<&Variable> {
        self.variables.get(usize::from(id.0))
    }

    /// Returns the events whose names a pattern matches.
    pub fn events_like<'a>(&'a self, pattern: &'a Pattern) -> impl Iterator<Item = EventId> + 'a {
        self.offered()
            .filter(|(_, event)| pattern.matches(&event.name))
            .map(|(id, _)| id)
    }

    /// Returns the variables whose names a pattern matches.
    pub fn variables_like<'a>(&'a self, pattern: &'a Pattern) -> impl Iterator<Item = VariableId> + 'a {
        let of = |(at, _): (usize, &Variable)| VariableId(at as u16);
        self.variables
            .iter()
            .enumerate()
            .filter(|(_, v)| pattern.matches(&v.name))
            .map(of)
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} events, {} variables",
            self.provider,
            self.events.len(),
            self.variables.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, fields: usize) -> EventType {
        let field = |i| Field { name: format!("f{i}"), kind: ValueKind::Number };
        EventType { name: name.to_owned(), fields: (0..fields).map(field).collect() }
    }

    fn variable(name: &str) -> Variable {
        Variable {
            name: name.to_owned(),
            kind: ValueKind::Number,
            access: Access::Observable,
        }
    }

    #[test]
    fn names_are_found_by_name_and_by_pattern() {
        let schema = Schema::new(
            "tcp",
            vec![event("tcp.acked", 3), event("tcp.closed", 0)],
            vec![variable("tcp.conn.cc.cwnd"), variable("tcp.conn.srtt")],
        )
        .expect("a schema");
        assert_eq!(schema.event("tcp.closed"), Some(EventId(1)));
        assert_eq!(schema.variable("tcp.conn.srtt"), Some(VariableId(1)));
        assert_eq!(schema.variable("tcp.acked"), None);
        assert_eq!(schema.events_like(&"tcp.*".into()).count(), 2);
        assert_eq!(
            schema.variables_like(&"*.cwnd".into()).collect::<Vec<_>>(),
            [VariableId(0)]
        );
    }

    #[test]
    fn a_malformed_schema_is_refused() {
        let many = (0..=MAX_EVENTS).map(|i| event(&format!("t.e{i}"), 0)).collect();
        assert_eq!(Schema::new("t", many, vec![]), Err(SchemaError::Events(65)));
        let wide = vec![event("t.e", 9)];
        assert_eq!(
            Schema::new("t", wide, vec![]),
            Err(SchemaError::Fields("t.e".into(), 9))
        );
        let twice = Schema::new("t", vec![event("t.a", 0)], vec![variable("t.a")]);
        assert_eq!(twice, Err(SchemaError::Twice("t.a".into())));
        let outside = Schema::new("t", vec![event("tcp.a", 0)], vec![]);
        assert_eq!(outside, Err(SchemaError::Name("tcp.a".into(), "t".into())));
    }
}
