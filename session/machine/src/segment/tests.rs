//! Encodings written by hand from `docs/session-protocol.md`, and hostile input to the decoder.

use bytes::Bytes;

use super::*;

/// Returns what a decoder makes of `bytes`, pushed in pieces of `size`.
fn decode(bytes: &[u8], size: usize) -> Result<Vec<Incoming>, Malformed> {
    let mut decoder = Decoder::new();
    let mut all = Vec::new();
    for piece in bytes.chunks(size) {
        decoder.push(Bytes::copy_from_slice(piece));
        while let Some(incoming) = decoder.next()? {
            all.push(incoming);
        }
    }
    Ok(all)
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// Returns segments with their bytes, written after the protocol's tables.
fn examples() -> Vec<(Segment, Vec<u8>)> {
    let session = SessionId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
    let hello = Hello {
        version: 1,
        lowest: 1,
        security: Security::Tls,
        carriers: 8,
        streams: 1024,
        session,
        credit: 0x0100_0000,
        number: 3,
        stream_credit: 0x0080_0000,
        resume: Duration::from_secs(300),
        idle: Duration::from_secs(60),
        attempt: 2,
        addresses: vec!["192.0.2.1:443".parse().unwrap()],
        name: "a.example".into(),
    };
    vec![
        (
            Segment::Hello(hello),
            hex(
                "01 34 0000 00000071  01 01 00 08  00000400  000102030405060708090a0b0c0d0e0f
                 0000000000000000  0000000001000000  00000003
                 0001 0008 0000000000800000  0002 0004 0000012c  0005 0004 0000003c  0006 0004 00000002
                 0003 0008 01bb 0400 c0000201  0004 0009 612e6578616d706c65",
            ),
        ),
        (
            Segment::Join(Join {
                number: 2,
                backup: true,
                session,
                received: 7,
                nonce: [0x11; 16],
                proof: [0x22; 32],
            }),
            hex(&format!(
                "03 58 0000 00000058 00000002 00000001 000102030405060708090a0b0c0d0e0f 0000000000000007 {} {}",
                "11".repeat(16),
                "22".repeat(32)
            )),
        ),
        (
            Segment::Joined { number: 2, proof: [0x33; 24] },
            hex(&format!(
                "04 28 0000 00000028 00000002 00000000 {}",
                "33".repeat(24)
            )),
        ),
        (
            Segment::Refused { refusal: Refusal::WrongServer, text: "no".into() },
            hex("05 0c 0000 0000000e 0003 0000 6e6f"),
        ),
        (
            Segment::Challenge([0x44; 16]),
            hex(&format!("06 18 0000 00000018 {}", "44".repeat(16))),
        ),
        (
            Segment::Ack(Ack {
                stream: 4,
                delay: Duration::from_micros(25_000),
                cumulative: 0x1000,
                stream_credit: 0x2000,
                session_credit: 0x3000,
                end: true,
                gone: false,
                ranges: Vec::from([std::ops::Range { start: 0x1001, end: 0x1002 }]),
            }),
            hex(
                "11 28 0001 00000038 00000004 000061a8 0000000000001000 0000000000002000 0000000000003000
                 0000000000001001 0000000000001002",
            ),
        ),
        (
            Segment::Priority { stream: 4, level: 1, incremental: true },
            hex("13 10 0000 00000010 00000004 01 01 0000"),
        ),
        (
            Segment::Reset { stream: 4, code: 256, end: 9 },
            hex("14 1c 0000 0000001c 00000004 0000000000000100 0000000000000009"),
        ),
        (
            Segment::Stop { stream: 4, code: 256 },
            hex("15 14 0000 00000014 00000004 0000000000000100"),
        ),
        (
            Segment::Ping { token: 5 },
            hex("20 18 0000 00000018 0000000000000005 0000000000000000"),
        ),
        (
            Segment::Pong { token: 5, held: Duration::from_micros(3) },
            hex("21 18 0000 00000018 0000000000000005 0000000000000003"),
        ),
        (
            Segment::PathStatus { number: 2, status: PathStatus::Failing, sequence: 6 },
            hex("22 18 0000 00000018 00000002 00000002 0000000000000006"),
        ),
        (
            Segment::Close(Close { code: 0, finals: vec![(4, 9)] }),
            hex("30 18 0000 00000024 0000000000000000 00000001 00000000 00000004 0000000000000009"),
        ),
        (Segment::Closed, hex("31 0c 0000 0000000c 00000000")),
    ]
}

#[test]
fn segments_are_the_bytes_of_the_protocol() {
    for (segment, bytes) in examples() {
        assert_eq!(encode(&segment).to_vec(), bytes, "{segment:?}");
        for size in [1, 7, 4_096] {
            let pieces = decode(&bytes, size);
            let Ok([Incoming::Control(decoded, whole)]) = pieces.as_deref() else {
                panic!("{segment:?} in pieces of {size}: {pieces:?}");
            };
            assert_eq!(
                (decoded, &whole[..]),
                (&segment, &bytes[..]),
                "in pieces of {size}"
            );
        }
    }
}

#[test]
fn data_is_decoded_in_arriving_pieces() {
    let mut bytes = data_header(6, 0x1_0000_0000, 5, true).to_vec();
    assert_eq!(bytes, hex("10 14 0001 00000019 00000006 0000000100000000"));
    bytes.extend_from_slice(b"hello");
    let pieces = decode(&bytes, 22).unwrap();
    let data = |offset: u64, bytes: &'static [u8], end| Incoming::Data {
        stream: 6,
        offset: 0x1_0000_0000 + offset,
        bytes: Bytes::from_static(bytes),
        end,
    };
    assert_eq!(pieces, [data(0, b"he", false), data(2, b"llo", true)]);
}

#[test]
fn a_longer_header_is_read_as_far_as_it_is_known() {
    let ping = hex("20 1c 0000 0000001c 0000000000000005 0000000000000000 deadbeef");
    assert!(matches!(
        decode(&ping, 9).as_deref(),
        Ok([Incoming::Control(Segment::Ping { token: 5 }, _)])
    ));
    let data = hex("10 16 0000 00000018 00000002 0000000000000000 ffff 6162");
    let pieces = decode(&data, 100);
    let Ok([Incoming::Data { bytes, .. }]) = pieces.as_deref() else {
        panic!("{pieces:?}")
    };
    assert_eq!(&bytes[..], b"ab");
}

#[test]
fn types_of_later_versions_are_skipped() {
    let mut bytes = hex("40 08 0000 0000000c 01020304");
    bytes.extend(hex("31 0c 0000 0000000c 00000000"));
    for size in [1, 5, 100] {
        assert!(matches!(
            decode(&bytes, size).as_deref(),
            Ok([Incoming::Control(Segment::Closed, _)])
        ));
    }
}

#[test]
fn a_header_of_every_wrong_length_is_refused() {
    for (segment, bytes) in examples() {
        let right = bytes[1];
        for length in (0..right).chain((bytes.len() as u8).saturating_add(1)..=255) {
            let mut wrong = bytes.clone();
            wrong[1] = length;
            assert!(
                decode(&wrong, 4_096).is_err(),
                "{segment:?} with a header of {length}"
            );
        }
        for length in [0, 7, right as usize - 1, 65_536 + 256, u32::MAX as usize] {
            let mut wrong = bytes.clone();
            wrong[4..8].copy_from_slice(&(length as u32).to_be_bytes());
            assert!(decode(&wrong, 4_096).is_err(), "{segment:?} of {length} bytes");
        }
    }
}

#[test]
fn decoding_arbitrary_bytes_never_panics() {
    let whole: Vec<u8> = examples().into_iter().flat_map(|(_, bytes)| bytes).collect();
    let mut rng = fastrand::Rng::with_seed(7);
    let mut roll = |below: usize| rng.usize(..below);
    for _ in 0..20_000 {
        let mut bytes = whole.clone();
        for _ in 0..=roll(3) {
            let at = roll(bytes.len());
            bytes[at] = roll(256) as u8;
        }
        // The test fails if the decoder panics.
        let _ = decode(&bytes, 1 + roll(300));
    }
}
