//! Message contexts: properties, and values that framers add (RFC 9622, 9.1.1, 9.1.3).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::property::{Class, Property, PropertyError, PropertyValue, check, parse};

/// Identifies a message within this process: parts sent with one context are parts of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(u64);

/// The chosen properties and the metadata of a message. Clones are the context of the same message.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageContext {
    id: MessageId,
    properties: BTreeMap<Property, PropertyValue>,
    framing: BTreeMap<(String, String), String>,
    pub(super) local: Option<SocketAddr>,
    pub(super) remote: Option<SocketAddr>,
    pub(super) is_final: bool,
}

impl Default for MessageContext {
    fn default() -> MessageContext {
        MessageContext::new()
    }
}

impl MessageContext {
    /// Makes a context without properties, for a new message.
    #[must_use]
    pub fn new() -> MessageContext {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        MessageContext {
            id: MessageId(NEXT.fetch_add(1, Ordering::Relaxed)),
            properties: BTreeMap::new(),
            framing: BTreeMap::new(),
            local: None,
            remote: None,
            is_final: false,
        }
    }

    /// Returns the id of the message.
    #[must_use]
    pub fn id(&self) -> MessageId {
        self.id
    }

    /// Chooses a message property. Messages sent before keep their values.
    ///
    /// # Errors
    /// When it is not a message property, or has no such value.
    pub fn add(
        &mut self,
        property: Property,
        value: impl Into<PropertyValue>,
    ) -> Result<&mut MessageContext, PropertyError> {
        if property.definition().class != Class::Message {
            return Err(PropertyError::NotOfMessages(property));
        }
        let value = check(property, value.into())?;
        self.properties.insert(property, value);
        Ok(self)
    }

    /// Chooses a message property by its name, in any case, with a value as text.
    ///
    /// # Errors
    /// As [`MessageContext::add`], and when there is no such property.
    pub fn add_by_name(&mut self, name: &str, value: &str) -> Result<&mut MessageContext, PropertyError> {
        let property: Property = name.parse()?;
        self.add(property, parse(property, value)?)
    }

    /// Returns the chosen value of a property.
    #[must_use]
    pub fn get(&self, property: Property) -> Option<&PropertyValue> {
        self.properties.get(&property)
    }

    /// Sets a value of the message for a framer (RFC 9622, 9.1.2.2).
    pub fn add_framing(&mut self, framer: &str, key: &str, value: &str) -> &mut MessageContext {
        self.framing
            .insert((framer.to_owned(), key.to_owned()), value.to_owned());
        self
    }

    /// Returns a value of the message that a framer sent or received.
    #[must_use]
    pub fn framing(&self, framer: &str, key: &str) -> Option<&str> {
        self.framing
            .get(&(framer.to_owned(), key.to_owned()))
            .map(String::as_str)
    }

    /// Returns the local endpoint of a sent or received message.
    #[must_use]
    pub fn local_endpoint(&self) -> Option<SocketAddr> {
        self.local
    }

    /// Returns the remote endpoint of a sent or received message.
    #[must_use]
    pub fn remote_endpoint(&self) -> Option<SocketAddr> {
        self.remote
    }

    /// Returns whether a received message is the last one (9.3.3.3).
    #[must_use]
    pub fn is_final(&self) -> bool {
        self.is_final
    }

    /// Adds the properties of a Connection's messages that the message itself does not set.
    pub(super) fn inherit<'a>(&mut self, properties: impl Iterator<Item = (Property, &'a PropertyValue)>) {
        for (property, value) in properties {
            self.properties.entry(property).or_insert_with(|| value.clone());
        }
    }

    pub(super) fn is_true(&self, property: Property) -> bool {
        self.properties.get(&property) == Some(&PropertyValue::Boolean(true))
    }

    pub(super) fn is_false(&self, property: Property) -> bool {
        self.properties.get(&property) == Some(&PropertyValue::Boolean(false))
    }

    pub(super) fn lifetime(&self) -> Option<Duration> {
        match self.properties.get(&Property::MsgLifetime) {
            Some(PropertyValue::Time(time)) => Some(*time),
            _ => None,
        }
    }

    /// Returns the priority; lower values come first (9.1.3.2).
    pub(super) fn priority(&self) -> u64 {
        match self.properties.get(&Property::MsgPriority) {
            Some(PropertyValue::Integer(priority)) => *priority,
            _ => 100,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_accepts_only_message_properties() {
        let mut context = MessageContext::new();
        context.add_by_name("MSGLIFETIME", "250").expect("a lifetime");
        assert_eq!(context.lifetime(), Some(Duration::from_millis(250)));
        assert!(context.add(Property::ConnPriority, 1u64).is_err());
        assert!(context.add(Property::MsgLifetime, true).is_err());
        assert_ne!(context.id(), MessageContext::new().id());
        assert_eq!(context.id(), context.clone().id());
    }

    #[test]
    fn framers_have_separate_namespaces() {
        let mut context = MessageContext::new();
        context.add_framing("tlv", "type", "7");
        assert_eq!(context.framing("tlv", "type"), Some("7"));
        assert_eq!(context.framing("http", "type"), None);
    }
}
