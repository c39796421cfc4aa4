//! Differences between a packet of the stack and the packet that a script expects.

use crate::script::syntax::tree::TcpOption;
use crate::script::wire::{show_flags, show_option};

/// The first difference found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PacketMismatch {
    /// A header field differs.
    #[error("{field} is {found}, not {expected}")]
    Number { field: &'static str, found: u32, expected: u32 },
    #[error("the flags are {}, not {}", show_flags(*found), show_flags(*expected))]
    Flags { found: u16, expected: u16 },
    /// TSval differs, in the script's ticks.
    #[error("the timestamp is {found}, not {expected}")]
    Timestamp { found: u32, expected: u32 },
    #[error("the options are {}, not {}", list(found), list(expected))]
    Options { found: Vec<TcpOption>, expected: Vec<TcpOption> },
    /// The two ECN bits of the IP header differ.
    #[error("the ECN field is {}", ["noecn", "ect1", "ect0", "ce"][usize::from(found & 3)])]
    Ecn { found: u8 },
    /// The payload differs from this byte on.
    #[error("byte {at} of the payload is not what the application wrote there")]
    Payload { at: u32 },
}

fn list(options: &[TcpOption]) -> String {
    let list: Vec<String> = options.iter().map(show_option).collect();
    format!("<{}>", list.join(","))
}
