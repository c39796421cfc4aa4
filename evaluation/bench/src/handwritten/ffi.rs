//! The functions of the C side: `evaluation/handwritten/handwritten.c` and `abi_cost.c`.

use hawser_emit_c::abi::{Events, Memory, RawBuilt, RawPacket, Records};
use hawser_ir::abi::{Icmp, Op, PacketRec};

unsafe extern "C" {
    pub(super) fn handwritten_react(
        params: *const u64,
        event: *mut u8,
        memory: *const Memory,
        records: *mut Records,
    ) -> u64;
    pub(super) fn handwritten_parse(
        params: *const u64,
        parser: u32,
        packet: *const RawPacket,
        icmp: *const Icmp,
        op: *const Op,
        out: *mut Events,
    ) -> u32;
    pub(super) fn handwritten_build(
        params: *const u64,
        packet: *const PacketRec,
        image: *mut u8,
        index: u32,
        count: u32,
        len: u32,
        header: *mut u8,
        room: u32,
    ) -> RawBuilt;
    pub(super) fn handwritten_coalesce(
        params: *const u64,
        blueprint: u32,
        earlier: *const u8,
        later: *const u8,
    ) -> u32;
    pub(super) fn abi_cost_records(params: *const u64, data: u32, count: u64) -> u64;
    pub(super) fn abi_cost_direct(params: *const u64, data: u32, count: u64) -> u64;
    /// The `sizeof` of each structure in the order of the constants in `tables`, then the offset of a
    /// connection's timers.
    pub(super) static handwritten_sizes: [u32; 13];
}
