//! The option that chooses the engine of a program.

use hawser::programs::{Engine, Error};

use crate::exit::Exit;

/// What runs the program.
#[derive(clap::Args, Clone, Copy)]
pub(crate) struct EngineArgs {
    /// How the program runs: `interp` interprets it, `native` runs it as machine code. By default `.mtp`
    /// files are interpreted, but for long runs of a scenario, and built-in programs and `.so` files run as machine code
    #[arg(long, value_name = "ENGINE")]
    pub(crate) engine: Option<Engine>,
}

impl EngineArgs {
    /// What runs a program of this name.
    pub(crate) fn of(self, program: &str) -> Engine {
        self.engine.unwrap_or(Engine::of(program))
    }
}

/// Whether files may name machine code.
#[derive(clap::Args, Clone, Copy)]
pub(crate) struct NativeArgs {
    /// Run the machine code of a `.so` file that the scenario names. Machine code can do whatever you can;
    /// without this option such a program is interpreted from the source inside the file
    #[arg(long)]
    pub(crate) allow_native: bool,
}

/// Why a program that the command line names does not run: there is none of that name, or it has no such
/// param; this machine lacks something; or the program is wrong.
pub(crate) fn refused(error: &Error) -> Exit {
    if error.is_usage() {
        Exit::usage(error)
    } else {
        of_file(error)
    }
}

/// The same of a program that a file names, which is wrong then.
pub(crate) fn of_file(error: &Error) -> Exit {
    if error.is_environment() {
        Exit::environment(error)
    } else {
        Exit::input(error)
    }
}
