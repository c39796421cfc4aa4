//! `hawser bus events [PATTERN]`: lists the events, variables and attachments of a running process.

use hawser::interact::Pattern;
use serde_json::{Value, json};

use crate::exit::{Exit, Outcome};
use crate::interact::{ClientArgs, exit, list, text};

/// List the events, variables and attachments that a running process offers
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only names that match one of these patterns: tcp.*, *.cwnd
    pattern: Option<String>,
    #[command(flatten)]
    client: ClientArgs,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut client = args.client.connect("hawser-events", 0)?;
    let offers = client.ask(&json!({ "offers": {} })).map_err(exit)?;
    let pattern = Pattern::new(args.pattern.clone().unwrap_or_else(|| "*".to_owned()));
    let mut any = args.pattern.is_none();
    for source in list(&offers, "offers") {
        let like = |key: &str| {
            list(source, key)
                .iter()
                .filter(|o| pattern.matches(text(o, "name")))
                .cloned()
                .collect::<Vec<_>>()
        };
        let (events, variables) = (like("events"), like("variables"));
        any |= !events.is_empty() || !variables.is_empty();
        if args.client.json {
            let (number, provider) = (&source["source"], &source["provider"]);
            println!(
                "{}",
                json!({ "source": number, "provider": provider, "events": events, "variables": variables })
            );
            continue;
        }
        println!("source {} is {}", source["source"], text(source, "provider"));
        for event in &events {
            println!("  event     {}{}", text(event, "name"), described(event));
            for field in list(event, "fields") {
                println!(
                    "              {} ({}){}",
                    text(field, "name"),
                    kind(field),
                    described(field)
                );
            }
        }
        variables
            .iter()
            .for_each(|variable| println!("  variable  {}", variable_line(variable)));
    }
    if any {
        Ok(())
    } else {
        Err(Exit::failed(format!("no event or variable matches `{pattern}`")))
    }
}

/// The provider's description, if any.
fn described(of: &Value) -> String {
    of["about"]
        .as_str()
        .map_or_else(String::new, |about| format!(": {about}"))
}

fn variable_line(variable: &Value) -> String {
    let bounds = match (variable["min"].as_u64(), variable["max"].as_u64()) {
        (Some(min), Some(max)) => format!(", may be set to {min}..={max}"),
        _ => String::new(),
    };
    format!(
        "{} ({}{bounds}){}",
        text(variable, "name"),
        kind(variable),
        described(variable)
    )
}

/// Describes the meaning of a value's number: the members of an enumeration, or the unit of a time.
fn kind(of: &Value) -> String {
    match text(of, "kind") {
        "enum" => {
            let member = |value: &Value| format!("{} {}", value["value"], text(value, "name"));
            let members: Vec<_> = list(of, "values").iter().map(member).collect();
            format!("enum: {}", members.join(", "))
        }
        kind @ ("duration" | "time") => format!("{kind}, ns"),
        "bool" => "bool: 0 no, 1 yes".to_owned(),
        other => other.to_owned(),
    }
}
