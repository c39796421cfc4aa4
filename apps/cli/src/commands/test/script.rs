//! `hawser test FILE.pkt…`: runs behaviour scripts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hawser::host::netns;
use hawser::runs::files;
use hawser::testkit::script::{
    self, IpVersion, RunTarget, ScriptOutcome, ScriptReport, Scripts, ScriptsError, System,
};
use hawser::time::nanos;
use hawser::trace::{Filter, Recorder};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{Args, refuse};
use crate::engine::refused;
use crate::exit::{Exit, Outcome};
use crate::progress;
use crate::trace_file::TraceArgs;

/// The options of scripts.
#[derive(clap::Args)]
#[command(next_help_heading = "Scripts (.pkt)")]
pub(super) struct ScriptArgs {
    /// The program under test: a built-in program's name, or a file (.mtp) with its script.toml; by default tcp
    #[arg(long, value_name = "PROGRAM")]
    program: Option<String>,
    /// The target on which the scripts run: `sim`, in virtual time, which is the default; `host`, in real time
    /// over a TUN device in a network namespace of their own, for scripts of up to 3 s; `xdp`, the same over a
    /// veth pair by AF_XDP, with the program's chains in the kernel, which needs root; `dpdk`, by a port of DPDK
    #[arg(long, value_parser = target)]
    target: Option<RunTarget>,
    /// Run scripts that were written for Linux: the settings of Linux are the defaults, and declared
    /// differences of the program are not compared
    #[arg(long)]
    linux: bool,
    /// Run scripts that were written for FreeBSD, in the same manner
    #[arg(long, conflicts_with = "linux")]
    freebsd: bool,
    /// The IP version of scripts that do not state one: ipv4 (the default), ipv6 or ipv4-mapped-ipv6
    #[arg(long, value_parser = ip_version)]
    ip_version: Option<IpVersion>,
    /// Define a name in the scripts, also for #ifdef; without VALUE it is 1 (repeatable)
    #[arg(short = 'D', long = "define", value_name = "NAME[=VALUE]", value_parser = definition)]
    defines: Vec<(String, String)>,
    #[command(flatten)]
    trace: TraceArgs,
}

impl ScriptArgs {
    /// Refuses these options if no script is run.
    pub(super) fn refuse(&self) -> Outcome {
        let given = [
            ("--program", self.program.is_some()),
            ("--target", self.target.is_some()),
            ("--linux", self.linux),
            ("--freebsd", self.freebsd),
            ("--ip-version", self.ip_version.is_some()),
            ("--define", !self.defines.is_empty()),
            ("--trace", self.trace.is_wanted()),
        ];
        refuse(&given, "scripts (.pkt)")
    }
}

/// Returns the scripts that a path stands for: a file, or all scripts below a folder.
pub(super) fn find(path: &Path) -> Result<Vec<PathBuf>, Exit> {
    script::find(&[path.to_owned()]).map_err(Exit::input)
}

fn ip_version(text: &str) -> Result<IpVersion, String> {
    match text {
        "ipv4" => Ok(IpVersion::V4),
        "ipv6" => Ok(IpVersion::V6),
        "ipv4-mapped-ipv6" => Ok(IpVersion::Mapped),
        _ => Err("ipv4, ipv6 or ipv4-mapped-ipv6".into()),
    }
}

fn target(text: &str) -> Result<RunTarget, String> {
    match text {
        "sim" => Ok(RunTarget::Sim),
        "host" => Ok(RunTarget::Host),
        "xdp" => Ok(RunTarget::Xdp),
        "dpdk" => Ok(RunTarget::Dpdk),
        _ => Err("sim, host, xdp or dpdk".into()),
    }
}

fn definition(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').unwrap_or((text, "1"));
    if name.is_empty() {
        return Err("write NAME or NAME=VALUE".into());
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// The names that public collections of scripts use without defining them. Their own runners define them.
fn usual_defines(version: IpVersion) -> Vec<(String, String)> {
    let (level, error) = match version {
        IpVersion::V4 => ("SOL_IP", "IP_RECVERR"),
        IpVersion::V6 | IpVersion::Mapped => ("SOL_IPV6", "IPV6_RECVERR"),
    };
    let words = [
        ("CMSG_LEVEL_IP", level),
        ("CMSG_TYPE_RECVERR", error),
        ("CODE", "host_unreachable"),
        ("TFO_COOKIE", "3021b9d889017eeb"),
        ("TFO_COOKIE_ZERO", "b7c12350a90dc8f5"),
        ("MSS", "1460"),
    ];
    words
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
}

pub(super) fn run(args: &Args, files: &[PathBuf]) -> Outcome {
    let given = &args.script;
    let program = given.program.as_deref().unwrap_or("tcp");
    let scripts = Scripts::new(program, args.engine.engine).map_err(|error| match error {
        ScriptsError::Load(error) => refused(&error.into()),
        ScriptsError::Table(_) | ScriptsError::Departures(_) => Exit::input(error),
    })?;
    let target = given.target.unwrap_or(RunTarget::Sim);
    match target {
        RunTarget::Sim => {}
        RunTarget::Host | RunTarget::Dpdk => netns::enter_user_namespace().map_err(Exit::environment)?,
        RunTarget::Xdp => enter_as_root()?,
    }
    if let Some(why) = target.missing() {
        return Err(Exit::environment(why));
    }
    let version = given.ip_version.unwrap_or(IpVersion::V4);
    let mut defines = usual_defines(version);
    defines.extend(given.defines.iter().cloned());
    let system = match (given.linux, given.freebsd) {
        (true, _) => Some(System::Linux),
        (_, true) => Some(System::FreeBsd),
        (false, false) => None,
    };
    let options = script::RunOptions { system, target, version, defines, ..script::RunOptions::default() };
    let traced = given.trace.open()?.map(|show| Arc::new(Mutex::new(show)));
    let mut tally = Tally::default();
    let bar = progress::count(args.json || files.len() < 2, "scripts", files.len() as u64);
    for file in files {
        let text = match files::given_bytes(file, files::DOCUMENT_MAX) {
            Ok(text) => text,
            Err(error) => {
                let exit = Exit::input(format!("cannot read {}: {error}", file.display()));
                if files.len() == 1 {
                    return Err(exit);
                }
                bar.suspend(|| eprintln!("hawser: {exit}"));
                tally.missing(file, &exit);
                bar.inc(1);
                continue;
            }
        };
        let text = String::from_utf8_lossy(&text);
        let host = slashes(file);
        let report = match &traced {
            None => scripts.run(file, &text, &options),
            Some(show) => scripts.run_observed(
                file,
                &text,
                &options,
                Some(&|now, stack| {
                    let show = Arc::clone(show);
                    let recorder =
                        Recorder::new(now, Filter::default(), Box::new(move |event| show.lock()(event)));
                    if let Err(error) = recorder.observe(&host, stack) {
                        eprintln!("{host} is not traced: {error}");
                    }
                }),
            ),
        };
        let reason = match system {
            Some(_) => scripts
                .departures()
                .reason(&slashes(file), &report)
                .map(str::to_owned),
            None => None,
        };
        if !args.json {
            bar.suspend(|| show(file, &report, reason.as_deref(), args.show));
        }
        tally.count(file, &report, reason);
        bar.inc(1);
    }
    bar.finish_and_clear();
    tally.finish(args.json, files.len())
}

/// Enters a network namespace, but no user namespace, because loading programs into the kernel is impossible
/// within one.
fn enter_as_root() -> Outcome {
    let entered = netns::Namespace::create().and_then(|namespace| namespace.enter());
    if entered.is_err() || netns::is_in_user_namespace() {
        return Err(Exit::environment(
            "--target xdp loads programs into the kernel, which needs root outside of all user namespaces; --target host works \
             without it",
        ));
    }
    Ok(())
}

fn slashes(path: &Path) -> String {
    path.components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join("/")
}

fn show(file: &Path, report: &ScriptReport, reason: Option<&str>, packets: bool) {
    let name = file.display();
    let word = if reason.is_some() {
        "departs"
    } else {
        report.word()
    };
    println!("{name}: {word}");
    if packets {
        report.trace.iter().for_each(|line| println!("    {line}"));
    }
    if packets && report.in_kernel > 0 {
        println!("    {} packets were handled in the kernel", report.in_kernel);
    }
    report.printed.iter().for_each(|line| println!("    {line}"));
    match reason {
        Some(reason) => println!(
            "  {}\n  declared: {reason}",
            report.explain(&name.to_string()).lines().next().unwrap_or("")
        ),
        None if !report.passed() => print!("{}\n", report.explain(&name.to_string())),
        None => {}
    }
    if !report.passed() || packets {
        report.notes.iter().for_each(|note| println!("  note: {note}"));
    }
}

/// The results of all scripts.
#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
    departed: usize,
    unsupported: usize,
    unreadable: usize,
    /// The number of uses of each construct that the runner does not support.
    constructs: BTreeMap<String, usize>,
    rows: Vec<Value>,
    /// The highest exit code of a file that could not be read.
    worst: u8,
}

impl Tally {
    fn count(&mut self, file: &Path, report: &ScriptReport, reason: Option<String>) {
        match (&report.verdict, &reason) {
            (ScriptOutcome::Passed, _) => self.passed += 1,
            (ScriptOutcome::Unsupported(failure), reason) => {
                *self.constructs.entry(failure.got.clone()).or_default() += 1;
                if reason.is_some() {
                    self.departed += 1
                } else {
                    self.unsupported += 1
                }
            }
            (ScriptOutcome::Failed(_), Some(_)) | (ScriptOutcome::Unreadable(_), Some(_)) => {
                self.departed += 1
            }
            (ScriptOutcome::Failed(_), None) => self.failed += 1,
            (ScriptOutcome::Unreadable(_), None) => self.unreadable += 1,
        }
        let failure = report.failure().map(|failure| {
            json!({
                "line": failure.place.line,
                "column": failure.place.column,
                "at_ns": nanos(failure.at),
                "expected": failure.expected,
                "got": failure.got,
            })
        });
        self.rows.push(json!({
            "script": file.display().to_string(),
            "result": report.word(),
            "failure": failure,
            "departure": reason,
            "source": report.source,
            "notes": report.notes,
            "printed": report.printed,
            "packets": report.trace,
            "in_kernel": report.in_kernel,
        }));
    }

    /// Counts a script whose file could not be read.
    fn missing(&mut self, file: &Path, exit: &Exit) {
        self.unreadable += 1;
        self.worst = self.worst.max(exit.code());
        self.rows.push(json!({
            "script": file.display().to_string(), "result": "unreadable", "failure": null,
            "departure": null, "source": "", "notes": [exit.to_string()], "printed": [], "packets": [],
            "in_kernel": 0,
        }));
    }

    fn finish(self, as_json: bool, all: usize) -> Outcome {
        let bad = self.failed + self.unsupported + self.unreadable;
        if as_json {
            println!(
                "{}",
                json!({
                    "ok": bad == 0,
                    "scripts": all,
                    "passed": self.passed,
                    "failed": self.failed,
                    "departed": self.departed,
                    "unsupported": self.unsupported,
                    "unreadable": self.unreadable,
                    "constructs": self.constructs,
                    "results": self.rows,
                })
            );
        } else if all > 1 {
            println!(
                "{all} scripts: {} passed, {} failed, {} depart as declared, {} unsupported, {} unreadable",
                self.passed, self.failed, self.departed, self.unsupported, self.unreadable
            );
            self.constructs
                .iter()
                .for_each(|(what, count)| println!("  {count} × {what}"));
        }
        let message = match bad {
            0 => return Ok(()),
            1 => "one script did not pass".to_owned(),
            n => format!("{n} scripts did not pass"),
        };
        Exit::worst(Err(Exit::failed(message)), Err(Exit::reported(self.worst)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_value_is_defined_as_1() {
        let pair = |name: &str, value: &str| Ok((name.to_owned(), value.to_owned()));
        assert_eq!(definition("FreeBSD"), pair("FreeBSD", "1"));
        assert_eq!(definition("MSS=1440"), pair("MSS", "1440"));
        assert_eq!(definition("EMPTY="), pair("EMPTY", ""));
        assert!(definition("=1").is_err());
    }
}
