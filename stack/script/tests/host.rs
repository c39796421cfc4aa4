//! Scripts in real time, over a TUN device: the stack, its wire and its timers as they are on a machine.
//!
//! Not the usual harness, since a process can enter a user namespace only while it has one thread. What
//! the system does not permit is skipped, with the reason printed.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use hawser_host::netns::{Namespace, enter_user_namespace};
use hawser_host::{TunOptions, TunWire};
use hawser_load::{Engine, Loaded};
use hawser_script::{Bench, IpVersion, Leniency, Report, Table, Target, Verdict, run};

/// Both ways of opening and of closing, text in each direction, timers, options, an ICMP error, a reset.
const SCRIPTS: &[&str] = &[
    "RFC9293/active-open-blocking.pkt",
    "RFC9293/passive-open.pkt",
    "RFC9293/close-active.pkt",
    "RFC9293/ack-every-second.pkt",
    "RFC9293/closed-syn.pkt",
    "RFC9293/mss-default-ipv6.pkt",
    "RFC9293/delayed-ack.pkt",
    "RFC2018/gap-filled.pkt",
    "RFC1191/lower.pkt",
    "RFC3168/echo.pkt",
    "RFC5961/rst-exact.pkt",
    "RFC7413/server-valid-cookie.pkt",
    "RFC7413/client-text-in-syn.pkt",
];
/// How often a script may begin anew: a machine that wakes nobody in time is no fault of the stack's.
const ATTEMPTS: usize = 4;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let scripts = chosen(&arguments);
    if arguments.iter().any(|argument| argument == "--list") {
        scripts.iter().for_each(|name| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let permitted = enter_user_namespace().map_err(|reason| reason.to_string()).and_then(|()| device());
    if let Err(reason) = permitted {
        println!("skipped: all scripts on a device: {reason}");
        return ExitCode::SUCCESS;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../transports/tcp/scripts");
    let mut failed = scripts.iter().filter(|name| !passes(&folder, name)).count();
    // What does not happen as written fails here, too.
    let wrong = judge("0 `true`\n+0 < S 0:0(0) win 65535 <mss 1460>\n+0 > R. 0:0(0) ack 2\n");
    let fails = wrong.is_ok_and(|report| matches!(report.verdict, Verdict::Failed(_)));
    println!("test a wrong script fails ... {}", if fails { "ok" } else { "FAILED" });
    failed += usize::from(!fails);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The scripts whose names hold one of the arguments; all without arguments.
fn chosen(arguments: &[String]) -> Vec<&'static str> {
    let filters: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let wanted =
        |name: &&str| filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()));
    SCRIPTS.iter().copied().filter(wanted).collect()
}

/// Whether a TUN device may be opened: why not.
fn device() -> Result<(), String> {
    let namespace = Namespace::create().map_err(|error| error.to_string())?;
    let opened = namespace.run(|| TunWire::open("hawser-test", TunOptions { offload: false }).map(drop));
    opened.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}

/// Runs a script and says how it went; false when it failed each time.
fn passes(folder: &Path, name: &str) -> bool {
    let start = Instant::now();
    let text = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    let mut last = String::new();
    for attempt in 1..=ATTEMPTS {
        match judge(&text) {
            Ok(report) if report.passed() => {
                println!("test {name} ... ok ({} ms, attempt {attempt})", start.elapsed().as_millis());
                return true;
            }
            Ok(report) => last = report.explain(name),
            Err(error) => last = error,
        }
    }
    println!("test {name} ... FAILED\n{last}");
    false
}

/// Runs a script in a fresh network namespace.
fn judge(text: &str) -> Result<Report, String> {
    let namespace = Namespace::create().map_err(|error| error.to_string())?;
    namespace.run(|| run_here(text)).map_err(|error| error.to_string())?
}

fn run_here(text: &str) -> Result<Report, String> {
    let program = Loaded::open("tcp", Some(Engine::Native)).map_err(|error| error.to_string())?;
    let table = Table::parse(hawser_load::script_table("tcp").unwrap_or_default());
    let table = table.map_err(|error| error.to_string())?;
    let bench = Bench {
        program: &|params| program.with(params),
        table: &table,
        read: &|_| None,
        defines: Default::default(),
        version: IpVersion::V4,
        target: Target::Host,
        linux: false,
        leniency: Leniency::default(),
    };
    Ok(run(text, Path::new(""), &bench))
}
