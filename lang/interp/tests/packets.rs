//! Parses and builds headers, and compares them with bytes that another program made (Python's `struct`,
//! checksums by definition) from RFC 9293, 3.1 and RFC 7323.

use crate::common;

use common::*;
use fastrand::Rng;
use hawser_ir::abi::{Built, Csum, Packet, PacketRec, ParseError, Segment};
use hawser_ir::buf::{EventBuf, Input};
use hawser_ir::*;

/// Port 0x1234 to 80, SYN; MSS 1460, no-operation, window scale 7, two no-operations, timestamps.
const SYN: &str = "12340050010203040a0b0c0da002faf025dd0000020405b4010303070101080a1122334455667788";
/// No options, ACK and PSH, payload `hello`.
const HELLO: &str = "12340050010203040a0b0c0d5018faf05826000068656c6c6f";

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |i: usize| u8::from_str_radix(&hex[i..i + 2], 16).expect("two hexadecimal digits");
    (0..hex.len()).step_by(2).map(digit).collect()
}

/// Returns the image that parser 0 stores in its event.
fn parse(tcp: Tcp, head: &[u8], tail: &[u8], csum: Csum) -> Result<(Tcp, Vec<u8>), ParseError> {
    let image_at = field(&tcp.module, tcp.event, Base::Local, "header").offset as usize;
    let program = interpreter(tcp.module.clone());
    let net = net_v4();
    let mut packet = packet(&net, head, tail);
    packet.csum = csum;
    let mut events = EventBuf::default();
    program.parse(0, Input::Packet(packet), &mut events)?;
    Ok((tcp, events.get(0)[image_at..].to_vec()))
}

#[test]
fn a_header_with_options_is_parsed() {
    let (tcp, image) = parse(tcp(), &bytes(SYN), &[], Csum::Unverified).unwrap();
    let read = |name| number(&tcp.module, tcp.header, &image, name);
    let fields = ["sport", "dport", "seq", "ack", "off", "flags", "window", "sum"].map(read);
    assert_eq!(
        fields,
        [0x1234, 80, 0x0102_0304, 0x0a0b_0c0d, 10, 2, 0xfaf0, 0x25dd]
    );
    let found = options(&tcp.module, tcp.header, &image);
    assert_eq!(
        found.iter().map(|o| o.0).collect::<Vec<_>>(),
        [MSS, WSCALE, TIMESTAMPS]
    );
    assert_eq!(
        found[0].1[..4],
        [2, 4, 0xb4, 0x05],
        "kind, length, 1460 in native order"
    );
    assert_eq!(
        found[2].1[4..12],
        [0x1122_3344u32.to_ne_bytes(), 0x5566_7788u32.to_ne_bytes()].concat()
    );
    assert_eq!(data(&tcp.module, tcp.header, &image).len, 0);
}

#[test]
fn payload_is_found_in_head_and_tail() {
    let packet = bytes(HELLO);
    for cut in 20..=packet.len() {
        let (head, tail) = packet.split_at(cut);
        let (tcp, image) = parse(tcp(), head, tail, Csum::Unverified).unwrap();
        let data = data(&tcp.module, tcp.header, &image);
        assert_eq!((data.len, data.addr), (5, abi::addr(7, 20)), "cut at {cut}");
    }
    // Headers must lie in the head.
    let (head, tail) = packet.split_at(19);
    assert_eq!(
        parse(tcp(), head, tail, Csum::Unverified).err(),
        Some(ParseError::Truncated)
    );
}

#[test]
fn payload_of_merged_packets_counts_without_being_read() {
    let tcp = tcp();
    let image_at = field(&tcp.module, tcp.event, Base::Local, "header").offset as usize;
    let program = interpreter(tcp.module.clone());
    let (net, head) = (net_v4(), bytes(HELLO));
    let merged = Packet { merged: 1000, csum: Csum::Complete, ..packet(&net, &head, &[]) };
    let mut events = EventBuf::default();
    program.parse(0, Input::Packet(merged), &mut events).unwrap();
    let data = data(&tcp.module, tcp.header, &events.get(0)[image_at..]);
    assert_eq!((data.len, data.addr), (1005, abi::addr(7, 20)));
    // No header lies in the merged bytes.
    let merged = Packet { head: &head[..19], ..merged };
    assert_eq!(
        program.parse(0, Input::Packet(merged), &mut events),
        Err(ParseError::Truncated)
    );
}

#[test]
fn the_checksum_is_verified_unless_the_device_did() {
    // RFC 9293, 3.1 (MUST-3). Any single bit, except those of the data offset, which is checked first.
    for at in (0..bytes(HELLO).len()).filter(|at| *at != 12) {
        let mut packet = bytes(HELLO);
        packet[at] ^= 0x01;
        let unverified = parse(tcp(), &packet, &[], Csum::Unverified);
        assert_eq!(unverified.err(), Some(ParseError::Checksum), "byte {at}");
        assert!(parse(tcp(), &packet, &[], Csum::Complete).is_ok(), "byte {at}");
    }
}

#[test]
fn the_header_length_is_bounded() {
    for (offset, expected) in [
        (0, ParseError::Length),
        (4, ParseError::Length),
        (7, ParseError::Length),
        (15, ParseError::Length),
    ] {
        let mut packet = bytes(HELLO);
        packet[12] = offset << 4;
        assert_eq!(
            parse(tcp(), &packet, &[], Csum::Complete).err(),
            Some(expected),
            "offset {offset}"
        );
    }
    for len in 0..20 {
        let packet = &bytes(HELLO)[..len];
        assert_eq!(
            parse(tcp(), packet, &[], Csum::Complete).err(),
            Some(ParseError::Truncated)
        );
    }
}

/// Returns the tags that are found in an option area, padded to words.
fn tags(area: &[u8]) -> Vec<u32> {
    let mut packet = bytes(HELLO)[..20].to_vec();
    packet.extend_from_slice(area);
    packet.resize(packet.len().next_multiple_of(4), 0);
    packet[12] = ((packet.len() / 4) << 4) as u8;
    let (tcp, image) = parse(tcp(), &packet, &[], Csum::Complete).unwrap();
    options(&tcp.module, tcp.header, &image)
        .into_iter()
        .map(|o| o.0)
        .collect()
}

#[test]
fn hostile_options_do_no_harm() {
    const MSS_1460: [u8; 4] = [2, 4, 5, 0xb4];
    let with = |parts: &[&[u8]]| tags(&parts.concat());
    // Unknown options are skipped by their length, and the next one begins wherever they end (RFC 9293, 3.2,
    // MUST-64).
    assert_eq!(with(&[&[99, 6, 1, 2, 3, 4], &MSS_1460]), [MSS]);
    // A known kind with a wrong length is handled as an unknown one.
    assert_eq!(with(&[&[2, 3, 5], &[3, 3, 7]]), [WSCALE]);
    assert_eq!(with(&[&[2, 6, 5, 0xb4, 0, 0], &[3, 3, 7]]), [WSCALE]);
    // An impossible length ends the list; the options before it stay (RFC 9293, 3.1, MUST-7).
    for bad in [0, 1, 200, 255] {
        assert_eq!(with(&[&MSS_1460, &[99, bad], &[3, 3, 7]]), [MSS], "length {bad}");
        assert_eq!(with(&[&MSS_1460, &[8, bad], &[3, 3, 7]]), [MSS], "length {bad}");
    }
    // The length byte is missing.
    assert_eq!(with(&[&MSS_1460, &[1, 1, 1, 2]]), [MSS]);
    // An end-of-list option hides the rest.
    assert_eq!(with(&[&[0], &MSS_1460]), Vec::<u32>::new());
    // Forty no-operations; thirty no-operations still leave room for three others.
    assert_eq!(tags(&[1; 40]), Vec::<u32>::new());
    assert_eq!(with(&[&[1; 30], &MSS_1460, &[3, 3, 7]]), [MSS, WSCALE]);
    // Options that find no room are ignored.
    assert_eq!(
        with(&[&MSS_1460, &MSS_1460, &MSS_1460, &[3, 3, 7]]),
        [MSS; OPTIONS as usize]
    );
}

/// Returns a record for the header alone, and its image with the given fields.
fn record(tcp: &Tcp, fields: &[(&str, u64)]) -> (PacketRec, Vec<u8>) {
    let mut image = vec![0; tcp.module.structure(tcp.header).size as usize];
    for (name, value) in fields {
        set_number(&tcp.module, tcp.header, &mut image, name, *value);
    }
    let mut record: PacketRec = bytemuck::Zeroable::zeroed();
    record.net = net_v4();
    record.blueprint = tcp.blueprint.0 as u16;
    record.bytes = image.len() as u32;
    (record, image)
}

const FIELDS: [(&str, u64); 6] = [
    ("sport", 0x1234),
    ("dport", 80),
    ("seq", 0x0102_0304),
    ("ack", 0x0a0b_0c0d),
    ("window", 0xfaf0),
    ("off", 3), // A fill: this value is ignored.
];

#[test]
fn a_header_is_built() {
    let tcp = tcp();
    let (record, mut image) = record(&tcp, &FIELDS);
    set_number(&tcp.module, tcp.header, &mut image, "flags", 0x18);
    let program = interpreter(tcp.module);
    let mut header = [0xee; 60];
    let built = program.build(
        &record,
        &mut image,
        Segment { index: 0, count: 1, len: 5 },
        &mut header,
    );
    assert_eq!(built, Built { len: 20, trailer: 0, csum: Some((0, 16)) });
    let mut expected = bytes(HELLO)[..20].to_vec();
    expected[16..18].copy_from_slice(&[0xec, 0x5b]); // The pseudo-header's sum.
    assert_eq!(header[..20], expected);
}

#[test]
fn options_are_padded_and_those_without_room_are_omitted() {
    let tcp = tcp();
    let (mut record, mut image) = record(&tcp, &FIELDS);
    record.net.protocol = 0; // Stands for the program's own number.
    set_number(&tcp.module, tcp.header, &mut image, "flags", 2);
    let at = field(&tcp.module, tcp.header, Base::Local, "opts").offset as usize;
    let stride = 8 + 16;
    // Window scale 7, then timestamps: 13 bytes, so three zeros follow (RFC 9293, 3.1, MUST-69).
    image[at..at + 4].copy_from_slice(&2u32.to_ne_bytes());
    image[at + 8..at + 16].copy_from_slice(&u64::from(WSCALE).to_ne_bytes());
    image[at + 16..at + 19].copy_from_slice(&[3, 3, 7]);
    let entry = at + 8 + stride;
    image[entry..entry + 8].copy_from_slice(&u64::from(TIMESTAMPS).to_ne_bytes());
    image[entry + 12..entry + 16].copy_from_slice(&0x1122_3344u32.to_ne_bytes());
    image[entry + 16..entry + 20].copy_from_slice(&0x5566_7788u32.to_ne_bytes());
    let program = interpreter(tcp.module);
    let mut header = [0; 60];
    let built = program.build(
        &record,
        &mut image,
        Segment { index: 0, count: 1, len: 0 },
        &mut header,
    );
    assert_eq!(built.len, 36);
    assert_eq!(header[12], 9 << 4);
    assert_eq!(header[20..36], bytes("030307080a1122334455667788000000"));

    // Parsing the result yields the same image.
    let net = net_v4();
    let mut packet = packet(&net, &header[..36], &[]);
    packet.csum = Csum::Complete;
    assert!(
        program
            .parse(0, Input::Packet(packet), &mut EventBuf::default())
            .is_ok()
    );
}

#[test]
fn segmentation_rules_produce_a_train_of_packets() {
    let mut tcp = tcp();
    let seq = field(&tcp.module, tcp.header, Base::Blueprint, "seq");
    let flags = field(&tcp.module, tcp.header, Base::Blueprint, "flags");
    let data_at = field(&tcp.module, tcp.header, Base::Blueprint, "data").offset;
    let prev_len = load(place(
        Base::Blueprint,
        data_at + std::mem::offset_of!(abi::Data, len) as u32,
        uint(32),
    ));
    let after = |e: Expr| Expr { ty: seq.ty.clone(), kind: ExprKind::Cast(Box::new(e)) };
    let next = binary(BinOp::Add, load(seq.clone()), after(prev_len));
    let arg = Expr { ty: seq.ty.clone(), kind: ExprKind::RuleArg(0) };
    let flag = |n| constant(n, uint(8));
    let rule = |name: &str, field, [first, mid, last, only]: [Expr; 4], args| SegRule {
        name: name.into(),
        args,
        blueprint: tcp.blueprint,
        field,
        first,
        mid,
        last,
        only,
    };
    tcp.module.seg_rules = vec![
        rule("s_seq", seq.clone(), [arg.clone(), next.clone(), next, arg], 1),
        rule(
            "s_flags",
            flags,
            [flag(0x80), flag(0x10), flag(0x18), flag(0x99)],
            0,
        ),
    ];
    let (mut record, mut image) = record(&tcp, &FIELDS);
    (record.rules, record.rule[1], record.args[0]) = (2, 1, 0xffff_ff00);
    let program = interpreter(tcp.module);
    let mut built = |index, count, len| {
        let mut header = [0; 60];
        program.build(&record, &mut image, Segment { index, count, len }, &mut header);
        (u32::from_be_bytes(header[4..8].try_into().unwrap()), header[13])
    };
    // Sequence numbers wrap. The last packet is shorter and follows the others nevertheless.
    assert_eq!(built(0, 4, 200), (0xffff_ff00, 0x80));
    assert_eq!(built(1, 4, 200), (0xffff_ffc8, 0x10));
    assert_eq!(built(2, 4, 200), (0x0000_0090, 0x10));
    assert_eq!(built(3, 4, 7), (0x0000_0158, 0x18));
    assert_eq!(built(0, 1, 7), (0xffff_ff00, 0x99));
}

#[test]
fn building_with_too_little_room_never_panics() {
    let tcp = tcp();
    let (record, mut image) = record(&tcp, &FIELDS);
    let program = interpreter(tcp.module);
    for room in 0..20 {
        let mut header = vec![0; room];
        let built = program.build(
            &record,
            &mut image,
            Segment { index: 0, count: 1, len: 0 },
            &mut header,
        );
        assert!(built.len <= room);
    }
}

#[test]
fn parsing_any_bytes_never_panics() {
    let tcp = tcp();
    let image_at = field(&tcp.module, tcp.event, Base::Local, "header").offset as usize;
    let program = interpreter(tcp.module.clone());
    let net = net_v4();
    let mut events = EventBuf::default();
    let mut rng = Rng::with_seed(1);
    let mut parsed = 0;
    for round in 0..20_000 {
        let mut packet: Vec<u8> = if round % 2 == 0 { bytes(SYN) } else { Vec::new() };
        packet.resize(rng.usize(..80), 0);
        let changes = if round % 2 == 0 {
            rng.usize(..6)
        } else {
            packet.len()
        };
        for _ in 0..changes.min(packet.len()) {
            let at = rng.usize(..packet.len());
            packet[at] = rng.u8(..);
        }
        let (head, tail) = packet.split_at(rng.usize(..=packet.len()));
        let mut packet = common::packet(&net, head, tail);
        packet.csum = Csum::Complete;
        events.clear();
        if program.parse(0, Input::Packet(packet), &mut events).is_ok() {
            parsed += 1;
            let image = &mut events.get_mut(0)[image_at..];
            assert!(options(&tcp.module, tcp.header, image).len() <= OPTIONS as usize);
            // Every parsed header can be sent, and so can an image of noise.
            let (record, _) = record(&tcp, &[]);
            let mut header = [0; 60];
            program.build(
                &record,
                image,
                Segment { index: 0, count: 1, len: 0 },
                &mut header,
            );
            image.fill_with(|| rng.u8(..));
            program.build(
                &record,
                image,
                Segment { index: 1, count: 3, len: 9 },
                &mut header,
            );
        }
    }
    assert!(parsed > 1000, "{parsed} of the packets were good ones");
}
