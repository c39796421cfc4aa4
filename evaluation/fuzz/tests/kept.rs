//! Runs every fuzz target over the stored inputs, and over random mutations of them for a stated time.
//!
//! A failing input is written to `target/fuzz/NAME/`; it should be moved to `seeds/NAME/`.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fastrand::Rng;
use hawser_fuzz::{TARGETS, Target};
use rustix::time::{ClockId, clock_gettime};

/// The processor time for which each target runs on mutated inputs.
const CHANGED: Duration = Duration::from_millis(1500);
/// The longest input, in bytes.
const MAX_INPUT: usize = 8192;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds")
}

/// Returns the stored inputs of a target, and an empty one.
fn kept(target: &Target) -> Vec<Vec<u8>> {
    let files = fs::read_dir(folder().join(target.name)).into_iter().flatten();
    let mut paths: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort();
    let inputs = paths
        .iter()
        .map(|path| fs::read(path).expect("a file that can be read"));
    inputs.chain([Vec::new()]).collect()
}

/// Returns the processor time of this process.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Runs a target, and stores the input if it fails.
fn run(target: &Target, input: &[u8]) {
    let Err(panic) = catch_unwind(AssertUnwindSafe(|| (target.run)(input))) else {
        return;
    };
    let found = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("../fuzz")
        .join(target.name);
    fs::create_dir_all(&found).expect("a folder");
    let path = found.join("failed");
    fs::write(&path, input).expect("a file");
    eprintln!("{} fails for {}", target.name, path.display());
    resume_unwind(panic);
}

/// Changes bytes, numbers, lengths and order, or inserts a part of another input.
fn change(rng: &mut Rng, input: &mut Vec<u8>, others: &[Vec<u8>]) {
    for _ in 0..=rng.usize(..6) {
        let at = rng.usize(..input.len().max(1));
        let end = (at + rng.usize(..16)).min(input.len());
        match (rng.usize(..8), input.get_mut(at)) {
            (0, Some(byte)) => *byte ^= 1 << rng.usize(..8),
            (1, Some(byte)) => *byte = rng.u8(..),
            (2, Some(byte)) => *byte = [0, 1, 0x7f, 0x80, 0xff][rng.usize(..5)],
            (3, Some(byte)) => *byte = byte.wrapping_add(rng.u8(..4)).wrapping_sub(2),
            (4, Some(_)) => drop(input.drain(at..end)),
            (5, Some(_)) => input.extend_from_within(at..end),
            (6, _) => input.truncate(at),
            _ => {
                let other = rng.choice(others).expect("the empty one");
                let part = rng.usize(..=other.len())..;
                input.truncate(at);
                input.extend_from_slice(&other[part]);
            }
        }
    }
    input.truncate(MAX_INPUT);
}

#[test]
fn fuzz_targets_hold_for_kept_and_mutated_inputs() {
    for target in TARGETS {
        let inputs = kept(target);
        inputs.iter().for_each(|input| run(target, input));
        let (mut rng, mut count) = (Rng::with_seed(52), 0);
        let begin = processor_time();
        while processor_time() - begin < CHANGED {
            let mut input = rng.choice(&inputs).expect("the empty one").clone();
            change(&mut rng, &mut input, &inputs);
            run(target, &input);
            count += 1;
        }
        println!(
            "{:<18} {:>4} kept, {count:>8} changed",
            target.name,
            inputs.len() - 1
        );
    }
}

#[test]
fn inputs_are_kept_for_every_target_and_for_no_other() {
    let files = fs::read_dir(folder()).expect("the folder");
    let mut there: Vec<_> = files.map(|file| file.expect("a folder").file_name()).collect();
    there.sort();
    let wanted: Vec<_> = TARGETS
        .iter()
        .map(|target| target.name.into())
        .collect::<Vec<std::ffi::OsString>>();
    assert_eq!(there, wanted);
}
