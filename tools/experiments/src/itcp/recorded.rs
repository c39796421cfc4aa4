//! What whole runs recorded reaches what the paper and the project set out to reach.

use std::path::Path;

use serde_json::Value;

/// The recorded rows of an experiment.
fn rows(name: &str) -> Vec<Value> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("results")
        .join(name)
        .join("result.json");
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let result: Value = serde_json::from_str(&text).expect("JSON");
    result["figures"]["rows"].as_array().expect("rows").clone()
}

/// A number at a place such as `/mbit_per_second/whole`.
fn number(row: &Value, place: &str) -> f64 {
    row.pointer(place)
        .and_then(Value::as_f64)
        .unwrap_or_else(|| panic!("{place}: {row}"))
}

/// Those of FAST, by itself and by T-wares, at a round trip, with a buffer of half the product.
fn fasts(rows: &[Value], round_trip: f64) -> Vec<&Value> {
    let path = |row: &&Value| (number(row, "/path/round_trip_ms"), number(row, "/path/buffer"));
    let is_fast = |row: &&Value| {
        row["contender"]
            .as_str()
            .is_some_and(|name| name.contains("FAST"))
    };
    rows.iter()
        .filter(|row| is_fast(row) && path(row) == (round_trip, 0.5))
        .collect()
}

#[test]
fn fast_holds_the_path_and_loses_nothing_at_the_start() {
    for (name, contenders, least_seconds) in [("itcp-fast", 2, 1_500.0), ("itcp-fast-lab", 3, 60.0)] {
        let rows = rows(name);
        for (round_trip, least) in [(120.0, 192.0), (400.0, 189.0)] {
            let fasts = fasts(&rows, round_trip);
            assert_eq!(fasts.len(), contenders, "{name} at {round_trip} ms");
            let rates: Vec<f64> = fasts
                .iter()
                .map(|row| number(row, "/mbit_per_second/second_half"))
                .collect();
            assert!(
                rates.iter().all(|rate| *rate >= least),
                "{name} at {round_trip} ms: {rates:?}"
            );
            let most = rates.iter().fold(0.0, |most: f64, rate| most.max(*rate));
            assert!(
                rates.iter().all(|rate| rate / most > 0.99),
                "{name} at {round_trip} ms: {rates:?}"
            );
            for row in fasts {
                assert!(number(row, "/seconds") >= least_seconds, "{row}");
                assert_eq!(number(row, "/dropped/at_start"), 0.0, "{row}");
            }
        }
    }
}

/// Per cent of a processor, of T-wares in full; in the loop of our own TCP it is the whole sender's.
#[test]
fn a_tware_costs_little() {
    let rows = rows("itcp-overhead");
    for (interval, most) in [("each ACK", 9.7), ("10 ms", 1.0)] {
        let is_meant = |row: &&Value| {
            let case = row["case"].as_str().unwrap_or_default();
            case.ends_with(&format!("{interval}, full")) && !case.starts_with("ours, loop")
        };
        let costs: Vec<f64> = rows
            .iter()
            .filter(is_meant)
            .map(|row| number(row, "/cpu_per_cent"))
            .collect();
        assert_eq!(
            costs.len(),
            3,
            "Linux in the loop and in a thread, ours in a thread"
        );
        assert!(costs.iter().all(|cost| *cost < most), "{interval}: {costs:?}");
        let ours = rows
            .iter()
            .find(|row| row["case"] == format!("ours, loop, {interval}, full"));
        let ours = ours.expect("our TCP in the loop");
        let a_second = number(ours, "/signals") / number(ours, "/seconds");
        let cost = a_second * number(ours, "/ns_in_tware") / 1e9 * 100.0;
        assert!(cost < most, "{interval}: {cost}");
    }
}
