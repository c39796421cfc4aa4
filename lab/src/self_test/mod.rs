//! `hawser lab self-test`: measures links against their files, and the overhead of this machine.
//!
//! * `probe`: datagrams that contain their send times
//! * `cases`: the matrix, and the bounds of each case
//! * `report`: the results, as data and as a table
//!
//! Delays are one way, by one clock. The floor is the machine's own share: waking up a thread, carrying a
//! frame. It does not count as an error of the lab within the bounds, so the bounds are stated with every
//! case.

mod cases;
mod probe;
mod report;

use crate::LabError;
use crate::lab::Lab;
use crate::spec::Spec;

pub use report::{Delays, Floor, Row, SelfTest};

/// Runs the matrix, or a part of it that takes a few seconds. Calls `on_case` with each case before it
/// begins. The process needs the same rights as for [`Lab::up`].
///
/// # Errors
/// A lab could not be built. Cases out of bounds are not errors, but part of the report.
pub fn run(quick: bool, on_case: &mut dyn FnMut(&str)) -> Result<SelfTest, LabError> {
    let mut rows = Vec::new();
    for case in cases::matrix(quick) {
        on_case(&case.name);
        rows.push(case.run()?);
    }
    on_case("floor");
    let floor = floor(quick)?;
    let ok = rows.iter().all(|row| row.faults.is_empty());
    Ok(SelfTest { ok, rows, floor })
}

/// Measures the delay that the machine adds by itself, and its throughput.
fn floor(quick: bool) -> Result<Floor, LabError> {
    let probes = if quick { 200 } else { 1000 };
    let kernel = probe::delays(&pair("")?, probes, None)?;
    let cell = probe::delays(&pair("through = \"cell\"")?, probes, None)?;
    let line = "both = { rate = \"1Gbit/s\" }\nthrough = \"cell\"";
    let busy = probe::delays(&pair(line)?, probes, Some(500_000_000))?;
    let seconds = if quick { 0.3 } else { 1.0 };
    let (bits_per_second, lost) = probe::stream(&pair("through = \"cell\"\nmtu = 1500")?, seconds)?;
    Ok(Floor { kernel, cell, busy, bits_per_second, lost })
}

/// Builds two hosts `a` and `b`, with a link `link` that has these further lines.
fn pair(lines: &str) -> Result<Lab, LabError> {
    let text = format!(
        "seed = 7\nhost = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n\
         [[link]]\nname = \"link\"\nbetween = [\"a\", \"b\"]\n{lines}\n"
    );
    Lab::up(&Spec::parse(&text)?)
}
