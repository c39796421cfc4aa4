//! RFC 9293's states × segments: a script for each cell of transports/tcp/scripts/RFC9293/states.txt, on both
//! engines. `STATES_INTO=folder` saves the scripts.

use std::fmt::Write as _;
use std::path::Path;

use hawser_load::{Engine, LoadedProgram};
use hawser_testkit::script::{IpVersion, Leniency, RunTarget, ScriptEnvironment, Table, run};

const TABLE: &str = include_str!("../../../../transports/tcp/scripts/RFC9293/states.txt");
const POSITIONS: [&str; 5] = ["below", "at", "within", "edge", "beyond"];
/// The first number outside the window, which the SYN announces as 65535 from number 1 on.
const WINDOW_END: u32 = 65536;
/// The bytes of a segment with data.
const DATA: u32 = 100;

const SHUT: &str = "   +0 shutdown(3, SHUT_WR) = 0\n";

/// A state: the script that reaches it, and its SND.UNA, SND.NXT and RCV.NXT.
struct Start {
    script: String,
    una: u32,
    next: u32,
    expected: u32,
}

fn start(state: &str) -> Start {
    let mut script = String::from(
        "`sysctl -q net.ipv4.tcp_timestamps=0 net.ipv4.tcp_sack=0 net.ipv4.tcp_window_scaling=0`\n\n",
    );
    match state {
        "CLOSED" => script.push_str("    0 `true`\n"),
        "LISTEN" => script.push_str(
            "    0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n   +0 bind(3, ..., ...) = 0\n   +0 listen(3, 1) = 0\n",
        ),
        _ => {
            script.push_str("    0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n");
            script.push_str("   +0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0\n");
            script.push_str("   +0 connect(3, ..., ...) = -1 EINPROGRESS (Operation now in progress)\n");
            script.push_str("   +0 > S 0:0(0) <...>\n");
        }
    }
    let steps: &[&str] = match state {
        "CLOSED" | "LISTEN" | "SYN-SENT" => &[],
        "SYN-RECEIVED" => &["  +.1 < S 0:0(0) win 65535 <mss 1460>\n   +0 > S. 0:0(0) ack 1 <...>\n"],
        _ => &["  +.1 < S. 0:0(0) ack 1 win 65535 <mss 1460>\n   +0 > . 1:1(0) ack 1\n"],
    };
    steps.iter().for_each(|step| script.push_str(step));
    let closes = "   +0 > F. 1:1(0) ack 1\n";
    let peer_closes = "  +.1 < F. 1:1(0) ack 1 win 65535\n";
    let (una, next, expected) = match state {
        "CLOSED" | "LISTEN" => (1, 1, 1),
        "SYN-SENT" => (0, 1, 1),
        "SYN-RECEIVED" => (0, 1, 1),
        "ESTABLISHED" => (1, 1, 1),
        "FIN-WAIT-1" => {
            let _ = write!(script, "{SHUT}{closes}");
            (1, 2, 1)
        }
        "FIN-WAIT-2" => {
            let _ = writeln!(script, "{SHUT}{closes}  +.1 < . 1:1(0) ack 2 win 65535");
            (2, 2, 1)
        }
        "CLOSE-WAIT" => {
            let _ = writeln!(script, "{peer_closes}   +0 > . 1:1(0) ack 2");
            (1, 1, 2)
        }
        "CLOSING" => {
            let _ = writeln!(script, "{SHUT}{closes}{peer_closes}   +0 > . 2:2(0) ack 2");
            (1, 2, 2)
        }
        "LAST-ACK" => {
            let _ = writeln!(
                script,
                "{peer_closes}   +0 > . 1:1(0) ack 2\n{SHUT}   +0 > F. 1:1(0) ack 2"
            );
            (1, 2, 2)
        }
        "TIME-WAIT" => {
            let _ = writeln!(
                script,
                "{SHUT}{closes}  +.1 < F. 1:1(0) ack 2 win 65535\n   +0 > . 2:2(0) ack 2"
            );
            (2, 2, 2)
        }
        _ => panic!("no state {state}"),
    };
    Start { script, una, next, expected }
}

fn in_tcp_info(state: &str) -> &'static str {
    match state {
        "SYN-SENT" => "TCP_SYN_SENT",
        "SYN-RECEIVED" => "TCP_SYN_RECV",
        "ESTABLISHED" => "TCP_ESTABLISHED",
        "FIN-WAIT-1" => "TCP_FIN_WAIT1",
        "FIN-WAIT-2" => "TCP_FIN_WAIT2",
        "CLOSE-WAIT" => "TCP_CLOSE_WAIT",
        "CLOSING" => "TCP_CLOSING",
        "LAST-ACK" => "TCP_LAST_ACK",
        "TIME-WAIT" => "TCP_TIME_WAIT",
        "CLOSED" => "TCP_CLOSE",
        _ => panic!("no state {state}"),
    }
}

/// Returns the script of one cell.
fn script(state: &str, kind: &str, position: &str, cell: &str) -> String {
    let (answer, then) = cell.split_at(1);
    let then = then.strip_prefix('>').unwrap_or(state);
    let Start { mut script, una, next, mut expected } = start(state);
    let seq = match position {
        "below" => expected.wrapping_sub(1000),
        "at" => expected,
        "within" => expected + 1000,
        "edge" => WINDOW_END - 1,
        "beyond" => WINDOW_END,
        _ => panic!("no position {position}"),
    };
    let (flags, acknowledged) = match kind {
        "syn" => ("S", None),
        "syn-ack" => ("S.", Some(next)),
        "ack" => (".", Some(una)),
        "ack-all" => (".", Some(next)),
        "future" => (".", Some(next + 1000)),
        "fin" => ("F.", Some(una)),
        "fin-noack" => ("F", None),
        "data" => (".", Some(una)),
        "data-noack" => ("P", None),
        "rst" => ("R", None),
        "rst-ack" => ("R.", Some(next)),
        _ => panic!("no segment {kind}"),
    };
    let len = if kind.starts_with("data") { DATA } else { 0 };
    let end = seq.wrapping_add(len);
    let ack = acknowledged.map_or(String::new(), |ack| format!(" ack {ack}"));
    let _ = writeln!(script, "\n  +.1 < {flags} {seq}:{end}({len}){ack} win 65535");
    // A script's numbers count from the latest SYN of their side.
    let begins = flags.starts_with('S');
    match state {
        "SYN-SENT" if begins => expected = 1,
        "SYN-RECEIVED" if begins => expected = expected.wrapping_sub(seq),
        _ => {}
    }
    let _ = match answer {
        "-" | "?" => Ok(()),
        "A" => writeln!(script, "   +0 > . {next}:{next}(0) ack {expected}"),
        "S" => writeln!(script, "   +0 > S. 0:0(0) ack {} <...>", seq.wrapping_add(1)),
        "R" => match acknowledged {
            Some(ack) => writeln!(script, "   +0 > R {ack}:{ack}(0)"),
            None if begins => writeln!(script, "   +0 > R. 0:0(0) ack 1"),
            None => {
                let fin = u32::from(flags.contains('F'));
                writeln!(script, "   +0 > R. 0:0(0) ack {}", end.wrapping_add(fin))
            }
        },
        "D" => {
            expected = end;
            writeln!(script, "   +0~+.5 > . {next}:{next}(0) ack {expected}")
        }
        "F" => {
            expected += 1;
            writeln!(script, "   +0 > . {next}:{next}(0) ack {expected}")
        }
        _ => panic!("no answer {answer}"),
    };
    let no_state = state == "CLOSED" || state == "LISTEN";
    if !no_state {
        let name = in_tcp_info(then);
        let _ = writeln!(script, "   +0 %{{ assert tcpi_state == {name}, tcpi_state }}%");
    }
    if answer == "?" || (begins && no_state) {
        return script; // the sent packet is unknown, or the connection is another one
    }
    let known = match then {
        "CLOSED" | "LISTEN" | "SYN-SENT" => {
            "  +.1 < . 1:1(0) ack 5000 win 65535\n   +0 > R 5000:5000(0)\n".to_owned()
        }
        _ => {
            let from = expected.wrapping_sub(2000);
            let to = from.wrapping_add(1);
            format!(
                "  +.1 < . {from}:{to}(1) ack {una} win 65535\n   +0 > . {next}:{next}(0) ack {expected}\n"
            )
        }
    };
    script + &known
}

/// Returns all scripts with their names.
fn scripts() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for line in TABLE
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let [state, kind, cells @ ..] = &line.split_whitespace().collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        assert_eq!(cells.len(), POSITIONS.len(), "{line}");
        for (position, cell) in POSITIONS.iter().zip(cells) {
            let name = format!("{state}-{kind}-{position}").to_lowercase();
            let body = script(state, kind, position, cell);
            let head = format!("// RFC 9293, 3.10.7: {state}, {kind} {position}: {cell}\n");
            all.push((name, head + &body));
        }
    }
    all
}

fn run_all(engine: Engine) {
    let program = LoadedProgram::open("tcp", Some(engine)).expect("it comes with Hawser");
    let table = Table::parse(hawser_load::script_table("tcp").expect("its table")).expect("a good table");
    let bench = ScriptEnvironment {
        program: &|params| program.with(params),
        table: &table,
        read: &|_| None,
        defines: Default::default(),
        version: IpVersion::V4,
        target: RunTarget::Sim,
        system: None,
        leniency: Leniency::default(),
        observe: None,
    };
    let scripts = scripts();
    assert!(scripts.len() >= 400, "only {} scripts", scripts.len());
    let mut failures = Vec::new();
    for (name, text) in &scripts {
        let report = run(text, Path::new("."), &bench);
        if !report.passed() {
            failures.push(report.explain(name));
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {} scripts:\n{}",
        failures.len(),
        scripts.len(),
        failures.join("\n")
    );
}

#[test]
fn every_state_and_segment_passes_on_the_interpreter() {
    run_all(Engine::Interp);
}

#[test]
fn every_state_and_segment_passes_as_machine_code() {
    run_all(Engine::Native);
}

#[test]
fn the_scripts_can_be_saved_for_a_reader() {
    let Some(folder) = std::env::var_os("STATES_INTO") else {
        return;
    };
    std::fs::create_dir_all(&folder).expect("a folder");
    for (name, text) in scripts() {
        std::fs::write(Path::new(&folder).join(name + ".pkt"), text).expect("a file");
    }
}
