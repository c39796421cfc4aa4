//! Parses the values of parameters, such as `MIN_RTO=200ms`.

use std::net::{IpAddr, Ipv6Addr};

use hawser_ir::{ADDRESS_HALVES, EnumNames, Param, Ty};

/// The units of time of the language, each with its length in nanoseconds.
const UNITS: [(&str, u64); 5] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
];

/// A setting is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParamError {
    /// The setting has no `=`, or no name before it.
    #[error("`{0}` is not a setting of a param: write NAME=VALUE")]
    Form(String),
    /// The text after the `=` is not a value.
    #[error(
        "`{text}` is not a value for {name}: write a number (10, 0xff, 1_000), true, false, or a duration (5ns, \
         10us, 200ms, 1s, 2min)"
    )]
    Value {
        /// The name of the param.
        name: String,
        /// The text after the `=`.
        text: String,
    },
    /// The value is of another kind than the param, such as a duration for a number.
    #[error("{name} takes {expected}, not `{text}`")]
    Kind {
        /// The name of the param.
        name: String,
        /// The text after the `=`.
        text: String,
        /// The kind of value that the param takes.
        expected: &'static str,
    },
    /// The program has no such param.
    #[error("unknown param `{name}`: the program has {}", .known.join(", "))]
    Unknown {
        /// The unknown name.
        name: String,
        /// The program's params.
        known: Vec<String>,
    },
    /// The value does not fit the param's width, or 64 bits. Durations count in nanoseconds.
    #[error("`{text}` is too large for {name}")]
    Range {
        /// The name of the param.
        name: String,
        /// The text after the `=`.
        text: String,
    },
}

/// The kind of a literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Number,
    Duration,
    Bool,
}

/// Parses the settings of a program's params and checks names, kinds and widths. A param of an enum type also
/// takes the name of a variant. A param that is an address takes one, and yields the values of its two halves.
///
/// # Errors
/// The first invalid setting.
pub fn parse_params<S: AsRef<str>>(
    params: &[Param],
    enums: &[EnumNames],
    settings: impl IntoIterator<Item = S>,
) -> Result<Vec<(String, u64)>, ParamError> {
    let mut values = Vec::new();
    for setting in settings {
        match address(params, setting.as_ref())? {
            Some(halves) => values.extend(halves),
            None => values.push(checked(params, enums, setting.as_ref())?),
        }
    }
    Ok(values)
}

/// Returns the settings of the two halves if the param is an address.
fn address(params: &[Param], setting: &str) -> Result<Option<[(String, u64); 2]>, ParamError> {
    let (name, text) = split(setting)?;
    let names = ADDRESS_HALVES.map(|half| format!("{name}{half}"));
    if !params.iter().any(|param| param.name == names[0]) {
        return Ok(None);
    }
    let value = match text.parse() {
        Ok(IpAddr::V4(address)) => u128::from(address.to_ipv6_mapped()),
        Ok(IpAddr::V6(address)) => u128::from(address),
        Err(_) if text == "NONE" => u128::from(Ipv6Addr::UNSPECIFIED),
        Err(_) => {
            let expected = "an address (192.0.2.1, 2001:db8::1)";
            return Err(ParamError::Kind { name: name.into(), text: text.into(), expected });
        }
    };
    let [high, low] = names;
    Ok(Some([(high, (value >> 64) as u64), (low, value as u64)]))
}

fn checked(params: &[Param], enums: &[EnumNames], setting: &str) -> Result<(String, u64), ParamError> {
    let (name, text) = split(setting)?;
    let Some(param) = params.iter().find(|p| p.name == name) else {
        let known = params.iter().map(|p| p.name.clone()).collect();
        return Err(ParamError::Unknown { name: name.into(), known });
    };
    if let Ty::Enum { index, .. } = param.ty
        && let Some(names) = enums.get(index as usize)
        && let Some((value, _)) = names.variants.iter().find(|(_, variant)| variant == text)
    {
        return Ok((name.into(), *value));
    }
    let (kind, value) = literal(name, text)?;
    let (expected, wanted) = match param.ty {
        Ty::Bool => (Kind::Bool, "true or false"),
        Ty::Duration | Ty::Time => (Kind::Duration, "a duration with its unit (200ms)"),
        _ => (Kind::Number, "a number"),
    };
    if kind != expected {
        return Err(ParamError::Kind { name: name.into(), text: text.into(), expected: wanted });
    }
    let width = param
        .ty
        .width()
        .map_or(64, |(bits, signed)| u32::from(bits) - u32::from(signed));
    if u64::BITS - value.leading_zeros() > width {
        return Err(ParamError::Range { name: name.into(), text: text.into() });
    }
    Ok((name.into(), value))
}

/// Splits `NAME=VALUE`, without reference to a program. Durations are converted to nanoseconds.
///
/// # Errors
/// The fault in the setting.
pub fn parse_param(setting: &str) -> Result<(String, u64), ParamError> {
    let (name, text) = split(setting)?;
    Ok((name.into(), literal(name, text)?.1))
}

/// Parses the value of a param in the notation of the language: `10`, `0xff`, `1_000`, `true`, `200ms`.
///
/// # Errors
/// The fault in the value; `name` is for the message.
pub fn parse_value(name: &str, text: &str) -> Result<u64, ParamError> {
    literal(name, text).map(|(_, value)| value)
}

fn split(setting: &str) -> Result<(&str, &str), ParamError> {
    let parts = setting
        .split_once('=')
        .map(|(name, value)| (name.trim(), value.trim()));
    parts
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| ParamError::Form(setting.into()))
}

fn literal(name: &str, text: &str) -> Result<(Kind, u64), ParamError> {
    match text {
        "true" => return Ok((Kind::Bool, 1)),
        "false" => return Ok((Kind::Bool, 0)),
        _ => {}
    }
    let with_unit = UNITS
        .iter()
        .find_map(|(suffix, unit)| text.strip_suffix(suffix).map(|number| (number, *unit)));
    let (kind, (number, unit)) =
        with_unit.map_or((Kind::Number, (text, 1)), |number| (Kind::Duration, number));
    let (digits, radix) = number.strip_prefix("0x").map_or((number, 10), |hex| (hex, 16));
    let well_formed = digits.starts_with(|c: char| c.is_digit(radix))
        && digits.chars().all(|c| c.is_digit(radix) || c == '_');
    if !well_formed {
        return Err(ParamError::Value { name: name.into(), text: text.into() });
    }
    let value = u64::from_str_radix(&digits.replace('_', ""), radix).ok();
    let scaled = value.and_then(|value| value.checked_mul(unit));
    scaled
        .map(|v| (kind, v))
        .ok_or_else(|| ParamError::Range { name: name.into(), text: text.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn param_values_parse_as_in_the_language() {
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
            assert_eq!(
                parse_param(&format!("X = {text}")),
                Ok(("X".into(), value)),
                "{text}"
            );
        }
    }

    #[test]
    fn settings_fit_their_params() {
        let param = |name: &str, ty| hawser_ir::Param { name: name.into(), ty, default: 0 };
        let params = vec![
            param("RTO", Ty::Duration),
            param("ACKS", Ty::uint(8)),
            param("SACK", Ty::Bool),
        ];
        let settings = ["RTO=200ms", "ACKS=255", "SACK=true"];
        let values = [("RTO", 200_000_000), ("ACKS", 255), ("SACK", 1)].map(|(n, v)| (n.to_string(), v));
        assert_eq!(parse_params(&params, &[], settings), Ok(values.to_vec()));
        for (setting, message) in [
            ("RTO=200", "RTO takes a duration with its unit (200ms), not `200`"),
            ("ACKS=1s", "ACKS takes a number, not `1s`"),
            ("ACKS=256", "`256` is too large for ACKS"),
            ("SACK=1", "SACK takes true or false, not `1`"),
            ("MSS=1", "unknown param `MSS`: the program has RTO, ACKS, SACK"),
            ("RTO", "`RTO` is not a setting of a param: write NAME=VALUE"),
        ] {
            assert_eq!(
                parse_params(&params, &[], [setting]).unwrap_err().to_string(),
                message
            );
        }
    }

    #[test]
    fn a_param_of_an_enum_takes_a_variant_or_its_number() {
        let ty = Ty::Enum { index: 0, bits: 3, signed: false };
        let variants = vec![(0, "SLOW".to_owned()), (5, "FAST".to_owned())];
        let module = hawser_ir::Module {
            params: vec![hawser_ir::Param { name: "MODE".into(), ty, default: 0 }],
            enums: vec![hawser_ir::EnumNames { name: "mode_t".into(), variants }],
            ..hawser_ir::Module::default()
        };
        for (setting, value) in [("MODE=FAST", 5), ("MODE = SLOW", 0), ("MODE=5", 5)] {
            assert_eq!(
                parse_params(&module.params, &module.enums, [setting]),
                Ok(vec![("MODE".into(), value)]),
                "{setting}"
            );
        }
        for setting in ["MODE=fast", "MODE=8", "MODE=true"] {
            assert!(
                parse_params(&module.params, &module.enums, [setting]).is_err(),
                "{setting}"
            );
        }
    }

    #[test]
    fn params_that_are_addresses_take_addresses() {
        let params =
            ["S.high", "S.low"].map(|name| Param { name: name.into(), ty: Ty::uint(64), default: 0 });
        let set = |text: &str| parse_params(&params, &[], [format!("S={text}")]);
        let halves = |high, low| Ok(vec![("S.high".to_owned(), high), ("S.low".to_owned(), low)]);
        assert_eq!(set("192.0.2.1"), halves(0, 0xffff_c000_0201));
        assert_eq!(set("2001:db8::1"), halves(0x2001_0db8_0000_0000, 1));
        assert_eq!(set("NONE"), halves(0, 0));
        assert_eq!(
            parse_params(&params, &[], ["S.low=7"]),
            Ok(vec![("S.low".to_owned(), 7)])
        );
        assert_eq!(
            set("7").unwrap_err().to_string(),
            "S takes an address (192.0.2.1, 2001:db8::1), not `7`"
        );
    }

    #[test]
    fn a_malformed_setting_is_refused() {
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
