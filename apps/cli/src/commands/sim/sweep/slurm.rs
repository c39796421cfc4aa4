//! Writes a batch script for Slurm: an array job with an element for each task.

use std::fmt::Write as _;
use std::path::Path;

use hawser::runs::sweep::Task;
use serde_json::json;

use super::folder::Folder;
use super::{Args, local};
use crate::exit::{Exit, Outcome};

/// Writes the script. All nodes must see the folder.
pub(super) fn write(args: &Args, missing: &[&Task], folder: &Folder) -> Outcome {
    let path = folder.file("sweep.sbatch");
    let own = std::env::current_exe()
        .map_err(|error| Exit::environment(format!("cannot find this program: {error}")))?;
    let file = absolute(&args.file)?;
    let out = absolute(&args.out)?;
    let numbers: Vec<usize> = missing.iter().map(|task| task.number).collect();
    if !numbers.is_empty() {
        let native = if args.native.allow_native {
            " --allow-native"
        } else {
            ""
        };
        let text = script(
            &quoted(&own.to_string_lossy()),
            &quoted(&file),
            &quoted(&out),
            native,
            &numbers,
        );
        folder.write(&path, text.as_bytes())?;
    }
    if args.json {
        let script = (!numbers.is_empty()).then(|| path.display().to_string());
        println!("{}", json!({ "tasks": numbers.len(), "script": script }));
    } else if numbers.is_empty() {
        println!("nothing is left to run");
    } else {
        println!(
            "{} tasks are left; run them with: sbatch {}",
            numbers.len(),
            path.display()
        );
        println!(
            "then merge their results with: hawser sim sweep {} --out {}",
            args.file.display(),
            args.out.display()
        );
    }
    Ok(())
}

fn absolute(path: &Path) -> Result<String, Exit> {
    let path = std::path::absolute(path)
        .map_err(|error| Exit::environment(format!("cannot find {}: {error}", path.display())))?;
    Ok(path.to_string_lossy().into_owned())
}

fn script(own: &str, file: &str, out: &str, native: &str, numbers: &[usize]) -> String {
    format!(
        "#!/bin/sh\n\
         #SBATCH --job-name=hawser-sweep\n\
         #SBATCH --array={}\n\
         #SBATCH --ntasks=1\n\
         #SBATCH --cpus-per-task=1\n\
         #SBATCH --requeue\n\
         # An element that ends by a signal is tried again, a few times; what has a result is not run again.\n\
         for try in $(seq {}); do\n    \
             {own} sweep {file} --out {out}{native} --task \"$SLURM_ARRAY_TASK_ID\"\n    \
             status=$?\n    \
             [ $status -gt 128 ] || exit $status\n\
         done\n\
         exit $status\n",
        ranges(numbers),
        local::TRIES,
    )
}

/// Formats the elements of an array in Slurm's notation: `1-3,5`.
fn ranges(numbers: &[usize]) -> String {
    let mut text = String::new();
    for run in numbers.chunk_by(|one, next| one + 1 == *next) {
        let comma = if text.is_empty() { "" } else { "," };
        let _ = match run {
            [one] => write!(text, "{comma}{one}"),
            [first, .., last] => write!(text, "{comma}{first}-{last}"),
            [] => Ok(()),
        };
    }
    text
}

/// Quotes a word for the shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_written_as_slurm_reads_them() {
        assert_eq!(ranges(&[1, 2, 3, 5, 7, 8]), "1-3,5,7-8");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
