//! Prints the table of the demo.

use serde_json::{Value, json};

use super::Row;

/// Prints the column headings.
pub(super) fn head() {
    println!(
        "{:<7} {:<9} {:<5} {:<7} {:>9} {:>9} {:>9} {:>10}  sha256",
        "sender", "receiver", "IP", "network", "seconds", "Mbit/s", "retrans", "RTT ms"
    );
}

pub(super) fn row(row: &Row) {
    let number = |v: Option<u64>| v.map_or_else(|| "-".to_owned(), |n| n.to_string());
    let rtt = row
        .srtt_ns
        .map_or_else(|| "-".to_owned(), |ns| format!("{:.3}", ns as f64 / 1e6));
    println!(
        "{:<7} {:<9} {:<5} {:<7} {:>9.2} {:>9.0} {:>9} {:>10}  {}{}",
        row.sender,
        row.receiver,
        row.family.name(),
        network(row),
        row.seconds,
        rate(row) / 1e6,
        number(row.retransmissions),
        rtt,
        if row.same { "same" } else { "DIFFERENT" },
        if row.note.is_empty() {
            String::new()
        } else {
            format!("  ({})", row.note)
        },
    );
}

pub(super) fn json(rows: &[Row]) -> Vec<Value> {
    let object = |row: &Row| {
        json!({
            "sender": row.sender, "receiver": row.receiver, "family": row.family.name(),
            "network": network(row), "seconds": row.seconds, "bytes": row.bytes,
            "bits_per_second": rate(row), "retransmissions": row.retransmissions,
            "srtt_ns": row.srtt_ns, "same": row.same, "note": row.note,
        })
    };
    rows.iter().map(object).collect()
}

fn network(row: &Row) -> &'static str {
    if row.faulty { "faulty" } else { "clean" }
}

fn rate(row: &Row) -> f64 {
    row.bytes as f64 * 8.0 / row.seconds
}
