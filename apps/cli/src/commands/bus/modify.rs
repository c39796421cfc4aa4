//! `hawser bus modify FLOW VARIABLE VALUE --lease TIME`: sets a variable of a running flow for a limited
//! time.

use std::time::{Duration, Instant};

use hawser::interact::{ServerMessage, parse_span};
use hawser::lang::OneLine;
use hawser::time::nanos;
use serde_json::json;

use crate::exit::{Exit, Outcome};
use crate::interact::{ClientArgs, exit, text};

/// Set a variable of a flow of a running process for a limited time
///
/// The command runs until the lease ends; interrupted, it restores the variable at once. When the lease
/// ends early, because a client of higher priority takes the variable or the flow ends, it prints the
/// reason and ends with 1. During the lease the variable keeps the value, whatever the congestion
/// controller of the transport writes; afterwards the last value of that controller is in force again.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The name of the flow, as `hawser bus probe` without a flow lists it: SOURCE:FLOW, as in 0:100000002
    flow: String,
    /// The name of the variable, as in tcp.conn.cc.cwnd
    variable: String,
    /// The value: a number, or for a duration a text such as 10ms
    #[arg(value_parser = parse_value)]
    value: u64,
    /// The time for which the variable keeps the value: 10s, 500ms
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_span)]
    lease: Duration,
    /// The priority: the command replaces the value of another client only if that client has a lower priority
    #[arg(long, default_value_t = 1)]
    priority: u8,
    /// The name of this client in the audit log and for other subscribers
    #[arg(long, default_value = "hawser-modify")]
    name: String,
    #[command(flatten)]
    client: ClientArgs,
}

/// Parses a plain number, or a time span with its unit as nanoseconds.
fn parse_value(text: &str) -> Result<u64, String> {
    text.parse().or_else(|_| {
        parse_span(text)
            .map(nanos)
            .map_err(|_| format!("`{text}` is neither a number nor a span of time such as 10ms"))
    })
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut client = args.client.connect(&args.name, args.priority)?;
    let modify = json!({ "modify": {
        "flow": args.flow, "variable": args.variable, "value": args.value, "lease": nanos(args.lease),
        "priority": args.priority,
    } });
    let answer = client.ask(&modify).map_err(exit)?;
    let (lease, begin) = (args.lease, Instant::now());
    if args.client.json {
        println!("{answer}");
    } else {
        let before = &answer["modified"]["before"];
        println!(
            "{} of {}: {before} -> {} for {lease:?}",
            args.variable, args.flow, args.value
        );
    }
    while let Some(rest) = lease.checked_sub(begin.elapsed()).filter(|rest| !rest.is_zero()) {
        if let ServerMessage::Ended(ended) = client.receive(Some(rest)).map_err(exit)? {
            let why = format!(
                "the lease on {} of {} has ended: {}",
                args.variable,
                args.flow,
                text(&ended, "why")
            );
            return Err(Exit::failed(OneLine(why)));
        }
    }
    if !args.client.json {
        println!("the lease has ended");
    }
    Ok(())
}
