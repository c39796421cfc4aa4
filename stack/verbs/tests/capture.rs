//! Wireshark reads each packet as InfiniBand's, and finds nothing wrong in it.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::process::Command;

use hawser_load::Engine;

use super::work::run;

/// A capture of IP packets (LINKTYPE_RAW).
fn write_pcap(file: &Path, packets: &[Vec<u8>]) -> io::Result<()> {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 101] {
        bytes.extend(word.to_ne_bytes());
    }
    for packet in packets {
        let len = packet.len() as u32;
        for word in [0, 0, len, len] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(packet);
    }
    std::fs::write(file, bytes)
}

#[test]
fn wireshark_finds_no_fault_in_any_packet() {
    let stage = run(Engine::Interp, 2, 5, 300);
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("roce.pcap");
    write_pcap(&file, &stage.packets).expect("there is room");
    let mut tshark = Command::new("tshark");
    // Otherwise it takes payload for other protocols.
    for heuristic in [
        "eth_over_ib",
        "mellanox_eoib",
        "fc_infiniband",
        "sdp_infiniband",
        "iser_infiniband",
        "rpcrdma_infiniband",
        "smb_direct_infiniband",
        "smcr_infiniband",
    ] {
        tshark.args(["--disable-heuristic", heuristic]);
    }
    tshark.arg("-r").arg(&file).args(["-T", "fields"]);
    for field in [
        "infiniband.bth.opcode",
        "infiniband.bth.padcnt",
        "infiniband.invariant.crc",
        "_ws.expert.severity",
    ] {
        tshark.args(["-e", field]);
    }
    let output = match tshark.output() {
        Ok(output) => output,
        Err(error) => {
            return hawser_testing::skip("a capture of RoCE", format!("there is no tshark: {error}"));
        }
    };
    let shown = String::from_utf8_lossy(&output.stdout);
    let mut opcodes = BTreeSet::new();
    assert_eq!(shown.lines().count(), stage.packets.len());
    for line in shown.lines() {
        let [opcode, pad, crc, severity] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("four fields: {line}");
        };
        assert!(
            !crc.is_empty() && !pad.is_empty() && severity.is_empty(),
            "{line}"
        );
        opcodes.insert(opcode.parse::<u8>().expect("a number"));
    }
    // Everything but messages that invalidate a key.
    assert_eq!(opcodes, (0..=20).collect::<BTreeSet<u8>>());
}
