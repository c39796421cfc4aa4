//! Writes a batch script for Slurm: an array job with an element for each task.

use std::fmt::Write as _;
use std::path::Path;

use super::{RunnerError, absolute, local};

/// An array job of Slurm.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The path of `hawser`, which each job of the array starts.
    pub program: &'a Path,
    /// The path of the sweep's document.
    pub sweep: &'a Path,
    /// The folder for the results, which all nodes must see.
    pub out: &'a Path,
    /// Further options of the program.
    pub options: &'a [&'a str],
}

/// Returns the script that runs the tasks of these numbers.
///
/// # Errors
/// A relative path has no absolute one.
pub fn script(job: Job<'_>, numbers: &[usize]) -> Result<String, RunnerError> {
    let path = |path| Ok::<_, RunnerError>(quoted(&absolute(path)?.to_string_lossy()));
    let (program, sweep, out) = (path(job.program)?, path(job.sweep)?, path(job.out)?);
    let options: String = job.options.iter().map(|option| format!(" {option}")).collect();
    Ok(format!(
        "#!/bin/sh\n\
         #SBATCH --job-name=hawser-sweep\n\
         #SBATCH --array={}\n\
         #SBATCH --ntasks=1\n\
         #SBATCH --cpus-per-task=1\n\
         #SBATCH --requeue\n\
         # An element that ends by a signal is tried again, a few times. A task with a result is not run again.\n\
         for try in $(seq {}); do\n    \
             {program} sim sweep {sweep} --out {out}{options} --task \"$SLURM_ARRAY_TASK_ID\"\n    \
             status=$?\n    \
             [ $status -gt 128 ] || exit $status\n\
         done\n\
         exit $status\n",
        ranges(numbers),
        local::TRIES,
    ))
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
