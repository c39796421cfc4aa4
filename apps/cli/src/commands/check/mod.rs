//! `hawser check FILE…`: reports the errors and warnings of programs.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use hawser::runs::files;
use hawser::{lang, programs};

mod target;

use super::build::compiled;
use crate::engine::refused;
use crate::exit::{Exit, Outcome};
use target::CheckTarget;

/// Check transport programs and report all errors and warnings
///
/// Every diagnostic has a code, which `hawser explain CODE` explains. Imports are followed. Types and names
/// are checked when the whole program parses, and warnings are given when it has no errors. The command
/// also prints the maximum work of an event, and the parts of the program that no engine runs yet.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Programs (.mtp), or names of built-in ones
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print the diagnostics as one JSON array; with --target, an object with `diagnostics` and `programs`
    #[arg(long)]
    json: bool,
    /// Also print where each chain runs on a target (dpdk, host, sim, xdp), and why; a program that needs more than
    /// the target offers is an error
    #[arg(long, value_name = "TARGET", conflicts_with_all = ["attach", "explain_offload"])]
    target: Option<String>,
    /// Check each file as an attachment to this program (a name such as tcp, or a file), as `hawser bus attach`
    /// would
    #[arg(long, value_name = "PROGRAM", conflicts_with = "explain_offload")]
    attach: Option<String>,
    /// Also report for every `pkt_gen` whether a device may segment its packets, or the reason why not
    #[arg(long, conflicts_with = "json")]
    explain_offload: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let program = args
        .attach
        .as_deref()
        .map(|name| programs::resolve(name, &[]))
        .transpose()
        .map_err(|error| refused(&error))?;
    let target = args.target.as_deref().map(CheckTarget::named).transpose()?;
    let (mut wrong, mut worst) = (0, None);
    let mut diagnostics: Vec<serde_json::Value> = Vec::new();
    let mut reports: Vec<serde_json::Value> = Vec::new();
    for file in &args.files {
        let compiled = match &program {
            Some(program) => attached(file).map(|text| {
                let compilation = lang::attach(program.module(), &[(file, &text)]);
                (compilation, lang::attached_places(&text))
            }),
            None => compiled(file).map(|compilation| (compilation, Vec::new())),
        };
        let (compilation, places) = match compiled {
            Ok(compiled) => compiled,
            Err(error) => {
                eprintln!("hawser: {error}");
                worst = worst.max(Some(error.code()));
                continue;
            }
        };
        if args.json {
            let json = lang::render_json(&compilation.diagnostics, &compilation.sources);
            diagnostics.extend(serde_json::from_str::<Vec<_>>(&json).map_err(Exit::failed)?);
        } else {
            let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
            let colour = wanted && std::io::stderr().is_terminal();
            std::eprint!(
                "{}",
                lang::render(&compilation.diagnostics, &compilation.sources, colour)
            );
        }
        match &compilation.module {
            Some(_) if program.is_some() => {
                if places.is_empty() {
                    eprintln!(
                        "hawser: {} attaches nothing: it needs an `attach` statement for one of its processors",
                        file.display()
                    );
                    wrong += 1;
                } else if !args.json {
                    println!("{}: ok ({})", file.display(), places.join(", "));
                }
            }
            Some(_) if !args.json => describe(file, &compilation, args.explain_offload),
            Some(_) => {}
            None => wrong += 1,
        }
        if let Some(report) = target
            .as_ref()
            .and_then(|target| target.report(file, &compilation))
        {
            if !args.json {
                print!("{}", report.table);
            }
            eprint!("{}", report.lacks);
            wrong += i32::from(!report.lacks.is_empty());
            reports.push(report.json);
        }
    }
    if args.json {
        let diagnostics = serde_json::Value::Array(diagnostics);
        match target {
            Some(_) => println!(
                "{}",
                serde_json::json!({ "diagnostics": diagnostics, "programs": reports })
            ),
            None => println!("{diagnostics}"),
        }
    }
    match wrong {
        _ if worst == Some(2) => Err(Exit::usage("not every program is known")),
        _ if worst.is_some() => Err(Exit::input("not every file could be read")),
        0 => Ok(()),
        1 => Err(Exit::failed("one program has errors")),
        n => Err(Exit::failed(format!("{n} programs have errors"))),
    }
}

/// Prints a summary of a program without errors.
fn describe(file: &Path, compilation: &lang::Compilation, explain_offload: bool) {
    let Some(module) = &compilation.module else {
        return;
    };
    let verdict = match module.parsers.is_empty() {
        true => "no errors; the file is a part of a program: it deploys no parser, so it does not run alone",
        false => "ok",
    };
    println!(
        "{}: {verdict} ({} events, {} contexts, {} functions)",
        file.display(),
        module.events.len(),
        module.contexts.len(),
        module.funcs.len()
    );
    if let Some((steps, name)) = module.max_steps() {
        println!("  at most {steps} steps for one event or input, in `{name}`");
    }
    if let Err(what) = programs::runs(module) {
        println!("  it does not run yet: {what}");
    }
    if explain_offload {
        print!("{}", lang::explain_offload(module, &compilation.sources));
    }
}

/// Reads the source of an attachment, which may come from a pipe.
fn attached(file: &Path) -> Result<String, Exit> {
    let text = files::given(file, files::DOCUMENT_MAX);
    text.map_err(|error| Exit::input(format!("cannot read {}: {error}", file.display())))
}
