//! The interface between generated code and an engine, as `runtime/*.h` declares it for C.
//!
//! This is the only declaration for Rust. Every caller of generated code, or of code written by hand behind
//! the same table, uses it. `tests/abi.rs` compares every size and offset with the header's. Values with a
//! layout of their own (`Net`, `Op`, records) are declared in [`hawser_ir::abi`].
//!
//! Addresses in these structures are borrowed for one call: no function keeps one.

use std::ffi::c_char;
use std::ptr;

use hawser_ir::abi::{Built, ChainOutcome, Csum, Icmp, Net, Op, Packet, PacketRec, ParseError};

/// `HAWSER_ABI`: changes with every incompatible change of these declarations.
pub const ABI: u32 = 8;

/// `hw_memory`: the memory that a chain runs on.
#[repr(C)]
#[derive(Debug)]
pub struct Memory {
    /// The keyed context that was found by the event's ids, or null.
    pub keyed: *mut u8,
    /// The slot for a new context, zero except for its id; null if there is no slot.
    pub fresh: *mut u8,
    /// The `GLOBAL` contexts, by context type; pointers for other types may be null.
    pub globals: *const *mut u8,
    pub scratch: *mut u8,
    /// The type of the keyed context, as its index + 1; 0 if no context was found.
    pub keyed_type: u32,
    pub pad: u32,
}

/// `hw_records`: the destination of records.
#[repr(C)]
#[derive(Debug)]
pub struct Records {
    /// The place of the next one; it advances.
    pub at: *mut u8,
    /// The end of the room, exclusive.
    pub end: *mut u8,
    /// The signals that are recorded: see [`hawser_ir::buf::RecordBuf::wanted`].
    pub wanted: u64,
}

/// `hw_events`: the destination of a parser's events, back to back.
#[repr(C)]
#[derive(Debug)]
pub struct Events {
    /// The place of the next one; it advances.
    pub at: *mut u8,
    /// The end of the room, exclusive.
    pub end: *mut u8,
    /// The number of events.
    pub count: u32,
    /// The maximum number of events.
    pub capacity: u32,
}

/// `hw_packet`: a received packet from its transport header on.
#[repr(C)]
#[derive(Debug)]
pub struct RawPacket {
    /// The network header.
    pub net: *const Net,
    /// The headers.
    pub head: *const u8,
    /// The length of `head` in bytes.
    pub head_len: u64,
    /// The bytes after `head`, if the wire holds the payload elsewhere.
    pub tail: *const u8,
    /// The length of `tail` in bytes.
    pub tail_len: u64,
    /// See [`Packet::merged`].
    pub merged: u64,
    /// The address of the first byte of `head`. It continues through all bytes that follow.
    pub addr: u64,
    /// Flags for the checks to make: 1 Internet checksums, 2 an invariant CRC.
    pub verify: u32,
    /// See [`Packet::crc`].
    pub crc: u32,
}

impl RawPacket {
    /// Returns a view of the packet for as long as it is borrowed.
    #[must_use]
    pub fn from_packet(packet: &Packet<'_>) -> RawPacket {
        RawPacket {
            net: packet.net,
            head: packet.head.as_ptr(),
            head_len: packet.head.len() as u64,
            tail: packet.tail.as_ptr(),
            tail_len: packet.tail.len() as u64,
            merged: packet.merged as u64,
            addr: packet.addr,
            verify: u32::from(packet.csum == Csum::Unverified) | u32::from(packet.crc.is_some()) << 1,
            crc: packet.crc.unwrap_or(0),
        }
    }
}

/// `hw_built`: the result of building a header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawBuilt {
    /// The length in bytes of the header, including the trailer behind it.
    pub len: u32,
    /// The length of the trailer in bytes.
    pub trailer: u32,
    /// The offset of an Internet checksum that remains to be completed, if `has_csum` is not 0.
    pub csum_at: u16,
    /// Not 0 if there is such a checksum.
    pub has_csum: u16,
}

impl RawBuilt {
    /// Converts the result for an engine whose header has `room` bytes.
    #[must_use]
    pub fn within(self, room: usize) -> Built {
        let csum = (self.has_csum != 0).then_some((0, self.csum_at));
        Built {
            len: (self.len as usize).min(room),
            trailer: self.trailer as usize,
            csum,
        }
    }
}

/// Runs the chain of an event (params, event, memory, records), and returns an `HW_OUTCOME`.
pub type React = unsafe extern "C" fn(*const u64, *mut u8, *const Memory, *mut Records) -> u64;
/// Turns an input into events (params, parser, packet, error, request, events); see [`parse_error`].
pub type Parse =
    unsafe extern "C" fn(*const u64, u32, *const RawPacket, *const Icmp, *const Op, *mut Events) -> u32;
/// Writes a header (params, record, image, index of the packet, number of packets, length of its payload,
/// header, room).
pub type Build =
    unsafe extern "C" fn(*const u64, *const PacketRec, *mut u8, u32, u32, u32, *mut u8, u32) -> RawBuilt;
/// Returns whether the later of two images replaces the earlier (params, blueprint, earlier, later).
pub type Coalesce = unsafe extern "C" fn(*const u64, u32, *const u8, *const u8) -> u32;

/// `hawser_program`: the table of one compiled program.
#[repr(C)]
#[derive(Debug)]
pub struct RawProgram {
    pub abi: u32,
    /// The size of this structure in bytes.
    pub size: u32,
    /// The name of the program, terminated by a zero byte.
    pub name: *const c_char,
    /// The digest of the text from which it was compiled, terminated by a zero byte.
    pub digest: *const c_char,
    pub react: React,
    pub parse: Parse,
    pub build: Build,
    pub coalesce: Coalesce,
}

/// The function that returns a program's table, which is a constant of its library.
pub type Entry = unsafe extern "C" fn() -> *const RawProgram;

/// Returns the error of a parser from its number in `hawser.h`; 0 means no error.
#[must_use]
pub fn parse_error(number: u32) -> Option<ParseError> {
    match number {
        0 => None,
        1 => Some(ParseError::Truncated),
        2 => Some(ParseError::Checksum),
        3 => Some(ParseError::Length),
        4 => Some(ParseError::Frame),
        _ => Some(ParseError::Events),
    }
}

/// Decodes the outcome of a chain.
///
/// # Errors
/// Returns the number itself if it is no valid outcome. Either the record buffer was too small
/// (`HW_NO_ROOM`), or the code is not the emitter's.
pub fn outcome(number: u64) -> Result<ChainOutcome, u32> {
    let code = (number >> 32) as u32;
    match number as u32 {
        0 => Ok(ChainOutcome::Done),
        1 => Ok(ChainOutcome::Stop),
        2 => Ok(ChainOutcome::Refused(code)),
        3 => Ok(ChainOutcome::Assert(code)),
        kind => Err(kind),
    }
}

/// Returns a region's address; null for `None`.
#[must_use]
#[inline]
pub fn address(region: Option<&mut [u8]>) -> *mut u8 {
    region.map_or(ptr::null_mut(), <[u8]>::as_mut_ptr)
}
