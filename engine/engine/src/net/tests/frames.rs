//! Runs the cases of `frames.txt`, which `frames.py` writes.

use std::time::Duration;

use hawser_ir::abi::{Csum, ICMP_TOO_BIG, Net};
use hawser_ir::buf::NET_ZERO;
use hawser_time::Instant;

use super::{OWN_MAC, from_hex, station, to_hex};
use crate::net::{DropReason, Ingress, Interface, from_bytes, to_bytes};
use crate::wire::{Medium, RxFrame, TxFrame};

pub(super) const CASES: &str = include_str!("frames.txt");

/// Among the cases are those of RFC 9293, 3.9.2: IP options are passed over (MUST-50), and packets to broadcast
/// addresses (MUST-57) and from addresses of no host (MUST-63) are dropped.
#[test]
fn frames_match_those_of_scapy() {
    let mut cases = 0;
    for case in CASES.split("\ncase ").skip(1) {
        let (name, lines) = case.split_once('\n').unwrap();
        // Once with all bytes in the head, and once split so that the data behind the headers is in the tail.
        for split in [false, true] {
            if let Err(what) = run(lines, split) {
                panic!("case {name} (split: {split}): {what}");
            }
        }
        cases += 1;
    }
    assert!(cases > 20, "{cases} cases");
}

fn run(lines: &str, split: bool) -> Result<(), String> {
    let mut interface = station(Medium::Ethernet(OWN_MAC));
    let mut now = Instant::ORIGIN;
    let mut verdict = String::new();
    for line in lines.lines().filter(|l| !l.is_empty()) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "at" => now = Instant::after(Duration::from_millis(rest.parse().unwrap())),
            "in" => verdict = describe(&mut interface, now, &from_hex(rest), split),
            "is" => same(&verdict, rest, line)?,
            "send" => send(&mut interface, now, rest),
            "poll" => {
                if interface.next_deadline().is_some_and(|deadline| deadline <= now) {
                    interface.poll(now);
                }
            }
            "mtu" => {
                let (ip, bytes) = rest.split_once(' ').unwrap();
                same(
                    &interface.path_mtu(to_bytes(ip.parse().unwrap())).to_string(),
                    bytes,
                    line,
                )?;
            }
            "out" => {
                let outgoing = interface.outgoing();
                let sent = if outgoing.is_empty() {
                    String::new()
                } else {
                    to_hex(&whole(&outgoing.remove(0)))
                };
                same(&sent, rest, line)?;
            }
            _ => return Err(format!("unknown line: {line}")),
        }
    }
    match interface.outgoing().first() {
        None => Ok(()),
        Some(frame) => Err(format!("one frame too many: {}", to_hex(&whole(frame)))),
    }
}

fn same(found: &str, expected: &str, line: &str) -> Result<(), String> {
    if found == expected {
        Ok(())
    } else {
        Err(format!("{line}\nbut found {found}"))
    }
}

/// Describes the result of a frame in the notation of frames.py.
fn describe(interface: &mut Interface, now: Instant, bytes: &[u8], split: bool) -> String {
    let (head, tail) = bytes.split_at(if split { headers(bytes) } else { bytes.len() });
    let frame = RxFrame { head, tail, csum: Csum::Unverified, seg_size: 0, at: now };
    match interface.ingress(now, &frame) {
        Ingress::Packet { net, head, tail, head_offset, csum } => {
            assert_eq!(csum, Csum::Unverified);
            assert_eq!(frame.head[head_offset as usize..].as_ptr(), head.as_ptr());
            assert_eq!((net.segs, net.seg_size), (1, 0));
            format!(
                "packet v{} proto={} {} > {} hdr={} tot={} ttl={} dscp={} ecn={} label={} {}{}",
                net.version,
                net.protocol,
                from_bytes(net.src_ip),
                from_bytes(net.dst_ip),
                net.hdr_len,
                net.tot_len,
                net.ttl,
                net.dscp,
                net.ecn,
                net.flow_label,
                to_hex(head),
                to_hex(tail),
            )
        }
        Ingress::Trimmed { .. } => {
            interface.refuse_trimmed();
            format!("drop {}", DropReason::Truncated)
        }
        Ingress::IcmpError { net, quoted, quoted_offset, icmp } => {
            if icmp.kind == ICMP_TOO_BIG {
                interface.lower_path(now, net.dst_ip, icmp.mtu);
            }
            assert_eq!(frame.head[quoted_offset as usize..].as_ptr(), quoted.as_ptr());
            format!(
                "error kind={} mtu={} type={} code={} proto={} {} > {} {}",
                icmp.kind,
                icmp.mtu,
                icmp.icmp_type,
                icmp.icmp_code,
                net.protocol,
                from_bytes(net.src_ip),
                from_bytes(net.dst_ip),
                to_hex(quoted),
            )
        }
        Ingress::Done => "done".to_owned(),
        Ingress::Drop(reason) => format!("drop {reason}"),
    }
}

/// Returns the offset at which the tail may start: behind the header of an echo or a datagram. Other frames
/// stay whole.
fn headers(frame: &[u8]) -> usize {
    let at = |i: usize| frame.get(i).copied().unwrap_or(0);
    let len = match (at(12), at(13)) {
        (8, 0) if at(23) == 17 || at(34) == 8 => 14 + usize::from(at(14) & 0xf) * 4 + 8,
        (0x86, 0xdd) if at(20) == 17 || at(54) == 128 => 14 + 40 + 8,
        _ => frame.len(),
    };
    len.min(frame.len())
}

fn send(interface: &mut Interface, now: Instant, line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    let [ip, protocol, field, bytes] = words[..] else {
        panic!("send {line}")
    };
    let dst_ip = to_bytes(ip.parse().unwrap());
    let mut net = Net { dst_ip, protocol: protocol.parse().unwrap(), ..NET_ZERO };
    interface.route(&mut net).unwrap();
    let room = interface.header_room(&net);
    let head = [vec![0; room], from_hex(bytes)].concat();
    let field: usize = field.parse().unwrap();
    let csum = Some((room as u16, (room + field) as u16));
    interface.send(now, &net, TxFrame { head, csum, ..TxFrame::default() });
}

fn whole(frame: &TxFrame) -> Vec<u8> {
    assert_eq!((frame.csum, frame.gso_size), (None, 0), "the wire can do neither");
    frame.payload.iter().fold(frame.head.clone(), |bytes, piece| {
        [&bytes, piece.bytes()].concat()
    })
}
