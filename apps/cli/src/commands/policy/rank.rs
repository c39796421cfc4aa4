//! `hawser policy rank --request FILE`: ranks the candidates of a request.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use hawser::connect::policy::document::{self, Diagnostic};
use hawser::connect::policy::{self, FileError, Folders, NameTable, NodeFileTimes, Options, format_of, rank};

use super::explain::{describe, report};
use crate::exit::{Exit, Outcome};

/// Rank the candidates for a request, best first
///
/// The command opens no connection. It prints the candidates in the order in which a race would try them.
/// Files are NEAT's JSON, or the same as TOML (docs/policy.md).
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder of profiles and policies; by default those that come with Hawser
    #[arg(long, value_name = "DIR")]
    pib: Option<PathBuf>,
    /// The folder with nodes of the CIB; by default there are none
    #[arg(long, value_name = "DIR")]
    cib: Option<PathBuf>,
    /// The request
    #[arg(long, value_name = "FILE")]
    request: PathBuf,
    /// Rank as of this time, in seconds since 1970; by default now
    #[arg(long, value_name = "T", value_parser = time)]
    now: Option<f64>,
    /// The number of candidates to print
    #[arg(long, value_name = "N", default_value_t = 10)]
    candidates: usize,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    /// Print the policies that changed each property, and the reasons why others are not candidates
    #[arg(long)]
    explain: bool,
}

fn time(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(time) if time.is_finite() => Ok(time),
        _ => Err("expected a number of seconds".into()),
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = args
        .now
        .unwrap_or_else(|| since.map_or(0.0, |since| since.as_secs_f64()));
    let text = policy::text(&args.request).map_err(|error| Exit::input(format!("cannot read {error}")))?;
    let folders = Folders { pib: args.pib.clone(), cib: args.cib.clone() };
    let mut base = folders
        .load(NameTable::default(), &mut NodeFileTimes::default(), now)
        .map_err(|errors| bad(&errors))?;
    let read = document::request(&text, format_of(&args.request), &mut base.names);
    let of_request = |diagnostic: Diagnostic| FileError { file: args.request.clone(), diagnostic };
    let request = read.map_err(|errors| bad(&errors.into_iter().map(of_request).collect::<Vec<_>>()))?;
    for warning in base
        .warnings
        .iter()
        .cloned()
        .chain(request.warnings.into_iter().map(of_request))
    {
        eprintln!("hawser: doubtful: {warning}");
    }
    let rows = base.cib().and_then(|cib| cib.rows(now)).map_err(Exit::input)?;
    let options = Options {
        candidates: args.candidates,
        explain: args.explain,
        ..Options::default()
    };
    let ranking = rank(&request.value, &base.pib, &rows, &base.names, &options).map_err(Exit::input)?;
    if args.json {
        println!("{}", report(&ranking, &base.names, args.explain));
    } else {
        print!("{}", describe(&ranking, &base.names, args.explain));
    }
    match ranking.candidates.is_empty() {
        false => Ok(()),
        true if args.explain => Err(Exit::failed("no candidate fulfils the request")),
        true => Err(Exit::failed(
            "no candidate fulfils the request; --explain shows why",
        )),
    }
}

fn bad(errors: &[FileError]) -> Exit {
    Exit::input(
        errors
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\nhawser: "),
    )
}
