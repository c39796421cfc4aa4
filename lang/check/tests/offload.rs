//! The packet instructions that a segmenting device may cut, and the report on the others. The devices'
//! behaviour is that of Linux's `tcp_gso_segment`. The sequence number grows by the payload, PSH and FIN stay
//! on the last packet, CWR stays on the first one, and checksums are completed.

use crate::common;

use common::{module, repository};
use hawser_ir::{Cut, Module, Offload};

/// Returns a program that sends one blueprint with rules.
fn program(flags: &str, rules: &str, used: &str) -> String {
    let fields = format!(
        "
    pkt_bp segment {{
        uint16 from, to;
        seq<32> number, ack;
        hdrlen4_t words;
        uint4 reserved;
        {flags}
        uint16 window;
        checksum16_t sum over (pseudo, this);
        uint16 urgent;
        data_t data;
    }}"
    );
    whole(&fields, rules, used)
}

fn whole(blueprint: &str, rules: &str, used: &str) -> String {
    format!(
        "event ask : APP_EVENT {{ uint32 n; bool flag; }}
         context conn {{ uint32 n; }}
         {blueprint}
         {rules}
         void f(ask ev, conn c) {{
             IPheader ip;  segment h;
             h.data = data(c.self, 0, ev.n, 1000);
             emit pkt_gen(ip, h, {used});
         }}
         dispatch d {{ ask -> {{f}}; }}"
    )
}

const FLAGS: &str = "bool cwr, ece, urg, is_ack, psh, rst, syn, fin;";
const NEXT: &str = "seg_rule next(x) [segment::number, x, prev.number + prev.data.len];";
const LAST: &str = "seg_rule push(p) [segment::psh, false, false, p, p];
                    seg_rule end(p) [segment::fin, false, false, p, p];";

fn only(module: &Module) -> &Offload {
    assert_eq!(module.offloads.len(), 1);
    &module.offloads[0]
}

fn proven(text: &str) -> Cut {
    only(&module(text))
        .proof
        .clone()
        .unwrap_or_else(|found| panic!("{found:#?}"))
}

/// Returns every obstacle with the source text at its place.
fn in_the_way(text: &str) -> Vec<(String, String)> {
    let module = module(text);
    let found = only(&module).proof.clone().expect_err("no device does that");
    let at = |span: hawser_ir::Span| text[span.start as usize..span.end as usize].to_owned();
    found
        .into_iter()
        .map(|hindrance| (at(hindrance.span), hindrance.reason))
        .collect()
}

#[test]
fn the_rules_of_a_bulk_transport_are_proven() {
    let rules = format!("{NEXT} {LAST} seg_rule reduced(r) [segment::cwr, r, false];");
    let cut = proven(&program(
        FLAGS,
        &rules,
        "next(7), push(ev.flag), end(ev.flag), reduced(ev.flag)",
    ));
    assert_eq!(
        (cut.protocol, cut.grows.as_str(), cut.clear),
        (6, "number", vec![])
    );
    assert_eq!(
        (cut.last_only, cut.first_only),
        (vec!["psh".into(), "fin".into()], vec!["cwr".to_owned()])
    );
}

#[test]
fn flags_without_a_rule_have_to_be_clear() {
    assert_eq!(proven(&program(FLAGS, NEXT, "next(7)")).clear, [104, 108, 111]);
    let cut = proven(&program("uint8 flags;", NEXT, "next(7)"));
    assert_eq!(
        cut.clear,
        [104, 108, 111],
        "by their place, whatever they are called"
    );
}

#[test]
fn a_sum_may_be_written_in_any_correct_form() {
    for sum in [
        "prev.data.len + prev.number",
        "prev.number + uint32(prev.data.len)",
    ] {
        let rule = format!("seg_rule next(x) [segment::number, x, {sum}];");
        let text = program(FLAGS, &rule, "next(7)");
        assert_eq!(proven(&text).grows, "number", "{sum}");
    }
}

#[test]
fn rules_no_device_can_segment_are_reported_with_their_place() {
    let one = |rules: &str, used: &str| {
        let found = in_the_way(&program(FLAGS, &format!("{NEXT} {rules}"), used));
        assert_eq!(found.len(), 1, "{found:?}");
        found.into_iter().next().unwrap_or_default()
    };
    let (at, reason) = one(
        "seg_rule shrink(w) [segment::window, w, prev.window - 1];",
        "next(7), shrink(9)",
    );
    assert_eq!(at, "shrink");
    assert!(
        reason.contains("by something else than the payload's bytes"),
        "{reason}"
    );
    let (at, reason) = one(
        "seg_rule push(p) [segment::psh, p, false];",
        "next(7), push(ev.flag)",
    );
    assert_eq!(at, "push");
    assert!(
        reason.contains("`psh` stands on the first packet only"),
        "{reason}"
    );
    let (_, reason) = one(
        "seg_rule always(p) [segment::fin, p];",
        "next(7), always(ev.flag)",
    );
    assert!(reason.contains("keep it on the last one only"), "{reason}");
    let (_, reason) = one(
        "seg_rule late(p) [segment::cwr, false, false, p, p];",
        "next(7), late(ev.flag)",
    );
    assert!(reason.contains("devices do that to other flags"), "{reason}");
    let (_, reason) = one(
        "seg_rule mark(p) [segment::syn, false, p, false, false];",
        "next(7), mark(true)",
    );
    assert!(reason.contains("values that no device gives"), "{reason}");
    let (_, reason) = one(
        "seg_rule own(p) [segment::psh, false, false, p, true];",
        "next(7), own(ev.flag)",
    );
    assert!(reason.contains("for an only packet"), "{reason}");
    let (_, reason) = one(
        "seg_rule acks(x) [segment::ack, x, prev.ack + prev.data.len];",
        "next(7), acks(1)",
    );
    assert!(reason.contains("another field grow"), "{reason}");
}

#[test]
fn the_number_has_to_grow_by_the_payload() {
    let of = |rule: &str| in_the_way(&program(FLAGS, rule, "r(7)")).remove(0).1;
    assert!(of("seg_rule r(x) [segment::number, x, prev.number + 1];").contains("something else"));
    assert!(of("seg_rule r(x) [segment::number, x];").contains("does not grow"));
    assert!(of("seg_rule r(x) [segment::window, uint16(x)];").contains("no rule"));
    let starts =
        "seg_rule r(x) [segment::number, x, prev.number + prev.data.len, prev.number + prev.data.len, 0];";
    assert!(of(starts).contains("starts elsewhere"));
    let early = "seg_rule r() [segment::number, prev.number + 4, prev.number + prev.data.len];";
    let early = in_the_way(&program(FLAGS, early, "r()")).remove(0).1;
    assert!(early.contains("for the first one"), "{early}");
}

#[test]
fn a_field_that_is_the_same_in_all_packets_may_have_a_rule() {
    let rules = format!("{NEXT} seg_rule fixed(w) [segment::window, w];");
    assert_eq!(
        proven(&program(FLAGS, &rules, "next(7), fixed(9)")).clear,
        [104, 108, 111]
    );
}

#[test]
fn flags_in_one_field_cannot_have_a_rule() {
    let rules = format!("{NEXT} seg_rule all(f) [segment::flags, f];");
    let found = in_the_way(&program("uint8 flags;", &rules, "next(7), all(3)"));
    assert!(found[0].1.contains("give each a field of its own"), "{found:?}");
}

/// Headers of other layouts, each with the missing properties.
#[test]
fn layouts_are_recognised_by_their_places() {
    let reasons = |blueprint: &str, rules: &str, used: &str| {
        let found = in_the_way(&whole(blueprint, rules, used));
        found
            .into_iter()
            .map(|(_, reason)| reason)
            .collect::<Vec<_>>()
            .join("\n")
    };
    let short = "pkt_bp segment { seq<32> number; data_t data; }";
    assert!(reasons(short, NEXT, "next(7)").contains("shorter"));
    let moved = "pkt_bp segment {
        uint16 from, to;  seq<32> ack, number;  hdrlen4_t words;  uint12 flags;  uint16 window;
        checksum16_t sum over (pseudo, this);  uint16 length = len(this);  data_t data;
    }";
    let found = reasons(moved, NEXT, "next(7)");
    assert!(found.contains("`length` follows the payload's length"), "{found}");
    assert!(
        found.contains("`number` grows, and devices make another field grow"),
        "{found}"
    );
    let unsummed = "pkt_bp segment {
        uint16 from, to;  seq<32> number, ack;  hdrlen4_t words;  uint12 flags;  uint16 window;
        checksum16_t sum over (this);  uint16 urgent;  data_t data;
    }";
    assert!(reasons(unsummed, NEXT, "next(7)").contains("devices have the checksum"));
    let trailed = program(FLAGS, NEXT, "next(7)").replace("data_t data;", "data_t data; uint32 mark;");
    assert!(in_the_way(&trailed)[0].1.contains("what follows the payload"));
}

/// The TCP in the paper has its flags in other places, and no rule for them.
#[test]
fn the_paper_s_program_can_be_cut_where_its_flags_allow() {
    let module = module(&repository("lang/tests/pass/paper_appendix_e_tcp.mtp"));
    let cuts: Vec<_> = module
        .offloads
        .iter()
        .filter_map(|offload| offload.proof.as_ref().ok())
        .collect();
    assert_eq!(cuts.len(), 1, "{:#?}", module.offloads);
    assert_eq!(cuts[0].clear, [104, 108, 111]);
}
