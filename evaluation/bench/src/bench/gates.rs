//! `hawser bench gates`: checks that counts of instructions stay within their limits. Such counts do not
//! depend on other users of the machine.

use super::{Common, callgrind, policy, race};
use crate::report::Report;
use crate::ring::RingOptions;

/// Check that instructions per packet, per ranking and per selection stay within their limits
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {}

/// A count, and its limit.
struct Gate {
    name: String,
    count: f64,
    limit: f64,
}

/// The size of the larger transfer, in MiB. With 1 MiB, the count of one program varied from 1.19 to 1.23
/// between runs.
///
/// The limits below are the counts at the time of writing, plus some per cent for other compilers. Lower them
/// when the code has become cheaper; a change that raises them gives the reason.
const TRANSFER: u64 = 16;
/// The instructions per data packet of generated code (2,526) and of hand-written code in the same engine
/// (2,478), and their ratio. They are not compared with smoltcp's. The compiler's inlining moved smoltcp's
/// count by 5 % between builds of unchanged code, while ours moved by 0.2 %.
const PACKET_LIMITS: [f64; 3] = [2_600.0, 2_550.0, 1.04];
/// The same limits where each packet is an event (6,316 and 5,641), which shows the cost of a chain. The counts were
/// 6,260 and 5,534 when the verbs were a crate of their own: the compiler inlines less of the engine since.
const ALONE_LIMITS: [f64; 3] = [6_400.0, 5_700.0, 1.17];
/// The same limits with checksums in software (3,828 and 3,764). The compiler vectorizes a sum or not
/// depending on the code around it.
const SUMS_LIMITS: [f64; 3] = [3_940.0, 3_880.0, 1.04];
/// The same limits for a round trip of 32 bytes each way, at both ends (31,238 and 27,559).
const ROUND_TRIP_LIMITS: [f64; 3] = [32_200.0, 28_400.0, 1.17];
/// The instructions to rank 100 candidates under 50 policies (3,709,903, in 0.87 ms), and for a cached
/// selection (78).
const RANKING_LIMITS: [f64; 2] = [4_100_000.0, 100.0];
/// The instructions for a selection with its race, warm (45,083, in 4.5 µs) and cold (41,456).
const RACE_LIMITS: [f64; 2] = [49_600.0, 45_600.0];

type Failure = Box<dyn std::error::Error>;

/// Counts, prints each count beside its limit, and returns whether all are within their limits.
///
/// # Errors
/// Valgrind is absent, or a measurement failed.
pub(crate) fn run(common: &Common) -> Result<bool, Failure> {
    let common = Common {
        json: true, // no progress is shown
        runs: Some(1),
        quick: true,
        ..common.clone()
    };
    let usual = RingOptions::default();
    let alone = RingOptions { no_merge: true, ..usual };
    let with_sums = RingOptions { checksums: true, ..usual };
    let gates = packets(&common, "a packet", usual, PACKET_LIMITS)?
        .into_iter()
        .chain(packets(&common, "a packet alone", alone, ALONE_LIMITS)?)
        .chain(packets(&common, "a packet with sums", with_sums, SUMS_LIMITS)?)
        .chain(round_trips(&common)?)
        .chain(rankings(&common)?)
        .chain(selections(&common)?);
    let mut kept = true;
    for gate in gates {
        let over = if gate.count <= gate.limit {
            ""
        } else {
            "  TOO MANY"
        };
        println!(
            "{:<48} {:>12.2} of {:>12.2}{over}",
            gate.name, gate.count, gate.limit
        );
        kept &= over.is_empty();
    }
    Ok(kept)
}

/// Counts round trips of 32 bytes each way.
fn round_trips(common: &Common) -> Result<[Gate; 3], Failure> {
    let args = callgrind::Args::of_round_trips(&["native", "handwritten"]);
    let report = callgrind::run(&args, common)?;
    compared(&report, "per round trip", "a round trip", ROUND_TRIP_LIMITS)
}

/// Counts data packets in one manner, which `what` names.
fn packets(common: &Common, what: &str, manner: RingOptions, limits: [f64; 3]) -> Result<[Gate; 3], Failure> {
    let args = callgrind::Args::new(&["native", "handwritten"], TRANSFER, manner);
    let report = callgrind::run(&args, common)?;
    compared(&report, "per data packet", what, limits)
}

/// Returns a metric of generated code, the same of hand-written code, and their ratio.
fn compared(report: &Report, metric: &str, what: &str, limits: [f64; 3]) -> Result<[Gate; 3], Failure> {
    let [native, by_hand] = [figure(report, 0, metric)?, figure(report, 1, metric)?];
    let code = ["generated code", "code by hand", "generated code / code by hand"];
    let counts = [native, by_hand, native / by_hand];
    Ok([0, 1, 2].map(|row| Gate {
        name: format!("{what}, {}", code[row]),
        count: counts[row],
        limit: limits[row],
    }))
}

fn rankings(common: &Common) -> Result<[Gate; 2], Failure> {
    let report = policy::run(&policy::Args::default(), common)?;
    let names = ["ranking 100 candidates under 50 policies", "a remembered ranking"];
    counted(&report, names, RANKING_LIMITS)
}

fn selections(common: &Common) -> Result<[Gate; 2], Failure> {
    let report = race::run(&race::Args::default(), common)?;
    let names = [
        "a selection among 12 candidates, warm",
        "a selection among 12 candidates, cold",
    ];
    counted(&report, names, RACE_LIMITS)
}

/// Returns the instructions of a report's first two rows.
fn counted(report: &Report, names: [&'static str; 2], limits: [f64; 2]) -> Result<[Gate; 2], Failure> {
    let gate = |row: usize| {
        figure(report, row, "instructions").map(|count| Gate {
            name: names[row].to_owned(),
            count,
            limit: limits[row],
        })
    };
    Ok([gate(0)?, gate(1)?])
}

/// Returns the median of a row's metric, by its name.
fn figure(report: &Report, row: usize, name: &str) -> Result<f64, String> {
    let metrics = report.rows.get(row).map_or(&[][..], |row| &row.metrics);
    let metric = metrics.iter().find(|metric| metric.name == name);
    metric
        .map(|metric| metric.median)
        .ok_or_else(|| format!("`{name}` was not measured in row {row} of `{}`", report.bench))
}
