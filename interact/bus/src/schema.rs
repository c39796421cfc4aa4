//! What a provider offers: events with fields, state variables with rights.

use std::collections::BTreeMap;
use std::fmt;

use crate::pattern::Pattern;

/// Index of an event in [`Schema::events`]; below 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(pub u16);

/// Index of a variable in [`Schema::variables`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VariableId(pub u16);

/// What a value, always one word, means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number: bytes, packets, a count.
    Number,
    /// 0 or 1.
    Bool,
    /// Nanoseconds.
    Duration,
    /// Nanoseconds of the provider's clock.
    Time,
    /// One of these, by number.
    Enum(Vec<(u64, String)>),
}

impl Kind {
    /// Its name in documents.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Number => "number",
            Kind::Bool => "bool",
            Kind::Duration => "duration",
            Kind::Time => "time",
            Kind::Enum(_) => "enum",
        }
    }

    /// The name of one of an enumeration's values.
    #[must_use]
    pub fn label(&self, value: u64) -> Option<&str> {
        let Kind::Enum(names) = self else { return None };
        names
            .iter()
            .find(|(number, _)| *number == value)
            .map(|(_, name)| name.as_str())
    }
}

/// A field of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// What its values mean.
    pub kind: Kind,
}

/// An event that a provider can signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventType {
    /// Its whole name: `tcp.acked`.
    pub name: String,
    /// Its fields, in the order in which a signal has their values.
    pub fields: Vec<Field>,
}

/// What may be done with a variable at most, whoever it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It may be read.
    Observable,
    /// It may also be set, to a value within both bounds.
    Modifiable {
        /// The smallest value.
        min: u64,
        /// The greatest.
        max: u64,
    },
}

/// A state variable of a provider's flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its whole name: `tcp.conn.cc.cwnd`.
    pub name: String,
    /// What its values mean.
    pub kind: Kind,
    /// What may be done with it.
    pub access: Access,
}

/// Events of a provider, at most: a source has one bit of a word for each, whether anybody wants it.
pub const MAX_EVENTS: usize = 64;
/// Fields of an event, at most.
pub const MAX_FIELDS: usize = 8;
/// Variables of a provider, at most.
pub const MAX_VARIABLES: usize = 4096;

/// Why something is no schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// More events than there are bits in a word.
    #[error("{0} events: a provider has at most {MAX_EVENTS}")]
    Events(usize),
    /// More fields than a signal has room for.
    #[error("`{0}` has {1} fields: an event has at most {MAX_FIELDS}")]
    Fields(String, usize),
    /// More variables than ids.
    #[error("{0} variables: a provider has at most {MAX_VARIABLES}")]
    Variables(usize),
    /// A name that something else has.
    #[error("`{0}` is there twice")]
    Twice(String),
    /// A name outside the provider's.
    #[error("`{0}` does not begin with `{1}.`, the provider's name")]
    Name(String, String),
}

/// What a provider offers. Names are resolved once, when somebody subscribes; afterwards there are
/// only numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    provider: String,
    events: Vec<EventType>,
    /// A bit for each event that is offered no longer.
    retired: u64,
    variables: Vec<Variable>,
    /// By whole name: what a person reads of it.
    about: BTreeMap<String, String>,
}

impl Schema {
    /// The schema of a provider, `tcp` or `kernel.tcp`, whose name all others begin with.
    ///
    /// # Errors
    /// What is wrong with it.
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

    /// The same with descriptions, which name a value's unit: of events and variables by their whole names,
    /// of fields by `EVENT.FIELD`.
    #[must_use]
    pub fn described(mut self, about: impl IntoIterator<Item = (String, String)>) -> Schema {
        self.about.extend(about);
        self
    }

    /// The description of an event, a variable, or (`EVENT.FIELD`) a field, if there is one.
    #[must_use]
    pub fn about(&self, name: &str) -> Option<&str> {
        self.about.get(name).map(String::as_str)
    }

    /// What a provider offers from now on that offers `next` in place of this: the same variables, and other
    /// events. An event of the same name and as many fields keeps its number; the number of one that is gone is
    /// given to another only when there is no other left, so that signals that wait still mean what they did.
    ///
    /// # Errors
    /// When the variables are others, or no number is left.
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

    /// The names of events, fields and variables that have no description.
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

    /// The provider's name.
    #[must_use]
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// Its events, those included that are offered no longer; an [`EventId`] is an index.
    #[must_use]
    pub fn events(&self) -> &[EventType] {
        &self.events
    }

    /// Whether an event can happen still.
    #[must_use]
    pub fn is_offered(&self, id: EventId) -> bool {
        usize::from(id.0) < self.events.len() && self.retired >> id.0 & 1 == 0
    }

    /// The events that can happen.
    pub fn offered(&self) -> impl Iterator<Item = (EventId, &EventType)> {
        let numbered = (0u16..).map(EventId).zip(&self.events);
        numbered.filter(|(id, _)| self.is_offered(*id))
    }

    /// Its variables; a [`VariableId`] is an index.
    #[must_use]
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// An event by its whole name.
    #[must_use]
    pub fn event(&self, name: &str) -> Option<EventId> {
        self.offered()
            .find(|(_, event)| event.name == name)
            .map(|(id, _)| id)
    }

    /// A variable by its whole name.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<VariableId> {
        self.variables
            .iter()
            .position(|v| v.name == name)
            .map(|at| VariableId(at as u16))
    }

    /// An event's type.
    #[must_use]
    pub fn event_type(&self, id: EventId) -> Option<&EventType> {
        self.events.get(usize::from(id.0))
    }

    /// What a variable is.
    #[must_use]
    pub fn variable_type(&self, id: VariableId) -> Option<&Variable> {
        self.variables.get(usize::from(id.0))
    }

    /// The events whose names a pattern matches.
    pub fn events_like<'a>(&'a self, pattern: &'a Pattern) -> impl Iterator<Item = EventId> + 'a {
        self.offered()
            .filter(|(_, event)| pattern.matches(&event.name))
            .map(|(id, _)| id)
    }

    /// The variables whose names a pattern matches.
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
        let field = |i| Field { name: format!("f{i}"), kind: Kind::Number };
        EventType { name: name.to_owned(), fields: (0..fields).map(field).collect() }
    }

    fn variable(name: &str) -> Variable {
        Variable { name: name.to_owned(), kind: Kind::Number, access: Access::Observable }
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
