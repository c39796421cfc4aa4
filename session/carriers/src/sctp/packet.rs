//! Checks a datagram before the C library reads it: RFC 9260, sections 3.1 to 3.3.
//!
//! Invariants: every length in an accepted datagram covers its own header and lies within the enclosing
//! structure. A reader that goes from length to length therefore always advances and never leaves the
//! datagram. A chunk of an extension that Hawser disables is refused, because it was not offered to any peer.
//! The library checks checksums, tags and the meaning of values.

use thiserror::Error;

/// The length of the common header in bytes (3.1).
const HEADER: usize = 12;
/// The length in bytes of the header of a chunk (type, flags and length; 3.2). The header of a parameter or
/// error cause (type and length; 3.2.1, 3.3.10) is equally long.
const FIELD: usize = 4;

/// The reason why a datagram is dropped.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub(crate) enum PacketFault {
    /// The datagram ends within the common header, or has no chunk.
    #[error("the packet has no chunk")]
    Empty,
    /// A port is 0 (3.1).
    #[error("a port number is 0")]
    Port,
    /// A chunk's length is shorter than its fixed fields, or extends beyond the packet.
    #[error("a chunk of type {0} has a length that its fields do not allow")]
    Chunk(u8),
    /// The length of a parameter or an error cause is too short, or too long for what encloses it.
    #[error("a parameter of type {0:#06x} has a length that its fields do not allow")]
    Parameter(u16),
    /// INIT, INIT ACK or SHUTDOWN COMPLETE is bundled with other chunks (3), or INIT has a tag (8.5.1).
    #[error("a chunk of type {0} is not alone in its packet, or has a forbidden tag")]
    Company(u8),
    /// The chunk belongs to a disabled extension.
    #[error("a chunk of type {0} belongs to an extension that was not agreed on")]
    Extension(u8),
}

/// Checks the datagram.
///
/// # Errors
/// The first fault that is found.
pub(crate) fn check(datagram: &[u8]) -> Result<(), PacketFault> {
    let Some((header, mut rest)) = datagram.split_first_chunk::<HEADER>() else {
        return Err(PacketFault::Empty);
    };
    if header[..2] == [0, 0] || header[2..4] == [0, 0] {
        return Err(PacketFault::Port);
    }
    let has_tag = header[4..8] != [0; 4];
    let mut count = 0;
    let mut alone = None;
    while !rest.is_empty() {
        let (chunk, after) = take_chunk(rest)?;
        check_chunk(chunk)?;
        if is_alone(chunk.kind) || (chunk.kind == INIT && has_tag) {
            alone = Some(chunk.kind);
        }
        if chunk.kind == INIT && has_tag {
            return Err(PacketFault::Company(INIT));
        }
        count += 1;
        rest = after;
    }
    match (count, alone) {
        (0, _) => Err(PacketFault::Empty),
        (2.., Some(kind)) => Err(PacketFault::Company(kind)),
        _ => Ok(()),
    }
}

/// One chunk without its padding.
#[derive(Clone, Copy)]
struct Chunk<'a> {
    kind: u8,
    /// The bytes after type, flags and length.
    value: &'a [u8],
}

/// The chunk types (3.2).
const DATA: u8 = 0;
const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
const SACK: u8 = 3;
const HEARTBEAT: u8 = 4;
const HEARTBEAT_ACK: u8 = 5;
const ABORT: u8 = 6;
const SHUTDOWN: u8 = 7;
const SHUTDOWN_ACK: u8 = 8;
const ERROR: u8 = 9;
const COOKIE_ECHO: u8 = 10;
const COOKIE_ACK: u8 = 11;
const ECN_ECHO: u8 = 12;
const CWR: u8 = 13;
const SHUTDOWN_COMPLETE: u8 = 14;
/// Extensions of the library that Hawser disables: AUTH, NR-SACK, I-DATA, ASCONF-ACK, PKTDROP, RE-CONFIG,
/// FORWARD TSN, ASCONF, I-FORWARD-TSN.
const EXTENSIONS: [u8; 9] = [0x0f, 0x10, 0x40, 0x80, 0x81, 0x82, 0xc0, 0xc1, 0xc2];

/// Returns true if the chunk must not share a packet with others (section 3).
fn is_alone(kind: u8) -> bool {
    matches!(kind, INIT | INIT_ACK | SHUTDOWN_COMPLETE)
}

/// Returns the first chunk, and the bytes after its padding.
fn take_chunk(bytes: &[u8]) -> Result<(Chunk<'_>, &[u8]), PacketFault> {
    let kind = bytes[0];
    let fault = PacketFault::Chunk(kind);
    let (head, _) = bytes.split_first_chunk::<FIELD>().ok_or(fault)?;
    let length = usize::from(u16::from_be_bytes([head[2], head[3]]));
    let value = bytes.get(FIELD..length).ok_or(fault)?;
    // The sender must add the padding (3.2), so a packet without it is truncated.
    let after = bytes.get(length.next_multiple_of(4)..).ok_or(fault)?;
    Ok((Chunk { kind, value }, after))
}

/// Checks the contents of the chunk according to its type (3.3).
fn check_chunk(chunk: Chunk<'_>) -> Result<(), PacketFault> {
    let Chunk { kind, value } = chunk;
    let length = value.len();
    let holds = match kind {
        // TSN, stream, sequence, protocol. The library aborts on a DATA chunk without data (6.2).
        DATA => length >= 12,
        // Tag, window, streams, TSN, then parameters.
        INIT | INIT_ACK => {
            let parameters = value.get(16..).ok_or(PacketFault::Chunk(kind))?;
            return check_parameters(parameters, parameter_fits);
        }
        SACK => {
            let counts = value.get(8..12).ok_or(PacketFault::Chunk(kind))?;
            let count = |at: usize| usize::from(u16::from_be_bytes([counts[at], counts[at + 1]]));
            length == 12 + 4 * (count(0) + count(2))
        }
        HEARTBEAT | HEARTBEAT_ACK => return check_parameters(value, |_, _| true),
        ABORT | ERROR => return check_parameters(value, cause_fits),
        SHUTDOWN | ECN_ECHO | CWR => length == 4,
        SHUTDOWN_ACK | COOKIE_ACK | SHUTDOWN_COMPLETE => length == 0,
        COOKIE_ECHO => length > 0,
        _ if EXTENSIONS.contains(&kind) => return Err(PacketFault::Extension(kind)),
        // The highest bits of an unknown type determine how a receiver handles it (3.2).
        _ => true,
    };
    if holds {
        Ok(())
    } else {
        Err(PacketFault::Chunk(kind))
    }
}

/// Walks through a list of parameters or causes, whose values `fits` judges by type.
fn check_parameters(mut bytes: &[u8], fits: fn(u16, &[u8]) -> bool) -> Result<(), PacketFault> {
    while !bytes.is_empty() {
        let kind = bytes.first_chunk().map_or(0, |kind| u16::from_be_bytes(*kind));
        let fault = PacketFault::Parameter(kind);
        let (head, _) = bytes.split_first_chunk::<FIELD>().ok_or(fault)?;
        let length = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let value = bytes.get(FIELD..length).ok_or(fault)?;
        if !fits(kind, value) {
            return Err(fault);
        }
        // A chunk's length does not include the padding of its last parameter (3.2).
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(())
}

/// Parameters of INIT and INIT ACK (3.3.2, 3.3.3), RFC 5061 and RFC 3758.
fn parameter_fits(kind: u16, value: &[u8]) -> bool {
    match kind {
        // IPv4 address, cookie preservative, adaptation layer indication.
        5 | 9 | 0xc006 => value.len() == 4,
        // IPv6 address.
        6 => value.len() == 16,
        // Supported address types.
        12 => value.len().is_multiple_of(2),
        // ECN, forward TSN: supported or not.
        0x8000 | 0xc000 => value.is_empty(),
        // State cookie.
        7 => !value.is_empty(),
        // An unrecognised parameter, whole.
        8 => check_parameters(value, |_, _| true).is_ok(),
        _ => true,
    }
}

/// Error causes (3.3.10).
fn cause_fits(kind: u16, value: &[u8]) -> bool {
    match kind {
        // Invalid stream identifier, stale cookie, no user data.
        1 | 3 | 9 => value.len() == 4,
        // Missing parameters: a count, and as many types.
        2 => value.first_chunk().is_some_and(|count| {
            let types = value.len() - 4;
            types.is_multiple_of(2) && types / 2 == u32::from_be_bytes(*count) as usize
        }),
        // Out of resource, invalid parameter, cookie while shutting down.
        4 | 7 | 10 => value.is_empty(),
        // An address, a chunk, parameters, new addresses: each begins with a length of its own.
        5 | 6 | 11 => begins_with_its_length(value),
        8 => check_parameters(value, |_, _| true).is_ok(),
        _ => true,
    }
}

/// Returns true if a chunk or parameter begins there whose length lies within `value`.
fn begins_with_its_length(value: &[u8]) -> bool {
    value.get(2..4).is_some_and(|length| {
        let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
        (FIELD..=value.len()).contains(&length)
    })
}

#[cfg(test)]
mod tests;
