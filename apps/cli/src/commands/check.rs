//! `hawser check FILE…`

use std::io::IsTerminal;
use std::path::PathBuf;

use hawser::lang;

use crate::exit::{Exit, Outcome};

/// Check transport programs and say everything that is wrong with them
///
/// Every finding has a code: `hawser explain CODE` tells more. Imports are followed.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Programs (.mtp)
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// One JSON object per finding on standard output
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let (mut wrong, mut unreadable) = (0, 0);
    for file in &args.files {
        if let Err(error) = std::fs::read_to_string(file) {
            eprintln!("hawser: cannot read {}: {error}", file.display());
            unreadable += 1;
            continue;
        }
        let compilation = lang::compile(file);
        if args.json {
            print!("{}", lang::render_json(&compilation.diagnostics, &compilation.sources));
        } else {
            let colour = std::io::stderr().is_terminal();
            eprint!("{}", lang::render(&compilation.diagnostics, &compilation.sources, colour));
        }
        match &compilation.module {
            Some(module) if !args.json => println!(
                "{}: ok ({} events, {} contexts, {} functions)",
                file.display(),
                module.events.len(),
                module.contexts.len(),
                module.funcs.len()
            ),
            Some(_) => {}
            None => wrong += 1,
        }
    }
    match wrong {
        _ if unreadable > 0 => Err(Exit::input("not every file could be read")),
        0 => Ok(()),
        1 => Err(Exit::failed("one program has errors")),
        n => Err(Exit::failed(format!("{n} programs have errors"))),
    }
}
