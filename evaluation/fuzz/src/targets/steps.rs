//! Any text is a file of steps or an error. Parsing ends, and so does a run of the parsed steps. The text
//! form of any packet is parsed back to the same bytes.

use std::sync::{Arc, LazyLock};

use hawser_load::{Engine, LoadedProgram};
use hawser_testkit::step::{Program, parse, run, show_and_read};

static PROGRAM: LazyLock<Arc<dyn Program>> = LazyLock::new(|| {
    let tcp = LoadedProgram::open("tcp", Some(Engine::Interp)).expect("it comes with Hawser");
    tcp.with(&[]).expect("it has all it needs")
});

pub(crate) fn fuzz(bytes: &[u8]) {
    show_and_read(&**PROGRAM, &bytes[..bytes.len().min(76)]);
    let text = String::from_utf8_lossy(bytes);
    if let Ok(steps) = parse(&text)
        && let Ok(report) = run(PROGRAM.clone(), &text, &steps, false)
    {
        let _ = report.explain("steps");
    }
}
