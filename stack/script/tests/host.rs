//! Scripts in real time, over a TUN device: the stack, its wire and its timers as they are on a machine.
//!
//! What the system does not permit is skipped, with the reason printed.

use std::path::Path;
use std::process::ExitCode;

use hawser_host::netns::{Namespace, enter_user_namespace};
use hawser_host::{TunOptions, TunWire};
use hawser_load::{Engine, Loaded};
use hawser_script::{Bench, IpVersion, Leniency, Report, Table, Target, Verdict, run};
use hawser_testing::{TestResult, is_listing, run as run_tests, skip};

/// Both kinds of opening and of closing, data in each direction, timers, options, an ICMP error, a reset.
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
    if !is_listing() {
        let permitted = enter_user_namespace()
            .map_err(|reason| reason.to_string())
            .and_then(|()| device());
        if let Err(reason) = permitted {
            skip("all scripts on a device", reason);
            return ExitCode::SUCCESS;
        }
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../transports/tcp/scripts");
    let scripts = SCRIPTS.iter().map(move |name| {
        let path = folder.join(name);
        (
            *name,
            Box::new(move || passes(&path, name)) as Box<dyn FnOnce() -> TestResult + Send>,
        )
    });
    run_tests(scripts.chain([("a wrong script fails", Box::new(a_wrong_script_fails) as _)]))
}

/// What does not happen as written fails here, too.
fn a_wrong_script_fails() -> TestResult {
    let report = judge("0 `true`\n+0 < S 0:0(0) win 65535 <mss 1460>\n+0 > R. 0:0(0) ack 2\n")?;
    match report.verdict {
        Verdict::Failed(_) => Ok(()),
        _ => Err("a segment that acknowledges 2 was not missed".into()),
    }
}

/// Whether a TUN device may be opened: why not.
fn device() -> Result<(), String> {
    let namespace = Namespace::create().map_err(|error| error.to_string())?;
    let opened = namespace.run(|| TunWire::open("hawser-test", TunOptions { offload: false }).map(drop));
    opened
        .map_err(|error| error.to_string())?
        .map_err(|error| error.to_string())
}

/// Runs a script until it passes once.
fn passes(path: &Path, name: &str) -> TestResult {
    let text = std::fs::read_to_string(path)?;
    let mut last = String::new();
    for _ in 0..ATTEMPTS {
        match judge(&text) {
            Ok(report) if report.passed() => return Ok(()),
            Ok(report) => last = report.explain(name),
            Err(error) => last = error,
        }
    }
    Err(last.into())
}

/// Runs a script in a fresh network namespace.
fn judge(text: &str) -> Result<Report, String> {
    let namespace = Namespace::create().map_err(|error| error.to_string())?;
    namespace
        .run(|| run_here(text))
        .map_err(|error| error.to_string())?
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
        observe: None,
    };
    Ok(run(text, Path::new(""), &bench))
}
