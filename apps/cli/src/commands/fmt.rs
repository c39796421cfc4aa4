//! `hawser fmt FILE…`: formats programs.

use std::path::{Path, PathBuf};

use hawser::lang;

use super::build::{built_in, readable};
use crate::exit::{Exit, Outcome};

/// Format transport programs in place
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Programs (.mtp)
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Do not change files; fail if one is not formatted
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut unformatted = false;
    let mut worst = 0;
    for file in &args.files {
        match one(file, args.check) {
            Ok(formatted) => unformatted |= !formatted,
            // The remaining files are still processed, and the highest exit code is returned.
            Err(exit) => {
                eprint!("hawser: {exit}\n");
                worst = worst.max(exit.code());
            }
        }
    }
    if worst > 0 {
        return Err(Exit::reported(worst));
    }
    match args.check && unformatted {
        true => Err(Exit::failed("not formatted; run `hawser fmt` on the files above")),
        false => Ok(()),
    }
}

/// Formats a file, or only checks it. Returns whether it was already formatted.
fn one(file: &Path, check: bool) -> Result<bool, Exit> {
    if let Some(name) = built_in(file) {
        return Err(Exit::input(format!(
            "`{name}` is built in, and has no file to format: give the name of a file, as {name}.mtp or ./{name}"
        )));
    }
    let text = readable(file)?;
    let formatted = lang::format(&text).map_err(|diagnostics| {
        let mut sources = lang::SourceMap::default();
        sources.add(file.display().to_string(), text.as_str());
        std::eprint!("{}", lang::render(&diagnostics, &sources, false));
        Exit::failed(format!("{} has errors, so it is unchanged", file.display()))
    })?;
    if formatted == text {
        return Ok(true);
    }
    if check {
        println!("{}", file.display());
    } else {
        std::fs::write(file, formatted)
            .map_err(|e| Exit::environment(format!("cannot write {}: {e}", file.display())))?;
    }
    Ok(false)
}
