//! Packet tests for any transport program, and a prompt to try it by hand.
//!
//! A file of steps says what the application asks for, which packets come in, and what must come of it, by the
//! program's own blueprints, each with its time (docs/steps.md). One stack runs the program in virtual time; the file
//! is the other end of the wire.
//!
//! * [`parse`]: from text to [`Steps`]; `literal`, `payload`, `span`: how values are written
//! * [`run`]: a file; [`Prompt`]: line by line
//! * `bench`: the stack, its clock and its wire; `condition`: asserts
//! * `image`, `packet`: from what is written to bytes, and back
//! * `verbs`: work on registered memory
//! * `causes`: which line of the program sent a packet
//!
//! Invariants: no clock, no socket, no file; no text makes it panic; the same file does the same each time.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod bench;
mod causes;
mod condition;
mod cursor;
mod image;
mod literal;
mod packet;
mod payload;
mod read;
mod report;
mod span;
mod verbs;
mod words;

use std::sync::Arc;

pub use hawser_engine::program::Program;

pub use bench::{Bench, SetupError};
pub use read::{Steps, SyntaxError, parse};
pub use report::{Failure, Place, Report};

use read::{Step, parse_line};

/// Runs the steps of a file to the first that fails. `text` is the file's. With `events`, what each event of the
/// program did is in the report, too.
///
/// # Errors
/// Why the program cannot be set up so.
pub fn run(program: Arc<dyn Program>, text: &str, steps: &Steps, events: bool) -> Result<Report, SetupError> {
    let mut bench = Bench::new(program, steps, events)?;
    let mut failure = steps.lines.iter().find_map(|line| bench.step(line).err());
    if let (None, Some(last)) = (&failure, steps.lines.last()) {
        failure = bench.finish(last).err();
    }
    let source = failure
        .as_ref()
        .and_then(|failure| text.lines().nth(failure.place.line as usize - 1));
    Ok(Report {
        source: source.unwrap_or_default().to_owned(),
        happened: bench.all_happened().to_vec(),
        failure,
    })
}

/// Takes steps one by one, as somebody types them.
pub struct Prompt {
    bench: Bench,
    number: u32,
}

impl Prompt {
    /// At the beginning of a run of a program.
    ///
    /// # Errors
    /// Why the program cannot be set up so.
    pub fn new(program: Arc<dyn Program>, events: bool) -> Result<Prompt, SetupError> {
        Ok(Prompt { bench: Bench::new(program, &Steps::default(), events)?, number: 0 })
    }

    /// Takes the step that a line is, and returns what came of it, as steps.
    ///
    /// # Errors
    /// What is wrong with the line, or what did not happen as written, for people; and what happened all the same.
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

    /// All that happened: a file of steps.
    #[must_use]
    pub fn all(&self) -> &[String] {
        self.bench.all_happened()
    }
}

/// Takes the header that random bytes are apart, writes it as a packet with its checksums and lengths right, shows
/// that, and reads it again: for tests. False where the bytes are no packet of the program.
///
/// # Panics
/// When what was shown is read as other bytes.
#[doc(hidden)]
pub fn show_and_read(program: &dyn Program, bytes: &[u8]) -> bool {
    packet::show_and_read(program, bytes).unwrap_or(false)
}

/// Takes packets of a program apart, whatever sent them.
pub struct Decoder(packet::Format);

/// A packet taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// As it is written in files of steps.
    pub text: String,
    /// Its numbers, by the names of their fields.
    pub numbers: Vec<(String, u64)>,
    /// Bytes of payload.
    pub payload: usize,
}

impl Decoder {
    /// For the packets of a program.
    ///
    /// # Errors
    /// A construct of the program that the interpreter does not run.
    pub fn new(program: &dyn Program) -> Result<Decoder, hawser_interp::Unsupported> {
        packet::Format::new(program).map(Decoder)
    }

    /// Takes a packet apart by the blueprint of this name; nothing where it is none of that.
    #[must_use]
    pub fn decode(&self, blueprint: &str, frame: &hawser_sim::frame::Frame) -> Option<Decoded> {
        let blueprints = &self.0.module().blueprints;
        let index = blueprints.iter().position(|known| known.name == blueprint)?;
        let mut frame = frame.clone();
        frame.complete();
        let opened = self.0.open(index, &frame).ok()?;
        Some(Decoded {
            text: self.0.show(&opened).to_string(),
            numbers: self.0.numbers(&opened),
            payload: opened.payload_len(),
        })
    }
}
