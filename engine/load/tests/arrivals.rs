//! Tests the engine with packets that switches have trimmed, and with packets that a program rejects. They
//! use a small program, on both engines.

#![allow(unreachable_pub)]

#[path = "../../engine/tests/common/cable.rs"]
#[allow(dead_code)]
mod cable;

use std::path::Path;

use cable::{Cable, cable};
use hawser_engine::net::InterfaceConfig;
use hawser_engine::wire::Wire;
use hawser_engine::{Stack, StackConfig};
use hawser_load::{Engine, LoadedProgram};
use hawser_testing::internet_checksum;
use hawser_time::Instant;

/// The program answers each packet with its number, its received bytes and its trimmed bytes. It rejects
/// packets to port 9.
const PROGRAM: &str = "
pkt_bp piece { uint16 port; checksum16_t sum over (pseudo, this); uint32 number; data_t data; }
pkt_bp answer { uint32 number, came, missing; }
event arrived : NET_EVENT { ip_addr_t here, there; uint16 port; uint32 number, came, missing; }
void reply(arrived ev, no_ctx none) {
    if (ev.port == 9) refuse(ECONNREFUSED);
    if (ev.port == 8) refuse(EINVAL);
    IPheader ip; answer a;
    ip.src_ip = ev.here; ip.dst_ip = ev.there;
    a.number = ev.number; a.came = ev.came; a.missing = ev.missing;
    emit pkt_gen(ip, a);
}
arrived parse(pkt_t p, IPheader i) {
    piece h; p.extract(h);
    arrived e; e.here = i.dst_ip; e.there = i.src_ip; e.port = h.port; e.number = h.number; e.came = h.data.len;
    return e;
}
arrived parse_cut(pkt_t p, IPheader i) {
    piece h; p.extract(h);
    arrived e; e.here = i.dst_ip; e.there = i.src_ip; e.port = h.port; e.number = h.number; e.came = h.data.len;
    e.missing = i.tot_len - i.hdr_len - 8 - h.data.len;
    return e;
}
dispatch d { arrived -> {reply}; }
deploy { register_ep_chains(d); register_ev_parser(parse, ip(253));";

const NOTHING: [u32; 0] = [];

struct Bench {
    stack: Stack,
    end: Cable,
}

impl Bench {
    fn new(engine: Engine, name: &str, takes_trimmed: bool) -> Bench {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}_{engine:?}.mtp"));
        let registered = if takes_trimmed {
            "register_ev_parser(parse_cut, trimmed(253)); }"
        } else {
            "}"
        };
        std::fs::write(&path, format!("{PROGRAM} {registered}")).expect("room");
        let loaded =
            LoadedProgram::open(&path.display().to_string(), Some(engine)).unwrap_or_else(|e| panic!("{e}"));
        let [end, _] = cable(0, 1);
        let interface = InterfaceConfig {
            addresses: vec![
                ("10.0.0.1".parse().expect("an address"), 24),
                ("fd00::1".parse().expect("an address"), 64),
            ],
            gateways: vec![],
            mtu: 1500,
        };
        let program = loaded.with(&[]).expect("it runs");
        let stack = Stack::new(program, StackConfig::new(interface, 1), end.caps()).expect("good");
        Bench { stack, end }
    }

    /// Delivers a packet to a port, with its last bytes trimmed, and returns the packets that the stack
    /// sends.
    fn answer(&mut self, port: u16, data: usize, cut: usize, is_v4: bool) -> Vec<Vec<u8>> {
        let mut bytes = [&port.to_be_bytes()[..], &[0, 0, 0, 0, 0, 5], &vec![7; data]].concat();
        let len = bytes.len() as u16;
        let addresses: Vec<u8> = if is_v4 {
            vec![10, 0, 0, 2, 10, 0, 0, 1]
        } else {
            let of = |last| [&[0xfd][..], &[0; 14], &[last]].concat();
            [of(2), of(1)].concat()
        };
        let sum = internet_checksum(&[&addresses, &[0, 253], &len.to_be_bytes(), &bytes]);
        bytes[2..4].copy_from_slice(&sum);
        let mut ip = if is_v4 {
            let mut ip = [&[0x45, 0, 0, 0, 0, 0, 0, 0, 64, 253, 0, 0], &addresses[..]].concat();
            ip[2..4].copy_from_slice(&(20 + len).to_be_bytes());
            let sum = internet_checksum(&[&ip]);
            ip[10..12].copy_from_slice(&sum);
            ip
        } else {
            let mut ip = [&[0x60, 0, 0, 0, 0, 0, 253, 64], &addresses[..]].concat();
            ip[4..6].copy_from_slice(&len.to_be_bytes());
            ip
        };
        bytes.truncate(bytes.len() - cut);
        ip.extend(bytes);
        self.end.inbound.lock().push_back(ip);
        while self
            .stack
            .poll(Instant::from_nanos(1), &mut self.end)
            .expect("a cable does not fail")
        {}
        self.end.outbound.lock().drain(..).collect()
    }

    /// Returns the numbers in the program's answer.
    fn numbers(&mut self, data: usize, cut: usize, is_v4: bool) -> Vec<u32> {
        let sent = self.answer(1, data, cut, is_v4);
        let numbers = |packet: &Vec<u8>| {
            let words = packet[if is_v4 { 20 } else { 40 }..]
                .chunks(4)
                .map(|word| word.try_into().expect("four"));
            words.map(u32::from_be_bytes).collect::<Vec<_>>()
        };
        sent.iter().flat_map(numbers).collect()
    }

    fn truncated(&self) -> u64 {
        self.stack
            .interface_counters()
            .dropped(hawser_engine::net::DropReason::Truncated)
    }
}

#[test]
fn a_truncated_packet_goes_to_its_parser() {
    for engine in [Engine::Interp, Engine::Native] {
        let mut bench = Bench::new(engine, "takes_cut", true);
        for is_v4 in [true, false] {
            assert_eq!(bench.numbers(100, 0, is_v4), [5, 100, 0], "whole");
            assert_eq!(bench.numbers(100, 100, is_v4), [5, 0, 100], "its header alone");
            assert_eq!(bench.numbers(100, 60, is_v4), [5, 40, 60], "a part of its data");
            assert_eq!(bench.numbers(100, 101, is_v4), NOTHING, "not even its header");
        }
        assert_eq!(bench.stack.counters().parse_truncated, 2);
        assert_eq!(bench.truncated(), 0);
    }
}

#[test]
fn a_program_without_a_truncation_parser_gets_whole_packets() {
    let mut bench = Bench::new(Engine::Native, "takes_whole", false);
    assert_eq!(bench.numbers(100, 0, true), [5, 100, 0]);
    assert_eq!(bench.numbers(100, 1, true), NOTHING);
    assert_eq!(bench.numbers(100, 1, false), NOTHING);
    assert_eq!((bench.truncated(), bench.stack.counters().inputs), (2, 1));
}

#[test]
fn a_packet_to_a_closed_port_is_answered_by_icmp() {
    for engine in [Engine::Interp, Engine::Native] {
        let mut bench = Bench::new(engine, "refuses", true);
        let sent = bench.answer(9, 20, 0, true);
        let error = &sent[0];
        assert_eq!(
            (sent.len(), error[9], &error[20..22]),
            (1, 1, &[3, 3][..]),
            "RFC 792: port unreachable"
        );
        assert_eq!(
            (error[28], error[28 + 9], &error[48..50]),
            (0x45, 253, &[0, 9][..]),
            "it quotes the packet"
        );
        let sent = bench.answer(9, 2_000, 1_500, false);
        let error = &sent[0];
        assert_eq!(
            (sent.len(), error[6], &error[40..42]),
            (1, 58, &[1, 4][..]),
            "RFC 4443, 3.1"
        );
        assert!(error.len() <= 1_280);
        assert!(
            bench.answer(8, 20, 0, true).is_empty(),
            "other codes say nothing to the sender"
        );
        assert_eq!(bench.stack.counters().refused, 3);
        for _ in 0..1_000 {
            bench.answer(9, 20, 0, true);
        }
        assert!(
            bench.stack.interface_counters().errors_sent <= 20,
            "the rate of errors is limited"
        );
    }
}
