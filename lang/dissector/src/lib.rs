//! A program's headers as a dissector for Wireshark, in Lua.
//!
//! What differs between programs is printed as tables ([`tables`]), with the conditions and lengths of the language as
//! small functions ([`expr`]); what is alike in all stands behind them as it is (`runtime/dissect.lua`). Which headers a
//! packet has is read off the program's own parsers ([`parsers`]).
//!
//! Invariant: the same module gives the same text.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod expr;
mod parsers;
mod tables;

use hawser_ir::Module;

/// Why a program has no dissector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// No packet reaches it.
    #[error("the program takes no packets: it registers no parser for an IP protocol or a UDP port")]
    NoPackets,
    /// A parser whose headers are not told by its own body.
    #[error(
        "`{parser}` takes no header apart itself: `p.extract(h)` with a header of its own has to stand in it"
    )]
    NoHeader {
        /// The parser.
        parser: String,
    },
    /// Something that decides how long a header is, and that a dissector cannot work out.
    #[error("what the length of `{blueprint}` depends on is no expression over its own fields")]
    Expression {
        /// The header.
        blueprint: String,
    },
}

/// Prints the dissector of a program.
///
/// # Errors
/// Why it has none.
pub fn dissector(module: &Module) -> Result<String, Unsupported> {
    let tables = tables::tables(module)?;
    Ok(format!("{tables}\n{}", include_str!("../runtime/dissect.lua")))
}
