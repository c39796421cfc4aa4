//! The C side's structures, as `lang/emit-c/runtime/hawser.h` and `packet.h` declare them.
//!
//! Addresses in them are borrowed for one call: no function keeps one.

use std::ffi::c_char;
use std::ptr;

use hawser_ir::abi::{Csum, Icmp, Net, Op, Packet, PacketRec, ParseError};

/// `HAWSER_ABI`: changes with every incompatible change of what is declared here.
pub(crate) const ABI: u32 = 1;

/// `hw_memory`.
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

/// `hw_records`.
#[repr(C)]
pub(super) struct Records {
    pub(super) at: *mut u8,
    pub(super) end: *mut u8,
}

/// `hw_events`.
#[repr(C)]
pub(super) struct Events {
    pub(super) at: *mut u8,
    pub(super) end: *mut u8,
    pub(super) count: u32,
    pub(super) most: u32,
}

/// `hw_packet`.
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

/// `hw_built`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct RawBuilt {
    pub(super) len: u32,
    pub(super) csum_at: u16,
    pub(super) has_csum: u16,
}

/// `hawser_program`: the table of one compiled program.
#[repr(C)]
pub(crate) struct RawProgram {
    pub(crate) abi: u32,
    /// Bytes of this structure.
    pub(crate) size: u32,
    name: *const c_char,
    /// Of the text that it was compiled from; ends in a zero.
    pub(crate) digest: *const c_char,
    pub(super) react: unsafe extern "C" fn(*const u64, *mut u8, *const Memory, *mut Records) -> u64,
    pub(super) parse:
        unsafe extern "C" fn(*const u64, u32, *const RawPacket, *const Icmp, *const Op, *mut Events) -> u32,
    pub(super) build:
        unsafe extern "C" fn(*const u64, *const PacketRec, *mut u8, u32, u32, u32, *mut u8, u32) -> RawBuilt,
    pub(super) coalesce: unsafe extern "C" fn(*const u64, u32, *const u8, *const u8) -> u32,
}

// SAFETY: a table is a constant of its library: nobody writes it, nor what its addresses lead to.
unsafe impl Sync for RawProgram {}

/// The function that gives a program's table.
pub(crate) type Entry = unsafe extern "C" fn() -> *const RawProgram;

/// Why a parser gave nothing: the numbers of `packet.h`; 0 is none.
pub(super) fn parse_error(number: u32) -> Option<ParseError> {
    match number {
        0 => None,
        1 => Some(ParseError::Truncated),
        2 => Some(ParseError::Checksum),
        3 => Some(ParseError::Length),
        4 => Some(ParseError::Frame),
        _ => Some(ParseError::Events),
    }
}

/// A region's address; null where there is none.
pub(super) fn address(region: Option<&mut [u8]>) -> *mut u8 {
    region.map_or(ptr::null_mut(), <[u8]>::as_mut_ptr)
}
