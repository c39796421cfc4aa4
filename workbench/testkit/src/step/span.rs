//! The written form of spans of time: `100ms`, `1.5s`.

use std::time::Duration;

const UNITS: [(&str, u64); 6] = [
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
];

/// The maximum span in nanoseconds, 100 years, so that no sum of spans overflows.
const MAX: u64 = 100 * 365 * 24 * 3_600_000_000_000;

/// Parses a span. Returns `None` if the text is not a span, exceeds 100 years, or is not a whole number of
/// nanoseconds.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let (number, unit) = UNITS
        .iter()
        .find_map(|(suffix, unit)| Some((text.strip_suffix(suffix)?, *unit)))
        .filter(|(number, _)| number.ends_with(|c: char| c.is_ascii_digit()))?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 12 {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    let scale = 10_u128.pow(fraction.len() as u32);
    let part = fraction.parse::<u128>().ok()? * u128::from(unit);
    if part % scale != 0 {
        return None;
    }
    let nanos = whole.checked_add((part / scale) as u64)?;
    (nanos <= MAX).then(|| Duration::from_nanos(nanos))
}

/// Formats a span exactly, in the unit that fits it.
pub(crate) fn show(span: Duration) -> String {
    let nanos = hawser_time::nanos(span);
    let (unit, name) = match nanos {
        0 => return "0s".to_owned(),
        1_000_000_000.. => (1_000_000_000, "s"),
        1_000_000.. => (1_000_000, "ms"),
        1_000.. => (1_000, "us"),
        _ => (1, "ns"),
    };
    let (whole, rest) = (nanos / unit, nanos % unit);
    if rest == 0 {
        return format!("{whole}{name}");
    }
    let width = unit.ilog10() as usize;
    let fraction = format!("{rest:0width$}");
    format!("{whole}.{}{name}", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shown_span_parses_to_the_same_value() {
        for nanos in [0, 1, 999, 1_500, 20_096_000, 1_000_000_000, 61_000_000_001] {
            let span = Duration::from_nanos(nanos);
            assert_eq!(parse(&show(span)), Some(span), "{}", show(span));
        }
        assert_eq!(show(Duration::from_micros(104_300)), "104.3ms");
    }

    #[test]
    fn a_span_needs_a_unit() {
        assert_eq!(parse("1.5ms"), Some(Duration::from_micros(1_500)));
        assert_eq!(parse("2min"), Some(Duration::from_secs(120)));
        for wrong in [
            "",
            "5",
            "s",
            ".5s",
            "1.s",
            "0.5ns",
            "-1s",
            "99999999999h",
            "1e3s",
            "1.2.3s",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
