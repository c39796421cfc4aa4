//! `hawser explain CODE`

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
            "there is no code {}; codes look like E0203 and stand in brackets in what `hawser check` prints",
            args.code
        ))),
    }
}
