//! The course of one program's comparison: fifty events, their packets, and inputs for its parsers.

use std::io::Write;

use hawser_ir::buf::RecordBuf;

use crate::compile::Printed;
use crate::coverage::Coverage;
use crate::nodes;
use crate::packets::Packets;
use crate::rng::Rng;
use crate::side::Side;
use crate::trial::{EVENTS, Trial};

/// Compares a program on both sides. Before each step, `progress` receives the step's number. If the code
/// traps, the last number shows the step.
///
/// # Errors
/// Returns the number of the step and the difference between the sides.
pub fn compare(
    printed: &Printed,
    other: &dyn Side,
    seed: u64,
    coverage: &mut Coverage,
    progress: &mut dyn FnMut(usize),
) -> Result<(), (usize, String)> {
    let module = &*printed.module;
    let mut trial = Trial::new(module, &printed.interpreter, other, seed);
    let packets = Packets { module, left: &printed.interpreter, right: other };
    let mut rng = Rng::new(seed, "packets");
    for step in 0..EVENTS {
        progress(step);
        let mut recorded: Vec<RecordBuf> = Vec::new();
        trial
            .event(&mut |_, _, _, records| recorded.push(records.clone()))
            .map_err(|text| (step, text))?;
        if !crate::native::PACKETS {
            continue;
        }
        for records in &recorded {
            packets
                .of_records(&mut rng, records)
                .map_err(|text| (step, text))?;
        }
        let parsed = packets.input(&mut rng).map_err(|text| (step, text))?;
        coverage.count(parsed);
    }
    nodes::count(module, &trial.ran, coverage);
    trial.tally(coverage);
    coverage.next_program();
    Ok(())
}

/// Prints a line and flushes it at once.
pub fn send(line: &str) {
    let mut out = std::io::stdout().lock();
    // A parent that has exited needs no further output.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
