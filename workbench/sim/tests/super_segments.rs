//! Packets that the program cuts equal those that a device makes of its super-segments, byte for byte. The
//! same program runs over a simulated device that cuts and over one that does not. The captures are compared
//! with checksums filled in.
//!
//! All properties of the bytes that the program sends are drawn from `ev.rand`, which is the same in both
//! runs.

#![allow(clippy::disallowed_methods)] // Tests write and read programs; the crate itself does not.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hawser_engine::net::InterfaceConfig;
use hawser_engine::wire::Wire;
use hawser_engine::{Stack, StackConfig};
use hawser_ir::Module;
use hawser_load::Interpreted;
use hawser_sim::rng::Rng;
use hawser_sim::wire::SimWire;
use hawser_time::Instant;

/// The number of runs of both kinds, and of sends in each.
const SEEDS: u64 = 12;
const SENDS: usize = 120;

/// Compiles the program with these segmentation rules, of which `used` are in use.
fn program(rules: &str, used: &str) -> Module {
    let text = TEXT.replace("RULES", rules).replace("USED", used);
    let folder = hawser_documents::temporary::Folder::new().expect("a temporary folder");
    let path = folder.join("cut.mtp");
    std::fs::write(&path, text).expect("it can be written");
    hawser_load::load(&path).unwrap_or_else(|rejected| panic!("{rejected}"))
}

const TEXT: &str = "
event open : APP_EVENT { ip_addr_t local, remote; uint16 port; }
event write : APP_EVENT { addr_t addr; uint64 len; }
event answer : NET_EVENT { }
context flow { ip_addr_t local, remote; uint64 sent; }
opt_t nothing { uint8 kind = 1; }
opt_t stamp { uint8 kind = 8; uint8 len = 10; uint32 value, echo; }
opt_union option { nothing, stamp }
opt_list options { uint32 len = words * 4 - 20; uint32 type_select = 8; pad 4; list<option, 4> opts; }
pkt_bp segment {
    uint16 from, to;
    seq<32> number, ack;
    hdrlen4_t words;
    uint4 reserved;
    bool cwr, ece, urg, is_ack, psh, rst, syn, fin;
    uint16 window;
    checksum16_t sum over (pseudo, this);
    uint16 urgent;
    data_t data;
    options opts;
}
seg_rule next(x) [segment::number, x, prev.number + prev.data.len];
RULES
open app_open(op_t op) {
    open e;  e.local = op.local_ip;  e.remote = op.remote_ip;  e.port = op.local_port;
    flow_id f(op.local_ip, op.remote_ip, op.local_port);
    set_flow_id(e, f);
    return e;
}
write app_write(op_t op) { write e;  e.addr = op.addr;  e.len = op.len;  return e; }
list<event_t> parse(pkt_t p, IPheader i) {
    list<event_t> out;  segment h;  p.extract(h);
    answer e;  flow_id f(i.dst_ip, i.src_ip, h.to);  set_flow_id(e, f);  out.add(e);
    return out;
}
void ignore(answer ev, flow f) { }
void begin(open ev, no_ctx none) {
    flow f = new_ctx{local: ev.local, remote: ev.remote};
    emit new_tx_ordered_data(INF, f.self);
}
void again(open ev, flow f) { refuse(EADDRINUSE); }
void send(write ev, flow f) {
    emit add_tx_data(ev.addr, ev.len, f.self);
    IPheader ip;  ip.src_ip = f.local;  ip.dst_ip = f.remote;
    segment h;
    h.from = 9;  h.to = 10;
    h.ack = seq<32>(uint32(ev.rand));
    h.reserved = uint4(ev.rand >> 32);
    h.ece = (ev.rand & 1) == 1;  h.is_ack = (ev.rand & 2) == 2;  h.urg = (ev.rand & 4) == 4;
    h.window = uint16(ev.rand >> 16);  h.urgent = uint16(ev.rand >> 40);
    h.psh = (ev.rand & 504) == 8;
    if ((ev.rand & 24) == 8) {
        h.opts.add(nothing{});  h.opts.add(nothing{});
        h.opts.add(stamp{value: uint32(ev.rand >> 7), echo: 5});
    }
    if ((ev.rand & 24) == 16) h.opts.add(nothing{});
    uint32 size = 1 + uint32((ev.rand >> 50) % 1420);
    if ((ev.rand & 96) == 32) size = 1400;
    h.data = data(f.self, f.sent, uint32(ev.len), size);
    seq<32> at = seq<32>(uint32(ev.rand >> 20) | ((ev.rand & 128) == 128 ? 0xffff0000 : 0));
    bool a = (ev.rand & 256) == 256;  bool b = (ev.rand & 512) == 512;  bool c = (ev.rand & 1024) == 1024;
    emit pkt_gen(ip, h, next(at)USED);
    f.sent += ev.len;
    if (a || b || c) f.sent += 0;
}
dispatch d { open -> {begin, again}; write -> {send}; answer -> {ignore}; }
deploy {
    register_ep_chains(d);
    register_ctx_spec(flow, FLOW);
    register_ev_parser(app_open, connect);
    register_ev_parser(app_write, send);
    register_ev_parser(parse, ip(6));
}
";

/// The packets on the link, and the number of super-segments that the device cut.
struct SentPackets {
    packets: Vec<Vec<u8>>,
    super_segments: u64,
    wrong: u64,
}

fn send(module: &Module, seed: u64, v6: bool, mut wire: SimWire, check: bool) -> SentPackets {
    let address = |last: u8| match v6 {
        true => IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, u16::from(last)]),
        false => IpAddr::from([10, 0, 0, last]),
    };
    let program = Interpreted::new(module.clone(), &[]).expect("a program that runs");
    let interface = InterfaceConfig { addresses: vec![(address(1), 24)], gateways: vec![], mtu: 1500 };
    let mut config = StackConfig::new(interface, seed);
    // The peer sends no acknowledgements here.
    config.limits.first_bytes = config.limits.tx_bytes;
    let mut stack = Stack::new(Arc::new(program), config, wire.caps()).expect("good");
    stack.check_super_segments(check);
    let handle = stack
        .connect(Instant::ORIGIN, SocketAddr::new(address(2), 80), None)
        .expect("a flow");
    let mut sent = SentPackets { packets: Vec::new(), super_segments: 0, wrong: 0 };
    let bytes: Vec<u8> = (0..200_000u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8)
        .collect();
    let mut rng = Rng::new(seed, "lengths");
    for now in 0..SENDS as u64 {
        let max_len = if rng.chance(0.5) { 3000 } else { 20_000 };
        let len = 1 + if now == 50 {
            150_000
        } else {
            rng.below(max_len) as usize
        };
        if stack
            .send(Instant::from_nanos(now), handle, &bytes[..len])
            .expect("open")
            < len
        {
            break;
        }
        while stack
            .poll(Instant::from_nanos(now), &mut wire)
            .expect("it does not fail")
        {}
        sent.packets.extend(wire.sent().map(|mut frame| {
            frame.complete();
            frame.flatten();
            frame.head
        }));
    }
    sent.super_segments = wire.super_segments();
    sent.wrong = stack.counters().wrong_super_segments;
    assert!(sent.packets.len() > SENDS, "{} packets", sent.packets.len());
    sent
}

/// Runs a program over both devices; returns the total number of super-segments cut.
fn compare(module: &Module) -> u64 {
    let mut super_segments = 0;
    for seed in 0..SEEDS {
        let v6 = seed % 3 == 2;
        let plain = send(module, seed, v6, SimWire::new(1500), false);
        assert_eq!(plain.super_segments, 0);
        for check in [false, true] {
            let cut = send(module, seed, v6, SimWire::cutting(1500), check);
            let differs = plain.packets.iter().zip(&cut.packets).position(|(a, b)| a != b);
            assert_eq!(
                (differs, cut.packets.len()),
                (None, plain.packets.len()),
                "seed {seed}"
            );
            assert_eq!(cut.wrong, 0, "seed {seed}");
            super_segments += cut.super_segments;
        }
    }
    super_segments
}

const ALL: &str = "seg_rule push(p) [segment::psh, false, false, p, p];
    seg_rule end(p) [segment::fin, false, false, p, p];
    seg_rule reduced(p) [segment::cwr, p, false];";

#[test]
fn a_device_makes_the_packets_of_the_program() {
    let module = program(ALL, ", push(a), end(b), reduced(c)");
    assert!(
        compare(&module) > SEEDS * SENDS as u64,
        "most instructions leave as super-segments"
    );
}

/// Some instructions set PSH on every packet, so a device cannot cut them.
#[test]
fn a_flag_without_a_rule_keeps_an_instruction_from_the_device() {
    let module = program("", "");
    let all = compare(&program(ALL, ", push(a), end(b), reduced(c)"));
    let cut = compare(&module);
    assert!(cut > all / 2 && cut < all, "{cut} of {all}");
}

#[test]
fn rules_that_no_device_knows_are_cut_in_software() {
    let rules = [
        (
            "window",
            "seg_rule r(w) [segment::window, uint16(w), prev.window - 1];",
            ", r(700)",
        ),
        ("first", "seg_rule r(p) [segment::psh, p, false];", ", r(a)"),
        (
            "last",
            "seg_rule r(p) [segment::cwr, false, false, p, p];",
            ", r(a)",
        ),
        ("every", "seg_rule r(p) [segment::fin, p];", ", r(a)"),
        (
            "only",
            "seg_rule r(p) [segment::psh, false, false, p, false];",
            ", r(a)",
        ),
        (
            "count",
            "seg_rule r(x) [segment::urgent, uint16(x), prev.urgent + 1];",
            ", r(1)",
        ),
    ];
    for (name, rule, used) in rules {
        assert_eq!(compare(&program(rule, used)), 0, "{name}");
    }
}
