//! The C side's structures, as `bench/handwritten/abi.h` declares them, and its functions.
//!
//! Addresses in them are borrowed for one call: no function keeps one.

use std::ffi::c_void;

use hawser_ir::abi::{Csum, Net, Op, Packet, PacketRec};

/// `memory_t`.
#[repr(C)]
pub(super) struct Memory {
    pub(super) keyed: *mut u8,
    pub(super) fresh: *mut u8,
    pub(super) globals: *const *mut u8,
    pub(super) scratch: *mut u8,
    /// The type's index + 1; 0: none was found.
    pub(super) keyed_type: u32,
    pub(super) pad: u32,
}

/// `records_t`.
#[repr(C)]
pub(super) struct Records {
    pub(super) at: *mut u8,
    pub(super) end: *mut u8,
}

/// `events_t`.
#[repr(C)]
pub(super) struct Events {
    pub(super) at: *mut u8,
    pub(super) end: *mut u8,
    pub(super) count: u32,
    pub(super) most: u32,
}

/// `packet_t`.
#[repr(C)]
pub(super) struct RawPacket {
    net: *const Net,
    head: *const u8,
    head_len: u64,
    tail: *const u8,
    tail_len: u64,
    addr: u64,
    verify: u32,
    pad: u32,
}

impl RawPacket {
    /// The same packet, for as long as it is borrowed.
    pub(super) fn of(packet: &Packet<'_>) -> RawPacket {
        RawPacket {
            net: packet.net,
            head: packet.head.as_ptr(),
            head_len: packet.head.len() as u64,
            tail: packet.tail.as_ptr(),
            tail_len: packet.tail.len() as u64,
            addr: packet.addr,
            verify: u32::from(packet.csum == Csum::Unverified),
            pad: 0,
        }
    }
}

/// `built_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct RawBuilt {
    pub(super) len: u32,
    pub(super) csum_at: u16,
    pub(super) has_csum: u16,
}

/// A region's address; null where there is none.
pub(super) fn address(region: Option<&mut [u8]>) -> *mut u8 {
    region.map_or(std::ptr::null_mut(), <[u8]>::as_mut_ptr)
}

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
        icmp: *const c_void,
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
    /// `sizeof` of each structure in the order of the constants in `tables`, then where a
    /// connection's timers begin.
    pub(super) static handwritten_sizes: [u32; 9];
}
