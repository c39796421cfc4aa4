//! Times and sizes with their units.

use data_encoding::HEXLOWER_PERMISSIVE;
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

/// The maximum time in seconds: a year.
pub(super) const MAX_TIME: f64 = 31_536_000.0;
/// The maximum size in bytes.
pub(super) const MAX_SIZE: u64 = i64::MAX as u64;

/// Reads a time, in seconds: a number, or a number with a unit.
pub(super) fn time(value: &Value) -> Option<f64> {
    match value {
        Value::String(text) => with_unit(text, &TIMES),
        value => value.as_f64().filter(|seconds| *seconds >= 0.0),
    }
}

/// Reads a size: bytes, or a number with a unit.
pub(super) fn size(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => with_unit(text, &SIZES).map(|bytes| bytes as u64),
        value => value.as_u64(),
    }
}

/// Reads a decimal number and its unit, with at most one space between them.
fn with_unit(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (unit, factor) = units.iter().find(|(unit, _)| text.ends_with(unit))?;
    let number = text.strip_suffix(unit)?;
    let number = number.strip_suffix(' ').unwrap_or(number);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_decimal = |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    let number = (is_decimal(whole) && is_decimal(fraction)).then(|| number.parse::<f64>())?;
    Some(number.ok()? * factor)
}

/// Parses bytes from hexadecimal digits, as used for certificate fingerprints. Returns `None` if the number
/// of digits is wrong or another character occurs.
pub fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units() {
        let times = [("250 ms", 0.25), ("1.5min", 90.0), ("2s", 2.0)];
        for (text, seconds) in times {
            assert_eq!(time(&text.into()), Some(seconds), "{text}");
        }
        assert_eq!(time(&5.into()), Some(5.0));
        for wrong in [
            "", "s", "-1 s", "1e3 s", ".5s", "1. s", "1  s", "inf s", "5", "5 h",
        ] {
            assert_eq!(time(&wrong.into()), None, "{wrong}");
        }
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
