//! Measures how long programs take from text to module: `cargo bench -p hawser-driver`.
//!
//! For each program, it prints the median time of each phase over many runs. It fails if checking takes more
//! than 50 ms for 1,000 lines, because an editor checks at each key stroke. The growth of the work with the
//! program's size is tested in `apps/cli/tests/growth.rs`. This benchmark also includes programs of 10,000
//! lines.

#![allow(clippy::disallowed_methods)] // a benchmark reads a clock, and its programs are files

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use hawser_driver::{Compilation, Disk, Loader, MemoryLoader, compile_with};
use hawser_syntax::{format, lexer, parse};

#[path = "../../tests/large.rs"]
mod large;

const RUNS: usize = 31;
/// The number of lines of generated programs.
const LARGE: usize = 10_000;
const LIMIT: Duration = Duration::from_millis(50);

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let programs = [
        "transports/tcp/tcp.mtp",
        "lang/tests/pass/paper_appendix_e_tcp.mtp",
        "examples/stop-and-wait.mtp",
    ];
    let programs: Vec<PathBuf> = programs.iter().map(|path| root.join(path)).collect();
    println!(
        "{:>6} {:>9} {:>9} {:>9} {:>9} {:>15}",
        "lines", "lex", "parse", "format", "compile", "per 1,000 lines"
    );
    let mut slow = programs
        .iter()
        .filter(|path| measure(&path.display().to_string(), &Disk, path) > LIMIT)
        .count();
    for shape in large::SHAPES {
        let text = shape.program(LARGE);
        let files = MemoryLoader::new([("large.mtp", text.as_str())]);
        slow += usize::from(measure(&format!("{shape:?}"), &files, Path::new("large.mtp")) > LIMIT);
    }
    if slow == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Prints a program's line of the table, and returns the time to compile 1,000 lines of it.
fn measure(name: &str, files: &dyn Loader, path: &Path) -> Duration {
    let Compilation { sources, .. } = compile_with(files, path);
    let texts: Vec<&str> = sources.files().iter().map(|file| file.text.as_str()).collect();
    let lines: usize = texts.iter().map(|text| text.lines().count()).sum();
    let each = |work: &dyn Fn(&str)| median(|| texts.iter().for_each(|text| work(text)));
    let lex = each(&|text| drop(lexer::lex(text, 0)));
    let parse = each(&|text| drop(parse(text, 0)));
    let format = each(&|text| drop(format(text)));
    let whole = median(|| drop(compile_with(files, path)));
    let per_thousand = whole * 1000 / lines.max(1) as u32;
    println!(
        "{lines:>6} {lex:>9.1?} {parse:>9.1?} {format:>9.1?} {whole:>9.1?} {per_thousand:>15.1?} {name}"
    );
    per_thousand
}

fn median(mut work: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .collect();
    times.sort();
    times[RUNS / 2]
}
