//! Names of the properties that sources of knowledge use, and constructors for such properties.

use std::sync::LazyLock;

use crate::{Key, NameTable, Precedence, Properties, Property, Scalar, Value};

/// A table of the known names, which have the same keys in every table.
static NAMES: LazyLock<NameTable> = LazyLock::new(NameTable::default);

/// Returns the key of a name that every table knows.
///
/// # Panics
/// The name is unknown: a misspelling in the calling source, which every test of it detects.
pub fn key(name: &'static str) -> Key {
    match NAMES.find(name) {
        Some(key) => key,
        None => unreachable!("{name} is a built-in name of Hawser"),
    }
}

/// Makes a property that holds independent of a request's preferences.
pub fn fact(value: Value) -> Property {
    Property { precedence: Precedence::Immutable, ..Property::new(value) }
}

/// Makes a value of a text.
pub fn text(text: impl AsRef<str>) -> Value {
    Value::One(Scalar::Text(text.as_ref().into()))
}

/// Makes a value of a number.
pub fn number(number: impl Into<f64>) -> Value {
    Value::One(Scalar::Number(number.into()))
}

/// Makes a Boolean value.
pub fn truth(truth: bool) -> Value {
    Value::One(Scalar::Bool(truth))
}

/// Returns the text of a property.
pub fn text_of(properties: &Properties, name: &'static str) -> Option<std::sync::Arc<str>> {
    match &properties.find(key(name))?.value {
        Value::One(Scalar::Text(text)) => Some(text.clone()),
        _ => None,
    }
}

/// Returns the number of a property.
pub fn number_of(properties: &Properties, name: &'static str) -> Option<f64> {
    match &properties.find(key(name))?.value {
        Value::One(Scalar::Number(number)) => Some(*number),
        _ => None,
    }
}
