//! `hawser audit`

use serde_json::{Value, json};

use crate::exit::Outcome;
use crate::interact::{ClientArgs, exit, list, text};

/// Show what was modified in a running process, by whom, and what came of it
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    client: ClientArgs,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut client = args.client.connect("hawser-audit", 0)?;
    let answer = client.ask(&json!({ "audit": {} })).map_err(exit)?;
    for entry in list(&answer, "audit") {
        if args.client.json { println!("{entry}") } else { println!("{}", line(entry)) }
    }
    match answer["forgotten"].as_u64() {
        Some(forgotten) if args.client.json => println!("{}", json!({ "forgotten": forgotten })),
        Some(forgotten) if forgotten > 0 => println!("{forgotten} entries before these are forgotten"),
        _ => {}
    }
    Ok(())
}

fn line(entry: &Value) -> String {
    // What concerns a source as a whole: an attachment, a T-ware.
    let source = text(entry, "flow").strip_suffix(":ffffffffffffffff");
    let what = match text(entry, "act") {
        "set" => format!("set {} -> {}", entry["before"], entry["value"]),
        "refused" => format!("refused: {}", text(entry, "why")),
        "expired" => "its lease was over".to_owned(),
        "released" => "given back".to_owned(),
        "holder_gone" => "given back: its holder is gone".to_owned(),
        "panicked" => format!("panicked, and is called no more: {}", text(entry, "why")),
        "lost" => "taken by another of higher priority".to_owned(),
        "attached" => format!("attached, sha256 {}…", text(entry, "sha256")),
        other => other.to_owned(),
    };
    let times = entry["count"].as_u64().filter(|count| *count > 1);
    let times = times.map_or_else(String::new, |count| format!(" ({count} times)"));
    let (who, variable, flow) = (text(entry, "who"), text(entry, "variable"), text(entry, "flow"));
    let at = entry["last"].as_u64().unwrap_or_default() as f64 / 1e9;
    let of = source.map_or_else(|| flow.to_owned(), |source| format!("source {source}"));
    format!("{at:.3} s {who}: {variable} of {of} {what}{times}")
}
