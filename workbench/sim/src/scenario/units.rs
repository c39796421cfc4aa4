//! Quantities as people write them: `"10ms"`, `"64KiB"`, `"10Mbit/s"`, `"1%"`.
//!
//! Each type reads and writes the same form of text, so that a scenario can be written back. A written
//! quantity reads as the same value.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// A time span, in nanoseconds: `"5ns"`, `"10us"`, `"1.5ms"`, `"2s"`, `"1min"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeSpan(pub u64);

impl From<TimeSpan> for Duration {
    fn from(span: TimeSpan) -> Duration {
        Duration::from_nanos(span.0)
    }
}

/// An amount of data, in bytes: `1500`, `"64KiB"`, `"1MB"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DataSize(pub u64);

/// A rate, in bits per second: `"10Mbit/s"`, `"1.5Gbit/s"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(pub u64);

/// A share from 0 to 1: `0.1` or `"10%"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Share(pub f64);

/// A size, or the bounds of uniformly drawn sizes: `"1KiB"`, `[1, "64KiB"]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The smallest size, in bytes.
    pub min: u64,
    /// The largest size, in bytes.
    pub max: u64,
}

/// A param's value: a number, a truth value, a time span (nanoseconds), an amount of data or an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamValue {
    /// An integer.
    Number(u64),
    /// `true` or `false`.
    Flag(bool),
    /// A time span, in nanoseconds.
    Span(TimeSpan),
    /// An amount of data, in bytes.
    Bytes(DataSize),
    /// An address; `None` is written `"NONE"`.
    Address(Option<IpAddr>),
}

/// The text of the empty address, as in the language.
const NO_ADDRESS: &str = "NONE";

/// Formats the value as the language writes it: an amount of data is a number there.
impl fmt::Display for ParamValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParamValue::Number(number) => number.fmt(f),
            ParamValue::Flag(flag) => flag.fmt(f),
            ParamValue::Span(span) => span.fmt(f),
            ParamValue::Bytes(bytes) => bytes.0.fmt(f),
            ParamValue::Address(Some(address)) => address.fmt(f),
            ParamValue::Address(None) => f.write_str(NO_ADDRESS),
        }
    }
}

/// Units with their factors, the largest first.
type Units = &'static [(&'static str, u64)];

const SPANS: Units = &[
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1000),
    ("ns", 1),
];
const BYTES: Units = &[
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1000),
    ("B", 1),
];
const RATES: Units = &[
    ("Gbit/s", 1_000_000_000),
    ("Mbit/s", 1_000_000),
    ("kbit/s", 1000),
    ("bit/s", 1),
];

/// A text is not a quantity of the expected kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// The text is not a number with a unit.
    #[error("`{text}` is not {expected}")]
    Syntax {
        /// The invalid text.
        text: String,
        /// A description of the expected form, with an example.
        expected: String,
    },
    /// The number is below zero.
    #[error("`{0}` is negative; a quantity is at least 0")]
    Negative(String),
    /// The number exceeds the range of 64 bits.
    #[error("`{text}` is too large: the maximum is {max}")]
    TooLarge {
        /// The invalid text.
        text: String,
        /// The largest quantity of its kind.
        max: String,
    },
}

/// Describes the form of a text with these units.
fn hint(units: Units) -> String {
    let names: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
    format!(
        "a number and one of {}, as in \"10{}\"",
        names.join(", "),
        names[names.len() / 2]
    )
}

/// Reads a number, whole or with a decimal point, and a unit.
fn parse(text: &str, units: Units) -> Result<u64, UnitError> {
    let syntax = || UnitError::Syntax { text: text.to_owned(), expected: hint(units) };
    if let Some(rest) = text.strip_prefix('-') {
        return match parse(rest, units) {
            Err(UnitError::Syntax { .. }) => Err(syntax()),
            Ok(_) | Err(_) => Err(UnitError::Negative(text.to_owned())),
        };
    }
    let unit_at = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let number = number.replace('_', "");
    let unit = unit.trim();
    let factor = units
        .iter()
        .find(|(name, _)| *name == unit)
        .map(|(_, factor)| *factor)
        .ok_or_else(syntax)?;
    let value = match number.parse::<u64>() {
        Ok(whole) => whole.checked_mul(factor),
        Err(_) => decimal(number.parse().map_err(|_| syntax())?, factor),
    };
    value.ok_or_else(|| UnitError::TooLarge { text: text.to_owned(), max: largest(units) })
}

fn decimal(number: f64, factor: u64) -> Option<u64> {
    let value = number * factor as f64;
    (value < u64::MAX as f64).then(|| value.round() as u64)
}

/// Returns the largest quantity of a kind, in the largest unit.
fn largest(units: Units) -> String {
    let (name, factor) = units[0];
    format!("{}{name}", u64::MAX / factor)
}

/// Writes a quantity in the largest unit that holds it exactly.
fn print(value: u64, units: Units, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let exact = units.iter().find(|(_, factor)| value.is_multiple_of(*factor));
    let (name, factor) = exact
        .copied()
        .filter(|_| value > 0)
        .unwrap_or(units[units.len() - 1]);
    write!(f, "{}{name}", value / factor)
}

/// Reads either a bare integer (if `bare` allows it) or text.
struct Quantity {
    units: Units,
    bare: bool,
}

impl Visitor<'_> for Quantity {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hint(self.units))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<u64, E> {
        match u64::try_from(value) {
            Ok(value) if self.bare || value == 0 => Ok(value),
            Ok(_) => Err(E::invalid_value(de::Unexpected::Signed(value), &self)),
            Err(_) => Err(E::custom(UnitError::Negative(value.to_string()))),
        }
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<u64, E> {
        parse(text, self.units).map_err(E::custom)
    }
}

macro_rules! quantity {
    ($name:ident, $units:ident, $bare:literal) => {
        impl FromStr for $name {
            type Err = UnitError;

            fn from_str(text: &str) -> Result<$name, UnitError> {
                parse(text, $units).map($name)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                print(self.0, $units, f)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                deserializer
                    .deserialize_any(Quantity { units: $units, bare: $bare })
                    .map($name)
            }
        }
    };
}

quantity!(TimeSpan, SPANS, false);
quantity!(DataSize, BYTES, true);
quantity!(Rate, RATES, false);

impl Serialize for Share {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0)
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Share, D::Error> {
        deserializer.deserialize_any(ShareVisitor)
    }
}

struct ShareVisitor;

impl Visitor<'_> for ShareVisitor {
    type Value = Share;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a share from 0 to 1, as in 0.1 or \"10%\"")
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Share, E> {
        self.visit_f64(value as f64)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Share, E> {
        if (0.0..=1.0).contains(&value) {
            Ok(Share(value))
        } else {
            Err(E::invalid_value(de::Unexpected::Float(value), &self))
        }
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Share, E> {
        match text
            .strip_suffix('%')
            .and_then(|number| number.trim().parse::<f64>().ok())
        {
            Some(percent) => self.visit_f64(percent / 100.0),
            None => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
        }
    }
}

impl Sizes {
    /// Returns the smallest and the largest size.
    #[must_use]
    pub(crate) fn bounds(self) -> (u64, u64) {
        (self.min, self.max)
    }

    /// Creates a range of one size.
    #[must_use]
    pub fn one(size: u64) -> Sizes {
        Sizes { min: size, max: size }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "a size, or the smallest and the largest as in [1, \"64KiB\"]"
)]
enum SizesForm {
    One(DataSize),
    Range(DataSize, DataSize),
}

impl Serialize for Sizes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Sizes { min, max } if min == max => SizesForm::One(DataSize(min)),
            Sizes { min, max } => SizesForm::Range(DataSize(min), DataSize(max)),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Sizes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Sizes, D::Error> {
        let sizes = match SizesForm::deserialize(deserializer)? {
            SizesForm::One(DataSize(size)) => Sizes::one(size),
            SizesForm::Range(DataSize(min), DataSize(max)) => Sizes { min, max },
        };
        if sizes.min <= sizes.max {
            Ok(sizes)
        } else {
            Err(de::Error::custom("the smallest size is above the largest"))
        }
    }
}

impl Serialize for ParamValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            ParamValue::Number(number) => serializer.serialize_u64(*number),
            ParamValue::Flag(flag) => serializer.serialize_bool(*flag),
            ParamValue::Span(span) => span.serialize(serializer),
            ParamValue::Bytes(bytes) => bytes.serialize(serializer),
            ParamValue::Address(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for ParamValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ParamValue, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl Visitor<'_> for ValueVisitor {
    type Value = ParamValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a number, true or false, a time span such as \"10ms\", a size such as \"64KiB\", or an address",
        )
    }

    fn visit_bool<E: de::Error>(self, flag: bool) -> Result<ParamValue, E> {
        Ok(ParamValue::Flag(flag))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<ParamValue, E> {
        match u64::try_from(number) {
            Ok(number) => Ok(ParamValue::Number(number)),
            Err(_) => Err(E::custom(UnitError::Negative(number.to_string()))),
        }
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<ParamValue, E> {
        if let Ok(address) = text.parse() {
            return Ok(ParamValue::Address(Some(address)));
        }
        if text == NO_ADDRESS {
            return Ok(ParamValue::Address(None));
        }
        let span = text.parse().map(ParamValue::Span);
        let bytes = |_| text.parse().map(ParamValue::Bytes);
        span.or_else(|error| match error {
            UnitError::Syntax { .. } => bytes(error),
            UnitError::Negative(_) | UnitError::TooLarge { .. } => Err(error),
        })
        .map_err(|error| match error {
            UnitError::Syntax { .. } => E::invalid_value(de::Unexpected::Str(text), &self),
            UnitError::Negative(_) | UnitError::TooLarge { .. } => E::custom(error),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_parse_to_their_values() {
        let span = |text: &str| text.parse::<TimeSpan>().ok().map(|s| s.0);
        assert_eq!(span("10ms"), Some(10_000_000));
        assert_eq!(span("1.5 s"), Some(1_500_000_000));
        assert_eq!(span("0.25us"), Some(250));
        assert_eq!(span("2min"), Some(120_000_000_000));
        let bytes = |text: &str| text.parse::<DataSize>().ok().map(|b| b.0);
        assert_eq!(
            (bytes("1MiB"), bytes("1MB"), bytes("1_000B")),
            (Some(1 << 20), Some(1_000_000), Some(1000))
        );
        let rate = |text: &str| text.parse::<Rate>().ok().map(|r| r.0);
        assert_eq!(
            (rate("10Mbit/s"), rate("2.5Gbit/s")),
            (Some(10_000_000), Some(2_500_000_000))
        );
    }

    #[test]
    fn bad_texts_are_refused() {
        for text in ["", "10", "ms", "-ms", "-1", "1e3ms", "10 parsecs", "1.2.3s", "ß"] {
            let error = text.parse::<TimeSpan>().expect_err(text);
            assert!(error.to_string().contains("min, s, ms, us, ns"), "{error}");
        }
    }

    #[test]
    fn too_large_and_negative_quantities_are_rejected_as_such() {
        let span = |text: &str| text.parse::<TimeSpan>().expect_err(text).to_string();
        for text in ["99999999999999999999s", "99999999999s", "1000000000000.5min"] {
            let expected = format!("`{text}` is too large: the maximum is 307445734min");
            assert_eq!(span(text), expected);
        }
        assert_eq!(span("-1ms"), "`-1ms` is negative; a quantity is at least 0");
        let bytes = "99999999999GiB"
            .parse::<DataSize>()
            .expect_err("more than 64 bits");
        assert_eq!(
            bytes.to_string(),
            "`99999999999GiB` is too large: the maximum is 17179869183GiB"
        );
        let rate = "-99999999999999999999bit/s"
            .parse::<Rate>()
            .expect_err("negative");
        assert!(rate.to_string().contains("is negative"), "{rate}");
    }

    #[test]
    fn written_quantities_parse_to_the_same() {
        for value in [
            0,
            1,
            999,
            1000,
            1024,
            1_500_000,
            60_000_000_000,
            90_000_000_000,
            u64::MAX,
        ] {
            assert_eq!(TimeSpan(value).to_string().parse(), Ok(TimeSpan(value)));
            assert_eq!(DataSize(value).to_string().parse(), Ok(DataSize(value)));
            assert_eq!(Rate(value).to_string().parse(), Ok(Rate(value)));
        }
    }
}
