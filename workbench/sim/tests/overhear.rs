//! Watchers of the wire: the packets that they see, and the equality of a run without them.

#![allow(clippy::disallowed_methods)] // Tests read the repository; the crate itself does not.

use std::sync::Arc;

use hawser_documents::temporary::Folder;
use hawser_engine::program::Program;
use hawser_load::Engine;
use hawser_load::programs::resolve_with_on;
use hawser_sim::{Options, Report, ResolveError, Scenario, run};

/// Stop-and-wait as seen from a host. `RULES` is replaced with a host's assertions about the packets of
/// either direction.
const WATCHER: &str = "enum kind_t : uint8 { DATA, ACK, FIN }
pkt_bp SW {
    uint16 sport, dport; kind_t kind; uint8 zero; checksum16_t sum over (pseudo, this);
    uint32 seq; data_t data;
}
event seen : NET_EVENT { bool sent; kind_t kind; uint32 seq; }
context stream { uint32 next, acknowledged; bool sends; }
list<event_t> parse(pkt_t p, IPheader i) {
    list<event_t> out;
    SW h;
    p.extract(h);
    seen e;
    e.sent = i.path_mtu == 0;
    flow_id own(i.src_ip, i.dst_ip, h.sport, h.dport);
    flow_id others(i.dst_ip, i.src_ip, h.dport, h.sport);
    if (e.sent) set_flow_id(e, own);
    else set_flow_id(e, others);
    e.kind = h.kind;
    e.seq = h.seq;
    out.add(e);
    return out;
}
void meet(seen ev, no_ctx none) { stream s = new_ctx{next: ev.kind == ACK ? 0 : 1, sends: ev.sent}; }
void take(seen ev, stream s) {
    RULES
    if (ev.sent == s.sends && ev.kind != ACK) s.next = max(s.next, ev.seq + 1);
    if (ev.sent != s.sends && ev.kind == ACK) s.acknowledged = max(s.acknowledged, ev.seq + 1);
}
dispatch watch { seen -> {meet, take}; }
deploy {
    register_ep_chains(watch);
    register_ctx_spec(stream, FLOW);
    register_ev_parser(parse, ip(253));
}
";

fn resolve(name: &str, settings: &[String]) -> Result<Arc<dyn Program>, ResolveError> {
    Ok(resolve_with_on(Some(Engine::Interp), name, settings)?)
}

/// Runs a lossy transfer, watched by these rules; without rules, no watcher runs.
fn go(rules: Option<&str>) -> Report {
    let folder = Folder::new().expect("a folder");
    let watch = folder.join("watch.mtp");
    let key = match rules {
        None => String::new(),
        Some(rules) => {
            std::fs::write(&watch, WATCHER.replace("RULES", rules)).expect("a file");
            format!("watch = '{}'", watch.display())
        }
    };
    let program = format!("{}/../../examples/stop-and-wait.mtp", env!("CARGO_MANIFEST_DIR"));
    let text = format!(
        "seed = 3\nprogram = '{program}'\n{key}\nhost = [{{ name = 'a' }}, {{ name = 'b' }}]\n\
         [[link]]\nbetween = ['a', 'b']\nboth = {{ rate = '10Mbit/s', delay = '2ms', loss = 0.1 }}\n\
         [[flow]]\nfrom = 'a'\nto = 'b'\nbulk = {{ bytes = '40KiB' }}\n"
    );
    let scenario = Scenario::parse(&text).unwrap_or_else(|error| panic!("{error} in\n{text}"));
    run(&scenario, &resolve, Options::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// Each host has its own order. A sender has its acknowledgement before it sends the next packet, and a
/// receiver has the packet before it acknowledges it. The opposite of each rule is false.
#[test]
fn a_watcher_sees_both_directions_in_the_order_of_its_host() {
    let sender = "ev.seq < s.next || s.acknowledged == s.next";
    let receiver = "ev.seq < s.next";
    let of = |sends: &str, rule: &str| format!("if (ev.sent && ({sends})) assert({rule});");
    let (is_data, is_ack) = ("s.sends && ev.kind != ACK", "!s.sends && ev.kind == ACK");
    let report = go(Some(&(of(is_data, sender) + &of(is_ack, receiver))));
    assert!(report.ok, "{report}");
    for (sends, rule, host) in [
        (is_data, "ev.seq < s.next", "a"),
        (is_ack, "ev.seq >= s.next", "b"),
    ] {
        let report = go(Some(&of(sends, rule)));
        let [failure] = &report.failures[..] else {
            panic!("{report}");
        };
        let expected = format!("watcher of host {host}: failed at ");
        assert!(
            failure.starts_with(&expected) && failure.contains(rule),
            "{failure}"
        );
    }
}

#[test]
fn a_run_is_the_same_without_its_watcher() {
    let (with, without) = (go(Some("")), go(None));
    assert!(with.ok && without.ok, "{with}");
    assert_eq!(
        (with.trace_hash, with.events),
        (without.trace_hash, without.events)
    );
}
