//! `mtp-homa-slowdown`: requests of 100 to 500 kB beside cross traffic of half the receiver's line.

use hawser::sim::Report;
use serde_json::json;

use super::run;
use crate::Error;
use crate::experiment::{Context, Outcome};
use crate::plot::{Axes, Group, bars};

const SIZES_KB: [u64; 5] = [100, 200, 300, 400, 500];

/// The client and the source of the cross traffic at one switch, the server at the other. The switches' memory holds
/// what TCP's window holds.
fn scenario(program: &str, params: &str, flows: &str) -> String {
    format!(
        "name = \"slowdown of {program}\"\n\
         duration = \"10min\"\n\
         program = \"{program}\"\n\
         params = {{ {params} }}\n\
         [topology]\n\
         kind = \"dumbbell\"\n\
         hosts = 2\n\
         host_link = {{ rate = \"10Gbit/s\", delay = \"1us\" }}\n\
         core_link = {{ rate = \"40Gbit/s\", delay = \"1us\" }}\n\
         host = {{ priorities = 8, device_queue = \"1500B\" }}\n\
         switch = {{ priorities = 8, buffer = \"2MB\" }}\n\
         {flows}"
    )
}

/// The scenario of a transport: kilobytes of a request, how many, and whether there is cross traffic.
type Flows = fn(u64, u64, bool) -> String;

/// Homa's requests are calls; TCP's are requests on one connection.
fn homa(kilobytes: u64, count: u64, cross: bool) -> String {
    let mut flows = format!(
        "[[flow]]\nfrom = \"h0\"\nto = \"h2\"\nat = \"1ms\"\n\
         calls = {{ count = {count}, size = \"{kilobytes}kB\", reply = 8, outstanding = 1 }}\n"
    );
    if cross {
        flows += &format!(
            "[[flow]]\nfrom = \"h1\"\nto = \"h2\"\n\
             calls = {{ count = {count}, size = \"1MB\", reply = 8, load = 0.5, arrivals = \"poisson\" }}\n"
        );
    }
    scenario("homa", "UNSCHEDULED = 60000, WINDOW = 60000", &flows)
}

fn tcp(kilobytes: u64, count: u64, cross: bool) -> String {
    let mut flows = format!(
        "[[flow]]\nfrom = \"h0\"\nto = \"h2\"\nat = \"1ms\"\n\
         request = {{ count = {count}, size = \"{kilobytes}kB\", response = 8 }}\n"
    );
    if cross {
        flows += &format!(
            "[[flow]]\nfrom = \"h1\"\nto = \"h2\"\n\
             messages = {{ count = {count}, size = \"1MB\", interval = \"1600us\", arrivals = \"poisson\" }}\n"
        );
    }
    scenario("tcp", "OFFER_ECN = true", &flows)
}

/// Median and 99th percentile of the first flow's times, in seconds.
fn times(report: &Report) -> Result<(f64, f64), Error> {
    let times = report.flows.first().and_then(|flow| flow.times);
    times
        .map(|times| (times.p50, times.p99))
        .ok_or_else(|| "there are no times".into())
}

pub(crate) fn slowdown(context: &Context<'_>) -> Result<Outcome, Error> {
    let count = if context.quick { 20 } else { 400 };
    let kinds = [("Homa", homa as Flows), ("TCP", tcp as Flows)];
    let mut outcome = Outcome::default();
    let mut figures = Vec::new();
    let mut groups = Vec::new();
    for (step, kilobytes) in SIZES_KB.into_iter().enumerate() {
        let mut group = Vec::new();
        for (name, text) in kinds {
            (context.progress)(step, SIZES_KB.len(), &format!("{name}, {kilobytes} kB"));
            let (alone, _) = times(&run(&text(kilobytes, 10, false), context.seed)?)?;
            let crossed = text(kilobytes, count, true);
            let (p50, p99) = times(&run(&crossed, context.seed)?)?;
            let (p50, p99) = (p50 / alone, p99 / alone);
            outcome.lines.push(format!(
                "{kilobytes} kB over {name}: alone {:.0} us; beside cross traffic {p50:.2} times that, 99th percentile \
                 {p99:.2} times",
                alone * 1e6
            ));
            figures.push(json!({
                "bytes": kilobytes * 1000, "transport": name, "alone_us": alone * 1e6, "slowdown_p50": p50,
                "slowdown_p99": p99,
            }));
            group.push((p50, p50, p99));
            if kilobytes == SIZES_KB[0] {
                outcome
                    .configuration
                    .push((format!("{}.toml", name.to_lowercase()), crossed));
            }
        }
        groups.push(Group {
            name: format!("{kilobytes} kB"),
            bars: group,
        });
    }
    let axes = Axes {
        title: "Slowdown of requests beside cross traffic of 50 %: median, and up to the 99th percentile",
        x: "request",
        y: "times alone",
    };
    let names = kinds.map(|(name, _)| name.to_owned());
    outcome
        .drawings
        .push(("slowdown".into(), bars(&axes, &names, &groups)));
    outcome.figures = json!({ "slowdown": figures });
    Ok(outcome)
}
