//! The systems for which scripts are written.

use serde::Deserialize;

/// A system for which scripts are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum System {
    /// Scripts written for the TCP of Linux.
    Linux,
    /// Scripts written for the TCP of FreeBSD.
    FreeBsd,
}
