//! Packet tests for any transport program, and a prompt to try it by hand.
//!
//! A file of steps states the application's requests, the incoming packets and the expected results, each
//! with its time (docs/steps.md). It uses the program's own blueprints. One stack runs the program in virtual
//! time. The file is the other end of the wire.
//!
//! * [`parse`]: from text to [`Steps`]; `literal`, `payload`, `span`: the notation of values
//! * [`run`]: a file; [`Prompt`]: line by line
//! * `bench`: the stack, its clock and its wire; `condition`: asserts
//! * `image`, `packet`: from the written form to bytes, and back
//! * `verbs`: work on registered memory
//! * `causes`: the line of the program that sent a packet
//!
//! Invariants: no clock, no socket, no file; no text causes a panic; the same file always gives the same
//! result.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod bench;
mod causes;
mod condition;
mod cursor;
mod image;
mod literal;
mod notice_names;
mod packet;
mod parse;
mod payload;
mod report;
mod span;
mod verbs;

use std::sync::Arc;

pub use hawser_engine::program::Program;

pub use bench::{SetupError, StepBench};
pub use parse::{StepSyntaxError, Steps, parse};
pub use report::{StepFailure, StepPosition, StepReport};

use parse::{Step, parse_line};

/// Runs the steps of a file up to the first failure. `text` is the file's. With `events`, the report also
/// contains the effects of each event of the program.
///
/// # Errors
/// The reason why the program cannot be set up in this way.
pub fn run(
    program: Arc<dyn Program>,
    text: &str,
    steps: &Steps,
    events: bool,
) -> Result<StepReport, SetupError> {
    let mut bench = StepBench::new(program, steps, events)?;
    let mut failure = steps.lines.iter().find_map(|line| bench.step(line).err());
    if let (None, Some(last)) = (&failure, steps.lines.last()) {
        failure = bench.finish(last).err();
    }
    let source = failure
        .as_ref()
        .and_then(|failure| text.lines().nth(failure.place.line as usize - 1));
    Ok(StepReport {
        source: source.unwrap_or_default().to_owned(),
        happened: bench.all_happened().to_vec(),
        failure,
    })
}

/// An interactive prompt that executes steps one by one.
pub struct Prompt {
    bench: StepBench,
    number: u32,
}

impl Prompt {
    /// Starts a run of a program.
    ///
    /// # Errors
    /// The reason why the program cannot be set up in this way.
    pub fn new(program: Arc<dyn Program>, events: bool) -> Result<Prompt, SetupError> {
        Ok(Prompt { bench: StepBench::new(program, &Steps::default(), events)?, number: 0 })
    }

    /// Executes the step in a line, and returns the resulting log as steps.
    ///
    /// # Errors
    /// A readable description of the fault in the line or of the deviation, and the log of what happened all
    /// the same.
    pub fn line(&mut self, text: &str) -> Result<Vec<String>, (String, Vec<String>)> {
        self.number += 1;
        let line = parse_line(text, self.number).map_err(|error| (error.to_string(), Vec::new()))?;
        let Some(line) = line else {
            return Ok(Vec::new());
        };
        if !matches!(line.step, Step::Out { .. } | Step::OutNothing(_)) {
            self.bench.forget_packets();
        }
        let done = self.bench.step(&line);
        let happened = self.bench.take_happened();
        match done {
            Ok(()) => Ok(happened),
            Err(failure) => Err((failure.explain("line", text), happened)),
        }
    }

    /// Returns the whole log, which is a file of steps.
    #[must_use]
    pub fn all(&self) -> &[String] {
        self.bench.all_happened()
    }
}

/// For tests: parses random bytes as a header, writes it as a packet with correct checksums and lengths,
/// shows that packet, and reads it again. Returns false if the bytes are not a packet of the program.
///
/// # Panics
/// Panics if the shown form is read as other bytes.
#[doc(hidden)]
pub fn show_and_read(program: &dyn Program, bytes: &[u8]) -> bool {
    packet::show_and_read(program, bytes).unwrap_or(false)
}

/// A decoder for packets of a program, whatever their sender.
pub struct Decoder(packet::Format);

/// A decoded packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedPacket {
    /// The packet as it is written in files of steps.
    pub text: String,
    /// The packet's numbers, by the names of their fields.
    pub numbers: Vec<(String, u64)>,
    /// The number of bytes of payload.
    pub payload: usize,
}

impl Decoder {
    /// Creates a decoder for the packets of a program.
    ///
    /// # Errors
    /// A construct of the program that the interpreter does not run.
    pub fn new(program: &dyn Program) -> Result<Decoder, hawser_interp::Unsupported> {
        packet::Format::new(program).map(Decoder)
    }

    /// Decodes a packet by the blueprint of this name. Returns `None` if it does not match.
    #[must_use]
    pub fn decode(&self, blueprint: &str, frame: &hawser_sim::frame::Frame) -> Option<DecodedPacket> {
        let blueprints = &self.0.module().blueprints;
        let index = blueprints.iter().position(|known| known.name == blueprint)?;
        let mut frame = frame.clone();
        frame.complete();
        let opened = self.0.open(index, &frame).ok()?;
        Some(DecodedPacket {
            text: self.0.show(&opened).to_string(),
            numbers: self.0.numbers(&opened),
            payload: opened.payload_len(),
        })
    }
}
