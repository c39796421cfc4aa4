//! Times and sizes with their units.

use std::time::Duration;

use serde_json::Value;

const TIMES: [(&str, f64); 3] = [("ms", 1e-3), ("min", 60.0), ("s", 1.0)];
const SIZES: [(&str, f64); 7] = [
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("B", 1.0),
];

/// The maximum time in seconds: a year, as in the schema.
const MAX_TIME: f64 = 31_536_000.0;

/// Returns the limit of a time or a size that exceeds it, which the schema cannot express.
pub(super) fn limit_of(text: &str) -> Option<&'static str> {
    let is_beyond = |units: &[(&str, f64)], max: f64| with_unit(text, units).is_some_and(|value| value > max);
    if is_beyond(&TIMES, MAX_TIME) {
        return Some("at most 31536000 s");
    }
    is_beyond(&SIZES, i64::MAX as f64).then_some("at most 9223372036854775807 B")
}

/// Reads a time: seconds, or a number with a unit. The schema has checked the form.
pub(super) fn time(value: &Value) -> Option<Duration> {
    let seconds = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => with_unit(text, &TIMES)?,
        _ => return None,
    };
    Duration::try_from_secs_f64(seconds).ok()
}

/// Reads a size: bytes, or a number with a unit.
pub(super) fn size(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => with_unit(text, &SIZES).map(|bytes| bytes as u64),
        _ => None,
    }
}

fn with_unit(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (unit, factor) = units.iter().find(|(unit, _)| text.ends_with(unit))?;
    let number: f64 = text.strip_suffix(unit)?.trim_end().parse().ok()?;
    Some(number * factor)
}

/// Parses bytes from hexadecimal digits, as used for certificate fingerprints. Returns `None` if the number
/// of digits is wrong or another character occurs.
pub fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N || !text.is_ascii() {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units() {
        let times = [("250 ms", 0.25), ("1.5min", 90.0), ("2s", 2.0)];
        for (text, seconds) in times {
            assert_eq!(
                time(&text.into()),
                Some(Duration::from_secs_f64(seconds)),
                "{text}"
            );
        }
        assert_eq!(time(&5.into()), Some(Duration::from_secs(5)));
        let sizes = [
            ("16 KiB", 16_384),
            ("1.5MB", 1_500_000),
            ("2GiB", 2 << 30),
            ("7 B", 7),
        ];
        for (text, bytes) in sizes {
            assert_eq!(size(&text.into()), Some(bytes), "{text}");
        }
        assert_eq!(hex("00ff"), Some([0, 255]));
        assert_eq!(hex::<2>("00fg"), None);
    }
}
