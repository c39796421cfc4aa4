//! `MIN_RTO=200ms`: the values of params as people write them.

use std::fmt;

/// Nanoseconds of each unit of time that the language knows.
const UNITS: [(&str, u64); 5] =
    [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("min", 60_000_000_000), ("s", 1_000_000_000)];

/// What is wrong with a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParamError {
    /// There is no `=`, or no name before it.
    Form(String),
    /// What follows the `=` is no value.
    Value {
        /// The param.
        name: String,
        /// What stands there.
        text: String,
    },
    /// The value is beyond 64 bits; durations are counted in nanoseconds.
    Range {
        /// The param.
        name: String,
        /// What stands there.
        text: String,
    },
}

impl fmt::Display for ParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParamError::Form(text) => write!(f, "`{text}` sets no param: write NAME=VALUE"),
            ParamError::Value { name, text } => write!(
                f,
                "`{text}` is no value for {name}: write a number (10, 0xff, 1_000), true, false, or a duration (5ns, 10us, 200ms, 1s, 2min)"
            ),
            ParamError::Range { name, text } => write!(f, "`{text}` is too large for {name}"),
        }
    }
}

impl std::error::Error for ParamError {}

/// Takes `NAME=VALUE` apart. Durations become nanoseconds.
///
/// # Errors
/// What is wrong with it.
pub fn parse_param(text: &str) -> Result<(String, u64), ParamError> {
    let (name, value) = text.split_once('=').ok_or_else(|| ParamError::Form(text.into()))?;
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() {
        return Err(ParamError::Form(text.into()));
    }
    Ok((name.into(), parse_value(name, value)?))
}

/// The value of a param as the language writes it: `10`, `0xff`, `1_000`, `true`, `200ms`.
///
/// # Errors
/// What is wrong with it; `name` is for the message.
pub fn parse_value(name: &str, text: &str) -> Result<u64, ParamError> {
    match text {
        "true" => return Ok(1),
        "false" => return Ok(0),
        _ => {}
    }
    let (number, unit) = UNITS
        .iter()
        .find_map(|(suffix, unit)| text.strip_suffix(suffix).map(|number| (number, *unit)))
        .unwrap_or((text, 1));
    let (digits, radix) = number.strip_prefix("0x").map_or((number, 10), |hex| (hex, 16));
    let well_formed = digits.starts_with(|c: char| c.is_digit(radix))
        && digits.chars().all(|c| c.is_digit(radix) || c == '_');
    if !well_formed {
        return Err(ParamError::Value { name: name.into(), text: text.into() });
    }
    let value = u64::from_str_radix(&digits.replace('_', ""), radix).ok();
    let scaled = value.and_then(|value| value.checked_mul(unit));
    scaled.ok_or_else(|| ParamError::Range { name: name.into(), text: text.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_in_the_language() {
        for (text, value) in [
            ("10", 10),
            ("0xff", 255),
            ("1_000", 1_000),
            ("true", 1),
            ("false", 0),
            ("5ns", 5),
            ("10us", 10_000),
            ("200ms", 200_000_000),
            ("1s", 1_000_000_000),
            ("2min", 120_000_000_000),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_param(&format!("X = {text}")), Ok(("X".into(), value)), "{text}");
        }
    }

    #[test]
    fn what_is_no_setting_is_told() {
        let value = |text: &str| ParamError::Value { name: "X".into(), text: text.into() };
        assert_eq!(parse_param("X"), Err(ParamError::Form("X".into())));
        assert_eq!(parse_param("=3"), Err(ParamError::Form("=3".into())));
        for text in ["", "ms", "-1", "+1", "1.5s", "10 ms", "0x", "_1", "1h", "fast"] {
            assert_eq!(parse_param(&format!("X={text}")), Err(value(text)), "{text}");
        }
        for text in ["18446744073709551616", "18446744073710ms"] {
            assert_eq!(
                parse_param(&format!("X={text}")),
                Err(ParamError::Range { name: "X".into(), text: text.into() }),
                "{text}"
            );
        }
    }
}
