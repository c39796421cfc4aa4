//! The sides of a comparison, each of which runs a program.

use hawser_interp::Interpreter;
use hawser_ir::abi::{Built, ChainOutcome, PacketRec, ParseError, Segment};
use hawser_ir::buf::{EventBuf, Input, RecordBuf, Regions};

/// A back end that runs a program. No method has an effect beyond its arguments.
pub trait Side {
    /// Turns an input into events, using the parser with this index.
    ///
    /// # Errors
    /// Returns the reason why the input is dropped.
    fn parse(&self, parser: usize, input: Input<'_>, out: &mut EventBuf) -> Result<(), ParseError>;
    /// Runs the chain of an event.
    fn react(&self, event: &mut [u8], memory: &mut Regions<'_>, out: &mut RecordBuf) -> ChainOutcome;
    /// Writes the header of one packet.
    fn build(&self, packet: &PacketRec, image: &mut [u8], segment: Segment, header: &mut [u8]) -> Built;
    /// True if the later header replaces the earlier one.
    fn coalesce(&self, blueprint: u16, earlier: &[u8], later: &[u8]) -> bool;
}

impl Side for Interpreter {
    fn parse(&self, parser: usize, input: Input<'_>, out: &mut EventBuf) -> Result<(), ParseError> {
        Interpreter::parse(self, parser, input, out)
    }

    fn react(&self, event: &mut [u8], memory: &mut Regions<'_>, out: &mut RecordBuf) -> ChainOutcome {
        Interpreter::react(self, event, memory, out)
    }

    fn build(&self, packet: &PacketRec, image: &mut [u8], segment: Segment, header: &mut [u8]) -> Built {
        Interpreter::build(self, packet, image, segment, header)
    }

    fn coalesce(&self, blueprint: u16, earlier: &[u8], later: &[u8]) -> bool {
        Interpreter::coalesce(self, blueprint, earlier, later)
    }
}
