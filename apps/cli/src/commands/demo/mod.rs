//! `hawser demo`: TCP in MTP against Linux's own TCP, over IPv4 and IPv6, clean and faulty.
//!
//! * `environment`: the namespace, the device, the file
//! * `directory`: a temporary directory that is removed however a story ends
//! * `linux`: the Linux side: an HTTP server on kernel TCP, and curl
//! * `table`: the output
//! * `roaming`: a session over two paths, one of which appears and one disappears
//! * `browser`: Chromium behind the proxy, with and without the second path; and its page
//! * `watching`: ten seconds of a transfer, with one modification
//! * `incast`: 32 hosts that send to one at once, over TCP and over Homa, simulated
//! * `picture`: figures over time as marks
//!
//! Everything happens in a user and network namespace of its own, so it needs no privilege and leaves no
//! trace behind.

mod browser;
mod directory;
mod environment;
mod incast;
mod linux;
mod picture;
mod roaming;
mod table;
mod watching;

use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::engine::EngineArgs;
use crate::exit::{Exit, Outcome};
use environment::{DemoDevice, DemoEnvironment, Family};
use hawser::programs::Engine;

/// Show TCP, written in MTP, talking to Linux's own TCP, a session that roams, a browser on top, and a
/// transfer that is watched and steered
///
/// curl downloads from `hawser serve`, and `hawser get` downloads from an HTTP server on Linux's TCP: over
/// IPv4 and IPv6, clean, and with 1 % loss and 1 % reordering per packet of MTU size (held 1 ms) in both
/// directions. Then a phone downloads over WiFi, gains the mobile network and loses WiFi, with a bar per
/// path. Then a browser downloads through the proxy, with and without a second path. Then a transfer is
/// watched for ten seconds, and its window is set for three of them. At the end 32 simulated hosts send to
/// one at once, over TCP and over Homa. The command compares every file. It runs in namespaces of its own
/// and needs no privilege.
///
/// With --web a page shows the part with the browser live, with switches on the network (docs/demo.md).
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The story to run
    #[arg(long, value_enum, default_value_t = Story::All)]
    story: Story,
    /// Serve a page with live throughput, races, candidates and switches of the networks, until Ctrl-C
    #[arg(long, conflicts_with_all = ["story", "size", "every_setup", "every_size", "picture"])]
    web: bool,
    /// Size of each download in MiB; by default 64, and 16 for the browser
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    size: Option<u32>,
    /// Run the part with the browser with sessions over every pair of transports
    #[arg(long)]
    every_setup: bool,
    /// Run that part with sizes from 1 to 64 MiB as well, which takes some ten minutes
    #[arg(long, conflicts_with = "size")]
    every_size: bool,
    /// Run the browser's story and save a picture of its page as PNG
    #[arg(long, value_name = "FILE")]
    picture: Option<std::path::PathBuf>,
    /// Run only the web server of the browser's story, at these addresses
    #[arg(long, hide = true, value_delimiter = ',')]
    origin: Vec<std::net::IpAddr>,
    /// The device between the two stacks: a TUN device where this user may open one, else a veth pair
    #[arg(long, value_enum, default_value_t = environment::DeviceKind::Auto)]
    medium: environment::DeviceKind,
    /// Print the table as JSON
    #[arg(long)]
    json: bool,
    /// The seed of the injected faults
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    engine: EngineArgs,
}

/// A part of the demonstration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Story {
    /// All stories
    All,
    /// TCP in MTP against Linux's TCP
    Transfers,
    /// A session over two paths.
    Roaming,
    /// A browser that downloads through the proxy, with and without a second path.
    Browser,
    /// Ten seconds of watching a transfer, whose window is set for three of them.
    Watching,
    /// 32 hosts that send to one at once, over TCP and over Homa, simulated.
    Incast,
}

impl Story {
    /// The number of stories besides `all`.
    const SHOWN: usize = 5;

    fn name(self) -> &'static str {
        match self {
            Story::All => "all",
            Story::Transfers => "transfers",
            Story::Roaming => "roaming",
            Story::Browser => "browser",
            Story::Watching => "watching",
            Story::Incast => "incast",
        }
    }

    /// Fails if a program that the story calls is missing.
    fn require_tools(self) -> Outcome {
        match self {
            Story::All | Story::Roaming | Story::Incast => Ok(()),
            Story::Transfers | Story::Watching => linux::require_curl(),
            Story::Browser => browser::require_client(),
        }
    }
}

/// The exit code of a missing tool, device or permission (docs/exit-codes.md).
const ENVIRONMENT: u8 = 4;
/// The faults of the faulty downloads: per packet of MTU size, before receive merging.
const FAULTS: &str = "loss=1%,reorder=1%,hold=1ms";
/// The transport program of all downloads.
const PROGRAM: &str = "tcp";
/// The params of the program.
const PARAMS: [&str; 1] = ["MIN_RTO=200ms"];

/// One download: its measurements, and whether the file was correct.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    sender: &'static str,
    receiver: &'static str,
    family: Family,
    faulty: bool,
    seconds: f64,
    bytes: u64,
    retransmissions: Option<u64>,
    srtt_ns: Option<u64>,
    same: bool,
    note: String,
}

pub(crate) fn run(args: &Args) -> Outcome {
    if !args.origin.is_empty() {
        return browser::origin(&args.origin);
    }
    if args.web {
        return browser::page(args.json);
    }
    match args.story {
        Story::Roaming => return roaming::run(args.json),
        Story::Browser => return browser::story(args),
        Story::Watching => return watching::run(&args.engine, args.medium, args.json),
        Story::Incast => return incast::run(args.json),
        Story::All | Story::Transfers => {}
    }
    if args.story == Story::All {
        all(args)
    } else {
        finish(args, &transfers(args)?, json!({}))
    }
}

/// Runs every story. Stories that this machine cannot show are left out and listed at the end.
fn all(args: &Args) -> Outcome {
    let mut left_out = LeftOut::default();
    let rows = left_out
        .unless_missing(Story::Transfers, || transfers(args))?
        .unwrap_or_default();
    let mut others = serde_json::Map::new();
    for story in [Story::Roaming, Story::Browser, Story::Watching, Story::Incast] {
        let shown = left_out.unless_missing(story, || apart(story, args.json))?;
        others.insert(story.name().into(), shown.unwrap_or(Value::Null));
    }
    others.insert("left_out".into(), left_out.json());
    if !args.json {
        left_out.print();
    }
    if left_out.0.len() == Story::SHOWN {
        return Err(Exit::environment(
            "the demonstration can show none of its parts here; the reasons are above",
        ));
    }
    finish(args, &rows, Value::Object(others))
}

/// Prints the result as JSON if requested, and fails if a downloaded file differs.
fn finish(args: &Args, shown: &Transfers, others: Value) -> Outcome {
    if args.json {
        let mut result = json!({
            "medium": shown.medium, "faults": FAULTS, "params": PARAMS,
            "engine": args.engine.for_program(PROGRAM).name(), "rows": table::json(&shown.rows),
        });
        if let (Some(result), Value::Object(others)) = (result.as_object_mut(), others) {
            result.extend(others);
        }
        println!("{result}");
    }
    match shown.rows.iter().filter(|r| !r.same).count() {
        0 => Ok(()),
        n => Err(Exit::failed(format!(
            "{n} of {} downloads differ from the file",
            shown.rows.len()
        ))),
    }
}

/// The stories that this machine cannot show, with the reasons.
#[derive(Default)]
struct LeftOut(Vec<(Story, String)>);

impl LeftOut {
    /// Shows a story, unless a tool or a permission that it needs is missing.
    fn unless_missing<T>(
        &mut self,
        story: Story,
        show: impl FnOnce() -> Result<T, Exit>,
    ) -> Result<Option<T>, Exit> {
        let shown = story.require_tools().and_then(|()| show());
        match shown {
            Err(exit) if exit.code() == ENVIRONMENT => {
                let message = exit.to_string();
                self.0.push((
                    story,
                    if message.is_empty() {
                        "its error is above".into()
                    } else {
                        message
                    },
                ));
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    fn print(&self) {
        if !self.0.is_empty() {
            println!();
        }
        for (story, why) in &self.0 {
            println!("left out: {}: {why}", story.name());
        }
    }

    fn json(&self) -> Value {
        self.0
            .iter()
            .map(|(story, why)| json!({ "story": story.name(), "why": why }))
            .collect()
    }
}

/// Runs a story in a process of its own, because a lab must begin before any thread.
fn apart(story: Story, as_json: bool) -> Result<Value, Exit> {
    let mut command = Command::new(std::env::current_exe().map_err(Exit::environment)?);
    command.args(["demo", "--story", story.name()]);
    if !as_json {
        let status = command.status().map_err(Exit::environment)?;
        return if status.success() {
            Ok(Value::Null)
        } else {
            Err(Exit::reported(code(status)))
        };
    }
    let output = command
        .arg("--json")
        .stderr(Stdio::inherit())
        .output()
        .map_err(Exit::environment)?;
    if !output.status.success() {
        return Err(Exit::reported(code(output.status)));
    }
    serde_json::from_slice(&output.stdout).map_err(Exit::failed)
}

fn code(status: std::process::ExitStatus) -> u8 {
    status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(1)
}

/// The downloads, and the medium that they used.
#[derive(Default)]
struct Transfers {
    medium: String,
    rows: Vec<Row>,
}

fn transfers(args: &Args) -> Result<Transfers, Exit> {
    linux::require_curl()?;
    let size = args.size.unwrap_or(64);
    let stage = DemoEnvironment::set_up(args.medium, u64::from(size) << 20)?;
    if !args.json {
        println!(
            "{} MiB each, {}; TCP on the {} engine; faults: {} in both directions; minimum RTO 200 ms",
            size,
            stage.describe(),
            args.engine.for_program(PROGRAM),
            FAULTS
        );
        println!();
        table::head();
    }
    let mut rows = Vec::new();
    let mut show = |row: Row| {
        if !args.json {
            table::row(&row);
        }
        rows.push(row);
    };
    let one = |plan: &Plan| (plan.download)(&stage, plan);
    let [clean, faulty] = [false, true].map(|faulty| plans(args, faulty));
    // Clean downloads run one at a time, because each can use the whole machine. Faulty ones mostly wait for
    // timers, so they run all at once, each on a device of its own.
    for plan in &clean {
        show(one(plan)?);
    }
    let faulty = std::thread::scope(|scope| {
        let running: Vec<_> = faulty.iter().map(|plan| scope.spawn(|| one(plan))).collect();
        running.into_iter().map(join).collect::<Vec<_>>()
    });
    for row in faulty {
        show(row?);
    }
    Ok(Transfers { medium: stage.describe().to_owned(), rows })
}

/// A planned download.
struct Plan {
    download: fn(&DemoEnvironment, &Plan) -> Result<Row, Exit>,
    family: Family,
    lane: DemoDevice,
    faulty: bool,
    seed: u64,
    engine: Engine,
}

/// Plans both directions over both families.
fn plans(args: &Args, faulty: bool) -> Vec<Plan> {
    let (seed, engine) = (args.seed, args.engine.for_program(PROGRAM));
    let mut plans = Vec::new();
    for family in [Family::V4, Family::V6] {
        for download in [curl_from_hawser, hawser_from_linux] {
            let lane = DemoDevice(plans.len() as u8 % environment::LANES);
            plans.push(Plan { download, family, lane, faulty, seed, engine });
        }
    }
    plans
}

fn join(running: std::thread::ScopedJoinHandle<'_, Result<Row, Exit>>) -> Result<Row, Exit> {
    running
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Lets curl, on Linux's TCP, download from `hawser serve`.
fn curl_from_hawser(stage: &DemoEnvironment, plan: &Plan) -> Result<Row, Exit> {
    let mut command = stage.hawser()?;
    command
        .arg("serve")
        .arg(stage.directory())
        .args(["--json", "--port", "80"]);
    device_arguments(&mut command, stage, plan);
    let mut server = Server::start(command)?;
    server.line()?; // The server listens now.
    let got = stage.download(plan.lane);
    let result = linux::curl(&stage.url(plan.lane.hawser(plan.family), 80), &got);
    let log = if result.is_ok() {
        server.line().unwrap_or(Value::Null)
    } else {
        Value::Null
    };
    let (seconds, note) = match result {
        Ok(seconds) => (seconds, String::new()),
        Err(why) => (f64::NAN, why),
    };
    Ok(row(
        stage,
        plan,
        Outcomes { sender: "hawser", receiver: "linux", seconds, note, log },
    ))
}

/// Lets `hawser get` download from an HTTP server on Linux's TCP.
fn hawser_from_linux(stage: &DemoEnvironment, plan: &Plan) -> Result<Row, Exit> {
    let server = linux::HttpServer::start(plan.family, stage.directory())?;
    let got = stage.download(plan.lane);
    let mut command = stage.hawser()?;
    command
        .arg("get")
        .arg(stage.url(plan.lane.linux(plan.family), server.port()))
        .arg("-o")
        .arg(&got);
    command.args(["--json", "--max-time", "120"]);
    device_arguments(&mut command, stage, plan);
    let output = command.output().map_err(Exit::environment)?;
    let mut log: Value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    let note = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let seconds = log["seconds"].as_f64().unwrap_or(f64::NAN);
    // The statistics are the sender's own, and here Linux sends.
    if let Some(sent) = server.finish() {
        log["retransmissions"] = sent.retransmissions.into();
        log["srtt_ns"] = sent.srtt_ns.into();
    }
    Ok(row(
        stage,
        plan,
        Outcomes { sender: "linux", receiver: "hawser", seconds, note, log },
    ))
}

/// The outcome of a download, as its two ends reported it.
struct Outcomes {
    sender: &'static str,
    receiver: &'static str,
    seconds: f64,
    note: String,
    /// The sender's own statistics.
    log: Value,
}

/// Compares the downloaded file with the original.
fn row(stage: &DemoEnvironment, plan: &Plan, went: Outcomes) -> Row {
    let got = stage.download(plan.lane);
    let (bytes, sha256) = environment::digest(&got).unwrap_or_default();
    let _ = std::fs::remove_file(got);
    Row {
        sender: went.sender,
        receiver: went.receiver,
        family: plan.family,
        faulty: plan.faulty,
        seconds: went.seconds,
        bytes,
        retransmissions: went.log["retransmissions"].as_u64(),
        srtt_ns: went.log["srtt_ns"].as_u64(),
        same: sha256 == stage.sha256(),
        note: went.note,
    }
}

fn device_arguments(command: &mut Command, stage: &DemoEnvironment, plan: &Plan) {
    command.args(stage.device_options(plan.lane, plan.family));
    command.args(["--program", PROGRAM, "--engine", plan.engine.name()]);
    for param in PARAMS {
        command.args(["--param", param]);
    }
    if plan.faulty {
        command.args(["--faults", FAULTS, "--fault-seed", &plan.seed.to_string()]);
    }
}

/// A child process that prints a JSON object per line, and is killed when dropped.
struct Server {
    child: Child,
    lines: std::io::Lines<std::io::BufReader<std::process::ChildStdout>>,
}

impl Server {
    fn start(mut command: Command) -> Result<Server, Exit> {
        use std::io::BufRead;
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Exit::environment)?;
        let stdout = child
            .stdout
            .take()
            .ok_or_else(|| Exit::environment("no pipe to the server"))?;
        Ok(Server { child, lines: std::io::BufReader::new(stdout).lines() })
    }

    fn line(&mut self) -> Result<Value, Exit> {
        match self.lines.next() {
            Some(Ok(line)) => serde_json::from_str(&line).map_err(Exit::environment),
            Some(Err(error)) => Err(Exit::environment(error)),
            None => Err(Exit::environment(
                "`hawser serve` ended before it listened; its error is above",
            )),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
