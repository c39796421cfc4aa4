//! Compares memory and wire layouts with numbers worked out by hand: C's rule, the closer layout, and the
//! widths of the fields on the wire.

use crate::common;

use common::{field, layout, module};
use hawser_ir::{Fill, Ty, WireField};

/// A context begins with its id of 40 bytes. Other fields follow by alignment, and fields of more than 64
/// bytes come last.
#[test]
fn a_context_has_its_fields_close_together() {
    let module = module(
        "struct pair { uint8 x; uint32 y; }
         struct three { uint8 x, y, z; }
         event wake : TIMER_EVENT { }
         context conn {
             list<uint64, 8> z; uint8 a; uint16 b; uint32 c; uint24 d; bool e; ip_addr_t f; uint64 g;
             seq<24> h; id_t i; list<uint16, 3> j; sliding_wnd<2> k; uint4 l; timer_t m -> wake;
             part pair n; uint8 o; part three p;
         }",
    );
    let expected = [
        ("z", 208), // 8 bytes of header, 8 elements of 8
        ("a", 182),
        ("b", 180),
        ("c", 168),
        ("d", 172),
        ("e", 183),
        ("f", 184), // addresses are bytes
        ("g", 40),
        ("h", 176),
        ("i", 48),
        ("j", 88),  // 8 bytes of header, 3 elements of 2
        ("k", 104), // 16 bytes of header, 2 runs of 16
        ("l", 200),
        ("m", 152),
        ("n", 160),
        ("o", 201),
        ("p", 202),
    ];
    assert_eq!(layout(&module, "conn"), (expected.to_vec(), 280));
    assert_eq!(layout(&module, "pair"), (vec![("x", 4), ("y", 0)], 8));
    assert_eq!(layout(&module, "three"), (vec![("x", 0), ("y", 1), ("z", 2)], 3));
    assert_eq!(
        (
            module.contexts[0].timers[0].offset,
            module.contexts[0].timers[0].event.0
        ),
        (152, 0)
    );
}

/// An event begins with 144 bytes: time, random bits, hash, number, and three ids of 40 bytes.
#[test]
fn an_event_begins_with_its_header() {
    let module = module("event seen : NET_EVENT { uint8 a; addr_t b; } dispatch d { seen -> {}; }");
    assert_eq!(layout(&module, "seen"), (vec![("a", 144), ("b", 152)], 160));
}

#[test]
fn initial_values_and_rights_stand_in_the_field_table() {
    let module = module(
        "const uint32 MSS = 1400;
         context conn {
             uint32 a = 10 * MSS; int16 b = -5; duration_t c = 2s; bool d = true;
             observable uint8 e; modifiable(1, MSS) uint16 f; modifiable(-5, 5) int8 g;
         }",
    );
    let default = |name| field(&module, "conn", name).default;
    assert_eq!(
        ["a", "b", "c", "d"].map(default),
        [Some(14000), Some(-5i64 as u64), Some(2_000_000_000), Some(1)]
    );
    let access = |name| field(&module, "conn", name).access;
    assert!(access("e").observable && access("e").modifiable.is_none() && !access("a").observable);
    assert_eq!(access("f").modifiable, Some((1, 1400)));
    assert_eq!(access("g").modifiable, Some((-5i64 as u64, 5)));
}

const TCP: &str = "
    opt_t mss { uint8 kind = 2; uint8 len = 4; uint16 value; }
    opt_t nop { uint8 kind = 1; }
    opt_t end { uint8 kind = 0; }
    opt_t stamps { uint8 kind = 8; uint8 len = 10; uint32 value, echo; }
    opt_union any { mss, nop, end, stamps }
    opt_list options { uint32 len = off * 4 - 20; uint32 type_select = 8; pad 4; list<any, 6> opts; }
    pkt_bp TCPBP {
        uint16 sport, dport; seq<32> seq, ack; hdrlen4_t off; uint3 rsvd; bool ns; bool cwr, ece, urg, is_ack, psh, rst, syn, fin;
        uint16 window; checksum16_t sum; uint16 urgent; data_t data; options opts;
    }
    seg_rule s_seq(x) [TCPBP::seq, x, prev.seq + prev.data.len];
";

/// RFC 9293, section 3.1: 20 bytes, and at most 60 with options.
#[test]
fn the_tcp_header_has_the_layout_of_rfc_9293() {
    let module = module(TCP);
    let wire = module
        .blueprints
        .iter()
        .find(|b| b.name == "TCPBP")
        .expect("the blueprint");
    assert_eq!((wire.fixed_len, wire.max_len), (20, 60));
    let widths: Vec<u8> = wire
        .header
        .iter()
        .filter_map(|field| match field {
            WireField::Bits { bits, .. } => Some(*bits),
            _ => None,
        })
        .collect();
    assert_eq!(
        widths,
        [16, 16, 32, 32, 4, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 16, 16, 16]
    );
    assert!(matches!(
        wire.header[4],
        WireField::Bits { fill: Some(Fill::HeaderWords), .. }
    ));
    assert!(matches!(
        wire.header[16],
        WireField::Bits { fill: Some(Fill::Checksum16 { pseudo: true }), .. }
    ));
    assert!(
        matches!(wire.header.last(), Some(WireField::Options { cap: 6, .. })),
        "options end the header"
    );
    let body = module.structure(wire.body);
    let data = body
        .fields
        .iter()
        .find(|f| f.ty == Ty::Data)
        .expect("the payload");
    assert_eq!(wire.data_at, Some(data.offset));
}

/// An entry of an option list has an 8-byte tag. The largest member takes 16 bytes in memory (kind, len, two
/// uint32, rounded up to 8). The list has a header of 8 bytes.
#[test]
fn an_option_list_holds_its_largest_member() {
    let module = module(TCP);
    let list = &module.opt_lists[0];
    let flags: Vec<_> = list
        .members
        .iter()
        .map(|m| (m.name.as_str(), m.ends_list))
        .collect();
    assert_eq!(
        flags,
        [("mss", false), ("nop", false), ("end", true), ("stamps", false)]
    );
    assert_eq!((list.select_bits, list.unknown_len_at, list.pad), (8, Some(1), 4));
    assert!(list.len.is_some());
    let size = |name: &str| {
        module
            .structs
            .iter()
            .find(|s| s.name == name)
            .expect("a struct")
            .size
    };
    assert_eq!(["mss", "nop", "stamps"].map(size), [8, 8, 16]);
    let opts = field(&module, "TCPBP", "opts").offset;
    assert_eq!(size("TCPBP") - opts, 8 + 6 * (8 + 16));
}

/// Frames have no length byte, so an unknown one fails the packet, and the list has no end marker.
#[test]
fn an_unknown_frame_fails_the_packet_and_none_ends_the_list() {
    let module = module(
        "opt_t padding { uint8 kind = 0; }
         struct range { varint_t gap, len; }
         opt_t ack { uint8 kind = 2; varint_t largest; uint8 n; list<range, 4> ranges count(n); }
         opt_t stream { uint8 kind = 8; varint_t id, off; data_t data; }
         opt_union frame { padding, ack, stream }
         opt_list frames { list<frame, 8> frames; }
         pkt_bp packet { uint8 flags; bytes<8> id; frames frames; }",
    );
    let list = &module.opt_lists[0];
    assert_eq!(list.unknown_len_at, None);
    assert!(list.members.iter().all(|m| !m.ends_list));
    let wire = |name: &str| {
        module
            .blueprints
            .iter()
            .find(|b| b.name == name)
            .expect("the format")
    };
    // The kind, a varint of one to eight bytes, the count, and at most four ranges of 16 bytes.
    assert_eq!(
        (wire("ack").fixed_len, wire("ack").max_len),
        (3, 1 + 8 + 1 + 4 * 16)
    );
    assert_eq!(
        wire("stream").data_at,
        Some(field(&module, "stream", "data").offset)
    );
}

#[test]
fn nested_headers_trailers_and_masks_are_laid_out() {
    let module = module(
        "pkt_bp RETH { uint64 va; uint32 key; uint32 len; }
         pkt_bp BTH {
             uint8 opcode; bool se; uint1 m; uint2 pad; uint4 tver; uint16 pkey; uint8 resv; uint24 qp;
             RETH reth when (opcode == 6 || opcode == 10); data_t data; crc32_t icrc over (this mask{resv});
         }",
    );
    let wire = module
        .blueprints
        .iter()
        .find(|b| b.name == "BTH")
        .expect("the format");
    assert_eq!((wire.fixed_len, wire.max_len), (8, 24), "RETH comes sometimes");
    assert!(matches!(
        &wire.header[..],
        [.., WireField::Nested { when: Some(_), .. }]
    ));
    // `resv` follows opcode (8), flags (8) and pkey (16).
    assert!(
        matches!(&wire.trailer[..], [WireField::Bits { bits: 32, fill: Some(Fill::Crc32 { masked, invariant: false }), .. }] if masked[..] == [(32, 8)])
    );
}

#[test]
fn a_rule_with_fewer_values_repeats_them() {
    let module = module(&format!(
        "{TCP} seg_rule push(x) [TCPBP::psh, false, false, x, x];"
    ));
    let [seq, push] = &module.seg_rules[..] else {
        panic!("two rules")
    };
    assert_eq!((&seq.only, &seq.last), (&seq.first, &seq.mid));
    assert_ne!(seq.first, seq.mid);
    assert_eq!((&push.only, &push.mid), (&push.last, &push.first));
}

/// An enum's numbers follow their predecessors unless they are stated, as in C.
#[test]
fn fields_know_the_names_of_their_enum() {
    let module = module(
        "enum other_t { A }
         enum state_t : uint8 { OPEN = 4, SHUT, GONE = 9 }
         context conn { observable state_t state; uint8 plain; }
         signal changed { state_t from; uint32 at; }",
    );
    let state = field(&module, "conn", "state");
    assert_eq!(state.ty, Ty::Enum { index: 1, bits: 8, signed: false });
    let names = &module.enums[1];
    assert_eq!(names.name, "state_t");
    assert_eq!(
        names.variants,
        [(4, "OPEN".into()), (5, "SHUT".into()), (9, "GONE".into())]
    );
    assert_eq!(field(&module, "conn", "plain").ty, Ty::uint(8));
    assert_eq!(field(&module, "changed", "from").ty, state.ty);
    assert_eq!(field(&module, "changed", "at").ty, Ty::uint(32));
}
