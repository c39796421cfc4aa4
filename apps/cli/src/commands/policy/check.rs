//! `hawser policy check FILE…`: reports the errors of policies, nodes and requests.

use std::path::{Path, PathBuf};

use hawser::connect::policy::document::{self, Diagnostic, Format, Read};
use hawser::connect::policy::{self, FileRole, NameTable, format_of, role_of};
use serde_json::json;

use crate::exit::{Exit, Outcome};

/// Check profiles, policies, nodes of the CIB and requests, and report all errors
///
/// The type of a file follows from its ending: .profile and .policy; .cib, .local, .remote,
/// .connection, .slim; .request; each also followed by .json or .toml. Other files need --as.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The files
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Treat the files as this kind, whatever their endings
    #[arg(long = "as", value_name = "WHAT")]
    what: Option<DocumentKind>,
    /// Treat warnings as errors
    #[arg(long)]
    strict: bool,
    /// Print the diagnostics as one JSON array
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum DocumentKind {
    /// Profiles and policies
    Policies,
    /// Nodes of the CIB
    Nodes,
    /// A request
    Request,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let (mut wrong, mut unreadable) = (0, 0);
    let mut reported = Vec::new();
    for file in &args.files {
        let text = match policy::text(file) {
            Ok(text) => text,
            Err(error) => {
                eprintln!("hawser: cannot read {error}");
                unreadable += 1;
                continue;
            }
        };
        let Some(what) = args.what.or_else(|| what_of(file)) else {
            let file = file.display();
            return Err(Exit::usage(format!(
                "the name of {file} does not show its kind: add --as"
            )));
        };
        let (summary, errors, warnings) = diagnose(&text, file, what);
        let is_wrong = !errors.is_empty() || args.strict && !warnings.is_empty();
        wrong += usize::from(is_wrong);
        for (severity, diagnostics) in [("error", &errors), ("warning", &warnings)] {
            for diagnostic in diagnostics {
                if args.json {
                    reported.push(json!({
                        "file": file.display().to_string(), "severity": severity, "path": diagnostic.path,
                        "message": diagnostic.message, "hint": diagnostic.hint,
                    }));
                } else {
                    eprintln!("{}: {severity}: {diagnostic}", file.display());
                }
            }
        }
        if !is_wrong && !args.json {
            println!("{}: ok ({summary})", file.display());
        }
    }
    if args.json {
        println!("{}", serde_json::Value::Array(reported));
    }
    match wrong {
        _ if unreadable > 0 => Err(Exit::input("not every file could be read")),
        0 => Ok(()),
        1 => Err(Exit::failed("one file has errors")),
        n => Err(Exit::failed(format!("{n} files have errors"))),
    }
}

/// Returns the kind of a file by its name.
fn what_of(file: &Path) -> Option<DocumentKind> {
    let name = file.file_name()?.to_str()?;
    let bare = name
        .strip_suffix(".json")
        .or_else(|| name.strip_suffix(".toml"))
        .unwrap_or(name);
    match role_of(Path::new(bare)) {
        Some(FileRole::Nodes) => Some(DocumentKind::Nodes),
        Some(FileRole::Policies(_)) => Some(DocumentKind::Policies),
        None => bare.ends_with(".request").then_some(DocumentKind::Request),
    }
}

/// Returns a summary of the content, the errors, and the warnings.
fn diagnose(text: &str, file: &Path, what: DocumentKind) -> (String, Vec<Diagnostic>, Vec<Diagnostic>) {
    let (format, mut names) = (format_of(file), NameTable::default());
    let kind = match role_of(file) {
        Some(FileRole::Policies(kind)) => kind,
        Some(FileRole::Nodes) | None => None,
    };
    match what {
        DocumentKind::Policies => count(
            document::policies(text, format, "unnamed", kind, &mut names),
            |policies| {
                let alternatives: usize = policies.iter().map(|policy| policy.alternatives.len()).sum();
                format!("policies: {}, alternatives: {alternatives}", policies.len())
            },
        ),
        DocumentKind::Nodes => count(document::nodes(text, format, "unnamed", &mut names), |nodes| {
            format!("nodes: {}", nodes.len())
        }),
        DocumentKind::Request => request(text, format, &mut names),
    }
}

fn request(text: &str, format: Format, names: &mut NameTable) -> (String, Vec<Diagnostic>, Vec<Diagnostic>) {
    count(document::request(text, format, names), |request| {
        format!("alternatives: {}", request.alternatives().len())
    })
}

fn count<T>(
    result: document::Result<T>,
    summary: impl FnOnce(&T) -> String,
) -> (String, Vec<Diagnostic>, Vec<Diagnostic>) {
    match result {
        Ok(Read { value, warnings }) => (summary(&value), Vec::new(), warnings),
        Err(errors) => (String::new(), errors, Vec::new()),
    }
}
