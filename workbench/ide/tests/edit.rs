//! Measures the time that an edit takes: `cargo test -p hawser-ide edit:: -- --nocapture` prints it, for this
//! build.

use std::path::Path;
use std::time::{Duration, Instant};

use hawser_driver::Disk;
use hawser_ide::Workspace;

use crate::workspace::{opened, programs};

/// Writes an unknown name and the right one again, in turn, into one of TCP's files. The diagnostics are
/// asserted. The times are only printed, because machines differ.
#[test]
fn an_edit_of_tcp_is_diagnosed_and_timed() {
    let mut workspace = Workspace::new(Box::new(Disk));
    let paths = programs("transports/tcp");
    workspace.know(paths.clone());
    let path = paths.iter().find(|path| path.ends_with("recovery.mtp"));
    let path = path.expect("TCP recovers");
    let right = text(path);
    let wrong = right.replacen("uint64 ", "uint65 ", 1);
    let (mut took, mut worked) = (Vec::new(), Vec::new());
    for text in [&wrong, &right].into_iter().cycle().take(100) {
        let (begun, before) = (Instant::now(), on_the_processor());
        workspace.open(path, text.clone());
        let found = workspace.diagnostics();
        took.push(begun.elapsed());
        worked.push(on_the_processor().saturating_sub(before));
        let faulty = found.iter().filter(|file| !file.problems.is_empty());
        let faulty: Vec<_> = faulty.map(|file| (&file.path, &file.problems)).collect();
        assert_eq!(!faulty.is_empty(), *text == wrong, "{faulty:?}");
    }
    let shown = |mut times: Vec<Duration>| {
        times.sort();
        format!("median {:?}, 95th of 100 {:?}", times[50], times[95])
    };
    println!("an edit of TCP: {}", shown(took));
    println!("of which on the processor: {}", shown(worked));
}

/// Trees from before an edit are reused; the diagnostics must not depend on it.
#[test]
fn an_edited_program_equals_a_fresh_one() {
    let mut rng = fastrand::Rng::with_seed(11);
    let (mut edited, paths) = opened("transports/tcp");
    let mut texts: Vec<String> = paths.iter().map(|path| text(path)).collect();
    for round in 0..30 {
        // A line of a file is removed or doubled, or its words are removed; sometimes the file is restored.
        let number = match rng.u32(..4) {
            // Its imports, which determine the numbers of the other files.
            0 => paths
                .iter()
                .position(|path| path.ends_with("tcp.mtp"))
                .expect("TCP"),
            _ => rng.usize(..paths.len()),
        };
        let mut lines: Vec<&str> = texts[number].lines().collect();
        let line = rng.usize(..lines.len().min(60));
        let (left, right) = lines[line].split_at(lines[line].floor_char_boundary(4));
        match rng.u32(..5) {
            0 => _ = lines.remove(line),
            1 => lines.insert(line, left),
            2 => lines[line] = right,
            _ => {}
        }
        texts[number] = match rng.u32(..3) {
            0 => text(&paths[number]),
            _ => lines.join("\n"),
        };
        edited.open(&paths[number], texts[number].clone());
        let mut new = Workspace::new(Box::new(Disk));
        new.know(paths.clone());
        for (path, text) in paths.iter().zip(&texts) {
            new.open(path, text.clone());
        }
        assert_eq!(edited.diagnostics(), new.diagnostics(), "round {round}");
        for path in &paths {
            assert_eq!(edited.colours(path), new.colours(path), "round {round}");
            assert_eq!(
                edited.hints(path, &(0..usize::MAX)),
                new.hints(path, &(0..usize::MAX)),
                "round {round}"
            );
        }
    }
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).expect("a program")
}

/// Returns the processor time of this thread, which other processes do not lengthen; zero if the system does
/// not report it.
fn on_the_processor() -> Duration {
    let counted = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = counted.split(' ').next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}
