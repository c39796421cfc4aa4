//! Test data: variable-length integers from RFC 9000, A.1, and a header with odd fields from RFC 9293, 3.1.

use super::*;

const SAMPLES: [(&[u8], u64); 4] = [
    (
        &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c],
        151_288_809_941_952_652,
    ),
    (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
    (&[0x7b, 0xbd], 15_293),
    (&[0x25], 37),
];

#[test]
fn variable_length_integers_in_both_directions() {
    for (bytes, value) in SAMPLES {
        assert_eq!(BitReader::new(bytes).varint(), Ok(value));
        let mut room = [0; 8];
        let mut writer = BitWriter::new(&mut room);
        writer.varint(value);
        assert_eq!(writer.written(0), bytes);
        assert_eq!(
            BitReader::new(&bytes[..bytes.len() - 1]).varint(),
            Err(ParseError::Truncated)
        );
    }
    // A two-byte form of a value that fits in one byte is legal to receive.
    assert_eq!(BitReader::new(&[0x40, 0x25]).varint(), Ok(37));
}

#[test]
fn the_most_significant_bit_is_packed_first() {
    // Data offset 5, four reserved bits, flags CWR..FIN = ACK|PSH, window 0x1234.
    let bytes = [0x50, 0x18, 0x12, 0x34];
    let mut reader = BitReader::new(&bytes);
    let fields = [4, 4, 3, 1, 1, 3, 16].map(|n| reader.bits(n).unwrap());
    assert_eq!(fields, [5, 0, 0, 1, 1, 0, 0x1234]);
    assert_eq!(reader.bits(1), Err(ParseError::Truncated));

    // The previous contents of the room have no influence.
    let mut room = [0xff; 4];
    let mut writer = BitWriter::new(&mut room);
    for (value, n) in [(5, 4), (0, 4), (0, 3), (1, 1), (1, 1), (0, 3), (0x1234, 16)] {
        writer.bits(value, n);
    }
    assert_eq!(room, bytes);
}

#[test]
fn fields_may_lie_across_bytes() {
    let mut room = [0; 9];
    let mut writer = BitWriter::new(&mut room);
    writer.bits(0b101, 3);
    writer.bits(0x0123_4567_89ab_cdef, 64);
    writer.bits(0b1_1111, 5);
    let mut reader = BitReader::new(&room);
    assert_eq!(reader.bits(3), Ok(0b101));
    assert_eq!(reader.bits(64), Ok(0x0123_4567_89ab_cdef));
    assert_eq!(reader.bits(5), Ok(0b1_1111));
}

#[test]
fn writing_beyond_the_room_measures() {
    let mut writer = BitWriter::new(&mut []);
    writer.bits(1, 12);
    writer.bits(1, 4);
    writer.varint(15_293);
    writer.bytes(&[1, 2, 3]);
    assert_eq!(writer.position(), 7);
    assert!(writer.written(0).is_empty());
}
