//! Tests with RFC 1071's example, a published IPv4 header, and another implementation.

use hawser_ir::buf::NET_ZERO;
use hawser_testing::internet_checksum;

use super::*;

fn sum_of(pieces: &[&[u8]]) -> Sum {
    let mut sum = Sum::default();
    pieces.iter().for_each(|p| sum.add(p));
    sum
}

/// RFC 1071, section 3: the sum of these bytes is ddf2.
#[test]
fn the_example_of_rfc_1071_has_its_checksum() {
    let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
    assert_eq!(sum_of(&[&bytes]).folded(), [0xdd, 0xf2]);
    assert_eq!(sum_of(&[&bytes]).complement(), [0x22, 0x0d]);
}

#[test]
fn a_published_ipv4_header_has_its_checksum() {
    let header = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00, 0x01, 0xc0,
        0xa8, 0x00, 0xc7,
    ];
    assert!(sum_of(&[&header]).is_valid());
    let mut blank = header;
    blank[10..12].fill(0);
    assert_eq!(sum_of(&[&blank]).complement(), [0xb8, 0x61]);
}

#[test]
fn any_split_of_any_length_has_the_same_checksum() {
    let bytes: Vec<u8> = (0..1000u32).map(|i| (i * 7 + i / 13) as u8 | 0x80).collect();
    for len in (0..100).chain([999, 1000]) {
        let expected = internet_checksum(&[&bytes[..len]]);
        assert_eq!(sum_of(&[&bytes[..len]]).complement(), expected, "{len} bytes");
        for cut in [0, 1, 2, 3, 31, 33] {
            let (a, b) = bytes[..len].split_at(cut.min(len));
            let (b, c) = b.split_at(b.len() / 2);
            assert_eq!(
                sum_of(&[a, b, c]).complement(),
                expected,
                "{len} bytes cut at {cut}"
            );
        }
    }
}

#[test]
fn no_carry_is_lost_in_a_super_segment() {
    let bytes = vec![0xff; 65_535];
    assert_eq!(sum_of(&[&bytes]).complement(), internet_checksum(&[&bytes]));
}

/// The pseudo-headers written out, after RFC 9293, 3.1 and RFC 8200, 8.1.
#[test]
fn pseudo_headers_match_the_rfcs() {
    let mapped = |a: [u8; 4]| std::net::Ipv4Addr::from(a).to_ipv6_mapped().octets();
    let v4 = hawser_ir::abi::Net {
        src_ip: mapped([192, 0, 2, 1]),
        dst_ip: mapped([198, 51, 100, 7]),
        ..NET_ZERO
    };
    let spelled = [192, 0, 2, 1, 198, 51, 100, 7, 0, 6, 0x12, 0x34];
    assert_eq!(
        pseudo_header(&v4, 6, 0x1234).complement(),
        internet_checksum(&[&spelled])
    );

    let (src_ip, dst_ip) = ([0x20; 16], [0xfe; 16]);
    let v6 = hawser_ir::abi::Net { src_ip, dst_ip, ..NET_ZERO };
    let spelled = [&src_ip[..], &dst_ip, &[0, 1, 0x12, 0x34], &[0, 0, 0, 17]].concat();
    assert_eq!(
        pseudo_header(&v6, 17, 0x1_1234).complement(),
        internet_checksum(&[&spelled])
    );
}
