//! The debugger as an adapter of the Debug Adapter Protocol.
//!
//! * [`Adapter`]: the responses to requests; `variables`: values by reference, as the protocol requires
//!
//! Invariant: no I/O. The caller reads the requests, sends the messages, and finds the files ([`Files`]).

mod adapter;
mod variables;

use std::path::{Path, PathBuf};

pub use adapter::{Adapter, Goes};

use super::Debugger;

/// The scenarios and files of the client's machine.
pub trait Files {
    /// Opens a debugger before the first event of a scenario's run. The client may leave out both the scenario
    /// and the seed.
    ///
    /// # Errors
    /// A sentence for the user.
    fn launch(&self, scenario: Option<&Path>, seed: Option<u64>) -> Result<Debugger, String>;

    /// Returns the absolute path of a file without symbolic links, if there is such a file.
    fn canonical(&self, path: &Path) -> Option<PathBuf>;
}
