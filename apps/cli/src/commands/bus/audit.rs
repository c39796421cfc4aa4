//! `hawser bus audit`: shows what was modified in a running process.

use serde_json::{Value, json};
use time::UtcDateTime;

use crate::exit::Outcome;
use crate::interact::{ClientArgs, exit, list, text};

/// Show the audit log of a running process: modifications, the clients that made them, and the results
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    client: ClientArgs,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut client = args.client.connect("hawser-audit", 0)?;
    let answer = client.ask(&json!({ "audit": {} })).map_err(exit)?;
    for entry in list(&answer, "audit") {
        if args.client.json {
            println!("{entry}")
        } else {
            println!("{}", line(entry))
        }
    }
    match answer["forgotten"].as_u64() {
        Some(forgotten) if args.client.json => println!("{}", json!({ "forgotten": forgotten })),
        Some(forgotten) if forgotten > 0 => println!("{forgotten} earlier entries are no longer stored"),
        _ => {}
    }
    Ok(())
}

fn line(entry: &Value) -> String {
    // An entry about a source as a whole, such as an attachment or a T-ware.
    let source = text(entry, "flow").strip_suffix(":ffffffffffffffff");
    let what = match text(entry, "act") {
        "set" => format!("set {} -> {}", entry["before"], entry["value"]),
        "refused" => format!("refused: {}", text(entry, "why")),
        "expired" => "the lease ended".to_owned(),
        "released" => "given back".to_owned(),
        "holder_gone" => "restored, because its holder has gone".to_owned(),
        "panicked" => format!("removed after a panic: {}", text(entry, "why")),
        "lost" => "taken by a client of higher priority".to_owned(),
        "attached" => format!("attached, sha256 {}…", text(entry, "sha256")),
        "detached" if entry["why"].is_string() => format!("detached: {}", text(entry, "why")),
        other => other.to_owned(),
    };
    let times = entry["count"].as_u64().filter(|count| *count > 1);
    let times = times.map_or_else(String::new, |count| format!(" ({count} times)"));
    let (who, variable, flow) = (text(entry, "who"), text(entry, "variable"), text(entry, "flow"));
    let at = entry["ended"].as_u64().map_or_else(
        || format!("{:.3} s", entry["last"].as_u64().unwrap_or_default() as f64 / 1e9),
        wall,
    );
    let origin = match (entry["user"].as_u64(), entry["process"].as_u64()) {
        (Some(user), Some(process)) => format!(" (user {user}, process {process})"),
        (Some(user), None) => format!(" (user {user})"),
        _ => String::new(),
    };
    let of = source.map_or_else(|| flow.to_owned(), |source| format!("source {source}"));
    format!("{at} {who}: {variable} of {of} {what}{times}{origin}")
}

/// Formats milliseconds since 1970 as a date and time in UTC (RFC 3339).
fn wall(since_1970_ms: u64) -> String {
    let (seconds, ms) = (since_1970_ms / 1000, since_1970_ms % 1000);
    let seconds = i64::try_from(seconds).unwrap_or_default();
    let time = UtcDateTime::from_unix_timestamp(seconds).unwrap_or(UtcDateTime::MAX);
    let (date, (hour, minute, second)) = (time.date(), time.as_hms());
    format!("{date}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected values come from `date -u -d @SECONDS -Ins`.
    #[test]
    fn wall_time_is_a_date_in_utc() {
        for (ms, want) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_735_689_599_999, "2024-12-31T23:59:59.999Z"),
            (4_107_542_400_123, "2100-03-01T00:00:00.123Z"),
        ] {
            assert_eq!(wall(ms), want);
        }
    }
}
