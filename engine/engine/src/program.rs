//! The engine's interface to a transport program.

use hawser_ir::Module;
use hawser_ir::abi::{Built, ChainOutcome, PacketRec, ParseError, Segment};
use hawser_ir::buf::{EventBuf, Input, RecordBuf, Regions};

/// A transport program, interpreted or generated. It is pure: no method has an effect beyond its arguments,
/// and no method calls back.
pub trait Program: Send + Sync {
    /// Returns the program's tables: events, contexts, bounds, parsers, blueprints.
    fn module(&self) -> &Module;

    /// Returns the name of the program's execution engine, for reports: `interp`, `native`, or `rust` for a
    /// handwritten program.
    fn engine(&self) -> &'static str {
        "rust"
    }

    /// Returns the values of the program's params, in the module's order; empty for a handwritten program.
    fn params(&self) -> &[u64] {
        &[]
    }

    /// Turns an input into events, in order, by the parser with index `parser` in [`Module::parsers`]. Each
    /// event's header has its ids; the engine stamps time and randomness before [`Program::react`].
    ///
    /// # Errors
    /// Returns the reason for dropping the input; `out` is then unchanged.
    fn parse(&self, parser: usize, input: Input<'_>, out: &mut EventBuf) -> Result<(), ParseError>;

    /// Runs the chain of one event (header first) and appends its records to `out`. Contexts and scratchpad
    /// change in place.
    fn react(&self, event: &mut [u8], memory: &mut Regions<'_>, out: &mut RecordBuf) -> ChainOutcome;

    /// Writes the header of one packet of a `pkt_gen` to `header` and returns its length.
    ///
    /// The engine calls it for `segment.index` 0, 1, … in order. The segmentation rules change `image`, the
    /// blueprint's bytes, from packet to packet, and its `data.len` becomes `segment.len`; the caller leaves
    /// both alone between calls. `packet.net` holds the final addresses, which the pseudo-header needs.
    /// `header` has room for [`hawser_ir::Blueprint::max_len`] bytes.
    fn build(&self, packet: &PacketRec, image: &mut [u8], segment: Segment, header: &mut [u8]) -> Built;

    /// Returns true if `later` replaces `earlier`; both have the same blueprint, context and queue.
    fn coalesce(&self, blueprint: u16, earlier: &[u8], later: &[u8]) -> bool;
}
