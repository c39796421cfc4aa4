//! Exit codes, stable across versions (docs/exit-codes.md), and how an error ends the command.

use std::fmt::Display;
use std::process::ExitCode;

/// How a command that did not succeed ends.
#[derive(Debug)]
pub(crate) struct Exit {
    code: u8,
    message: String,
}

/// What a command returns.
pub(crate) type Outcome = Result<(), Exit>;

impl Exit {
    /// What was checked is not so: a program with errors, a run that broke its promise.
    pub(crate) fn failed(message: impl Display) -> Exit {
        Exit { code: 1, message: message.to_string() }
    }

    /// A wrong combination of arguments.
    pub(crate) fn usage(message: impl Display) -> Exit {
        Exit { code: 2, message: message.to_string() }
    }

    /// An input file that cannot be read or understood.
    pub(crate) fn input(message: impl Display) -> Exit {
        Exit { code: 3, message: message.to_string() }
    }

    /// A device, permission or resource of this machine.
    pub(crate) fn environment(message: impl Display) -> Exit {
        Exit { code: 4, message: message.to_string() }
    }

    /// The network or the peer.
    pub(crate) fn network(message: impl Display) -> Exit {
        Exit { code: 5, message: message.to_string() }
    }
}

/// Prints the error, if any, and gives the code.
pub(crate) fn finish(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(exit) => {
            if !exit.message.is_empty() {
                eprintln!("hawser: {}", exit.message);
            }
            ExitCode::from(exit.code)
        }
    }
}
