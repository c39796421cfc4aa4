//! How long programs take from text to module: `cargo bench -p hawser-driver`.
//!
//! Prints, for each program, the median of many runs of each phase, and fails when checking takes
//! more than 50 ms for 1,000 lines: an editor checks at each key stroke.

#![allow(clippy::disallowed_methods)] // a benchmark reads a clock, and its programs are files

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use hawser_driver::{Compilation, compile};
use hawser_syntax::{format, lexer, parse};

const RUNS: usize = 31;
const LIMIT: Duration = Duration::from_millis(50);

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let programs =
        ["programs/tcp/tcp.mtp", "lang/tests/pass/seed_appendix_e_tcp.mtp", "examples/stop-and-wait.mtp"];
    let programs: Vec<PathBuf> = programs.iter().map(|path| root.join(path)).collect();
    println!(
        "{:>6} {:>9} {:>9} {:>9} {:>9} {:>15}",
        "lines", "lex", "parse", "format", "compile", "per 1,000 lines"
    );
    let slow = programs.iter().filter(|path| measure(path) > LIMIT).count();
    if slow == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints a program's line; gives the time to compile 1,000 lines of it.
fn measure(path: &Path) -> Duration {
    let Compilation { sources, .. } = compile(path);
    let texts: Vec<&str> = sources.files().iter().map(|file| file.text.as_str()).collect();
    let lines: usize = texts.iter().map(|text| text.lines().count()).sum();
    let each = |work: &dyn Fn(&str)| median(|| texts.iter().for_each(|text| work(text)));
    let lex = each(&|text| drop(lexer::lex(text, 0)));
    let parse = each(&|text| drop(parse(text, 0)));
    let format = each(&|text| drop(format(text)));
    let whole = median(|| drop(compile(path)));
    let per_thousand = whole * 1000 / lines.max(1) as u32;
    println!(
        "{lines:>6} {lex:>9.1?} {parse:>9.1?} {format:>9.1?} {whole:>9.1?} {per_thousand:>15.1?} {}",
        path.display()
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
