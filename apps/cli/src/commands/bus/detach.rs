//! `hawser bus detach NAME`: detaches event processors from a running program.

use serde_json::json;

use super::attach::ProgramArgs;
use crate::exit::Outcome;
use crate::interact::{ClientArgs, exit};

/// Detach event processors from a program of a running process, whichever client attached them
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The name of the attachment, as `hawser bus attach` lists it
    name: String,
    #[command(flatten)]
    program: ProgramArgs,
    #[command(flatten)]
    client: ClientArgs,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut client = args.client.connect("hawser-detach", 0)?;
    let source = args.program.find(&mut client)?;
    let detach = json!({ "detach": { "source": source, "name": args.name } });
    let answer = client.ask(&detach).map_err(exit)?;
    if args.client.json {
        println!("{answer}");
    } else {
        println!("{} is detached from source {source}", args.name);
    }
    Ok(())
}
