//! Names of properties that sources speak of, and properties that they make.

use std::sync::LazyLock;

use crate::{Key, Names, Precedence, Properties, Property, Scalar, Value};

/// Names that are known anywhere have the same keys everywhere.
static NAMES: LazyLock<Names> = LazyLock::new(Names::default);

/// The key of a name that every table knows.
///
/// # Panics
/// It is not known: a slip in the source that asks, which every test of it finds.
pub fn key(name: &'static str) -> Key {
    match NAMES.find(name) {
        Some(key) => key,
        None => unreachable!("{name} is a name that comes with Hawser"),
    }
}

/// What is so, whatever a request prefers.
pub fn fact(value: Value) -> Property {
    Property { precedence: Precedence::Immutable, ..Property::new(value) }
}

/// A text.
pub fn text(text: impl AsRef<str>) -> Value {
    Value::One(Scalar::Text(text.as_ref().into()))
}

/// A number.
pub fn number(number: impl Into<f64>) -> Value {
    Value::One(Scalar::Number(number.into()))
}

/// A truth value.
pub fn truth(truth: bool) -> Value {
    Value::One(Scalar::Bool(truth))
}

/// The text that a property has.
pub fn text_of(properties: &Properties, name: &'static str) -> Option<std::sync::Arc<str>> {
    match &properties.find(key(name))?.value {
        Value::One(Scalar::Text(text)) => Some(text.clone()),
        _ => None,
    }
}

/// The number that a property has.
pub fn number_of(properties: &Properties, name: &'static str) -> Option<f64> {
    match &properties.find(key(name))?.value {
        Value::One(Scalar::Number(number)) => Some(*number),
        _ => None,
    }
}
