//! The conditions under which a dissector reads each header of a packet.

use std::path::{Path, PathBuf};

use hawser_driver::{MemoryLoader, compile, compile_with};
use hawser_ir::Module;

/// Returns the condition on the presence of a header in the first parser, as Lua, and whether a valid packet
/// may lack it.
fn presence(module: &Module, header: &str) -> (String, bool) {
    let text = hawser_ide::dissector::dissector(module).expect("the program has a dissector");
    let number = module
        .blueprints
        .iter()
        .position(|blueprint| blueprint.name == header);
    let number = number.expect("the header is there") + 1;
    let begin = format!("{{ blueprint = {number}, at = ");
    let row = text.lines().find(|line| line.trim_start().starts_with(&begin));
    let row = row.expect("the parser reads it");
    let (_, condition) = row.split_once("function(m) return ").expect("it has a condition");
    let condition = condition.trim_end_matches(" end },").to_owned();
    (condition, row.contains("optional = true"))
}

fn program(parse: &str) -> Module {
    let text = format!(
        "enum kind_t : uint8 {{ ASK, ANSWER, BYE }}
        pkt_bp head {{ kind_t kind; uint8 flags; }}
        pkt_bp rest {{ uint16 number; }}
        event got : NET_EVENT {{ uint16 number; bool is_last; }}
        context last {{ uint32 n; }}
        void keep(got ev, last l) {{ l.n += ev.number; }}
        bool wanted(IPheader i) {{ return i.tot_len > 100; }}
        list<event_t> parse(pkt_t p, IPheader i) {{
            list<event_t> out;
            head h;
            p.extract(h);
            got e;
            {parse}
            rest r;
            p.extract(r);
            out.add(e);
            return out;
        }}
        dispatch d {{ got -> {{keep}}; }}
        deploy {{ register_ep_chains(d); register_ctx_spec(last, GLOBAL); register_ev_parser(parse, ip(253)); }}"
    );
    let compiled = compile_with(&MemoryLoader::new([("main.mtp", text)]), Path::new("main.mtp"));
    compiled
        .module
        .clone()
        .unwrap_or_else(|| panic!("{}", compiled.render(false)))
}

#[test]
fn an_early_return_is_a_condition_on_what_follows() {
    let (condition, is_optional) = presence(&program("if (h.kind == BYE) return out;"), "rest");
    assert_eq!(condition, "truth((m[0] or 0) == 2) == 0");
    assert!(!is_optional);
    let text = "if (h.kind == ASK) e.is_last = true; else { out.add(e); return out; }";
    let (condition, _) = presence(&program(text), "rest");
    assert_eq!(condition, "truth((m[0] or 0) == 0) ~= 0");
}

#[test]
fn a_value_in_a_variable_is_read_from_the_header() {
    let (condition, is_optional) = presence(
        &program("uint8 low = h.flags & 3; if (low in {1, 2}) return out;"),
        "rest",
    );
    assert!(condition.contains("bit32.band((m[1] or 0), 3)"), "{condition}");
    assert!(!is_optional);
    let (condition, is_optional) = presence(
        &program("match (kind_t(h.flags + 1)) { ASK -> return out; default -> { } }"),
        "rest",
    );
    assert!(condition.contains("(m[1] or 0)"), "{condition}");
    assert!(!is_optional);
}

#[test]
fn a_condition_on_anything_else_leaves_the_header_open() {
    for text in [
        "if (wanted(i)) return out;",
        "if (p.len < 5) return out;",
        "got kept = e; if (kept.is_last) return out;",
        "e.is_last = h.flags > 3; if (i.tot_len > 100) e.is_last = true; if (e.is_last) return out;",
    ] {
        assert_eq!(
            presence(&program(text), "rest"),
            ("true".to_owned(), true),
            "{text}"
        );
    }
}

#[test]
fn a_long_header_of_quic_lite_is_read_for_long_packets_only() {
    let file: PathBuf = [
        env!("CARGO_MANIFEST_DIR"),
        "../../transports/quic-lite/quic-lite.mtp",
    ]
    .iter()
    .collect();
    let compiled = compile(&file);
    let module = compiled
        .module
        .clone()
        .unwrap_or_else(|| panic!("{}", compiled.render(false)));
    let (long, is_optional) = presence(&module, "long_start");
    assert!(long.contains(" < ") && !is_optional, "{long}");
    let (initial, is_optional) = presence(&module, "initial_rest");
    assert!(
        initial.starts_with(&long) && initial.len() > long.len() && !is_optional,
        "{initial}"
    );
}
