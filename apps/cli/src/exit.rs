//! Exit codes, stable across versions (docs/exit-codes.md), and how an error ends the command.

use std::fmt::Display;
use std::process::ExitCode;

use hawser::lang::OneLine;

use crate::output;

/// The exit code and message of a command that did not succeed.
#[derive(Debug)]
pub(crate) struct Exit {
    code: u8,
    message: String,
}

/// The result of a command.
pub(crate) type Outcome = Result<(), Exit>;

impl Exit {
    /// The check failed: a program has errors, or a run violated a property.
    pub(crate) fn failed(message: impl Display) -> Exit {
        Exit { code: 1, message: message.to_string() }
    }

    /// Exits with `code` after the command has already printed its report.
    pub(crate) fn reported(code: u8) -> Exit {
        Exit { code, message: String::new() }
    }

    /// A signal ended the command. The code is 128 plus the signal's number, as in shells.
    pub(crate) fn interrupted(signal: &str, number: u8) -> Exit {
        Exit {
            code: 128 + number,
            message: format!("the command was ended by {signal}"),
        }
    }

    /// Joins the results of two parts of a command: the higher code, and both messages.
    pub(crate) fn worst(first: Outcome, second: Outcome) -> Outcome {
        match (first, second) {
            (Ok(()), outcome) | (outcome, Ok(())) => outcome,
            (Err(first), Err(second)) => {
                let both = !first.message.is_empty() && !second.message.is_empty();
                let between = if both { "\nhawser: " } else { "" };
                Err(Exit {
                    code: first.code.max(second.code),
                    message: first.message + between + &second.message,
                })
            }
        }
    }

    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    /// Returns whether the error concerns this machine, so that only the local user may see it.
    pub(crate) fn is_local(&self) -> bool {
        self.code == 4
    }

    /// An invalid combination of arguments.
    pub(crate) fn usage(message: impl Display) -> Exit {
        Exit { code: 2, message: message.to_string() }
    }

    /// An input file that cannot be read or understood.
    pub(crate) fn input(message: impl Display) -> Exit {
        Exit { code: 3, message: message.to_string() }
    }

    /// A device, permission or resource of this machine is unavailable.
    pub(crate) fn environment(message: impl Display) -> Exit {
        Exit { code: 4, message: message.to_string() }
    }

    /// The network or the peer failed. The message may quote the peer, so it is reduced to one line.
    pub(crate) fn network(message: impl Display) -> Exit {
        Exit { code: 5, message: OneLine(message).to_string() }
    }
}

impl Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

/// Lets a panic, which is a bug in Hawser, exit with 70.
///
/// `println!` panics when its reader has closed the pipe, as in `hawser … | head`. This is not a bug, and the
/// command exits quietly.
pub(crate) fn set_panic_hook() {
    std::panic::set_hook(Box::new(|panic| {
        let message = panic
            .payload()
            .downcast_ref::<String>()
            .map_or("", String::as_str);
        if let Some(why) = message.strip_prefix("failed printing to stdout: ") {
            if why.contains("os error 32") {
                std::process::exit(0);
            }
            eprintln!("hawser: cannot write to standard output: {why}");
            output::flush();
            std::process::exit(4);
        }
        report(format!(
            "a bug in Hawser, please report it with what you did: {panic}"
        ));
        report(std::backtrace::Backtrace::capture());
        output::flush();
        std::process::exit(70);
    }));
}

/// Prints a message of one or more lines. This crate's `eprintln!` would join the lines.
fn report(message: impl Display) {
    let text = format!("hawser: {message}\n");
    eprint!("{text}");
}

/// Prints the error, if any, and returns the exit code.
pub(crate) fn finish(outcome: Outcome) -> ExitCode {
    let code = match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(exit) => {
            if !exit.message.is_empty() {
                report(&exit.message);
            }
            ExitCode::from(exit.code)
        }
    };
    output::flush();
    code
}
