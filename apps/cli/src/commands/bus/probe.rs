//! `hawser bus probe [FLOW [VARIABLE…]]`: reads variables of running flows.

use std::collections::HashMap;

use hawser::interact::ATTRIBUTES;
use serde_json::{Value, json};

use crate::exit::Outcome;
use crate::interact::{ClientArgs, exit, list, shown, text};

/// Read variables of a flow of a running process; without a flow, list the flows
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The name of the flow, SOURCE:FLOW, as in 0:100000002; without it, the flows are listed
    flow: Option<String>,
    /// Names of variables or patterns; by default all readable ones
    variables: Vec<String>,
    /// Without a flow: only flows that match this rule, as in remote.port=443 or command=curl
    #[arg(long, value_name = "RULE", conflicts_with = "flow")]
    scope: Option<String>,
    #[command(flatten)]
    client: ClientArgs,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut client = args.client.connect("hawser-probe", 0)?;
    let Some(flow) = &args.flow else {
        let scope = args.scope.as_deref().unwrap_or_default();
        let flows = client
            .ask(&json!({ "flows": { "scope": scope } }))
            .map_err(exit)?;
        for flow in list(&flows, "flows") {
            if args.client.json {
                println!("{flow}")
            } else {
                println!("{}", flow_line(flow))
            }
        }
        return Ok(());
    };
    let probe = json!({ "probe": { "flow": flow, "variables": args.variables } });
    let answer = client.ask(&probe).map_err(exit)?;
    let probed = &answer["probed"];
    if args.client.json {
        println!("{probed}");
        return Ok(());
    }
    let offers = client.ask(&json!({ "offers": {} })).map_err(exit)?;
    let kinds: HashMap<&str, &Value> = list(&offers, "offers")
        .iter()
        .flat_map(|source| list(source, "variables"))
        .map(|variable| (text(variable, "name"), variable))
        .collect();
    let values = probed["values"].as_object().into_iter().flatten();
    for (name, value) in values {
        let kind = kinds.get(name.as_str()).copied().unwrap_or(&Value::Null);
        println!("{name} = {}", shown(value.as_u64().unwrap_or_default(), kind));
    }
    Ok(())
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_./:@".contains(c)
}

fn flow_line(flow: &Value) -> String {
    let name = format!(
        "{} {}.{}",
        text(flow, "flow"),
        text(flow, "provider"),
        text(flow, "kind")
    );
    let ends = match (flow["local"].as_str(), flow["remote"].as_str()) {
        (Some(local), Some(remote)) => format!(" {local} > {remote}"),
        (Some(local), None) => format!(" {local}"),
        (None, Some(remote)) => format!(" > {remote}"),
        (None, None) => String::new(),
    };
    let mut line = format!("{name}{ends} {}", text(flow, "label"))
        .trim_end()
        .to_owned();
    for attribute in ATTRIBUTES {
        match &flow[attribute] {
            Value::Null => {}
            // A process chooses its own name, which could imitate other attributes. Values that are not plain
            // are shown in quotes.
            Value::String(value) if value.chars().all(is_plain) => {
                line.push_str(&format!(" {attribute}={value}"))
            }
            value => line.push_str(&format!(" {attribute}={value}")),
        }
    }
    line
}
