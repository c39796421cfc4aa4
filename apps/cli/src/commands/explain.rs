//! `hawser explain CODE`: explains an error code.

use hawser::lang;

use crate::exit::{Exit, Outcome};

/// Explain an error code
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The code that `hawser check` printed, such as E0203
    code: String,
}

pub(crate) fn run(args: &Args) -> Outcome {
    match lang::explain(&args.code) {
        Some(text) => {
            print!("{text}\n");
            Ok(())
        }
        None => Err(Exit::usage(format!(
            "there is no error code {}; codes look like E0203, and `hawser check` prints them in brackets",
            args.code
        ))),
    }
}
