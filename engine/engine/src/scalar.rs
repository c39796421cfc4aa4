//! Scalars in a program's memory: native byte order, 1, 2, 4 or 8 bytes.

use hawser_ir::Ty;

/// Returns the size of a scalar in memory, in bytes; `None` for an aggregate.
pub(crate) fn size(ty: &Ty) -> Option<usize> {
    let (bits, _) = ty.width()?;
    Some(usize::from(bits).div_ceil(8).next_power_of_two())
}

/// Returns the zero-extended value of a scalar that fills `bytes`.
pub(crate) fn load(bytes: &[u8]) -> u64 {
    match *bytes {
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_ne_bytes([a, b])),
        [a, b, c, d] => u64::from(u32::from_ne_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    }
}

/// Stores the low bytes of a value, as many as fit into `bytes`.
pub(crate) fn store(bytes: &mut [u8], value: u64) {
    match bytes.len() {
        1 => bytes.copy_from_slice(&(value as u8).to_ne_bytes()),
        2 => bytes.copy_from_slice(&(value as u16).to_ne_bytes()),
        4 => bytes.copy_from_slice(&(value as u32).to_ne_bytes()),
        8 => bytes.copy_from_slice(&value.to_ne_bytes()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_scalars_are_loaded_in_their_width() {
        for (bits, want) in [
            (1, 0xef),
            (8, 0xef),
            (12, 0xcdef),
            (32, 0x89ab_cdef),
            (33, 0x0123_4567_89ab_cdef),
        ] {
            let len = size(&Ty::uint(bits)).expect("a scalar");
            let mut bytes = vec![0; len];
            store(&mut bytes, 0x0123_4567_89ab_cdef);
            assert_eq!(load(&bytes), want);
        }
        assert_eq!(size(&Ty::Ip), None);
    }
}
