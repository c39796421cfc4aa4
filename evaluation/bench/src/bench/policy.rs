//! `hawser bench policy`: ranking candidates under policies, and a cached selection.
//!
//! A request of 20 alternatives over four interfaces makes 100 candidates. There are 50 policies, of which
//! each candidate matches about a third. A warm selection repeats the same request.

use std::hint::black_box;
use std::time::Instant;

use hawser::connect::policy::document::{self, Format};
use hawser::connect::policy::{Cib, Manager, NameTable, Options, Pib, Request, Rows, rank};

use super::{Common, alternate, callgrind, column, row};
use crate::report::{Better, Metric, Report};

/// Measure ranking 100 candidates under 50 policies, and a warm selection
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Rankings of each run; warm selections are 50 times as many
    #[arg(long, value_name = "N")]
    rankings: Option<u64>,
}

/// The part that runs under valgrind.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Once {
    /// 1: the same request again; 0: ranked anew
    warm: u8,
    /// The number of rankings
    times: u64,
}

type Failure = Box<dyn std::error::Error>;

const NAMES: [&str; 2] = ["100 candidates, 50 policies", "warm selection"];
const TRANSPORTS: [&str; 5] = ["session", "QUIC", "TLS/TCP", "TCP", "SCTP/UDP"];

/// Runs the bench.
///
/// # Errors
/// None. The report mentions a missing valgrind.
pub(crate) fn run(args: &Args, common: &Common) -> Result<Report, Failure> {
    let rankings = args
        .rankings
        .unwrap_or(if common.quick { 20 } else { 1_000 })
        .max(1);
    let mut report = Report::new("policy", "Ranking of candidates for a request");
    report.setting("rankings", rankings);
    report.setting("runs", common.runs());
    let results = alternate(common, "policy", &[false, true], |warm| {
        let mut case = Case::new().map_err(std::io::Error::other)?;
        let times = if *warm { rankings * 50 } else { rankings };
        case.work(*warm, 1).map_err(std::io::Error::other)?;
        let begin = Instant::now();
        black_box(case.work(*warm, times).map_err(std::io::Error::other)?);
        Ok(vec![begin.elapsed().as_secs_f64() * 1e6 / times as f64])
    });
    for (warm, result) in [false, true].into_iter().zip(results) {
        let instructions = instructions(warm);
        if let Err(why) = &instructions {
            report.setting("instructions", format!("not counted: {why}"));
        }
        let counted = instructions.map_or(Vec::new(), |count| vec![count]);
        report
            .rows
            .push(row(NAMES[usize::from(warm)].to_owned(), result, |samples| {
                vec![
                    Metric::new("time", "µs", Better::Lower, column(samples, 0)),
                    Metric::new("instructions", "instructions", Better::Lower, counted),
                ]
            }));
    }
    Ok(report)
}

/// Returns the instructions of each, as the difference of two runs under valgrind.
fn instructions(warm: bool) -> Result<f64, Failure> {
    let (few, many) = if warm { (1_000, 21_000) } else { (2, 22) };
    let count = |times: u64| {
        let words = [u8::from(warm).to_string(), times.to_string()];
        callgrind::count(&["once-policy", &words[0], &words[1]]).map(|(count, _)| count)
    };
    Ok((count(many)? - count(few)?) as f64 / (many - few) as f64)
}

/// Executes the hidden sub-command.
///
/// # Errors
/// None is known: the case is within every limit.
pub(crate) fn once(args: &Once) -> Result<(), Failure> {
    println!("{}", Case::new()?.work(args.warm != 0, args.times)?);
    Ok(())
}

/// The input of the ranking.
struct Case {
    names: NameTable,
    pib: Pib,
    rows: Rows,
    request: Request,
    manager: Manager,
}

impl Case {
    fn new() -> Result<Self, String> {
        let mut names = NameTable::default();
        let pib = policies(&mut names)?;
        let read = document::nodes(&interfaces(), Format::Json, "x", &mut names).map_err(first)?;
        let mut cib = Cib::default();
        for node in read.value.iter().cloned() {
            cib.insert(node, 0.0).map_err(|limit| limit.to_string())?;
        }
        let rows = cib.rows(0.0).map_err(|limit| limit.to_string())?;
        let request = document::request(&request(), Format::Json, &mut names)
            .map_err(first)?
            .value;
        let mut manager = Manager::new(Options::default());
        let nodes = read.value.into_iter().map(|node| (node, 0.0)).collect();
        let held = manager.replace(names.clone(), pib.clone(), nodes, 0.0);
        held.map_err(|limit| limit.to_string())?;
        let case = Self { names, pib, rows, request, manager };
        let all = Options { candidates: usize::MAX, ..Options::default() };
        let ranking = rank(&case.request, &case.pib, &case.rows, &case.names, &all);
        match ranking.map_err(|limit| limit.to_string())?.candidates.len() {
            100 => Ok(case),
            other => Err(format!("{other} candidates are ranked, and not 100")),
        }
    }

    /// Ranks this many times, and returns the number of candidates.
    fn work(&mut self, warm: bool, times: u64) -> Result<usize, String> {
        let mut candidates = 0;
        for _ in 0..times {
            candidates += if warm {
                self.manager
                    .select(black_box(&self.request), 0.0)
                    .map(|ranking| ranking.candidates.len())
            } else {
                let request = black_box(&self.request);
                rank(request, &self.pib, &self.rows, &self.names, &Options::default())
                    .map(|ranking| ranking.candidates.len())
            }
            .map_err(|limit| limit.to_string())?;
        }
        Ok(candidates)
    }
}

fn first(diagnostics: Vec<document::Diagnostic>) -> String {
    diagnostics.first().map_or_else(String::new, ToString::to_string)
}

/// Returns 50 policies: by transport, by interface, by both, by size, and for all requests.
fn policies(names: &mut NameTable) -> Result<Pib, String> {
    let mut pib = Pib::default();
    for n in 0..50 {
        let (transport, interface) = (TRANSPORTS[n % 5], n % 4);
        let matches = match n % 5 {
            0 => format!(r#""transport": {{ "value": "{transport}" }}"#),
            1 => format!(r#""interface": {{ "value": "if{interface}" }}"#),
            2 => format!(
                r#""interface": {{ "value": "if{interface}" }}, "transport": {{ "value": "{transport}" }}"#
            ),
            3 => r#""flow_size_bytes": { "value": { "start": 1000, "end": "Inf" } }"#.to_owned(),
            _ => r#""rtt": { "value": { "start": 0, "end": 40 } }, "security": { "value": true }"#.to_owned(),
        };
        let text = format!(
            r#"{{ "uid": "{n}", "priority": {n}, "match": {{ {matches} }}, "properties": {{
                "rtt": {{ "value": {{ "start": 0, "end": 100 }}, "score": 1 }}, "own/{n}": {{ "value": {n} }} }} }}"#
        );
        let read = document::policies(&text, Format::Json, "x", None, names).map_err(first)?;
        for policy in read.value {
            pib.insert(policy).map_err(|limit| limit.to_string())?;
        }
    }
    Ok(pib)
}

fn interfaces() -> String {
    let one = |n: usize| {
        format!(
            r#"{{ "uid": "if{n}", "root": true, "expire": -1, "properties": {{
                "interface": {{ "value": "if{n}", "precedence": 2 }}, "local_ip": {{ "value": "192.0.2.{n}", "precedence": 2 }},
                "rtt": {{ "value": {}, "score": {n} }}, "capacity": {{ "value": 1000 }}, "mtu": {{ "value": 1500 }} }} }}"#,
            n * 20 + 5
        )
    };
    format!("[{}]", (0..4).map(one).collect::<Vec<_>>().join(","))
}

fn request() -> String {
    let transports = TRANSPORTS
        .map(|name| format!(r#"{{ "value": "{name}", "score": 1 }}"#))
        .join(",");
    let ports = [443, 4433, 80, 8080]
        .map(|port| format!(r#"{{ "value": {port}, "score": 0.5 }}"#))
        .join(",");
    format!(
        r#"[{{ "transport": [{transports}], "port": [{ports}], "remote_name": {{ "value": "example.org" }},
            "security": {{ "value": true }}, "flow_size_bytes": {{ "value": 50000000 }},
            "rtt": {{ "value": {{ "start": 0, "end": 60 }}, "score": 2 }} }}]"#
    )
}
