//! The expected values come from RFC 1982, RFC 9000 and two's complement, not from the code.

use super::*;

fn uint(bits: u8) -> Ty {
    Ty::uint(bits)
}

fn int(bits: u8) -> Ty {
    Ty::Int { bits, signed: true }
}

fn seq(bits: u8) -> Ty {
    Ty::Seq { bits }
}

fn signed(value: i64) -> u64 {
    value as u64
}

#[test]
fn arithmetic_wraps_in_the_width() {
    for (op, a, b, ty, expected) in [
        (BinOp::Add, 250, 10, uint(8), 4),
        (BinOp::Add, u64::MAX, 1, uint(64), 0),
        (BinOp::Add, signed(127), 1, int(8), signed(-128)),
        (BinOp::Sub, 3, 5, uint(24), 0xff_fffe),
        (BinOp::Sub, 3, 5, seq(32), 0xffff_fffe),
        (BinOp::Mul, 0x1_0001, 0x1_0001, uint(32), 0x0002_0001),
        (BinOp::And, 0b1100, 0b1010, uint(4), 0b1000),
        (BinOp::Or, 0b1100, 0b1010, uint(4), 0b1110),
        (BinOp::Xor, 0b1100, 0b1010, uint(4), 0b0110),
    ] {
        assert_eq!(binary(op, a, b, &ty), expected, "{a} {op:?} {b} as {ty:?}");
    }
}

#[test]
fn division_by_zero_and_overflow_have_results() {
    for (op, a, b, ty, expected) in [
        (BinOp::Div, 7, 0, uint(32), 0),
        (BinOp::Rem, 7, 0, uint(32), 7),
        (BinOp::Div, signed(-7), 0, int(32), 0),
        (BinOp::Rem, signed(-7), 0, int(32), signed(-7)),
        (BinOp::Div, signed(-7), 2, int(32), signed(-3)),
        (BinOp::Rem, signed(-7), 2, int(32), signed(-1)),
        (
            BinOp::Div,
            signed(i64::from(i32::MIN)),
            signed(-1),
            int(32),
            signed(i64::from(i32::MIN)),
        ),
        (BinOp::Rem, signed(i64::from(i32::MIN)), signed(-1), int(32), 0),
        (
            BinOp::Div,
            signed(i64::MIN),
            signed(-1),
            int(64),
            signed(i64::MIN),
        ),
        (BinOp::Rem, signed(i64::MIN), signed(-1), int(64), 0),
    ] {
        assert_eq!(binary(op, a, b, &ty), expected, "{a} {op:?} {b} as {ty:?}");
    }
}

#[test]
fn shifts_take_the_amount_modulo_the_width() {
    for (op, a, b, ty, expected) in [
        (BinOp::Shl, 1, 31, uint(32), 1 << 31),
        (BinOp::Shl, 1, 32, uint(32), 1),
        (BinOp::Shl, 1, 33, uint(32), 2),
        (BinOp::Shl, 1, 64, uint(64), 1),
        (BinOp::Shl, 1, 25, uint(24), 2),
        (BinOp::Shr, 0x80, 7, uint(8), 1),
        (BinOp::Shr, 0x80, 8, uint(8), 0x80),
        (BinOp::Shr, signed(-128), 3, int(8), signed(-16)),
        // -1 as an 8-bit amount is 255, and 255 mod 8 is 7.
        (BinOp::Shl, 1, signed(-1), int(8), signed(-128)),
    ] {
        assert_eq!(binary(op, a, b, &ty), expected, "{a} {op:?} {b} as {ty:?}");
    }
}

/// RFC 1982, section 5.2: the examples for eight bits.
#[test]
fn sequence_numbers_are_circular() {
    for (greater, less) in [
        (1, 0),
        (44, 0),
        (100, 0),
        (100, 44),
        (200, 100),
        (255, 200),
        (0, 255),
        (100, 255),
        (0, 200),
        (44, 200),
    ] {
        assert!(compare(CmpOp::Gt, greater, less, &seq(8)), "{greater} > {less}");
        assert!(compare(CmpOp::Lt, less, greater, &seq(8)), "{less} < {greater}");
        assert!(
            !compare(CmpOp::Lt, greater, less, &seq(8)),
            "not {greater} < {less}"
        );
        assert!(
            !compare(CmpOp::Ge, less, greater, &seq(8)),
            "not {less} >= {greater}"
        );
        assert_eq!(builtin(Builtin::Max, [less, greater, 0], &seq(8)), greater);
        assert_eq!(builtin(Builtin::Min, [less, greater, 0], &seq(8)), less);
    }
    // The antipode, for which RFC 1982 defines no order, is below on both sides.
    assert!(compare(CmpOp::Lt, 0, 128, &seq(8)) && compare(CmpOp::Lt, 128, 0, &seq(8)));
    assert!(compare(CmpOp::Le, 5, 5, &seq(8)) && compare(CmpOp::Ge, 5, 5, &seq(8)));
}

#[test]
fn comparison_follows_the_sign() {
    assert!(compare(CmpOp::Lt, signed(-1), 0, &int(16)));
    assert!(compare(CmpOp::Gt, signed(-1), 0, &uint(64)));
    assert!(compare(CmpOp::Le, 3, 3, &uint(8)) && compare(CmpOp::Ne, 3, 4, &uint(8)));
}

#[test]
fn reduction_truncates_and_extends() {
    assert_eq!(reduce(0x1ff, &uint(8)), 0xff);
    assert_eq!(reduce(0xff, &int(8)), signed(-1));
    assert_eq!(reduce(0x80_0000, &int(24)), signed(-0x80_0000));
    assert_eq!(reduce(0x100, &Ty::Bool), 1);
    assert_eq!(unary(UnOp::Not, 0, &uint(4)), 0xf);
    assert_eq!(unary(UnOp::Neg, 1, &uint(16)), 0xffff);
    assert_eq!(unary(UnOp::Neg, signed(-128), &int(8)), signed(-128));
    assert_eq!(unary(UnOp::LogicalNot, 0, &Ty::Bool), 1);
}

/// RFC 9000, A.3: the sample, and the limits of the nearest number.
#[test]
fn unwrapping_finds_the_nearest() {
    for (bits, value, near, expected) in [
        (16, 0x9b32, 0xa82f_30eb, 0xa82f_9b32),
        (8, 0x01, 0xff, 0x101),
        (8, 0xff, 0x101, 0xff),
        (8, 0x80, 0x100, 0x180),
        (8, 0x81, 0x100, 0x181 - 0x100),
        // No result is below zero or beyond 64 bits.
        (8, 0xff, 0x01, 0xff),
        (8, 0x01, u64::MAX, u64::MAX - 0xfe),
        (32, 5, 0x1_0000_0003, 0x1_0000_0005),
        (64, 5, 99, 5),
    ] {
        let ty = seq(bits);
        assert_eq!(
            builtin(Builtin::Unwrap, [value, near, 0], &ty),
            expected,
            "{value:#x} near {near:#x}"
        );
    }
}

#[test]
fn mul_div_has_a_wide_middle() {
    let mul_div = |a, b, c, ty: &Ty| builtin(Builtin::MulDiv, [a, b, c], ty);
    assert_eq!(mul_div(u64::MAX, u64::MAX, u64::MAX, &uint(64)), u64::MAX);
    assert_eq!(mul_div(1 << 40, 1 << 40, 1 << 30, &uint(64)), 1 << 50);
    assert_eq!(mul_div(5, 5, 0, &uint(64)), 0);
    assert_eq!(mul_div(signed(-6), 7, 4, &int(64)), signed(-10));
}

#[test]
fn roots_are_exact() {
    for root in [0u64, 1, 2, 3, 10, 1000, 2_642_244, 2_642_245] {
        let cube = root.pow(3);
        assert_eq!(builtin(Builtin::Cbrt, [cube, 0, 0], &uint(64)), root);
        if cube > 1 {
            assert_eq!(builtin(Builtin::Cbrt, [cube - 1, 0, 0], &uint(64)), root - 1);
        }
    }
    // The cube root of 2^64 is 2^(64/3), a little above 2,642,245.
    assert_eq!(builtin(Builtin::Cbrt, [u64::MAX, 0, 0], &uint(64)), 2_642_245);
    assert_eq!(
        builtin(Builtin::Sqrt, [u64::MAX, 0, 0], &uint(64)),
        u64::from(u32::MAX)
    );
    assert_eq!(builtin(Builtin::Sqrt, [99, 0, 0], &uint(64)), 9);
}

#[test]
fn builtin_functions_return_the_expected_values() {
    assert_eq!(builtin(Builtin::AbsDiff, [3, 10, 0], &uint(32)), 7);
    assert_eq!(builtin(Builtin::AbsDiff, [signed(-128), 127, 0], &int(8)), 255);
    assert_eq!(builtin(Builtin::AbsDiff, [250, 5, 0], &seq(8)), 11);
    assert_eq!(builtin(Builtin::SatSub, [3, 10, 0], &uint(32)), 0);
    assert_eq!(builtin(Builtin::SatSub, [10, 3, 0], &uint(32)), 7);
    assert_eq!(builtin(Builtin::Clz, [1, 0, 0], &uint(24)), 23);
    assert_eq!(builtin(Builtin::Clz, [0, 0, 0], &uint(8)), 8);
    assert_eq!(builtin(Builtin::Clz, [signed(-1), 0, 0], &int(16)), 0);
    for (value, len) in [
        (63, 1),
        (64, 2),
        (16_383, 2),
        (16_384, 4),
        ((1 << 30) - 1, 4),
        (1 << 30, 8),
    ] {
        assert_eq!(
            builtin(Builtin::VarintLen, [value, 0, 0], &Ty::Varint),
            len,
            "{value}"
        );
    }
}
