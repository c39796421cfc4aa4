//! `roce-loss`: RDMA writes over a link that loses packets, by go-back-N and by selective repeat.

use hawser::runs::Report;
use serde_json::json;

use super::run;
use crate::Error;
use crate::experiment::{Context, Outcome};
use crate::plot::{Axes, PlotLine, lines};

/// The programs, each with its method of loss recovery.
const PROGRAMS: [(&str, &str); 2] = [("roce", "go-back-N"), ("roce-irn", "selective repeat")];

/// Returns a scenario of writes of 64 kB between two hosts, 8 at a time. The link has 40 Gbit/s and a round
/// trip of 24 us, so it holds 120 kB. This is the network of IRN's evaluation between two of its hosts.
/// Packets are lost at random and independently. Queue pairs wait for 0.32 ms before they retransmit (IRN,
/// section 4.1).
fn scenario(program: &str, percent: f64, millis: u64) -> String {
    format!(
        "name = \"{program}, {percent} % lost\"\n\
         duration = \"10s\"\n\
         idle_packets = 0\n\
         program = \"{program}\"\n\
         params = {{ LINK_RATE = 0, WINDOW = 65536 }}\n\
         host = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n\
         [[link]]\n\
         between = [\"a\", \"b\"]\n\
         both = {{ rate = \"40Gbit/s\", delay = \"12us\", loss = \"{percent}%\" }}\n\
         [[flow]]\n\
         from = \"a\"\n\
         to = \"b\"\n\
         works = {{ time = \"{millis}ms\", size = \"64kB\", kinds = [\"write\"], depth = 8, mtu = 1024, timeout = \"320us\" }}\n"
    )
}

/// Returns the goodput, in Gbit/s, and the number of bytes sent for each byte received.
fn figures(report: &Report) -> Result<(f64, f64), Error> {
    let flow = &report.flows.first().ok_or("there is no flow")?.forward;
    let seconds = flow.seconds.ok_or("the writes did not end")?;
    let sent = report.links.iter().find(|link| &*link.from == "a");
    let sent = sent.ok_or("there is no line")?.sent_bytes;
    Ok((
        flow.bytes as f64 * 8.0 / seconds / 1e9,
        sent as f64 / flow.bytes as f64,
    ))
}

pub(crate) fn loss(context: &Context<'_>) -> Result<Outcome, Error> {
    let (losses, millis): (&[f64], u64) = if context.quick {
        (&[0.0, 1.0], 20)
    } else {
        (&[0.0, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0], 200)
    };
    let mut outcome = Outcome::default();
    let mut table = Vec::new();
    let mut curves = Vec::new();
    for (program, name) in PROGRAMS {
        let mut points = Vec::new();
        for (step, percent) in losses.iter().enumerate() {
            (context.progress)(step, losses.len(), &format!("{name}, {percent} %"));
            let text = scenario(program, *percent, millis);
            let (gbits, sent) = figures(&run(&text, context.seed)?)?;
            outcome.lines.push(format!(
                "{name}, {percent} % lost: {gbits:.1} Gbit/s, {sent:.2} bytes sent for each that came"
            ));
            table.push(json!({ "program": program, "loss": percent / 100.0, "gbits": gbits, "sent": sent }));
            points.push((*percent, gbits));
            if *percent == 1.0 {
                outcome.configuration.push((format!("{program}.toml"), text));
            }
        }
        curves.push(PlotLine { name: name.into(), points });
    }
    let axes = Axes {
        title: "Writes of 64 kB over a line that loses packets",
        x: "packets lost [%]",
        y: "Gbit/s",
    };
    outcome
        .drawings
        .push(("throughput".into(), lines(&axes, &curves)));
    outcome.figures = json!({ "loss": table });
    Ok(outcome)
}
