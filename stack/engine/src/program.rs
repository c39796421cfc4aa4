//! What the engine knows of a transport program.

use hawser_ir::Module;
use hawser_ir::abi::{Built, Outcome, PacketRec, ParseError, Segment};
use hawser_ir::buf::{EventBuf, Input, RecordBuf, Regions};

/// A transport program, interpreted or generated. Pure: no method has an effect beyond its
/// arguments, and none calls back.
pub trait Program: Send + Sync {
    /// Its tables: events, contexts, bounds, parsers, blueprints.
    fn module(&self) -> &Module;

    /// What runs it, for reports: `interp`, `native`; `rust` for one that was written by hand.
    fn engine(&self) -> &'static str {
        "rust"
    }

    /// The values of its params, in the module's order; nothing where it was written by hand.
    fn params(&self) -> &[u64] {
        &[]
    }

    /// Turns an input into events, in order, by the parser with index `parser` in
    /// [`Module::parsers`]. Each event's header has its ids; the engine stamps time and
    /// randomness before [`Program::react`].
    ///
    /// # Errors
    /// Why the input is dropped; `out` is then as before.
    fn parse(&self, parser: usize, input: Input<'_>, out: &mut EventBuf) -> Result<(), ParseError>;

    /// Runs the chain of one event (header first) and appends its records to `out`. Contexts and
    /// scratchpad change in place.
    fn react(&self, event: &mut [u8], memory: &mut Regions<'_>, out: &mut RecordBuf) -> Outcome;

    /// Writes the header of one packet of a `pkt_gen` to `header` and returns its length.
    ///
    /// Called for `segment.index` 0, 1, … in order: the segmentation rules change `image`, the
    /// blueprint's bytes, from packet to packet, and its `data.len` becomes `segment.len`: leave both
    /// alone between calls. `packet.net` holds the final addresses (the
    /// pseudo-header needs them). `header` has room for [`hawser_ir::Blueprint::max_len`] bytes.
    fn build(&self, packet: &PacketRec, image: &mut [u8], segment: Segment, header: &mut [u8]) -> Built;

    /// Whether `later` replaces `earlier`, both of the same blueprint, context and queue.
    fn coalesce(&self, blueprint: u16, earlier: &[u8], later: &[u8]) -> bool;
}
