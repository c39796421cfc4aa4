//! `hawser fmt FILE…`

use std::path::PathBuf;

use hawser::lang;

use crate::exit::{Exit, Outcome};

/// Format transport programs in place
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Programs (.mtp)
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Change nothing; fail if a file is not formatted
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut unformatted = 0;
    for file in &args.files {
        let text = std::fs::read_to_string(file)
            .map_err(|e| Exit::input(format!("cannot read {}: {e}", file.display())))?;
        let formatted = lang::format(&text).map_err(|diagnostics| {
            let mut sources = lang::SourceMap::default();
            sources.add(file.display().to_string(), text.as_str());
            eprint!("{}", lang::render(&diagnostics, &sources, false));
            Exit::failed(format!("{} has errors; it was left as it is", file.display()))
        })?;
        if formatted == text {
            continue;
        }
        unformatted += 1;
        if args.check {
            println!("{}", file.display());
        } else {
            std::fs::write(file, formatted)
                .map_err(|e| Exit::environment(format!("cannot write {}: {e}", file.display())))?;
        }
    }
    match args.check && unformatted > 0 {
        true => Err(Exit::failed("not formatted; run `hawser fmt` on the files above")),
        false => Ok(()),
    }
}
