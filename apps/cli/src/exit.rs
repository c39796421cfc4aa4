//! Exit codes, stable across versions (docs/exit-codes.md), and how an error ends the command.

use std::fmt::Display;
use std::process::ExitCode;

use hawser::lang::OneLine;

use crate::output;

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

    /// This code, about what was printed already.
    pub(crate) fn reported(code: u8) -> Exit {
        Exit { code, message: String::new() }
    }

    /// A signal has ended the command: 128 and its number, as shells count.
    pub(crate) fn interrupted(signal: &str, number: u8) -> Exit {
        Exit { code: 128 + number, message: format!("ended by {signal}") }
    }

    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    /// Whether it is about this machine, and so for its user alone.
    pub(crate) fn is_local(&self) -> bool {
        self.code == 4
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

    /// The network or the peer, whose words may be in the message: it is one line.
    pub(crate) fn network(message: impl Display) -> Exit {
        Exit { code: 5, message: OneLine(message).to_string() }
    }
}

impl Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

/// Makes a panic, which is a bug in Hawser, end with 70.
///
/// `println!` panics when its reader has gone away, as in `hawser … | head`: that is no bug, and
/// ends quietly.
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

/// Prints a message, which may have several lines: `eprintln!` of this command would join them.
fn report(message: impl Display) {
    let text = format!("hawser: {message}\n");
    eprint!("{text}");
}

/// Prints the error, if any, and gives the code.
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
