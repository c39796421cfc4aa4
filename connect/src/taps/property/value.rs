//! Values of properties, and their types.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The weight of a selection property (RFC 9622, 6.2, table 1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Preference {
    /// Only candidates without the property are acceptable.
    Prohibit,
    /// Candidates without the property are preferred.
    Avoid,
    /// The property does not matter.
    #[default]
    NoPreference,
    /// Candidates with the property are preferred.
    Prefer,
    /// Only candidates with the property are acceptable.
    Require,
}

impl Preference {
    /// All preferences, with the RFC's words.
    pub const ALL: [(Preference, &'static str); 5] = [
        (Preference::Require, "Require"),
        (Preference::Prefer, "Prefer"),
        (Preference::NoPreference, "No Preference"),
        (Preference::Avoid, "Avoid"),
        (Preference::Prohibit, "Prohibit"),
    ];

    /// Returns whether a candidate that provides the property, or does not, is acceptable.
    #[must_use]
    pub fn admits(self, is_provided: bool) -> bool {
        match self {
            Preference::Require => is_provided,
            Preference::Prohibit => !is_provided,
            Preference::Prefer | Preference::NoPreference | Preference::Avoid => true,
        }
    }

    /// Returns the score of a candidate that provides the property, or does not: -1 to 1.
    #[must_use]
    pub fn score(self, is_provided: bool) -> i32 {
        match (self, is_provided) {
            (Preference::Prefer, true) => 1,
            (Preference::Avoid, true) => -1,
            _ => 0,
        }
    }
}

impl fmt::Display for Preference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Preference::ALL.iter().find(|(preference, _)| preference == self);
        f.write_str(word.map_or("", |(_, word)| word))
    }
}

impl FromStr for Preference {
    type Err = ();

    fn from_str(text: &str) -> Result<Preference, ()> {
        let found = Preference::ALL.iter().find(|(_, word)| is_word(word, text));
        found.map(|(preference, _)| *preference).ok_or(())
    }
}

/// The type of a property's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A [`Preference`].
    Preference,
    /// Preferences by name: of interfaces, of provisioning domains.
    Preferences,
    /// A boolean.
    Boolean,
    /// A number with a minimum, or a word in its place.
    Integer {
        /// The minimum.
        min: u64,
        /// The word that may stand in its place.
        or: Option<&'static str>,
    },
    /// A time above zero, or a word in its place.
    Time {
        /// The word that may stand in its place.
        or: &'static str,
    },
    /// One of these words.
    Word(&'static [&'static str]),
}

/// A property's value.
#[derive(Clone, Debug, PartialEq)]
pub enum PropertyValue {
    /// A preference for the property.
    Preference(Preference),
    /// Preferences by name.
    Preferences(BTreeMap<String, Preference>),
    /// A boolean.
    Boolean(bool),
    /// A number, in the property's unit: bytes, bits per second, or without a unit.
    Integer(u64),
    /// A span of time.
    Time(Duration),
    /// A word of an enumeration, or one in place of a number, such as `Disabled`.
    Word(&'static str),
}

impl Type {
    /// Converts a value to this type's form; `None` if the type has no such value.
    pub(super) fn admit(self, value: PropertyValue) -> Option<PropertyValue> {
        match value {
            PropertyValue::Preference(_) => (self == Type::Preference).then_some(value),
            PropertyValue::Preferences(_) => (self == Type::Preferences).then_some(value),
            PropertyValue::Boolean(_) => (self == Type::Boolean).then_some(value),
            PropertyValue::Time(time) => {
                (matches!(self, Type::Time { .. }) && !time.is_zero()).then_some(value)
            }
            PropertyValue::Integer(number) => match self {
                Type::Integer { min, .. } => (number >= min).then_some(value),
                _ => None,
            },
            PropertyValue::Word(text) => self.word(text).map(PropertyValue::Word),
        }
    }

    /// Parses a value: words in any case, `true` and `false`, numbers, times in milliseconds, and preferences
    /// by name as `wlan0=prohibit, lan=prefer`.
    pub(super) fn parse(self, text: &str) -> Option<PropertyValue> {
        let text = text.trim();
        let value = match self {
            Type::Preference => PropertyValue::Preference(text.parse().ok()?),
            Type::Preferences => PropertyValue::Preferences(preferences(text)?),
            Type::Boolean if text.eq_ignore_ascii_case("true") => PropertyValue::Boolean(true),
            Type::Boolean if text.eq_ignore_ascii_case("false") => PropertyValue::Boolean(false),
            Type::Boolean => return None,
            Type::Word(_) => PropertyValue::Word(self.word(text)?),
            Type::Integer { .. } | Type::Time { .. } => match (self.word(text), text.parse()) {
                (Some(word), _) => PropertyValue::Word(word),
                (None, Ok(number)) if matches!(self, Type::Time { .. }) => {
                    PropertyValue::Time(Duration::from_millis(number))
                }
                (None, number) => PropertyValue::Integer(number.ok()?),
            },
        };
        self.admit(value)
    }

    /// Finds the word of this type that matches a text, in any case.
    fn word(self, text: &str) -> Option<&'static str> {
        let find = |words: &[&'static str]| words.iter().copied().find(|word| is_word(word, text));
        match self {
            Type::Word(words) => find(words),
            Type::Time { or } => find(&[or]),
            Type::Integer { or, .. } => find(or.as_slice()),
            Type::Preference | Type::Preferences | Type::Boolean => None,
        }
    }
}

/// The maximum number of interfaces or domains with preferences.
const MAX_PREFERENCES: usize = 256;

fn preferences(text: &str) -> Option<BTreeMap<String, Preference>> {
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    let mut all = BTreeMap::new();
    for pair in pairs.take(MAX_PREFERENCES) {
        let (name, preference) = pair.split_once('=')?;
        all.insert(name.trim().to_owned(), preference.trim().parse().ok()?);
    }
    Some(all)
}

/// Returns whether `text` matches `word`: in any case, and with or without spaces and hyphens, so that
/// `NoPreference` and `no-preference` are the same.
fn is_word(word: &str, text: &str) -> bool {
    let letters = |text: &str| -> String {
        let kept = text.chars().filter(|letter| !matches!(letter, ' ' | '-' | '_'));
        kept.map(|letter| letter.to_ascii_lowercase()).collect()
    };
    letters(word) == letters(text)
}

impl fmt::Display for PropertyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PropertyValue::Preference(preference) => write!(f, "{preference}"),
            PropertyValue::Preferences(all) => {
                let pairs: Vec<String> = all
                    .iter()
                    .map(|(name, preference)| format!("{name}={preference}"))
                    .collect();
                f.write_str(&pairs.join(", "))
            }
            PropertyValue::Boolean(is_so) => write!(f, "{is_so}"),
            PropertyValue::Integer(number) => write!(f, "{number}"),
            PropertyValue::Time(time) => write!(f, "{}", time.as_millis()),
            PropertyValue::Word(word) => f.write_str(word),
        }
    }
}

impl From<Preference> for PropertyValue {
    fn from(preference: Preference) -> PropertyValue {
        PropertyValue::Preference(preference)
    }
}

impl From<bool> for PropertyValue {
    fn from(is_so: bool) -> PropertyValue {
        PropertyValue::Boolean(is_so)
    }
}

impl From<u64> for PropertyValue {
    fn from(number: u64) -> PropertyValue {
        PropertyValue::Integer(number)
    }
}

impl From<Duration> for PropertyValue {
    fn from(time: Duration) -> PropertyValue {
        PropertyValue::Time(time)
    }
}

impl From<&'static str> for PropertyValue {
    fn from(word: &'static str) -> PropertyValue {
        PropertyValue::Word(word)
    }
}
