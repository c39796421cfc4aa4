//! Works of queue pairs: they write, read and change memory, and send messages.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // Tests read the repository and start tshark.

use std::collections::BTreeSet;
use std::fs;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use hawser_engine::program::Program;
use hawser_load::Engine;
use hawser_load::programs::resolve_with_on;
use hawser_sim::watch::{RunSample, SampleRequest};
use hawser_sim::{Options, Report, ResolveError, Scenario, run};
use hawser_testing::{Need, skip};

/// Both programs: go-back-N and selective repeat.
const PROGRAMS: [&str; 2] = ["roce", "roce-irn"];

fn roce() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../transports/roce")
}

/// A flow of works from `a` to `b` over a link with these rules.
fn pair(program: &Path, rules: &str, works: &str) -> Scenario {
    let text = format!(
        "program = '{}'\nduration = '10min'\nlinger = '1min'\nforget = '1min'\n\
         host = [{{ name = 'a' }}, {{ name = 'b' }}]\n\
         link = [{{ between = ['a', 'b'], both = {{ {rules} }} }}]\n\
         flow = [{{ from = 'a', to = 'b', works = {{ {works} }} }}]\n",
        program.display()
    );
    Scenario::parse(&text).unwrap_or_else(|error| panic!("{error}\nin\n{text}"))
}

fn go_on(scenario: &Scenario, engine: Engine) -> Report {
    let options = Options { events_max: 5_000_000, ..Options::default() };
    go_with(scenario, engine, options)
}

fn go_with(scenario: &Scenario, engine: Engine, options: Options<'_>) -> Report {
    let resolve = |name: &str, settings: &[String]| -> Result<Arc<dyn Program>, ResolveError> {
        Ok(resolve_with_on(Some(engine), name, settings)?)
    };
    run(scenario, &resolve, options).unwrap_or_else(|error| panic!("{error}"))
}

fn good(scenario: &Scenario) -> Report {
    let report = go_on(scenario, Engine::Interp);
    assert!(report.ok, "{report}\n{:#?}", report.flows);
    let is_fault = |(name, _): &(&String, &u64)| FAULTS.contains(&name.as_str());
    let faults: Vec<_> = report
        .hosts
        .iter()
        .flat_map(|host| &host.counters)
        .filter(is_fault)
        .collect();
    assert!(faults.is_empty(), "{faults:?}");
    report
}

/// Counters that must stay zero for a correct program.
const FAULTS: [&str; 5] = [
    "dangling",
    "duplicate_ids",
    "clipped_sending",
    "clipped_receiving",
    "oversize",
];

const CLEAN: &str = "delay = '100us', rate = '1Gbit/s'";
const LOSSY: &str =
    "delay = '100us', rate = '1Gbit/s', loss = '3%', duplicate = '3%', reorder = '5%', hold = '300us'";
const ALL: &str = "count = 200, size = [0, 5000], both_ways = true, immediate = '50%', fence = '10%'";

#[test]
fn each_work_is_done_once_and_in_order() {
    for program in PROGRAMS {
        each_is_done(Path::new(program));
    }
}

fn each_is_done(program: &Path) {
    let report = good(&pair(program, CLEAN, ALL));
    let works = [&report.flows[0].forward, &report.flows[0].backward].map(|direction| direction.works);
    assert!(
        works
            .iter()
            .all(|works| works.is_some_and(|works| works.done == 200)),
        "{works:?}"
    );
    for kind in ["send", "write", "read", "swap", "add"] {
        for size in ["0", "1", "[0, '100kB']"] {
            good(&pair(
                program,
                CLEAN,
                &format!("count = 20, size = {size}, kinds = ['{kind}']"),
            ));
        }
    }
}

#[test]
fn works_are_neither_lost_nor_repeated_under_packet_loss() {
    for (seed, program) in (0..8).flat_map(|seed| PROGRAMS.map(|program| (seed, program))) {
        for rules in [LOSSY.to_owned(), format!("{LOSSY}, burst = 2")] {
            let scenario = Scenario { seed, ..pair(Path::new(program), &rules, ALL) };
            good(&scenario);
        }
    }
}

/// A path that reorders half of the answers and loses no packet. An answer beyond the next one is an implied
/// NAK (IBA, 9.7.5.2.2). Go-back-N asks again, and needs a timeout if the answers to that are reordered as
/// well. Selective repeat accepts the answers in any order, and needs no timeout.
#[test]
fn answers_to_reads_may_overtake_one_another() {
    for (seed, program) in (0..8).flat_map(|seed| PROGRAMS.map(|program| (seed, program))) {
        let line = "rate = '1Gbit/s', delay = '10us'";
        let text = format!(
            "program = '{program}'\nseed = {seed}\nduration = '10s'\n\
             host = [{{ name = 'a' }}, {{ name = 'b' }}]\n\
             link = [{{ between = ['a', 'b'], forward = {{ {line} }}, \
             backward = {{ {line}, reorder = '50%', hold = '30us' }} }}]\n\
             flow = [{{ from = 'a', to = 'b', works = {{ count = 200, size = [0, 20000], kinds = ['read', 'write', 'add'] }} }}]\n",
        );
        let scenario = Scenario::parse(&text).unwrap_or_else(|error| panic!("{error}\nin\n{text}"));
        let report = good(&scenario);
        let overtaken: u64 = report.links.iter().map(|link| link.reordered).sum();
        assert!(overtaken > 100, "{report}");
        let forward = &report.flows[0].forward;
        let limit = if program == "roce" { 0.5 } else { 0.03 };
        let is_done = forward.works.is_some_and(|works| works.done == 200);
        assert!(is_done && forward.seconds.is_some_and(|s| s < limit), "{report}");
    }
}

#[test]
fn both_engines_send_the_same_packets() {
    for program in PROGRAMS {
        let scenario = pair(Path::new(program), LOSSY, ALL);
        let [interpreted, native] = [Engine::Interp, Engine::Native].map(|engine| go_on(&scenario, engine));
        assert!(interpreted.ok, "{interpreted}");
        assert_eq!(interpreted.trace_hash, native.trace_hash, "{program}");
    }
}

/// Returns the ratio of bytes sent to bytes delivered when two of a hundred packets are lost.
fn repeated(program: &str) -> f64 {
    let rules = "delay = '100us', rate = '1Gbit/s', loss = '2%'";
    let report = good(&pair(
        Path::new(program),
        rules,
        "count = 100, size = '64kB', kinds = ['write']",
    ));
    let line = report.links.iter().find(|link| link.from == "a");
    line.expect("the line is there").sent_bytes as f64 / report.flows[0].forward.bytes as f64
}

/// Only the lost packets are sent again: two of a hundred, in addition to headers and framing, which are 9 %
/// of a packet.
#[test]
fn selective_repeat_resends_only_missing_packets() {
    let [all, missing] = PROGRAMS.map(repeated);
    assert!(missing < 1.09 * 1.04, "{missing}");
    assert!(all > 1.09 * 1.2, "{all}");
}

/// Returns the rate of writes, in Gbit/s, with `window` bytes in flight. The line has 10 Gbit/s, and the
/// round trip takes 1 ms.
fn rate(window: u64) -> f64 {
    let text = format!(
        "program = '{}'\nduration = '10s'\nparams = {{ WINDOW = {window}, LINK_RATE = 0 }}\n\
         host = [{{ name = 'a' }}, {{ name = 'b' }}]\n\
         link = [{{ between = ['a', 'b'], both = {{ rate = '10Gbit/s', delay = '500us' }} }}]\n\
         flow = [{{ from = 'a', to = 'b', works = {{ count = 200, size = '64kB', kinds = ['write'], depth = 100 }} }}]\n",
        roce().join("roce.mtp").display()
    );
    let scenario = Scenario::parse(&text).unwrap_or_else(|error| panic!("{error}\nin\n{text}"));
    let report = good(&scenario);
    let flow = &report.flows[0].forward;
    flow.bytes as f64 * 8.0 / flow.seconds.expect("it ends") / 1e9
}

/// 65,536 bytes in each round trip are 0.52 Gbit/s, and 524,288 bytes are 4.2 Gbit/s.
#[test]
fn a_window_bounds_the_bytes_in_flight() {
    let [small, large] = [65_536, 524_288].map(rate);
    assert!((0.4..0.53).contains(&small), "{small}");
    assert!((3.5..4.2).contains(&large), "{large}");
}

/// Five hosts write into one for 60 ms. Returns the average content of the queue before its line, and Jain's
/// index of the bytes written in the second half of that time.
fn incast(link_rate: u64) -> (f64, f64) {
    let mut text = format!(
        "program = '{}'\nduration = '1s'\nidle_packets = 0\nparams = {{ LINK_RATE = {link_rate}, WINDOW = 65536 }}\n\
         [topology]\nkind = 'dumbbell'\nhosts = 5\n\
         host_link = {{ rate = '10Gbit/s', delay = '1us' }}\ncore_link = {{ rate = '10Gbit/s', delay = '1us' }}\n\
         switch = {{ mark_above = '5kB', mark_all_above = '200kB', mark_share = '1%', pfc_xoff = '400kB', \
         pfc_headroom = '20kB' }}\n",
        roce().join("roce.mtp").display()
    );
    for host in 0..5 {
        text += &format!(
            "[[flow]]\nfrom = 'h{host}'\nto = 'h5'\nat = '{}us'\n\
             works = {{ time = '60ms', size = '64kB', kinds = ['write'] }}\n",
            100 * host
        );
    }
    let scenario = Scenario::parse(&text).unwrap_or_else(|error| panic!("{error}\nin\n{text}"));
    let mut written: Vec<Vec<u64>> = Vec::new();
    let mut note =
        |moment: &RunSample| written.push(moment.flows.iter().map(|flow| flow.received[0]).collect());
    let options = Options {
        watch: Some(SampleRequest { every: Duration::from_millis(30), fields: &[], reported: &mut note }),
        ..Options::default()
    };
    let report = go_with(&scenario, Engine::Native, options);
    assert!(report.ok, "{report}");
    assert!(
        report.links.iter().all(|link| link.dropped.is_empty()),
        "{report}"
    );
    let late = written[1]
        .iter()
        .zip(&written[0])
        .map(|(whole, half)| (whole - half) as f64);
    let (sum, squares) = late.fold((0.0, 0.0), |(sum, squares), share| {
        (sum + share, squares + share * share)
    });
    let line = report
        .links
        .iter()
        .find(|link| link.from == "left" && link.to == "right");
    let queue = line.and_then(|link| link.queue).expect("the line has a queue");
    (queue.mean_bytes, sum * sum / (5.0 * squares))
}

#[test]
fn marked_packets_slow_their_senders_down_alike() {
    let (with, fairness) = incast(10_000_000_000);
    let (without, _) = incast(0);
    assert!(fairness > 0.97, "{fairness}");
    assert!(with < without / 3.0, "{with} bytes with DCQCN, {without} without");
}

/// Memory for one message is posted late: the peer asks repeatedly, and no message is lost.
#[test]
fn messages_wait_for_a_receiver_that_is_not_ready() {
    let works = "count = 50, size = 3000, kinds = ['send'], receives = 1, refill = '2ms'";
    let report = good(&pair(&roce().join("roce.mtp"), CLEAN, works));
    let seconds = report.flows[0].forward.seconds.unwrap_or_default();
    assert!(seconds > 49.0 * 0.002, "{seconds} s");
}

#[test]
fn works_go_on_for_a_time() {
    let report = good(&pair(
        &roce().join("roce.mtp"),
        CLEAN,
        "time = '50ms', size = '100kB', kinds = ['write']",
    ));
    let forward = &report.flows[0].forward;
    let seconds = forward.seconds.unwrap_or_default();
    assert!((0.05..0.07).contains(&seconds), "{seconds} s");
    assert!(forward.bytes > 1_000_000, "{} bytes", forward.bytes);
}

/// Writes a copy of the program with one text replaced. The text of `selective.mtp` replaces that of
/// `go_back.mtp`.
fn variant(name: &str, file: &str, was: &str, now: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name).join("roce");
    fs::create_dir_all(&folder).expect("a folder");
    for entry in fs::read_dir(roce()).expect("the program") {
        let path = entry.expect("a file").path();
        if path.is_dir() {
            continue;
        }
        let mut text = fs::read_to_string(&path).expect("a text");
        if path.ends_with(file) {
            assert_eq!(text.matches(was).count(), 1, "{name}: `{was}` stands there once");
            text = text.replace(was, now);
        }
        fs::write(folder.join(path.file_name().expect("a name")), text).expect("a file");
    }
    if file == "selective.mtp" {
        fs::rename(folder.join(file), folder.join("go_back.mtp")).expect("a file");
    }
    folder.join("roce.mtp")
}

/// Each change makes the program wrong, and a flow of works on a lossy path detects it.
#[test]
fn planted_faults_are_found() {
    for (name, file, was, now) in [
        (
            "again",
            "respond.mtp",
            "else if (s.number < q.expected) repeat_answer(q, s);",
            "",
        ),
        (
            "ahead",
            "respond.mtp",
            "if (s.number > q.expected) take_early",
            "if (s.number > q.expected + 1) take_early",
        ),
        (
            "atomic",
            "respond.mtp",
            "if (r.psn == s.number) {",
            "if (r.psn != s.number) {",
        ),
        (
            "fence",
            "request.mtp",
            "if (is_new && (w.flags & WORK_FENCE) != 0 && skip == 0 && q.reads.len > 0) return;",
            "",
        ),
        (
            "shifted",
            "respond.mtp",
            "    q.to += s.size;\n",
            "    q.to += s.size + 1;\n",
        ),
        (
            "retry",
            "request.mtp",
            "    q.tries += 1;\n    repeat_all(q, q.una);",
            "    q.tries += 1;",
        ),
        (
            "answers",
            "go_back.mtp",
            "bool is_awaited(pair q, uint64 psn) { return psn == q.una; }",
            "bool is_awaited(pair q, uint64 psn) { return psn >= q.una; }",
        ),
        (
            "place",
            "selective.mtp",
            "return psn % window_of(q) * q.mtu;",
            "return 0;",
        ),
        (
            "reads",
            "selective.mtp",
            "if (q.works.at(work_at(q, at)).code < WORK_READ) q.settled.set",
            "q.settled.set",
        ),
        (
            "missing",
            "selective.mtp",
            "    q.again = q.una;\n    q.missing_to = q.at;\n",
            "",
        ),
        (
            "early",
            "selective.mtp",
            "if (q.early.len == 0 || q.early.at(0).number != q.expected) return;",
            "if (q.early.len == 0) return;",
        ),
    ] {
        let program = variant(name, file, was, now);
        let fails = (0..6).any(|seed| {
            let scenario = Scenario { seed, ..pair(&program, LOSSY, ALL) };
            !go_on(&scenario, Engine::Interp).ok
        });
        assert!(fails, "{name}");
    }
}

/// Wireshark reads each packet as InfiniBand, and reports no fault in it.
#[test]
fn wireshark_finds_no_fault_in_any_packet() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("roce.pcap");
    let capture = fs::File::create(&file).expect("there is room");
    let options = Options { pcap: Some(Box::new(BufWriter::new(capture))), ..Options::default() };
    let report = go_with(
        &pair(&roce().join("roce.mtp"), LOSSY, ALL),
        Engine::Interp,
        options,
    );
    assert!(report.ok, "{report}");
    let mut tshark = Command::new("tshark");
    // Otherwise Wireshark takes the payload for other protocols.
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
            return skip(Need::Tshark, "a capture of RoCE", error);
        }
    };
    let shown = String::from_utf8_lossy(&output.stdout);
    let sent: u64 = report.links.iter().map(|link| link.sent).sum();
    assert_eq!(shown.lines().count() as u64, sent);
    let mut opcodes = BTreeSet::new();
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
    // All opcodes except those of messages that invalidate a key.
    assert_eq!(opcodes, (0..=20).collect::<BTreeSet<u8>>());
}
