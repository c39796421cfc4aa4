//! `hawser build --as wireshark`: Wireshark shows what the program built, and no packet makes the script fail.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use hawser_documents::temporary::Folder;
use hawser_testing::{Need, has};
use serde_json::Value;

/// A program, the options by which tshark recognises its packets, and the dissector's name.
struct Program {
    file: &'static str,
    decode_as: &'static [&'static str],
    name: &'static str,
    /// The UDP port that the program uses instead of its IP protocol.
    udp: Option<u16>,
    /// The network between hosts `a` and `b`.
    network: &'static str,
    flows: &'static str,
    /// The kinds of packets, as in the field `kind`. Each must occur in the run.
    kinds: &'static [(&'static str, u64)],
    /// Named kinds that the program never sends.
    never_sent: &'static [&'static str],
    /// Headers that only packets of one kind have: the kind, the field, and the header's name.
    parts: &'static [(&'static str, &'static str, &'static str)],
}

/// A transfer over a lossy link.
const TRANSFER: Program = Program {
    file: "",
    decode_as: &[],
    name: "",
    udp: None,
    network: "[[link]]\nbetween = [\"a\", \"b\"]\nboth = { rate = \"50Mbit/s\", delay = \"5ms\", loss = 0.05 }\n",
    flows: "[[flow]]\nfrom = \"a\"\nto = \"b\"\nbulk = { bytes = \"100KiB\" }\n",
    kinds: &[],
    never_sent: &[],
    parts: &[],
};

/// Calls of a byte, and of up to 400 KB, over a switch with a small buffer and lossy links.
const CALLS: Program = Program {
    network: "[[switch]]\nname = \"s\"\npriorities = 8\nbuffer = \"30kB\"\ntrim_to = 60\n\
              [[link]]\nbetween = [\"a\", \"s\"]\nboth = { rate = \"1Gbit/s\", delay = \"50us\", loss = 0.03 }\n\
              [[link]]\nbetween = [\"s\", \"b\"]\nboth = { rate = \"200Mbit/s\", delay = \"50us\", loss = 0.03 }\n",
    flows: "[[flow]]\nfrom = \"a\"\nto = \"b\"\ncalls = { count = 20, size = 1, reply = 1, interval = \"2ms\" }\n\
            [[flow]]\nfrom = \"a\"\nto = \"b\"\n\
            calls = { count = 5, size = [1, \"400kB\"], reply = [1, \"400kB\"], outstanding = 3 }\n",
    ..TRANSFER
};

const STOP_AND_WAIT: Program = Program {
    file: "examples/stop-and-wait.mtp",
    name: "mtp_stop_and_wait",
    kinds: &[("DATA", 0), ("ACK", 1), ("FIN", 2)],
    ..TRANSFER
};

/// A reader stops, so that the sender probes, and a sender aborts.
const SELECTIVE_REPEAT: Program = Program {
    file: "transports/selective-repeat/selective-repeat.mtp",
    name: "mtp_selective_repeat",
    flows: "[[flow]]\nfrom = \"a\"\nto = \"b\"\nread_stop = \"3s\"\nreceive_buffer = 20000\n\
            bulk = { bytes = \"100KiB\" }\n\
            [[flow]]\nfrom = \"a\"\nto = \"b\"\nabort = { by = \"client\", after = 20000 }\n\
            bulk = { bytes = \"100KiB\" }\n",
    kinds: &[
        ("OPEN", 0),
        ("OPENED", 1),
        ("DATA", 2),
        ("FIN", 3),
        ("ACK", 4),
        ("PROBE", 5),
        ("RESET", 6),
    ],
    ..TRANSFER
};

const TCP: Program = Program {
    file: "transports/tcp/tcp.mtp",
    decode_as: &["-d", "ip.proto==6,mtp_tcp"],
    name: "mtp_tcp",
    ..TRANSFER
};

const ROCE: Program = Program {
    file: "transports/roce/roce.mtp",
    decode_as: &["-d", "udp.port==4791,mtp_roce"],
    name: "mtp_roce",
    flows: "[[flow]]\nfrom = \"a\"\nto = \"b\"\nworks = { count = 30, size = [1, 5000], both_ways = true }\n",
    ..TRANSFER
};

/// The kinds and their parts are those of the Linux module: PlatformLab/HomaModule at 9edb9589,
/// `homa_wire.h`.
const HOMA: Program = Program {
    file: "transports/homa/homa.mtp",
    name: "mtp_homa",
    kinds: &[
        ("DATA", 0x10),
        ("GRANT", 0x11),
        ("RESEND", 0x12),
        ("UNKNOWN", 0x13),
        ("BUSY", 0x14),
        ("CUTOFFS", 0x15),
        ("NEED_ACK", 0x17),
        ("ACK", 0x18),
    ],
    // A tool for debugging the module, which the program drops (transports/homa/README.md).
    never_sent: &["FREEZE"],
    parts: &[
        ("DATA", "part", "part_t"),
        ("DATA", "ack", "ack_t"),
        ("GRANT", "grant", "grant_t"),
        ("RESEND", "resend", "resend_t"),
        ("CUTOFFS", "levels", "levels_t"),
        ("CUTOFFS", "cutoffs", "cutoffs_t"),
        ("ACK", "acks", "acks_t"),
        ("ACK", "one", "ack_t"),
        ("ACK", "two", "ack_t"),
        ("ACK", "three", "ack_t"),
        ("ACK", "four", "ack_t"),
        ("ACK", "five", "ack_t"),
    ],
    ..CALLS
};

const NDP: Program = Program {
    file: "transports/ndp/ndp.mtp",
    name: "mtp_ndp",
    kinds: &[("DATA", 1), ("ACK", 2), ("NACK", 3), ("PULL", 4)],
    ..CALLS
};

const PROGRAMS: [Program; 7] = [
    STOP_AND_WAIT,
    Program { udp: Some(40_000), ..STOP_AND_WAIT },
    Program {
        file: "examples/go-back-n.mtp",
        name: "mtp_go_back_n",
        kinds: &[("OPEN", 0), ("DATA", 1), ("FIN", 2), ("ACK", 3)],
        ..TRANSFER
    },
    TCP,
    SELECTIVE_REPEAT,
    HOMA,
    NDP,
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn hawser(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_hawser"))
        .args(args)
        .output()
        .expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {error}");
    String::from_utf8(output.stdout).expect("text")
}

/// The files of a program's run: its scenario, its capture and the dissector.
struct Run {
    folder: Folder,
    scenario: String,
    capture: String,
    script: String,
}

impl Run {
    fn new(program: &Program) -> Run {
        let folder = Folder::new().expect("a folder");
        let path = |name: &str| folder.join(name).to_str().expect("a path").to_owned();
        let (scenario, capture, script) = (path("run.toml"), path("run.pcap"), path("own.lua"));
        let mut file = root().join(program.file);
        if let Some(port) = program.udp {
            let text = std::fs::read_to_string(&file).expect("the program");
            file = folder.join(file.file_name().expect("a name"));
            let in_udp = text.replace("ip(253)", &format!("udp({port})"));
            assert_ne!(text, in_udp);
            std::fs::write(&file, in_udp).expect("a file");
        }
        let text = format!(
            "name = \"run\"\nduration = \"60s\"\nprogram = {file:?}\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n\
             {}{}",
            program.network, program.flows
        );
        std::fs::write(&scenario, text).expect("a file");
        hawser(&["sim", "run", &scenario, "--pcap", &capture]);
        hawser(&[
            "build",
            "--as",
            "wireshark",
            file.to_str().expect("a path"),
            "-o",
            &script,
        ]);
        Run { folder, scenario, capture, script }
    }
}

/// Runs tshark on a capture and returns its output. The result is `None` without tshark.
fn tshark(program: &Program, run: &Run, capture: &str, args: &[&str]) -> String {
    let output = Command::new("tshark")
        .args(["-r", capture, "-X", &format!("lua_script:{}", run.script)])
        .args(program.decode_as)
        .args(args)
        .output()
        .expect("tshark starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !text.contains("Lua Error") && !error.contains("Lua"),
        "{error}{text:.2000}"
    );
    text
}

/// A packet's fields by Wireshark's names. A repeated field has all its values.
type Fields = BTreeMap<String, Vec<String>>;

fn put(into: &mut Fields, name: String, value: String) {
    into.entry(name).or_default().push(value);
}

/// Collects the fields of a header from a trace.
fn flatten(program: &Program, kind: &str, name: &str, fields: &Value, into: &mut Fields) {
    let top = program.name;
    let place = |(field, _): &(&String, &Value)| {
        let is_it = |part: &(&str, &str, &str)| part.0 == kind && part.1 == field.as_str();
        program.parts.iter().position(is_it)
    };
    // A trace orders fields by name, but parts are compared in their order on the wire.
    let mut fields_in_order: Vec<(&String, &Value)> = fields.as_object().expect("fields").iter().collect();
    fields_in_order.sort_by_key(place);
    for (field, value) in fields_in_order {
        let part = |part: &&(&str, &str, &str)| part.0 == kind && part.1 == field;
        match value {
            // The options of a list, by name. Wireshark's fields omit padding.
            Value::Array(options) => options.iter().for_each(|option| {
                let (member, fields) = option
                    .as_object()
                    .and_then(|one| one.iter().next())
                    .expect("an option");
                if member != "no_operation" {
                    flatten(program, kind, &format!("{top}.{member}"), fields, into);
                }
            }),
            Value::Object(_) if field == "data" => {
                put(into, format!("{top}.data.len"), value["len"].to_string());
            }
            // A SACK block exists only if the option is long enough (RFC 2018, 3).
            Value::Object(_) if name.ends_with(".sack") => {
                let blocks = (fields["len"].as_u64().expect("a length") - 2) / 8;
                let place = ["a", "b", "c", "d"].iter().position(|known| known == field);
                if place.is_some_and(|place| (place as u64) < blocks) {
                    flatten(program, kind, &format!("{top}.sack_block"), value, into);
                }
            }
            // A conditional part of a header.
            Value::Object(_) => {
                if let Some((.., header)) = program.parts.iter().find(part) {
                    flatten(program, kind, &format!("{top}.{header}"), value, into);
                }
            }
            Value::Bool(flag) => put(into, format!("{name}.{field}"), u8::from(*flag).to_string()),
            Value::Number(number) => put(into, format!("{name}.{field}"), number.to_string()),
            Value::String(text) => {
                let known = program.kinds.iter().find(|(name, _)| name == text);
                let (_, number) = known.unwrap_or_else(|| panic!("{top} has no kind {text}"));
                put(into, format!("{name}.{field}"), number.to_string());
            }
            Value::Null => panic!("{name}.{field} has no value"),
        }
    }
}

#[test]
fn wireshark_shows_the_fields_the_program_built() {
    if !has("wireshark_shows_the_fields_the_program_built", &[Need::Tshark]) {
        return;
    }
    for program in &PROGRAMS {
        let run = Run::new(program);
        let rows = hawser(&["sim", "trace", &run.scenario, "--packets", "--json"]);
        let rows = rows
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("an object"));
        let sent: Vec<Value> = rows.filter(|row| row["sent"].is_u64()).collect();
        let packets: Vec<Fields> = sent
            .iter()
            .map(|row| {
                let mut fields = Fields::new();
                for header in row["headers"].as_array().expect("a list") {
                    let name = header[0].as_str().expect("a name").to_lowercase();
                    let name = format!("{}.{name}", program.name);
                    flatten(program, kind_of(row), &name, &header[1], &mut fields);
                }
                fields
            })
            .collect();
        every_kind_occurs(program, &sent);
        let names: BTreeSet<&String> = packets.iter().flat_map(BTreeMap::keys).collect();
        let mut args = vec!["-T", "fields", "-E", "occurrence=a", "-E", "aggregator=,"];
        names.iter().for_each(|name| args.extend(["-e", name]));
        let shown = tshark(program, &run, &run.capture, &args);
        assert_eq!(
            shown.lines().count(),
            packets.len(),
            "{}: {shown:.500}",
            program.name
        );
        let mut compared = 0;
        for ((line, packet), row) in shown.lines().zip(&packets).zip(&sent) {
            for (name, found) in names.iter().zip(line.split('\t')) {
                let expected = packet
                    .get(*name)
                    .map_or_else(String::new, |values| values.join(","));
                let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
                let is_same =
                    expected == found || found.starts_with("0x") && number(found) == expected.parse().ok();
                assert!(is_same, "{name} is {found:?}, and {expected:?} was built: {row}");
                compared += 1;
            }
        }
        assert!(compared > 500, "{}: {compared}", program.name);
        let has_blocks = names.iter().any(|name| name.contains("sack_block.from"));
        assert_eq!(
            has_blocks,
            program.name == "mtp_tcp",
            "what is lost is reported in blocks"
        );
    }
}

/// Returns the kind of a packet, or an empty text if the program has no kinds.
fn kind_of(row: &Value) -> &str {
    row["headers"][0][1]["kind"].as_str().unwrap_or_default()
}

/// Checks that the run has packets of every kind in the program's text, except those that it never sends.
fn every_kind_occurs(program: &Program, sent: &[Value]) {
    let found: BTreeSet<&str> = sent.iter().map(kind_of).filter(|kind| !kind.is_empty()).collect();
    let expected: BTreeSet<&str> = program.kinds.iter().map(|(name, _)| *name).collect();
    assert_eq!(found, expected, "{}", program.file);
    let file = root().join(program.file);
    // A larger program defines its wire format in a file of its own.
    let wire = file.with_file_name("wire.mtp");
    let file = if wire.exists() { wire } else { file };
    let text = std::fs::read_to_string(file).expect("the program");
    let named = text.lines().find_map(|line| line.strip_prefix("enum kind_t"));
    let named = named.map_or_else(BTreeSet::new, |line| {
        let words = line.split(|letter: char| !(letter.is_ascii_uppercase() || letter == '_'));
        words.filter(|word| !word.is_empty()).collect()
    });
    let known = expected
        .into_iter()
        .chain(program.never_sent.iter().copied())
        .collect();
    assert_eq!(named, known, "{}", program.file);
}

/// RFC 1071: every checksum of a run is correct, and a changed one is not. Enums are shown by name, and
/// numbers are relative to the first in their direction.
#[test]
fn sums_are_verified_and_numbers_are_relative() {
    if !has("sums_are_verified_and_numbers_are_relative", &[Need::Tshark]) {
        return;
    }
    let program = &TCP;
    let run = Run::new(program);
    let args = [
        "-T",
        "fields",
        "-e",
        "mtp_tcp.tcpbp.checksum.status",
        "-e",
        "mtp_tcp.tcpbp.seq.relative",
        "-e",
    ];
    let args = [
        &args[..],
        &["mtp_tcp.tcpbp.ack.relative", "-e", "mtp_tcp.tcpbp.source_port"],
    ]
    .concat();
    let shown = tshark(program, &run, &run.capture, &args);
    // tshark's own dissector of TCP counts in the same way.
    let own = Command::new("tshark")
        .args([
            "-r",
            &run.capture,
            "-T",
            "fields",
            "-e",
            "tcp.seq",
            "-e",
            "tcp.ack",
            "-e",
            "tcp.srcport",
        ])
        .output()
        .expect("it ran before");
    let own = String::from_utf8(own.stdout).expect("text");
    assert!(shown.lines().count() > 100 && shown.lines().count() == own.lines().count());
    for (line, own) in shown.lines().zip(own.lines()).skip(1) {
        let (status, numbers) = line.split_once('\t').expect("two fields");
        assert_eq!((status, numbers), ("good", own));
    }
    let first = &STOP_AND_WAIT;
    let run = Run::new(first);
    let mut bytes = std::fs::read(&run.capture).expect("a capture");
    bytes[24 + 16 + 20 + 8] ^= 1; // A bit of the first packet's sequence number.
    let changed = run.folder.join("changed.pcap");
    std::fs::write(&changed, bytes).expect("a file");
    let args = [
        "-T",
        "fields",
        "-e",
        "mtp_stop_and_wait.sw.sum.status",
        "-e",
        "_ws.col.Info",
    ];
    let shown = tshark(first, &run, changed.to_str().expect("a path"), &args);
    let rows: Vec<(&str, &str)> = shown.lines().filter_map(|line| line.split_once('\t')).collect();
    assert_eq!(rows[0].0, "bad");
    assert!(
        rows[1..].iter().all(|(status, _)| *status == "good"),
        "{shown:.500}"
    );
    assert!(
        rows.iter().any(|(_, info)| info.contains("DATA ")),
        "{shown:.500}"
    );
}

/// InfiniBand's invariant CRC also covers headers before the program's own: IP and UDP.
#[test]
fn invariant_crcs_are_verified() {
    if !has("invariant_crcs_are_verified", &[Need::Tshark]) {
        return;
    }
    let run = Run::new(&ROCE);
    let status = ["-T", "fields", "-e", "mtp_roce.roce_packet.icrc.status"];
    let shown = tshark(&ROCE, &run, &run.capture, &status);
    assert!(shown.lines().count() > 100, "{shown:.500}");
    assert!(shown.lines().all(|status| status == "good"), "{shown:.500}");
    // Three bytes of the first packet: in the IP identification, which the CRC covers; in the time to live,
    // which it does not; and after the first header.
    for (at, expected) in [(4, "bad"), (8, "good"), (20 + 8 + 12 + 4, "bad")] {
        let mut bytes = std::fs::read(&run.capture).expect("a capture");
        bytes[24 + 16 + at] ^= 1;
        let changed = run.folder.join("changed.pcap");
        std::fs::write(&changed, bytes).expect("a file");
        let shown = tshark(&ROCE, &run, changed.to_str().expect("a path"), &status);
        let statuses: Vec<&str> = shown.lines().collect();
        assert_eq!(statuses[0], expected, "{at}");
        assert!(statuses[1..].iter().all(|status| *status == "good"), "{at}");
    }
}

/// NDP's switches trim packets to their first bytes, but leave the length in the IP header unchanged. The
/// header is dissected, and no unverifiable checksum is reported as wrong.
#[test]
fn headers_of_cut_packets_are_read() {
    if !has("headers_of_cut_packets_are_read", &[Need::Tshark]) {
        return;
    }
    const CUT: usize = 60;
    let run = Run::new(&NDP);
    let bytes = std::fs::read(&run.capture).expect("a capture");
    let (mut cut, mut at, mut lengths) = (bytes[..24].to_vec(), 24, Vec::new());
    while at < bytes.len() {
        let len = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().expect("4 bytes")) as usize;
        lengths.push(len);
        write_bytes(&mut cut, &bytes[at + 16..at + 16 + len.min(CUT)]);
        at += 16 + len;
    }
    let file = run.folder.join("cut.pcap");
    std::fs::write(&file, cut).expect("a file");
    let fields =
        ["kind", "number", "first", "segment", "sum.status"].map(|name| format!("mtp_ndp.ndp_packet.{name}"));
    let mut args = vec!["-T", "fields"];
    fields.iter().for_each(|name| args.extend(["-e", name]));
    let whole = tshark(&NDP, &run, &run.capture, &args);
    let shown = tshark(&NDP, &run, file.to_str().expect("a path"), &args);
    assert_eq!(shown.lines().count(), lengths.len());
    for ((line, whole), len) in shown.lines().zip(whole.lines()).zip(&lengths) {
        let expected = match *len > CUT {
            true => whole.replace("good", "unverified"),
            false => whole.to_owned(),
        };
        assert_eq!(line, expected);
    }
    let short = lengths.iter().filter(|len| **len <= CUT).count();
    assert!(short > 100 && lengths.len() - short > 100);
}

/// Fuzzes with truncated, changed and random packets.
#[test]
fn the_dissector_survives_mutated_packets() {
    if !has("the_dissector_survives_mutated_packets", &[Need::Tshark]) {
        return;
    }
    let mut rng = fastrand::Rng::with_seed(7);
    for program in &PROGRAMS {
        let run = Run::new(program);
        let bytes = std::fs::read(&run.capture).expect("a capture");
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes")) as usize;
        let (mut fuzzed, mut at) = (bytes[..24].to_vec(), 24);
        // A few hundred packets from the whole run.
        let one_of = 1 + bytes.len() / 150_000;
        for count in 0.. {
            if at >= bytes.len() {
                break;
            }
            let mut packet = bytes[at + 16..at + 16 + number(at + 8)].to_vec();
            at += 16 + packet.len();
            if count % one_of != 0 {
                continue;
            }
            for _ in 0..4 {
                let mut packet = packet.clone();
                for _ in 0..rng.usize(1..8) {
                    let place = rng.usize(20..packet.len().clamp(21, 80));
                    packet[place] = rng.u8(..);
                }
                packet.truncate(rng.usize(20..=packet.len()));
                write(&mut fuzzed, packet);
            }
            packet[20..].fill_with(|| rng.u8(..));
            write(&mut fuzzed, packet);
        }
        let file = run.folder.join("fuzzed.pcap");
        std::fs::write(&file, fuzzed).expect("a file");
        let shown = tshark(program, &run, file.to_str().expect("a path"), &["-V"]);
        assert!(
            shown.contains("Malformed") && shown.contains("does not match"),
            "{}",
            program.name
        );
    }
}

/// Writes an IPv4 packet with the actual length in its header.
fn write(capture: &mut Vec<u8>, mut packet: Vec<u8>) {
    let len = packet.len() as u16;
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    write_bytes(capture, &packet);
}

fn write_bytes(capture: &mut Vec<u8>, packet: &[u8]) {
    let len = packet.len() as u32;
    for field in [1, 0, len, len] {
        capture.extend_from_slice(&field.to_le_bytes());
    }
    capture.extend_from_slice(packet);
}

#[test]
fn a_program_without_packets_has_no_dissector() {
    let folder = Folder::new().expect("a folder");
    let file = folder.join("part.mtp");
    std::fs::write(&file, "const uint32 A = 1;\n").expect("a file");
    let output = Command::new(env!("CARGO_BIN_EXE_hawser"))
        .args(["build", "--as", "wireshark"])
        .arg(&file)
        .output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("receives no packets"), "{error}");
}
