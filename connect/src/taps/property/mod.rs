//! Transport properties by the names of RFC 9622: selection, connection and message properties.
//!
//! * [`Property`]: the names; `table`: type, default and section of each
//! * [`PropertyValue`], [`Preference`], [`Type`]: their values
//! * [`TransportProperties`]: the values that an application chose; all others have the RFC's defaults
//!
//! Names are case-insensitive (RFC 9622, 4.1).

mod set;
mod table;
mod value;

use std::fmt;
use std::str::FromStr;

pub use set::{PropertyError, TransportProperties};
pub(super) use set::{check, parse};
pub use table::{Action, Class, Definition, Initial, Property};
pub use value::{Preference, PropertyValue, Type};

/// A name is not that of a property.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("RFC 9622 has no property `{0}`")]
pub struct UnknownProperty(String);

impl Property {
    /// Returns all properties, in the order of the RFC.
    pub fn all() -> impl Iterator<Item = Property> {
        Definition::ALL.iter().map(|definition| definition.property)
    }

    /// Returns the RFC's definition of it.
    #[must_use]
    pub fn definition(self) -> &'static Definition {
        // The table is in the order of the names, as a test checks.
        &Definition::ALL[self as usize]
    }

    /// Returns its name in the RFC's spelling.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.definition().name
    }
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Property {
    type Err = UnknownProperty;

    fn from_str(name: &str) -> Result<Property, UnknownProperty> {
        Property::all()
            .find(|property| property.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| UnknownProperty(name.chars().take(100).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_names() {
        for (place, definition) in Definition::ALL.iter().enumerate() {
            assert_eq!(definition.property as usize, place, "{}", definition.name);
        }
    }

    /// RFC 9622, 4.1.
    #[test]
    fn names_are_case_insensitive() {
        for property in Property::all() {
            let name = property.name();
            for text in [
                name.to_owned(),
                name.to_ascii_uppercase(),
                name.to_ascii_lowercase(),
            ] {
                assert_eq!(text.parse(), Ok(property));
            }
        }
        assert!("reliable".parse::<Property>().is_err());
    }
}
