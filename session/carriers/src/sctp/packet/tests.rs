//! The lengths that RFC 9260 specifies, one by one, right and wrong.

use super::*;

/// Returns a packet with this tag and these chunks.
fn packet(tag: u32, chunks: &[Vec<u8>]) -> Vec<u8> {
    let mut packet = vec![0x1b, 0x58, 0x13, 0x89];
    packet.extend(tag.to_be_bytes());
    packet.extend([0; 4]);
    packet.extend(chunks.concat());
    packet
}

/// Encodes type, length and value with padding. The length may differ from the true one.
fn chunk_of_length(kind: u8, length: u16, value: &[u8]) -> Vec<u8> {
    let mut chunk = vec![kind, 0];
    chunk.extend(length.to_be_bytes());
    chunk.extend(value);
    chunk.resize(chunk.len().next_multiple_of(4), 0);
    chunk
}

fn chunk(kind: u8, value: &[u8]) -> Vec<u8> {
    chunk_of_length(kind, value.len() as u16 + 4, value)
}

fn parameter(kind: u16, length: u16, value: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &length.to_be_bytes(), value].concat()
}

/// Returns the fixed fields of INIT and INIT ACK, and parameters.
fn init(parameters: &[Vec<u8>]) -> Vec<u8> {
    let mut value = vec![1; 16];
    value.extend(parameters.concat());
    value
}

fn verdict(tag: u32, chunks: &[Vec<u8>]) -> Result<(), PacketFault> {
    check(&packet(tag, chunks))
}

/// The lengths that RFC 9260, 3.3 specifies for each type, as value bytes after the chunk's four.
#[test]
fn chunks_have_the_lengths_of_their_types() {
    let cases: &[(u8, &[usize], &[usize])] = &[
        (DATA, &[12, 13, 1_000], &[0, 11]),
        (SHUTDOWN, &[4], &[0, 3, 5, 8]),
        (SHUTDOWN_ACK, &[0], &[1, 4]),
        (COOKIE_ECHO, &[1, 300], &[0]),
        (COOKIE_ACK, &[0], &[4]),
        (ECN_ECHO, &[4], &[0, 8]),
        (CWR, &[4], &[0, 8]),
        (SHUTDOWN_COMPLETE, &[0], &[4]),
    ];
    for (kind, good, bad) in cases {
        for length in *good {
            assert_eq!(
                verdict(1, &[chunk(*kind, &vec![0; *length])]),
                Ok(()),
                "{kind} {length}"
            );
        }
        for length in *bad {
            let result = verdict(1, &[chunk(*kind, &vec![0; *length])]);
            assert_eq!(result, Err(PacketFault::Chunk(*kind)), "{kind} {length}");
        }
    }
}

#[test]
fn a_sack_has_the_blocks_its_counts_state() {
    // Cumulative TSN, window, two gap blocks, one duplicate.
    let counts = |gaps: u16, duplicates: u16, blocks: usize| {
        let mut value = vec![0; 8];
        value.extend(gaps.to_be_bytes());
        value.extend(duplicates.to_be_bytes());
        value.resize(12 + 4 * blocks, 0);
        verdict(1, &[chunk(SACK, &value)])
    };
    assert_eq!(counts(0, 0, 0), Ok(()));
    assert_eq!(counts(2, 1, 3), Ok(()));
    assert_eq!(counts(2, 1, 2), Err(PacketFault::Chunk(SACK)));
    assert_eq!(counts(0, 0, 1), Err(PacketFault::Chunk(SACK)));
    assert_eq!(counts(65_535, 65_535, 1), Err(PacketFault::Chunk(SACK)));
    assert_eq!(
        verdict(1, &[chunk(SACK, &[0; 11])]),
        Err(PacketFault::Chunk(SACK))
    );
}

#[test]
fn chunks_stay_within_the_packet() {
    for length in [0, 1, 3, 9, 100, 65_535] {
        let result = verdict(1, &[chunk_of_length(COOKIE_ECHO, length, &[1; 4])]);
        assert_eq!(result, Err(PacketFault::Chunk(COOKIE_ECHO)), "{length}");
    }
    // Either the padding is missing, or an extra byte follows.
    let mut cut = packet(1, &[chunk(COOKIE_ECHO, &[1; 5])]);
    cut.pop();
    assert_eq!(check(&cut), Err(PacketFault::Chunk(COOKIE_ECHO)));
    let mut long = packet(1, &[chunk(COOKIE_ACK, &[])]);
    long.push(3);
    assert_eq!(check(&long), Err(PacketFault::Chunk(3)));
    // Every prefix of a valid packet is refused.
    let whole = packet(0, &[chunk(INIT, &init(&[parameter(5, 8, &[192, 0, 2, 1])]))]);
    assert_eq!(check(&whole), Ok(()));
    for length in 0..whole.len() {
        assert!(check(&whole[..length]).is_err(), "{length}");
    }
}

#[test]
fn a_packet_has_ports_and_a_chunk() {
    assert_eq!(check(&[]), Err(PacketFault::Empty));
    assert_eq!(check(&[1; 12]), Err(PacketFault::Empty));
    for at in [0, 2] {
        let mut packet = packet(1, &[chunk(COOKIE_ACK, &[])]);
        packet[at..at + 2].fill(0);
        assert_eq!(check(&packet), Err(PacketFault::Port));
    }
}

/// Section 3: INIT, INIT ACK and SHUTDOWN COMPLETE are not bundled; 8.5.1: the tag of INIT is 0.
#[test]
fn chunks_that_may_not_be_bundled_travel_alone() {
    let plain = chunk(COOKIE_ACK, &[]);
    for (tag, lonely) in [
        (0, chunk(INIT, &init(&[]))),
        (1, chunk(INIT_ACK, &init(&[]))),
        (1, chunk(SHUTDOWN_COMPLETE, &[])),
    ] {
        let kind = lonely[0];
        assert_eq!(verdict(tag, std::slice::from_ref(&lonely)), Ok(()));
        for pair in [[lonely.clone(), plain.clone()], [plain.clone(), lonely.clone()]] {
            assert_eq!(verdict(tag, &pair), Err(PacketFault::Company(kind)));
        }
    }
    assert_eq!(
        verdict(1, &[chunk(INIT, &init(&[]))]),
        Err(PacketFault::Company(INIT))
    );
    // All others may be bundled.
    let data = chunk(DATA, &[1; 20]);
    assert_eq!(verdict(1, &[plain.clone(), data.clone(), data]), Ok(()));
}

#[test]
fn parameters_have_the_lengths_of_their_types() {
    let good = [
        parameter(5, 8, &[192, 0, 2, 1]),
        parameter(6, 20, &[1; 16]),
        parameter(7, 8, &[1; 4]),
        parameter(8, 12, &parameter(0x8001, 8, &[1; 4])),
        parameter(9, 8, &[1; 4]),
        parameter(12, 8, &[0, 5, 0, 6]),
        parameter(12, 6, &[0, 5, 0, 0]),
        parameter(0x8000, 4, &[]),
        parameter(0xc000, 4, &[]),
        parameter(0xc006, 8, b"HWSR"),
        // An unknown parameter, whose length does not include its padding.
        parameter(0x8008, 7, &[1, 2, 3, 0]),
    ];
    for kind in [INIT, INIT_ACK] {
        let tag = u32::from(kind == INIT_ACK);
        assert_eq!(verdict(tag, &[chunk(kind, &init(&good))]), Ok(()));
        for one in &good {
            assert_eq!(
                verdict(tag, &[chunk(kind, &init(std::slice::from_ref(one)))]),
                Ok(())
            );
        }
    }
    let bad = [
        // No valid length, as in the packet that made usrsctp hang.
        (0x05d0, parameter(0x05d0, 0, &[])),
        (0x05d0, parameter(0x05d0, 3, &[])),
        (0x05d0, parameter(0x05d0, 5, &[])),
        (5, parameter(5, 4, &[])),
        (5, parameter(5, 12, &[1; 8])),
        (6, parameter(6, 8, &[1; 4])),
        (7, parameter(7, 4, &[])),
        (8, parameter(8, 8, &[0, 5, 0, 0])),
        (8, parameter(8, 8, &[0, 5, 0, 9])),
        (9, parameter(9, 4, &[])),
        (12, parameter(12, 7, &[0, 5, 0, 0])),
        (0x8000, parameter(0x8000, 8, &[1; 4])),
        (0xc006, parameter(0xc006, 4, &[])),
        (0, vec![0, 0]),
    ];
    for (kind, one) in bad {
        for before in [&[][..], &good[..1], &good[..3]] {
            let mut parameters = before.to_vec();
            parameters.push(one.clone());
            let result = verdict(0, &[chunk(INIT, &init(&parameters))]);
            assert_eq!(result, Err(PacketFault::Parameter(kind)), "{one:?}");
        }
    }
    assert_eq!(
        verdict(0, &[chunk(INIT, &[1; 15])]),
        Err(PacketFault::Chunk(INIT))
    );
}

#[test]
fn parameters_of_heartbeats_and_causes_are_checked() {
    let info = parameter(1, 12, &[1; 8]);
    for kind in [HEARTBEAT, HEARTBEAT_ACK] {
        assert_eq!(verdict(1, &[chunk(kind, &info)]), Ok(()));
        let endless = parameter(1, 0, &[]);
        assert_eq!(
            verdict(1, &[chunk(kind, &endless)]),
            Err(PacketFault::Parameter(1))
        );
    }
    let good = [
        parameter(1, 8, &[0, 7, 0, 0]),
        parameter(2, 10, &[0, 0, 0, 1, 0, 7, 0, 0]),
        parameter(3, 8, &[0; 4]),
        parameter(4, 4, &[]),
        parameter(5, 12, &parameter(11, 8, &[1; 4])),
        parameter(6, 8, &[99, 0, 0, 4]),
        parameter(7, 4, &[]),
        parameter(8, 8, &parameter(0x05d0, 4, &[])),
        parameter(9, 8, &[0; 4]),
        parameter(11, 12, &parameter(5, 8, &[192, 0, 2, 1])),
        parameter(12, 6, b"ab\0\0"),
        parameter(13, 4, &[]),
    ];
    let bad = [
        parameter(1, 4, &[]),
        parameter(2, 8, &[0, 0, 0, 1]),
        parameter(2, 8, &[0xff; 4]),
        parameter(3, 0, &[]),
        parameter(4, 8, &[0; 4]),
        parameter(5, 8, &[0, 11, 0, 0]),
        parameter(6, 8, &[99, 0, 0, 5]),
        parameter(8, 8, &[5, 0xd0, 0, 0]),
    ];
    for kind in [ABORT, ERROR] {
        assert_eq!(verdict(1, &[chunk(kind, &good.concat())]), Ok(()));
        for cause in &bad {
            let expected = u16::from_be_bytes([cause[0], cause[1]]);
            let result = verdict(1, &[chunk(kind, cause)]);
            assert_eq!(result, Err(PacketFault::Parameter(expected)), "{cause:?}");
        }
    }
    assert_eq!(verdict(1, &[chunk(ABORT, &[])]), Ok(()));
}

#[test]
fn extensions_are_refused_and_unknown_chunks_pass() {
    for kind in EXTENSIONS {
        let result = verdict(1, &[chunk(kind, &[0; 4])]);
        assert_eq!(result, Err(PacketFault::Extension(kind)));
    }
    for kind in [0x3f, 0x7f, 0x84, 0xff] {
        assert_eq!(verdict(1, &[chunk(kind, &[0; 7])]), Ok(()), "{kind}");
    }
}
