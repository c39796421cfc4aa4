//! `hawser bus steer CONTROLLER`: steers running connections by a congestion controller in this process.

use std::time::{Duration, Instant};

use hawser::interact::twares::{FastParams, NamedController, SteerOptions};
use hawser::interact::{Client, Remote, Scope, parse_span};
use hawser::lang::OneLine;
use serde_json::json;

use crate::exit::{Exit, Outcome};
use crate::interact::{ClientArgs, exit, list, text};

/// The number of signals that fit into the memory shared by both processes.
const SLOTS: usize = 4096;
/// The interval at which the command checks whether it has set any window, until it has.
const ASK_AFTER: Duration = Duration::from_secs(1);
/// The maximum delay of the audit log.
const LOG_DELAY: Duration = Duration::from_millis(500);
/// The interval at which the end of the time is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Steer the connections of a running process by a congestion controller in another process
///
/// The controller receives the events of each connection and sets its window under leases. When this
/// command ends, for any reason, the transport continues with its own controller.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The congestion controller
    controller: Controller,
    /// The provider of the connections: tcp, kernel.tcp; by default the only one
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// Steer only this connection, as `hawser bus probe` lists it
    #[arg(long, value_name = "FLOW")]
    flow: Option<hawser::interact::SourceFlow>,
    /// FAST: the number of segments to keep queued in the path
    #[arg(long, value_name = "SEGMENTS", default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..))]
    alpha: u16,
    /// FAST: the part of each update that is applied, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 50, value_parser = clap::value_parser!(u8).range(1..=100))]
    gamma: u8,
    /// The minimum time between two reported acknowledgements: 10ms; 0 reports each
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = parse_span)]
    interval: Duration,
    /// The time for which a window is kept when it is not updated: 1s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_span)]
    lease: Duration,
    /// The priority: the command replaces the window of another client only if that client has a lower
    /// priority
    #[arg(long, default_value_t = 1)]
    priority: u8,
    /// Stop after this time: 30s; by default when the other process ends
    #[arg(long = "for", value_name = "TIME", value_parser = parse_span)]
    length: Option<Duration>,
    /// The name of this client in the audit log and for other subscribers; by default that of the
    /// controller
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    client: ClientArgs,
}

/// The congestion controllers that can steer.
#[derive(clap::ValueEnum, Clone, Copy)]
enum Controller {
    /// FAST TCP: by the round-trip time
    Fast,
    /// Reno: by loss
    Reno,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let controller = match args.controller {
        Controller::Fast => NamedController::Fast(FastParams { alpha: args.alpha, gamma: args.gamma }),
        Controller::Reno => NamedController::Reno,
    };
    let name = args.name.as_deref().unwrap_or(controller.name());
    let mut client = args.client.connect(name, args.priority)?;
    let provider = match &args.provider {
        Some(provider) => provider.clone(),
        None => steerable(&mut client)?,
    };
    let window = format!("{provider}.conn.cc.cwnd");
    if !client.may_set(&window) {
        let why =
            format!("`{name}` has no right to set {window}; the rights file of the process can grant it");
        return Err(Exit::failed(why));
    }
    if let Some(flow) = args.flow {
        // The probe fails if the flow does not exist.
        let probe = json!({ "probe": { "flow": flow.to_string(), "variables": [window] } });
        client.ask(&probe).map_err(exit)?;
    }
    let scope = args.flow.map_or(Scope::All, Scope::One);
    let (interval, lease, priority) = (args.interval, args.lease, args.priority);
    let options = SteerOptions { scope, interval, lease, priority, ..SteerOptions::new(&provider) };
    let mut remote = Remote::new(client, controller.steers(options), Some(SLOTS)).map_err(exit)?;
    if args.client.json {
        println!(
            "{}",
            json!({ "steering": { "controller": controller.name(), "provider": provider } })
        );
    } else {
        println!("{} steers {provider}", controller.name());
    }
    let (begin, length) = (Instant::now(), args.length);
    let (mut signals, mut acts, mut next_check) = (0, false, ASK_AFTER);
    while length.is_none_or(|length| begin.elapsed() < length) {
        signals += remote.turn(POLL_INTERVAL).map_err(exit)?;
        if !acts && signals > 0 && begin.elapsed() >= next_check {
            acts = has_acted(remote.client(), name)?;
            next_check = begin.elapsed() + ASK_AFTER;
        }
    }
    let asked = Instant::now();
    while !acts && signals > 0 && asked.elapsed() < LOG_DELAY {
        acts = has_acted(remote.client(), name)?;
        std::thread::sleep(POLL_INTERVAL);
    }
    if args.client.json {
        println!("{}", json!({ "steered": { "signals": signals } }));
    }
    if !acts {
        let whose = match args.flow {
            Some(flow) => format!("the flow {flow}"),
            None => format!("any connection of {provider}"),
        };
        let why = match signals {
            0 => format!("the command set no window: it received no signal of {whose} in this time"),
            _ => format!(
                "the command set no window: {signals} signals came, and {} set a window for none of them",
                controller.name()
            ),
        };
        return Err(Exit::failed(why));
    }
    if !args.client.json {
        println!("the command received {signals} signals; it no longer controls the connections");
    }
    Ok(())
}

/// Returns whether the log has a value that was set. It fails if the log has only refusals.
fn has_acted(client: &mut Client, name: &str) -> Result<bool, Exit> {
    let answer = client.ask(&json!({ "audit": {} })).map_err(exit)?;
    let own = |entry: &&serde_json::Value| {
        text(entry, "who") == name && entry["process"].as_u64() == Some(std::process::id().into())
    };
    let own: Vec<_> = list(&answer, "audit").iter().filter(own).collect();
    if own.iter().any(|entry| text(entry, "act") == "set") {
        return Ok(true);
    }
    match own.iter().rfind(|entry| text(entry, "act") == "refused") {
        Some(entry) => Err(Exit::failed(OneLine(format!(
            "the process refused every window: {}",
            text(entry, "why")
        )))),
        None => Ok(false),
    }
}

/// Returns the provider whose windows can be set, if there is only one.
fn steerable(client: &mut Client) -> Result<String, Exit> {
    let offers = client.ask(&json!({ "offers": {} })).map_err(exit)?;
    let is_window = |v: &serde_json::Value| text(v, "name").ends_with(".conn.cc.cwnd") && v["max"].is_u64();
    let mut names: Vec<&str> = list(&offers, "offers")
        .iter()
        .filter(|source| list(source, "variables").iter().any(is_window))
        .map(|source| text(source, "provider"))
        .collect();
    names.sort_unstable();
    names.dedup();
    match names[..] {
        [] => Err(Exit::failed(
            "no provider of the process has a window that can be set",
        )),
        [one] => Ok(one.to_owned()),
        _ => Err(Exit::usage(format!(
            "choose one of them with --provider {}",
            names.join(" or ")
        ))),
    }
}
