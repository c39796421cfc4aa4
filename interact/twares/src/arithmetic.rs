//! Whole numbers that neither overflow nor trap. `transports/tcp/fast.mtp` computes alike.

/// `a * b / c` with 128 bits in between; 0 where `c` is 0, and no more than 64 bits hold.
pub(crate) fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    let quotient = (u128::from(a) * u128::from(b))
        .checked_div(u128::from(c))
        .unwrap_or(0);
    u64::try_from(quotient).unwrap_or(u64::MAX)
}

/// Where a value is on its straight way from one number to another, when `passed` of `whole` is over.
pub(crate) fn between(from: u64, to: u64, passed: u64, whole: u64) -> u64 {
    if passed >= whole {
        return to;
    }
    match to >= from {
        true => from + mul_div(to - from, passed, whole),
        false => from - mul_div(from - to, passed, whole),
    }
}
