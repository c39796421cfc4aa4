//! How a packet of the stack differs from the one that a script expects.

use crate::syntax::tree::TcpOption;
use crate::wire::{show_flags, show_option};

/// The first difference that was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Mismatch {
    /// A number in a header.
    #[error("{field} is {found}, not {expected}")]
    Number { field: &'static str, found: u32, expected: u32 },
    #[error("the flags are {}, not {}", show_flags(*found), show_flags(*expected))]
    Flags { found: u16, expected: u16 },
    /// TSval, in the script's ticks.
    #[error("the timestamp is {found}, not {expected}")]
    Timestamp { found: u32, expected: u32 },
    #[error("the options are {}, not {}", list(found), list(expected))]
    Options { found: Vec<TcpOption>, expected: Vec<TcpOption> },
    /// The two bits of the IP header.
    #[error("the ECN field is {}", ["noecn", "ect1", "ect0", "ce"][usize::from(found & 3)])]
    Ecn { found: u8 },
    /// The payload from this byte on.
    #[error("byte {at} of the payload is not what the application wrote there")]
    Payload { at: u32 },
}

fn list(options: &[TcpOption]) -> String {
    let list: Vec<String> = options.iter().map(show_option).collect();
    format!("<{}>", list.join(","))
}
