//! `hawser bench dpdk`: TCP over memory that two processes share as ports of DPDK, compared with the ceiling
//! of such a port and with other stacks.

mod testpmd;

use std::io;

use super::{Common, alternate, bulk, column, row};
use crate::engine::TCP;
use crate::networks::{self, Constellation, Medium, Stack, StageSettings};
use crate::report::{Better, Metric, Report};
use crate::sides::spec::{BareWork, Bulk};
use crate::sides::transport::CHUNK;
use testpmd::Ports;

/// Measure TCP over DPDK's memif: beside a bare loop, testpmd, smoltcp, gVisor, and our own TUN wire
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Measured seconds of each run
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
    /// Run only rows whose name contains this: `memif`, `64 B`
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Compare every byte that arrives, at a cost to the receiver
    #[arg(long)]
    verify: bool,
    /// Set a param of Hawser's TCP: RCV_BUF=4194304 (repeatable)
    #[arg(long = "param", value_name = "NAME=VALUE", default_value = RECEIVE_BUFFER)]
    params: Vec<String>,
}

/// Hawser's receive buffer, as in `bulk`.
const RECEIVE_BUFFER: &str = "RCV_BUF=4194304";
/// Disables Nagle's algorithm, so that small writes leave at once.
const WITHOUT_NAGLE: &str = "NAGLE=false";
/// Bytes of a small write.
const SMALL: usize = 64;
/// The payload bytes of a frame of the bare loop: those of a TCP segment with timestamps.
const BARE_PAYLOAD: f64 = 1448.0;
/// The seconds before the measured ones.
const WARM_UP_S: f64 = 0.3;

/// The measurement of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A bulk transfer at full speed.
    Bulk(Constellation),
    /// Writes of [`SMALL`] bytes, each in a packet of its own.
    Small(Constellation),
    /// testpmd, which forwards the frames that it receives.
    Testpmd(Ports),
}

const fn both(stack: Stack, medium: Medium) -> Constellation {
    Constellation { client: stack, server: stack, medium }
}

const fn to_linux(stack: Stack) -> Constellation {
    Constellation { client: stack, server: Stack::Linux, medium: Medium::Device }
}

const BARE: Kind = Kind::Bulk(both(Stack::Bare(BareWork::Copies), Medium::Memif));
const WITH_SUMS: Kind = Kind::Bulk(both(Stack::Bare(BareWork::Sums), Medium::Memif));
const OURS: Kind = Kind::Bulk(both(Stack::Hawser, Medium::Memif));
const OURS_BY_REFERENCE: Kind = Kind::Bulk(Constellation {
    client: Stack::ByReference,
    server: Stack::Hawser,
    medium: Medium::Memif,
});
const SMOLTCP: Kind = Kind::Bulk(both(Stack::Smoltcp, Medium::Memif));
const SMOLTCP_TAP: Kind = Kind::Bulk(to_linux(Stack::Smoltcp));
const GVISOR: Kind = Kind::Bulk(both(Stack::Gvisor, Medium::Veth));
const OURS_SMALL: Kind = Kind::Small(both(Stack::Hawser, Medium::Memif));
const TUN_SMALL: Kind = Kind::Small(to_linux(Stack::Hawser));

/// All rows, the baseline first.
const ALL: [Kind; 14] = [
    BARE,
    Kind::Bulk(both(Stack::Bare(BareWork::Headers), Medium::Memif)),
    WITH_SUMS,
    Kind::Testpmd(Ports::Memif),
    Kind::Testpmd(Ports::Ring),
    OURS,
    OURS_BY_REFERENCE,
    Kind::Bulk(to_linux(Stack::Hawser)),
    Kind::Bulk(both(Stack::Hawser, Medium::Veth)),
    SMOLTCP,
    SMOLTCP_TAP,
    GVISOR,
    OURS_SMALL,
    TUN_SMALL,
];

/// Additional comparisons besides those with the baseline: two rows and a metric.
const COMPARED: [(Kind, Kind, &str); 8] = [
    (OURS, BARE, "rate"),
    (OURS_BY_REFERENCE, BARE, "rate"),
    (OURS, WITH_SUMS, "rate"),
    (OURS_BY_REFERENCE, WITH_SUMS, "rate"),
    (OURS_SMALL, TUN_SMALL, "packets"),
    (OURS, GVISOR, "rate"),
    (OURS, SMOLTCP_TAP, "rate"),
    (OURS, SMOLTCP, "rate"),
];

impl Kind {
    fn name(self) -> String {
        match self {
            Kind::Bulk(constellation) => constellation.name(),
            Kind::Small(constellation) => format!("{}, {SMALL} B", constellation.name()),
            Kind::Testpmd(ports) => ports.name().to_owned(),
        }
    }

    fn metrics(self, samples: &[Vec<f64>]) -> Vec<Option<Metric>> {
        let packets = |n| Metric::new("packets", "packets/s", Better::Higher, column(samples, n));
        if let Kind::Testpmd(_) = self {
            return vec![packets(0)];
        }
        let mut metrics = bulk::metrics(samples);
        metrics.push(packets(4));
        metrics.push(Metric::new(
            "payload",
            "bytes/packet",
            Better::Higher,
            column(samples, 5),
        ));
        metrics
    }
}

/// Runs the bench.
///
/// # Errors
/// No measurement is possible on this machine.
pub(crate) fn run(args: &Args, common: &Common) -> Result<Report, Box<dyn std::error::Error>> {
    networks::prepare()?;
    let seconds = args.seconds.unwrap_or(if common.quick { 0.3 } else { 3.0 });
    let mut report = Report::new(
        "dpdk",
        "Memory that two processes share as ports of DPDK: sender → receiver",
    );
    report.setting("seconds", seconds);
    report.setting("runs", common.runs());
    report.setting("engine", &common.engine);
    report.setting("params", args.params.join(","));
    report.setting(
        "memif",
        "copies frames on both sides, MTU 1500, no huge pages, all spin",
    );
    report.setting("ring", "within one process: two share rings by huge pages alone");
    report.setting(
        "bare loop",
        "66 bytes of headers and 1,448 of payload, both copied, no protocol",
    );
    report.setting(
        "smoltcp",
        "0.12, buffers 1 MiB, no congestion control; sums trusted on TAP alone",
    );
    report.setting(
        "gVisor",
        "packet sockets, super-segments of 64 KB, CUBIC, SACK, sums trusted",
    );
    let wanted: Vec<Kind> = ALL
        .into_iter()
        .filter(|kind| {
            let is_wanted = |text: &String| *kind == BARE || kind.name().contains(text);
            args.only.as_ref().is_none_or(is_wanted)
        })
        .collect();
    let results = alternate(common, "dpdk", &wanted, |kind| {
        measure(*kind, args, common, seconds)
    });
    for (kind, result) in wanted.iter().zip(results) {
        report
            .rows
            .push(row(kind.name(), result, |samples| kind.metrics(samples)));
    }
    report.against(|_| Some(BARE.name()));
    for (ours, other, metric) in COMPARED {
        report.compare(&ours.name(), &other.name(), metric);
    }
    Ok(report)
}

/// Returns the figures of `bulk`, the packets per second, and the payload bytes of each packet.
fn measure(kind: Kind, args: &Args, common: &Common, seconds: f64) -> io::Result<Vec<f64>> {
    let (constellation, write) = match kind {
        Kind::Testpmd(ports) => return testpmd::measure(ports, seconds),
        Kind::Bulk(constellation) => (constellation, CHUNK),
        Kind::Small(constellation) => (constellation, SMALL),
    };
    if constellation.client == Stack::Gvisor && common.quick {
        return Err(io::Error::other(
            "a quick run does not build it: that takes Go, and its modules from the network",
        ));
    }
    let mut params = args.params.clone();
    params.extend((write == SMALL).then(|| WITHOUT_NAGLE.to_owned()));
    let manner = StageSettings {
        // Frames in shared memory wake no process, and a wake-up for each small packet would dominate the
        // measurement.
        sleeps: constellation.medium != Medium::Memif && write == CHUNK,
        program: TCP.to_owned(),
        engine: common.engine.clone(),
        params,
        timeout_s: (seconds + WARM_UP_S) as u64 * 2 + 20,
    };
    let plan = Bulk {
        peer: networks::server(),
        warm_up_s: WARM_UP_S,
        seconds,
        verify: args.verify && constellation.client != Stack::Bare(BareWork::Headers),
        write,
        flows: 1,
    };
    let (sender, receiver) = bulk::transfer(&constellation, &manner, &plan)?;
    let mut figures = bulk::figures(&sender, &receiver)?;
    let frames = sender.notes.iter().find(|(name, _)| name == "frames_sent");
    let payload = match (constellation.client, frames) {
        (Stack::Bare(_), _) => Some(BARE_PAYLOAD),
        (_, Some((_, frames))) => Some(sender.bytes as f64 / *frames as f64),
        _ => None,
    };
    if let Some(payload) = payload {
        figures.push(receiver.counted_bytes as f64 / receiver.seconds / payload);
        figures.push(payload);
    }
    Ok(figures)
}
