//! Numbers as decimal digits. A long trace has hundreds of millions of them, so formatting must be fast.

/// "00", "01" … "99".
const PAIRS: [u8; 200] = {
    let mut pairs = [0; 200];
    let mut number = 0;
    while number < 100 {
        pairs[2 * number] = b'0' + (number / 10) as u8;
        pairs[2 * number + 1] = b'0' + (number % 10) as u8;
        number += 1;
    }
    pairs
};

/// Appends a number.
pub(crate) fn number(value: u64, to: &mut Vec<u8>) {
    padded(value, 1, b'0', to);
}

/// Appends a number with a sign if it is negative.
pub(crate) fn signed(value: i64, to: &mut Vec<u8>) {
    if value < 0 {
        to.push(b'-');
    }
    number(value.unsigned_abs(), to);
}

/// Appends a number with `fill` before it if it has fewer digits than `width`, which is at most 20.
pub(crate) fn padded(mut value: u64, width: usize, fill: u8, to: &mut Vec<u8>) {
    let mut digits = [fill; 20];
    let mut at = digits.len();
    while value >= 10 {
        let pair = 2 * (value % 100) as usize;
        value /= 100;
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    // An odd number of digits leaves one. An even number leaves none, but zero has one digit.
    if value > 0 || at == digits.len() {
        at -= 1;
        digits[at] = b'0' + value as u8;
    }
    let from = at.min(digits.len() - width.min(digits.len()));
    to.extend_from_slice(&digits[from..]);
}

/// Appends nanoseconds as seconds with nine decimal places.
pub(crate) fn seconds(nanos: u64, width: usize, to: &mut Vec<u8>) {
    padded(nanos / 1_000_000_000, width.saturating_sub(10).max(1), b' ', to);
    to.push(b'.');
    padded(nanos % 1_000_000_000, 9, b'0', to);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(print: impl Fn(&mut Vec<u8>)) -> String {
        let mut to = Vec::new();
        print(&mut to);
        String::from_utf8(to).expect("digits")
    }

    #[test]
    fn numbers_are_as_the_standard_library_prints_them() {
        let powers = (0..20).map(|power| 10_u64.pow(power));
        let edges = powers.flat_map(|power| [power - 1, power, power + 1, power.saturating_mul(9)]);
        for value in edges.chain([0, u64::MAX, 1 << 63]) {
            assert_eq!(shown(|to| number(value, to)), value.to_string());
            assert_eq!(shown(|to| signed(value as i64, to)), (value as i64).to_string());
            assert_eq!(shown(|to| padded(value, 9, b'0', to)), format!("{value:09}"));
        }
    }

    #[test]
    fn seconds_have_nine_digits_behind_the_point() {
        for (nanos, text) in [
            (0, "   0.000000000"),
            (1, "   0.000000001"),
            (50_000_000, "   0.050000000"),
            (1_234_567_890_123, "1234.567890123"),
            (12_345_678_901_234, "12345.678901234"),
        ] {
            assert_eq!(shown(|to| seconds(nanos, 14, to)), text);
        }
    }
}
