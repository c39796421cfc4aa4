//! What generated code and an engine exchange, as `runtime/*.h` declares it for C.
//!
//! The one declaration for Rust: whatever calls generated code, or code written by hand behind the
//! same table, calls it through these. `tests/abi.rs` compares every size and offset with the
//! header's. Values that have a layout of their own (`Net`, `Op`, records) are
//! [`hawser_ir::abi`]'s.
//!
//! Addresses in these structures are borrowed for one call: no function keeps one.

use std::ffi::c_char;
use std::ptr;

use hawser_ir::abi::{Built, Csum, Icmp, Net, Op, Outcome, Packet, PacketRec, ParseError};

/// `HAWSER_ABI`: changes with every incompatible change of what is declared here.
pub const ABI: u32 = 8;

/// `hw_memory`: what a chain runs on.
#[repr(C)]
#[derive(Debug)]
pub struct Memory {
    /// The context that the event's ids led to; null: none.
    pub keyed: *mut u8,
    /// The slot for a new context, zero but for its id; null: none.
    pub fresh: *mut u8,
    /// By context type; those that are not `GLOBAL` may be null.
    pub globals: *const *mut u8,
    /// The scratchpad.
    pub scratch: *mut u8,
    /// The keyed context's type, its index + 1; 0: none was found.
    pub keyed_type: u32,
    /// Zero.
    pub pad: u32,
}

/// `hw_records`: where records go.
#[repr(C)]
#[derive(Debug)]
pub struct Records {
    /// Where the next one goes; moves on.
    pub at: *mut u8,
    /// One past the room.
    pub end: *mut u8,
    /// The signals that are recorded: see [`hawser_ir::buf::RecordBuf::wanted`].
    pub wanted: u64,
}

/// `hw_events`: where a parser's events go, back to back.
#[repr(C)]
#[derive(Debug)]
pub struct Events {
    /// Where the next one goes; moves on.
    pub at: *mut u8,
    /// One past the room.
    pub end: *mut u8,
    /// How many there are.
    pub count: u32,
    /// How many there may be.
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
    /// Bytes of them.
    pub head_len: u64,
    /// What follows, where the wire holds the payload elsewhere.
    pub tail: *const u8,
    /// Bytes of it.
    pub tail_len: u64,
    /// See [`Packet::merged`].
    pub merged: u64,
    /// The address of the first byte of `head`; it counts on through all that follows.
    pub addr: u64,
    /// What is to be verified: 1 Internet checksums, 2 an invariant CRC.
    pub verify: u32,
    /// See [`Packet::crc`].
    pub crc: u32,
}

impl RawPacket {
    /// The same packet, for as long as it is borrowed.
    #[must_use]
    pub fn of(packet: &Packet<'_>) -> RawPacket {
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

/// `hw_built`: what building a header gave.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawBuilt {
    /// Bytes of the header, and of the trailer behind it.
    pub len: u32,
    /// Bytes of the trailer.
    pub trailer: u32,
    /// Where an Internet checksum is left to complete, if `has_csum` is not 0.
    pub csum_at: u16,
    /// Whether there is one.
    pub has_csum: u16,
}

impl RawBuilt {
    /// The same for an engine, whose header has `room` bytes.
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

/// Runs the chain of an event (params, event, memory, records); gives an `HW_OUTCOME`.
pub type React = unsafe extern "C" fn(*const u64, *mut u8, *const Memory, *mut Records) -> u64;
/// Turns an input into events (params, parser, packet, error, request, events); see [`parse_error`].
pub type Parse =
    unsafe extern "C" fn(*const u64, u32, *const RawPacket, *const Icmp, *const Op, *mut Events) -> u32;
/// Writes a header (params, record, image, which packet, of how many, its payload's length, header, room).
pub type Build =
    unsafe extern "C" fn(*const u64, *const PacketRec, *mut u8, u32, u32, u32, *mut u8, u32) -> RawBuilt;
/// Whether the later of two images replaces the earlier (params, blueprint, earlier, later).
pub type Coalesce = unsafe extern "C" fn(*const u64, u32, *const u8, *const u8) -> u32;

/// `hawser_program`: the table of one compiled program.
#[repr(C)]
#[derive(Debug)]
pub struct RawProgram {
    /// [`ABI`].
    pub abi: u32,
    /// Bytes of this structure.
    pub size: u32,
    /// Of the program; ends in a zero.
    pub name: *const c_char,
    /// Of the text that it was compiled from; ends in a zero.
    pub digest: *const c_char,
    /// See [`React`].
    pub react: React,
    /// See [`Parse`].
    pub parse: Parse,
    /// See [`Build`].
    pub build: Build,
    /// See [`Coalesce`].
    pub coalesce: Coalesce,
}

/// The function that gives a program's table, which is a constant of its library.
pub type Entry = unsafe extern "C" fn() -> *const RawProgram;

/// Why a parser gave nothing: the numbers of `hawser.h`; 0 is none.
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

/// How a chain ended; the number itself where no chain ends so: the record buffer was too small
/// (`HW_NO_ROOM`), or the code is not the emitter's.
///
/// # Errors
/// The number.
pub fn outcome(number: u64) -> Result<Outcome, u32> {
    let code = (number >> 32) as u32;
    match number as u32 {
        0 => Ok(Outcome::Done),
        1 => Ok(Outcome::Stop),
        2 => Ok(Outcome::Refused(code)),
        3 => Ok(Outcome::Assert(code)),
        kind => Err(kind),
    }
}

/// A region's address; null where there is none.
#[must_use]
#[inline]
pub fn address(region: Option<&mut [u8]>) -> *mut u8 {
    region.map_or(ptr::null_mut(), <[u8]>::as_mut_ptr)
}
