//! The data of a picture as tables in CSV.

use std::fmt::Write as _;

use hawser_syntax::OneLine;

use super::Picture;
use hawser_sim::Report;

fn seconds(nanos: u64) -> String {
    format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

/// Formats a text as a cell of a table (RFC 4180).
fn cell(text: &str) -> String {
    format!("\"{}\"", OneLine(text).to_string().replace('"', "\"\""))
}

impl Picture {
    /// Returns the data as tables in CSV, with the names of their files.
    #[must_use]
    pub fn tables(&self) -> [(&'static str, String); 6] {
        let picture = self;
        let host = |number: usize| picture.hosts.get(number).map_or("", String::as_str);
        let flow = |flow: Option<usize>| flow.map_or_else(String::new, |flow| flow.to_string());
        let mut packets = "number,seconds,from,to,flow,fate,end_seconds,payload,packet,line\n".to_owned();
        for packet in &picture.packets {
            let line = packet.line.and_then(|line| picture.lines.get(line));
            let _ = writeln!(
                packets,
                "{},{},{},{},{},{},{},{},{},{}",
                packet.number,
                seconds(packet.at_ns),
                cell(host(packet.from)),
                cell(host(packet.to)),
                flow(packet.flow),
                packet.fate,
                seconds(packet.end_ns),
                packet.payload,
                cell(&packet.text),
                cell(line.map_or("", String::as_str))
            );
        }
        let mut fields = "seconds,host,flow,context,field,unit,value\n".to_owned();
        for field in &picture.fields {
            for (at, value) in field.points.points() {
                let _ = writeln!(
                    fields,
                    "{},{},{},{},{},{},{value}",
                    seconds(*at),
                    cell(host(field.host)),
                    flow(field.flow),
                    cell(&field.context),
                    cell(&field.name),
                    if field.unit == "span" { "ns" } else { "" }
                );
            }
        }
        let mut timers = "host,flow,timer,from_seconds,to_seconds,end\n".to_owned();
        for timer in &picture.timers {
            let _ = writeln!(
                timers,
                "{},{},{},{},{},{}",
                cell(host(timer.host)),
                flow(timer.flow),
                cell(&timer.name),
                seconds(timer.from_ns),
                seconds(timer.to_ns),
                timer.end
            );
        }
        let mut windows = "seconds,host,flow,window,edge\n".to_owned();
        for window in &picture.windows {
            for (at, edge) in window.points.points() {
                let _ = writeln!(
                    windows,
                    "{},{},{},{},{edge}",
                    seconds(*at),
                    cell(host(window.host)),
                    window.flow,
                    cell(&window.name)
                );
            }
        }
        let mut signals = "seconds,host,flow,context,signal,fields,line\n".to_owned();
        for signal in &picture.signals {
            let values = signal
                .fields
                .iter()
                .map(|(name, value)| format!("{name}={value}"));
            let _ = writeln!(
                signals,
                "{},{},{},{},{},{},{}",
                seconds(signal.at_ns),
                cell(host(signal.host)),
                flow(signal.flow),
                cell(&signal.context),
                cell(&signal.name),
                cell(&values.collect::<Vec<_>>().join(" ")),
                cell(&signal.line)
            );
        }
        let mut queues = "seconds,queue,max_bytes,mean_bytes\n".to_owned();
        for queue in &picture.queues {
            for ((at, max), (_, mean)) in queue.points.points().iter().zip(queue.mean.points()) {
                let _ = writeln!(queues, "{},{},{max},{mean}", seconds(*at), cell(&queue.name));
            }
        }
        [
            ("packets.csv", packets),
            ("fields.csv", fields),
            ("windows.csv", windows),
            ("timers.csv", timers),
            ("signals.csv", signals),
            ("queues.csv", queues),
        ]
    }
}

/// Returns the slowdown of a run by the size of messages as a table in CSV, if its scenario asks for it.
#[must_use]
pub fn slowdown_table(report: &Report) -> Option<String> {
    let slowdown = report.slowdown.as_ref()?;
    let mut table = "min_bytes,max_bytes,count,mean,p50,p99,p999,max\n".to_owned();
    for group in &slowdown.by_size {
        let _ = writeln!(
            table,
            "{},{},{},{},{},{},{},{}",
            group.min_bytes,
            group.max_bytes,
            group.count,
            group.mean,
            group.p50,
            group.p99,
            group.p999,
            group.max
        );
    }
    Some(table)
}
