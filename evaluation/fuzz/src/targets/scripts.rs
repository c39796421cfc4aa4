//! Any text is a script or an error. Parsing ends, and so does a run of a parsed script.

use std::path::Path;
use std::sync::LazyLock;

use hawser_load::{Engine, LoadedProgram};
use hawser_testkit::script::{IpVersion, Leniency, RunTarget, ScriptEnvironment, System, Table, run};

static PROGRAM: LazyLock<LoadedProgram> =
    LazyLock::new(|| LoadedProgram::open("tcp", Some(Engine::Interp)).expect("it comes with Hawser"));
static TABLE: LazyLock<Table> = LazyLock::new(|| {
    Table::parse(hawser_load::script_table("tcp").unwrap_or_default()).expect("a good table")
});

pub(crate) fn fuzz(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let bench = ScriptEnvironment {
        program: &|params| PROGRAM.with(params),
        table: &TABLE,
        read: &|_| None,
        defines: Default::default(),
        version: IpVersion::V4,
        target: RunTarget::Sim,
        system: [None, Some(System::Linux), Some(System::FreeBsd)][bytes.len() % 3],
        leniency: Leniency::default(),
        observe: None,
    };
    let _ = run(&text, Path::new(""), &bench).explain("script");
}
