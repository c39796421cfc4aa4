//! `hawser dissector`: Wireshark shows what the program built, and nothing that comes makes the script fail.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use hawser_temporary::Folder;
use serde_json::Value;

/// A program, the options by which tshark takes its packets for its own, and the dissector's name.
struct Program {
    file: &'static str,
    decode_as: &'static [&'static str],
    name: &'static str,
    /// The UDP port that it takes instead of its IP protocol.
    udp: Option<u16>,
}

const PROGRAMS: [Program; 5] = [
    Program {
        file: "examples/stop-and-wait.mtp",
        decode_as: &[],
        name: "mtp_stop_and_wait",
        udp: None,
    },
    Program {
        file: "examples/stop-and-wait.mtp",
        decode_as: &[],
        name: "mtp_stop_and_wait",
        udp: Some(40_000),
    },
    Program {
        file: "examples/go-back-n.mtp",
        decode_as: &[],
        name: "mtp_go_back_n",
        udp: None,
    },
    Program {
        file: "transports/tcp/tcp.mtp",
        decode_as: &["-d", "ip.proto==6,mtp_tcp"],
        name: "mtp_tcp",
        udp: None,
    },
    Program {
        file: "transports/selective-repeat/selective-repeat.mtp",
        decode_as: &[],
        name: "mtp_selective_repeat",
        udp: None,
    },
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

/// A run of a program: its scenario, its capture and the dissector, as paths.
struct Run {
    folder: Folder,
    scenario: String,
    capture: String,
    script: String,
}

impl Run {
    fn of(program: &Program) -> Run {
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
             [[link]]\nbetween = [\"a\", \"b\"]\nboth = {{ rate = \"50Mbit/s\", delay = \"5ms\", loss = 0.05 }}\n\
             [[flow]]\nfrom = \"a\"\nto = \"b\"\nbulk = {{ bytes = \"100KiB\" }}\n"
        );
        std::fs::write(&scenario, text).expect("a file");
        hawser(&["sim", &scenario, "--pcap", &capture]);
        hawser(&["dissector", file.to_str().expect("a path"), "-o", &script]);
        Run {
            folder,
            scenario,
            capture,
            script,
        }
    }
}

/// What tshark prints of a capture, on both outputs; nothing where there is no tshark.
fn tshark(program: &Program, run: &Run, capture: &str, args: &[&str]) -> Option<String> {
    let output = Command::new("tshark")
        .args(["-r", capture, "-X", &format!("lua_script:{}", run.script)])
        .args(program.decode_as)
        .args(args)
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !text.contains("Lua Error") && !error.contains("Lua"),
        "{error}{text:.2000}"
    );
    Some(text)
}

/// Fields of a packet by the names of Wireshark, from a trace. Of a repeated one all values, with commas.
fn flatten(name: &str, fields: &Value, into: &mut BTreeMap<String, Vec<String>>) {
    for (field, value) in fields.as_object().expect("fields") {
        match value {
            // What stands in an option list, by the name of each option; padding is not kept there.
            Value::Array(options) => options.iter().for_each(|option| {
                let (member, fields) = option
                    .as_object()
                    .and_then(|one| one.iter().next())
                    .expect("an option");
                let top = name.split_once('.').expect("a path").0;
                if member != "no_operation" {
                    flatten(&format!("{top}.{member}"), fields, into);
                }
            }),
            Value::Object(_) if field == "data" => {
                let top = name.split_once('.').expect("a path").0;
                into.entry(format!("{top}.data.len"))
                    .or_default()
                    .push(value["len"].to_string());
            }
            // A block of SACK is there where the option is as long as that (RFC 2018, 3).
            Value::Object(_) if name.ends_with(".sack") => {
                let blocks = (fields["len"].as_u64().expect("a length") - 2) / 8;
                let place = ["a", "b", "c", "d"].iter().position(|known| known == field);
                if place.is_some_and(|place| (place as u64) < blocks) {
                    let top = name.split_once('.').expect("a path").0;
                    flatten(&format!("{top}.sack_block"), value, into);
                }
            }
            Value::Object(_) => {} // a part that is there on a condition
            Value::Bool(flag) => into
                .entry(format!("{name}.{field}"))
                .or_default()
                .push(u8::from(*flag).to_string()),
            Value::Number(number) => into
                .entry(format!("{name}.{field}"))
                .or_default()
                .push(number.to_string()),
            _ => {}
        }
    }
}

#[test]
fn wireshark_shows_what_the_program_built() {
    for program in &PROGRAMS {
        let run = Run::of(program);
        let rows = hawser(&["trace", &run.scenario, "--packets", "--json"]);
        let rows = rows
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("an object"));
        let sent: Vec<Value> = rows.filter(|row| row["sent"].is_u64()).collect();
        let packets: Vec<BTreeMap<String, Vec<String>>> = sent
            .iter()
            .map(|row| {
                let mut fields = BTreeMap::new();
                for header in row["headers"].as_array().expect("a list") {
                    let name = header[0].as_str().expect("a name").to_lowercase();
                    flatten(&format!("{}.{name}", program.name), &header[1], &mut fields);
                }
                fields
            })
            .collect();
        let names: std::collections::BTreeSet<&String> = packets.iter().flat_map(BTreeMap::keys).collect();
        let mut args = vec!["-T", "fields", "-E", "occurrence=a", "-E", "aggregator=,"];
        names.iter().for_each(|name| args.extend(["-e", name]));
        let Some(shown) = tshark(program, &run, &run.capture, &args) else {
            println!("skipped: wireshark_shows_what_the_program_built: there is no tshark");
            return;
        };
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

/// RFC 1071: every sum of a run is right, and one that is changed is not. Enums have their names, and numbers count from
/// the first of their direction.
#[test]
fn sums_are_verified_and_numbers_are_relative() {
    let program = &PROGRAMS[2];
    let run = Run::of(program);
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
    let Some(shown) = tshark(program, &run, &run.capture, &args) else {
        println!("skipped: sums_are_verified_and_numbers_are_relative: there is no tshark");
        return;
    };
    // tshark's own dissector of TCP counts alike.
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
    for (line, own) in shown.lines().zip(own.lines()).skip(1) {
        let (status, numbers) = line.split_once('\t').expect("two fields");
        assert_eq!((status, numbers), ("good", own));
    }
    let first = &PROGRAMS[0];
    let run = Run::of(first);
    let mut bytes = std::fs::read(&run.capture).expect("a capture");
    bytes[24 + 16 + 20 + 8] ^= 1; // of the first packet, a bit of its number
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
    let shown = tshark(first, &run, changed.to_str().expect("a path"), &args).expect("there is tshark");
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

/// Packets that are cut, changed and made of noise.
#[test]
fn no_packet_makes_the_script_fail() {
    let mut rng = fastrand::Rng::with_seed(7);
    for program in &PROGRAMS {
        let run = Run::of(program);
        let bytes = std::fs::read(&run.capture).expect("a capture");
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes")) as usize;
        let (mut fuzzed, mut at) = (bytes[..24].to_vec(), 24);
        while at < bytes.len() {
            let mut packet = bytes[at + 16..at + 16 + number(at + 8)].to_vec();
            at += 16 + packet.len();
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
        let Some(shown) = tshark(program, &run, file.to_str().expect("a path"), &["-V"]) else {
            println!("skipped: no_packet_makes_the_script_fail: there is no tshark");
            return;
        };
        assert!(
            shown.contains("Malformed") && shown.contains("does not match"),
            "{}",
            program.name
        );
    }
}

/// A packet of IPv4 whose header says how long it is.
fn write(capture: &mut Vec<u8>, mut packet: Vec<u8>) {
    let len = packet.len() as u16;
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    for field in [1, 0, u32::from(len), u32::from(len)] {
        capture.extend_from_slice(&field.to_le_bytes());
    }
    capture.extend_from_slice(&packet);
}

#[test]
fn a_program_without_packets_has_none() {
    let folder = Folder::new().expect("a folder");
    let file = folder.join("part.mtp");
    std::fs::write(&file, "const uint32 A = 1;\n").expect("a file");
    let output = Command::new(env!("CARGO_BIN_EXE_hawser"))
        .arg("dissector")
        .arg(&file)
        .output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("takes no packets"), "{error}");
}
