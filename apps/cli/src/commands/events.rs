//! `hawser events [PATTERN]`

use hawser::interact::Pattern;
use serde_json::{Value, json};

use crate::exit::Outcome;
use crate::interact::{ClientArgs, exit, list, text};

/// List what a running process offers: events to subscribe to, variables to read and to set
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only names that match: tcp.*, *.cwnd
    pattern: Option<String>,
    #[command(flatten)]
    client: ClientArgs,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut client = args.client.connect("hawser-events", 0)?;
    let offers = client.ask(&json!({ "offers": {} })).map_err(exit)?;
    let pattern = Pattern::new(args.pattern.clone().unwrap_or_else(|| "*".to_owned()));
    for source in list(&offers, "offers") {
        let like = |key: &str| {
            list(source, key).iter().filter(|o| pattern.matches(text(o, "name"))).cloned().collect::<Vec<_>>()
        };
        let (events, variables) = (like("events"), like("variables"));
        if args.client.json {
            let (number, provider) = (&source["source"], &source["provider"]);
            println!(
                "{}",
                json!({ "source": number, "provider": provider, "events": events, "variables": variables })
            );
            continue;
        }
        println!("source {} is {}", source["source"], text(source, "provider"));
        events.iter().for_each(|event| println!("  event     {}", event_line(event)));
        variables.iter().for_each(|variable| println!("  variable  {}", variable_line(variable)));
    }
    Ok(())
}

fn event_line(event: &Value) -> String {
    let field = |f: &Value| format!("{} {}", text(f, "kind"), text(f, "name"));
    let fields: Vec<_> = list(event, "fields").iter().map(field).collect();
    format!("{} {{{}}}", text(event, "name"), fields.join(", "))
}

fn variable_line(variable: &Value) -> String {
    let bounds = match (variable["min"].as_u64(), variable["max"].as_u64()) {
        (Some(min), Some(max)) => format!(", may be set to {min}..={max}"),
        _ => String::new(),
    };
    format!("{} ({}{bounds})", text(variable, "name"), text(variable, "kind"))
}
