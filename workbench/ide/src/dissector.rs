//! A program's headers as a dissector for Wireshark, in Lua.
//!
//! The parts that differ between programs are printed as tables ([`tables`]), with the conditions and lengths
//! of the language as small functions ([`expr`]). The common part follows unchanged (`runtime/dissect.lua`).
//! The program's own parsers determine the headers of a packet ([`parsers`]).
//!
//! Invariant: the same module yields the same text.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod expr;
mod parsers;
mod tables;

use hawser_ir::Module;

/// The program has no dissector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// The program has no parser for packets.
    #[error("the program receives no packets: it registers no parser for an IP protocol or a UDP port")]
    NoPackets,
    /// The headers of a parser cannot be seen in its own body.
    #[error("`{parser}` extracts no header itself: it must contain `p.extract(h)` with a header of its own")]
    NoHeader {
        /// The name of the parser.
        parser: String,
    },
    /// The length of a header depends on something that a dissector cannot compute.
    #[error("the length of `{blueprint}` is not an expression over its own fields")]
    Expression {
        /// The name of the header.
        blueprint: String,
    },
}

/// Prints the dissector of a program.
///
/// # Errors
/// Returns the reason if the program cannot have a dissector.
pub fn dissector(module: &Module) -> Result<String, Unsupported> {
    let tables = tables::tables(module)?;
    Ok(format!("{tables}\n{}", include_str!("../runtime/dissect.lua")))
}
