//! `mtp-homa-slowdown`: requests of 100 to 500 kB beside cross traffic that takes half the receiver's link.

use hawser::runs::Report;
use serde_json::json;

use super::run;
use crate::Error;
use crate::experiment::{Context, Outcome};
use crate::plot::{Axes, Group, bars};

const SIZES_KB: [u64; 5] = [100, 200, 300, 400, 500];

/// Returns a scenario with the client and the source of the cross traffic at one switch, and the server at
/// the other. The switches' buffers hold a whole window of TCP.
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

/// The parts of a scenario for a transport: its params, its requests and its cross traffic. `COUNT` and
/// `SIZE` are placeholders for numbers.
struct Transport {
    name: &'static str,
    program: &'static str,
    params: &'static str,
    requests: &'static str,
    cross: &'static str,
}

/// Homa's requests are calls; TCP's are requests on one connection.
const TRANSPORTS: [Transport; 2] = [
    Transport {
        name: "Homa",
        program: "homa",
        // The kernel module reserves 5 % of the link for the oldest message, which is 50 kB in 800 us.
        params: "UNSCHEDULED = 60000, WINDOW = 60000, FIFO_EVERY = \"800us\"",
        requests: "calls = { count = COUNT, size = \"SIZEkB\", reply = 170, outstanding = 1 }",
        cross: "calls = { count = COUNT, size = \"1MB\", reply = 170, load = 0.5, arrivals = \"poisson\" }",
    },
    Transport {
        name: "TCP",
        program: "tcp",
        params: "OFFER_ECN = true",
        requests: "request = { count = COUNT, size = \"SIZEkB\", response = 170 }",
        cross: "messages = { count = COUNT, size = \"1MB\", interval = \"1600us\", arrivals = \"poisson\" }",
    },
];

impl Transport {
    fn text(&self, kilobytes: u64, count: u64, is_crossed: bool) -> String {
        let fill = |text: &str| {
            text.replace("COUNT", &count.to_string())
                .replace("SIZE", &kilobytes.to_string())
        };
        let own = format!(
            "[[flow]]\nfrom = \"h0\"\nto = \"h2\"\nat = \"1ms\"\n{}\n",
            fill(self.requests)
        );
        let cross = format!("[[flow]]\nfrom = \"h1\"\nto = \"h2\"\n{}\n", fill(self.cross));
        let flows = if is_crossed { own + &cross } else { own };
        scenario(self.program, self.params, &flows)
    }
}

/// Returns the median and the 99th percentile of the first flow's times, in seconds.
fn times(report: &Report) -> Result<(f64, f64), Error> {
    let times = report.flows.first().and_then(|flow| flow.times);
    times
        .map(|times| (times.p50, times.p99))
        .ok_or_else(|| "there are no times".into())
}

pub(crate) fn slowdown(context: &Context<'_>) -> Result<Outcome, Error> {
    let count = if context.quick { 20 } else { 400 };
    let mut outcome = Outcome::default();
    let mut figures = Vec::new();
    let mut groups = Vec::new();
    for (step, kilobytes) in SIZES_KB.into_iter().enumerate() {
        let mut group = Vec::new();
        for transport in &TRANSPORTS {
            let name = transport.name;
            (context.progress)(step, SIZES_KB.len(), &format!("{name}, {kilobytes} kB"));
            let (alone, _) = times(&run(&transport.text(kilobytes, 10, false), context.seed)?)?;
            let crossed = transport.text(kilobytes, count, true);
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
        groups.push(Group { name: format!("{kilobytes} kB"), bars: group });
    }
    let axes = Axes {
        title: "Slowdown of requests beside cross traffic of 50 %: median, and up to the 99th percentile",
        x: "request",
        y: "times alone",
    };
    let names = TRANSPORTS.map(|transport| transport.name.to_owned());
    outcome
        .drawings
        .push(("slowdown".into(), bars(&axes, &names, &groups)));
    outcome.figures = json!({ "slowdown": figures });
    Ok(outcome)
}
