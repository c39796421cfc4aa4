//! The systems that scripts are written for.

use serde::Deserialize;

/// A system that scripts are written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum System {
    /// Scripts written for the TCP of Linux.
    Linux,
    /// Scripts written for the TCP of FreeBSD.
    FreeBsd,
}
