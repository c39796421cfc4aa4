//! `hawser bus attach [FILE]`: attaches event processors to a program of a running process.

use std::path::PathBuf;

use hawser::interact::{Client, ClientError};
use hawser::runs::files;
use serde_json::{Value, json};

use crate::exit::{Exit, Outcome};
use crate::interact::{ClientArgs, exit, list, text};

/// The maximum number of bytes of a text that always fit into a request.
const MAX_TEXT_BYTES: u64 = 32 << 10;

/// Attach event processors to a program of a running process; without a file, list the attached ones
///
/// The file places its processors with statements such as `attach cap after cc;`. It is checked
/// together with the program and bounded as the program is (docs/language.md, Attachments). A file with
/// errors, or one that attaches nothing, changes nothing. From the next event on the processors run in
/// the chains of the program, which are interpreted meanwhile, until `hawser bus detach`, or until one of
/// their assertions or an invariant of the program is false. A file replaces an earlier one of the same
/// name.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A file (.mtp) with the processors and the statements that place them
    file: Option<PathBuf>,
    /// The name of the attachment; by default the name of the file without its ending
    #[arg(long, requires = "file")]
    name: Option<String>,
    /// Set a param of the file: CAP=20000 (repeatable)
    #[arg(long = "param", value_name = "NAME=VALUE", requires = "file")]
    params: Vec<String>,
    #[command(flatten)]
    program: ProgramArgs,
    #[command(flatten)]
    client: ClientArgs,
}

/// The option that selects one of a process's programs.
#[derive(clap::Args, Clone, Copy)]
pub(crate) struct ProgramArgs {
    /// The program, by its number in the list of `hawser bus attach`; required if the process runs several
    #[arg(long, value_name = "NUMBER")]
    source: Option<u32>,
}

impl ProgramArgs {
    /// Returns the number of the selected source, or of the only one.
    pub(crate) fn find(self, client: &mut Client) -> Result<u64, Exit> {
        if let Some(source) = self.source {
            return Ok(source.into());
        }
        let answer = client.ask(&json!({ "attachments": {} })).map_err(exit)?;
        match list(&answer, "attachments") {
            [] => Err(Exit::failed(
                "the process runs no program that accepts attachments",
            )),
            [one] => Ok(one["source"].as_u64().unwrap_or_default()),
            more => {
                let numbers: Vec<_> = more.iter().map(|source| source["source"].to_string()).collect();
                Err(Exit::usage(format!(
                    "choose one of them with --source {}",
                    numbers.join(" or ")
                )))
            }
        }
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let Some(file) = &args.file else { return show(args) };
    let wrong = |why: &dyn std::fmt::Display| Exit::input(format!("{}: {why}", file.display()));
    let text = files::given(file, MAX_TEXT_BYTES).map_err(|error| wrong(&error))?;
    let name = args
        .name
        .clone()
        .or_else(|| Some(file.file_stem()?.to_str()?.to_owned()));
    let name = name.ok_or_else(|| wrong(&"its name is not UTF-8; give one with --name"))?;
    let mut client = args.client.connect("hawser-attach", 0)?;
    let source = args.program.find(&mut client)?;
    let attach = json!({ "attach": { "source": source, "name": name, "text": text, "params": args.params } });
    let answer = client.ask(&attach).map_err(|error| match error {
        // The diagnostics of the file have several lines.
        ClientError::Refused(why) => Exit::failed(why),
        error => exit(error),
    })?;
    if !args.client.json {
        eprint!("{}", answer["attached"]["warnings"].as_str().unwrap_or_default());
    }
    if args.client.json {
        println!("{answer}");
    } else {
        println!("{name} is attached to source {source}");
    }
    Ok(())
}

fn show(args: &Args) -> Outcome {
    let mut client = args.client.connect("hawser-attach", 0)?;
    let answer = client.ask(&json!({ "attachments": {} })).map_err(exit)?;
    let meant = |source: &&Value| {
        args.program
            .source
            .is_none_or(|number| source["source"].as_u64() == Some(number.into()))
    };
    for source in list(&answer, "attachments").iter().filter(meant) {
        if args.client.json {
            println!("{source}");
            continue;
        }
        println!("source {} is {}", source["source"], text(source, "provider"));
        for one in list(source, "attached") {
            let places: Vec<_> = list(one, "places").iter().filter_map(Value::as_str).collect();
            println!(
                "  {} by {}: {}",
                text(one, "name"),
                text(one, "who"),
                places.join(", ")
            );
        }
    }
    Ok(())
}
