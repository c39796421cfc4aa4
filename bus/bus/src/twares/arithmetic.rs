//! Integer arithmetic that neither overflows nor traps. `transports/tcp/fast.mtp` computes in the same way.

/// Returns `a * b / c` with 128-bit intermediate values, saturated to 64 bits; 0 if `c` is 0.
pub(crate) fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    let quotient = (u128::from(a) * u128::from(b))
        .checked_div(u128::from(c))
        .unwrap_or(0);
    u64::try_from(quotient).unwrap_or(u64::MAX)
}

/// Interpolates linearly between two numbers, after `passed` of `whole`.
pub(crate) fn between(from: u64, to: u64, passed: u64, whole: u64) -> u64 {
    if passed >= whole {
        return to;
    }
    match to >= from {
        true => from + mul_div(to - from, passed, whole),
        false => from - mul_div(from - to, passed, whole),
    }
}
