//! The option that chooses the engine of a program.

use hawser::programs::{Engine, Error};

use crate::exit::Exit;

/// The option that selects the engine of a program.
#[derive(clap::Args, Clone, Copy)]
#[command(next_help_heading = "Program")]
pub(crate) struct EngineArgs {
    /// The engine of the program: `interp` interprets it, `native` runs it as machine code. By default `.mtp`
    /// files are interpreted, except in long runs of a scenario, and built-in programs and `.so` files run as
    /// machine code
    #[arg(long, value_name = "ENGINE")]
    pub(crate) engine: Option<Engine>,
}

impl EngineArgs {
    /// Returns the engine for the program with this name.
    pub(crate) fn for_program(self, program: &str) -> Engine {
        self.engine.unwrap_or(Engine::default_for(program))
    }
}

/// The option that lets a file name a program in machine code.
#[derive(clap::Args, Clone, Copy)]
#[command(next_help_heading = "Program")]
pub(crate) struct NativeArgs {
    /// Run the machine code of a `.so` file that the scenario names. Machine code has all rights of its user;
    /// without this option such a program is interpreted from the source inside the file
    #[arg(long)]
    pub(crate) allow_native: bool,
}

/// Maps an error of a program on the command line to an exit. The error may be an unknown program or param
/// (usage), a fault of the environment, or an invalid program.
pub(crate) fn refused(error: &Error) -> Exit {
    if error.is_usage() {
        Exit::usage(error)
    } else {
        of_file(error)
    }
}

/// Maps an error of a program that an input file names. An unknown program or param is an error of that file.
pub(crate) fn of_file(error: &Error) -> Exit {
    if error.is_environment() {
        Exit::environment(error)
    } else {
        Exit::input(error)
    }
}
