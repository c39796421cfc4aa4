//! Compares packets that the program builds with packets that a C compiler makes from the module's
//! `homa_wire.h`.
//!
//! `cargo xtask long homa-wire CHECKOUT` names a checkout of PlatformLab/HomaModule. `golden.txt` records the
//! compiler's output. It allows tests of the other direction, packets of the module that arrive, without a
//! checkout.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use hawser_engine::{Handle, Notice};
use hawser_testing::{Need, skip};

use super::rules::whole_call;
use super::wire::*;

/// The places of fields, and packets as hexadecimal bytes, by name.
struct Golden(BTreeMap<String, String>);

impl Golden {
    fn new(program: &Path, id: u64, acked: u64) -> Golden {
        let made = Command::new(program)
            .args([id.to_string(), acked.to_string()])
            .output()
            .expect("it runs");
        assert!(made.status.success());
        let text = String::from_utf8(made.stdout).expect("text");
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        Golden(
            lines
                .map(|(name, rest)| (name.to_owned(), rest.to_owned()))
                .collect(),
        )
    }

    fn field(&self, name: &str, (at, len): Field) {
        assert_eq!(self.0[name], format!("{at} {len}"), "{name}");
    }

    /// Compares a header, except its checksum, which the module leaves to the link.
    fn packet(&self, name: &str, packet: &Packet) {
        let mut bytes = packet.bytes[..size(packet.kind())].to_vec();
        bytes[16..18].fill(0);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, self.0[name], "{name}");
    }
}

/// The output of `golden.c` with these arguments.
const RECORDED: &str = include_str!("golden.txt");
const RECORDED_FOR: [u64; 2] = [1000, 998];

/// Returns a recorded packet from the test's port to the stack's, about the call with this number of its
/// sender. Its checksum is 0, as in the module.
fn recorded(name: &str, id: u64) -> Vec<u8> {
    let mut lines = RECORDED.lines().filter_map(|line| line.split_once(' '));
    let (_, hex) = lines.find(|(other, _)| *other == name).expect("it is recorded");
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
    let mut bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
    for ((at, len), value) in [(SPORT, PORT), (DPORT, 80), (SENDER_ID, id)] {
        bytes[at..at + len].copy_from_slice(&value.to_be_bytes()[8 - len..]);
    }
    assert_eq!(bytes[16..18], [0, 0], "the checksum");
    bytes
}

/// Returns a stage with a call of 70,000 bytes under way, the call, and its number at the server.
fn calling() -> (Testbed, Handle, u64) {
    let mut stage = Testbed::new(&[]);
    stage.end.caps.tx_csum = false; // arrivals have no verified checksum
    let call = stage.call(70_000);
    let id = stage.take()[0].get(SENDER_ID) | 1;
    (stage, call, id)
}

#[test]
fn packets_of_the_module_are_taken() {
    let take = |stage: &mut Testbed, bytes: Vec<u8>| {
        stage.put_from(1, &bytes);
        stage.take()
    };
    let (mut stage, _, _) = calling();
    let request = [recorded("data", CALL), vec![1; 10]].concat();
    assert!(kinds(&take(&mut stage, request)).contains(&CUTOFFS));
    assert_eq!(stage.stack.contexts(), 3, "an endpoint and two calls");
    let (mut stage, _, id) = calling();
    let sent = take(&mut stage, recorded("grant", id));
    assert_eq!((kinds(&sent), data_bytes(&sent)), (vec![DATA], 1_000));
    let sent = take(&mut stage, recorded("resend", id));
    assert_eq!((sent[0].get(RETRANSMIT), data_bytes(&sent)), (1, 1_000));
    let (mut stage, _, id) = calling();
    let sent = take(&mut stage, recorded("unknown", id));
    assert_eq!(data_bytes(&sent), 60_000, "it begins anew");
    let (mut stage, call, id) = calling();
    stage.wait(90_000);
    take(&mut stage, recorded("busy", id));
    stage.wait(90_000);
    assert_eq!(stage.end_of(call), None);
    let sent = take(&mut stage, recorded("need_ack", 77));
    assert_eq!(kinds(&sent), [ACK]);
    take(&mut stage, recorded("cutoffs", id));
    stage.call(10);
    assert_eq!(stage.take()[0].get(DATA_CUTOFF_VERSION), 1);
    let mut stage = Testbed::new(&[]);
    let (call, _) = stage.replies(10);
    take(&mut stage, recorded("ack", CALL));
    assert_eq!(stage.end_of(call), Some(&Notice::Closed));
}

/// Compiles `golden.c` against the module's header.
fn compile(checkout: &Path) -> std::path::PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("homa-wire");
    for stub in ["linux/skbuff.h", "net/tcp.h"] {
        let stub = folder.join(stub);
        std::fs::create_dir_all(stub.parent().expect("a folder")).expect("room");
        std::fs::write(stub, "").expect("room");
    }
    let program = folder.join("golden");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/homa/golden.c");
    let status = Command::new("cc")
        .arg("-I")
        .arg(&folder)
        .arg("-I")
        .arg(checkout)
        .arg("-o")
        .args([&program, &source])
        .status()
        .expect("a C compiler");
    assert!(status.success(), "{} compiles", source.display());
    program
}

#[test]
fn packets_equal_those_of_the_homa_modules_header() {
    let Some(checkout) = std::env::var_os("HAWSER_HOMA_MODULE") else {
        skip(
            Need::Long,
            "packets beside homa_wire.h",
            "there is no checkout: cargo xtask long homa-wire",
        );
        return;
    };
    let program = compile(Path::new(&checkout));
    let arguments = RECORDED_FOR.map(|number| number.to_string());
    let made = Command::new(&program).args(arguments).output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&made.stdout), RECORDED, "golden.txt");
    let mut stage = Testbed::new(&[("FIFO_GRANT", 0)]);
    stage.call(70_000);
    let data = stage.take().swap_remove(0);
    let golden = Golden::new(&program, data.get(SENDER_ID), 0);
    golden.packet("data", &data);
    for (name, field) in [
        ("SPORT", SPORT),
        ("DPORT", DPORT),
        ("SEQUENCE", SEQUENCE),
        ("KIND", KIND),
        ("DOFF", DOFF),
        ("SENDER_ID", SENDER_ID),
        ("MESSAGE_LENGTH", MESSAGE_LENGTH),
        ("INCOMING", INCOMING),
        ("ACK_CLIENT_ID", ACK_CLIENT_ID),
        ("ACK_SERVER_PORT", ACK_SERVER_PORT),
        ("DATA_CUTOFF_VERSION", DATA_CUTOFF_VERSION),
        ("RETRANSMIT", RETRANSMIT),
        ("SEGMENT_OFFSET", SEGMENT_OFFSET),
        ("GRANT_OFFSET", GRANT_OFFSET),
        ("GRANT_PRIORITY", GRANT_PRIORITY),
        ("RESEND_OFFSET", RESEND_OFFSET),
        ("RESEND_LENGTH", RESEND_LENGTH),
        ("RESEND_PRIORITY", RESEND_PRIORITY),
        ("UNSCHED_CUTOFFS", UNSCHED_CUTOFFS),
        ("CUTOFF_VERSION", CUTOFF_VERSION),
        ("NUM_ACKS", NUM_ACKS),
        ("ACKS", ACKS),
    ] {
        golden.field(name, field);
    }
    // A data packet with an acknowledgement, and the ACK of the calls that have not been acknowledged yet.
    let (first, _) = whole_call(&mut stage);
    stage.call(70_000);
    let data = stage.take().swap_remove(0);
    Golden::new(&program, data.get(SENDER_ID), first).packet("data", &data);
    let (second, _) = whole_call(&mut stage);
    stage.put(NEED_ACK, &[(SENDER_ID, 77)], &[]);
    Golden::new(&program, 76, second).packet("ack", &stage.take()[0]);
    // Packets about a request: GRANT, CUTOFFS, RESEND; BUSY; NEED_ACK after its reply; and UNKNOWN for an
    // unknown call.
    let golden = Golden::new(&program, CALL | 1, 0);
    let mut stage = Testbed::new(&[("FIFO_GRANT", 0)]);
    stage.request(70_000, 3_000, (1_000, 2_000));
    golden.packet("grant", &stage.take()[0]);
    stage.put(
        DATA,
        &[
            (MESSAGE_LENGTH, 70_000),
            (INCOMING, 3_000),
            (SEGMENT_OFFSET, 1_000),
        ],
        b"x",
    );
    golden.packet("cutoffs", &stage.take()[0]);
    golden.packet("resend", &stage.wait(5_000)[0]);
    let mut stage = Testbed::new(&[]);
    stage.put(RESEND, &[], &[]);
    golden.packet("unknown", &stage.take()[0]);
    stage.request(1, 1, (0, 1));
    stage.take();
    stage.put(RESEND, &[(RESEND_LENGTH, 1)], &[]);
    golden.packet("busy", &stage.take()[0]);
    let (call, _) = stage.accepted();
    assert_eq!(stage.stack.send_message(stage.now, call, b"y"), Ok(true));
    stage.take();
    golden.packet("need_ack", &stage.wait(2_000)[0]);
}
