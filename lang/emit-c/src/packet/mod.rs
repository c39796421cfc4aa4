//! Packets: parsers, headers, segmentation and coalescing rules.

use hawser_ir::{BlueprintId, EventId, Place, WireFact};

use crate::emitter::Emitter;
use crate::scope::Scope;

/// The functions `mtp_parse`, `mtp_build` and `mtp_coalesce`, which stand behind all others.
pub(crate) fn functions(_emitter: &mut Emitter<'_>) -> String {
    PENDING.to_owned()
}

/// Until parsers are generated, every input is dropped.
const PENDING: &str = "
static uint64_t mtp_parse(const uint64_t *params, uint32_t parser, const struct hw_input *input, struct hw_events *out) {
    return HW_OUTCOME(HW_DROPPED, 4);
}
static void mtp_build(const uint64_t *params, const hw_packet_rec *packet, uint8_t *image,
                      const struct hw_segment *segment, struct hw_built *out) {
}
static uint32_t mtp_coalesce(const uint64_t *params, uint32_t blueprint, const uint8_t *earlier, const uint8_t *later) {
    return 0;
}
";

/// `p.extract(bp);`
pub(crate) fn extract(_e: &mut Emitter<'_>, _s: &mut Scope, _blueprint: BlueprintId, _dst: &Place, _ok: Option<&Place>) {}

/// `out.add(ev);` in a parser.
pub(crate) fn push_event(_e: &mut Emitter<'_>, _s: &mut Scope, _event: EventId, _from: &Place) {}

/// Ends a parser with a counted drop.
pub(crate) fn drop_input(e: &mut Emitter<'_>, s: &mut Scope) {
    e.end_run(s, "HW_OUTCOME(HW_DROPPED, 4)");
}

/// A quantity of the packet at the parser's cursor.
pub(crate) fn cursor_fact(_fact: WireFact) -> String {
    "0".into()
}
