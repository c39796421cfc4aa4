//! Runs scripts in real time, on a device of this machine.

use std::path::Path;

use hawser_host::netns::Namespace;
use hawser_load::{Engine, LoadedProgram};
use hawser_testing::TestResult;
use hawser_testkit::script::{
    IpVersion, Leniency, RunTarget, ScriptEnvironment, ScriptOutcome, ScriptReport, Table, run,
};

/// The maximum number of attempts, since a machine that wakes processes late is no fault of the stack.
const ATTEMPTS: usize = 4;

/// Runs one of the scripts in `transports/tcp/scripts` until it passes once.
pub(crate) fn passes(name: &str, target: RunTarget) -> Result<ScriptReport, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../transports/tcp/scripts");
    let text = std::fs::read_to_string(folder.join(name)).map_err(|error| error.to_string())?;
    let mut last = String::new();
    for _ in 0..ATTEMPTS {
        match judge(&text, target) {
            Ok(report) if report.passed() => return Ok(report),
            Ok(report) => last = report.explain(name),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Checks that a deviation from the script also fails on a device.
pub(crate) fn a_wrong_script_fails(target: RunTarget) -> TestResult {
    let text = "0 `true`\n+0 < S 0:0(0) win 65535 <mss 1460>\n+0 > R. 0:0(0) ack 2\n";
    match judge(text, target)?.verdict {
        ScriptOutcome::Failed(_) => Ok(()),
        _ => Err("a segment that acknowledges 2 was not missed".into()),
    }
}

/// Runs a script in a fresh network namespace.
fn judge(text: &str, target: RunTarget) -> Result<ScriptReport, String> {
    let namespace = Namespace::create().map_err(|error| error.to_string())?;
    namespace
        .run(|| run_here(text, target))
        .map_err(|error| error.to_string())?
}

fn run_here(text: &str, target: RunTarget) -> Result<ScriptReport, String> {
    let program = LoadedProgram::open("tcp", Some(Engine::Native)).map_err(|error| error.to_string())?;
    let table = Table::parse(hawser_load::script_table("tcp").unwrap_or_default());
    let table = table.map_err(|error| error.to_string())?;
    let bench = ScriptEnvironment {
        program: &|params| program.with(params),
        table: &table,
        read: &|_| None,
        defines: Default::default(),
        version: IpVersion::V4,
        target,
        system: None,
        leniency: Leniency::default(),
        observe: None,
    };
    Ok(run(text, Path::new(""), &bench))
}
