//! The incast story: 32 hosts send to one at the same time, over TCP and over Homa, in the simulator.

use hawser::runs::{self, Report, Scenario};
use serde_json::json;

use crate::exit::{Exit, Outcome};

const SENDERS: usize = 32;
const KILOBYTES: usize = 500;
/// The transmission time of all bytes on the receiver's link, in milliseconds.
const LINE_MS: f64 = (SENDERS * KILOBYTES * 1000 * 8) as f64 / 10e9 * 1e3;
/// The width of the longest bar, in characters.
const MARKS: f64 = 56.0;

/// A scenario in a leaf-spine network, with the senders in two racks and the receiver in the third.
fn scenario(program: &str, params: &str, application: &str) -> Result<Scenario, Exit> {
    let text = format!(
        "name = \"incast over {program}\"\n\
         duration = \"10s\"\n\
         program = \"{program}\"\n\
         params = {{ {params} }}\n\
         [topology]\n\
         kind = \"leaf-spine\"\n\
         leaves = 3\n\
         spines = 2\n\
         hosts = 16\n\
         host_link = {{ rate = \"10Gbit/s\", delay = \"1us\" }}\n\
         core_link = {{ rate = \"40Gbit/s\", delay = \"1us\" }}\n\
         host = {{ priorities = 8, device_queue = \"1500B\" }}\n\
         switch = {{ priorities = 8, buffer = \"1MB\", mark_above = \"60kB\" }}\n\
         [[flow]]\n\
         from = \"h[16-47]\"\n\
         to = \"h0\"\n\
         {application}\n"
    );
    Scenario::parse(&text).map_err(Exit::failed)
}

/// Returns the completion times of the senders, in milliseconds and ascending.
fn ends(report: &Report) -> Vec<f64> {
    let flows = report.flows.iter();
    let ends = flows.filter_map(|flow| flow.times.map(|times| times.max).or(flow.forward.seconds));
    let mut ends: Vec<f64> = ends.map(|end| end * 1e3).collect();
    ends.sort_by(f64::total_cmp);
    ends
}

pub(super) fn run(as_json: bool) -> Outcome {
    let tcp = scenario(
        "tcp",
        "OFFER_ECN = true",
        &format!("bulk = {{ bytes = \"{KILOBYTES}kB\" }}"),
    )?;
    let homa = scenario(
        "homa",
        "UNSCHEDULED = 10000, WINDOW = 10000, MAX_INCOMING = 80000",
        &format!("calls = {{ size = \"{KILOBYTES}kB\", reply = 8 }}"),
    )?;
    let mut rows = Vec::new();
    for (name, scenario) in [("TCP", tcp), ("Homa", homa)] {
        let report = runs::run(&scenario, None, None, None).map_err(Exit::failed)?;
        let ends = ends(&report);
        if !report.ok || ends.len() != SENDERS {
            return Err(Exit::failed(format!(
                "the incast over {name} failed: {}",
                report.failures.join("; ")
            )));
        }
        rows.push((
            name,
            ends.iter().sum::<f64>() / ends.len() as f64,
            ends[SENDERS - 1],
        ));
    }
    if as_json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(name, mean, last)| json!({ "transport": name, "mean_ms": mean, "last_ms": last }))
            .collect();
        println!(
            "{}",
            json!({ "senders": SENDERS, "kilobytes": KILOBYTES, "line_ms": LINE_MS, "rows": rows })
        );
        return Ok(());
    }
    println!();
    println!(
        "Incast: {SENDERS} hosts send {KILOBYTES} kB each to one, whose line takes {LINE_MS:.1} ms for all (simulated)."
    );
    let longest = rows.iter().map(|(_, _, last)| *last).fold(LINE_MS, f64::max);
    for (name, mean, last) in rows {
        // Full blocks show the mean, and light blocks continue to the last completion.
        let marks = |time: f64| (time / longest * MARKS).round() as usize;
        let (full, all) = (marks(mean), marks(last));
        println!(
            "  {name:<5} {}{} {mean:.1} ms on average, the last after {last:.1} ms",
            "\u{2588}".repeat(full),
            "\u{2591}".repeat(all - full)
        );
    }
    println!(
        "Homa's receiver lets the senders finish one after the other; TCP's senders share the line until the end."
    );
    Ok(())
}
