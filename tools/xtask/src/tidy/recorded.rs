//! Recorded results come from a whole run at a clean revision, and those of iTCP reach the goals of the paper
//! and of the project. `tools/xtask/unclean.toml` names results that are to be recorded again, with the
//! reason. `cargo xtask record` makes clean ones.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::Diagnostic;
use super::tree::Tree;
use crate::record::RESULTS;

const LIST: &str = "tools/xtask/unclean.toml";

/// The list of results that are not clean.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    /// The reason, by experiment.
    #[serde(default)]
    results: BTreeMap<String, String>,
}

/// Checks that each recorded result is whole, is clean or listed, and reaches its goals.
pub(super) fn check(tree: &Tree) -> Vec<Diagnostic> {
    let list: List = match toml::from_str(tree.text(LIST)) {
        Ok(list) => list,
        Err(error) => return vec![Diagnostic::new(LIST, format!("{error}"), "mend the file")],
    };
    let mut diagnostics = Vec::new();
    for (path, text) in &tree.files {
        let Some(name) = path
            .strip_prefix(RESULTS)
            .and_then(|rest| rest.strip_suffix("/result.json"))
        else {
            continue;
        };
        let Ok(result) = serde_json::from_str::<Value>(text) else {
            diagnostics.push(Diagnostic::new(path, "it is no JSON", "record it again"));
            continue;
        };
        match (unclean(&result), list.results.contains_key(name)) {
            (Some(why), false) => {
                let remedy = format!("commit, and `cargo xtask record {name}`");
                diagnostics.push(Diagnostic::new(path, why, remedy));
            }
            (None, true) => {
                let what = format!("`{name}` is clean");
                diagnostics.push(Diagnostic::new(LIST, what, "delete the row"));
            }
            _ => {}
        }
        let missed = match name {
            "itcp-fast" => fast(&result, 2, 1_500.0),
            "itcp-fast-lab" => fast(&result, 3, 60.0),
            "itcp-overhead" => tware(&result),
            _ => Vec::new(),
        };
        let remedy = "find the cause; the goal is in docs/experiments.md";
        diagnostics.extend(missed.into_iter().map(|what| Diagnostic::new(path, what, remedy)));
    }
    diagnostics
}

/// Returns the reason why a result is not a valid record.
fn unclean(result: &Value) -> Option<String> {
    let revision = result["environment"]["revision"].as_str().unwrap_or_default();
    if result["quick"] != false {
        return Some("it was recorded in quick mode".to_owned());
    }
    let is_clean = revision.len() >= 7 && revision.chars().all(|c| c.is_ascii_hexdigit());
    (!is_clean).then(|| format!("its revision is `{revision}`"))
}

/// Returns the rows of a result.
fn rows(result: &Value) -> &[Value] {
    result["figures"]["rows"].as_array().map_or(&[], Vec::as_slice)
}

/// Returns the number at a place such as `/mbit_per_second/whole`. A missing number is NaN, which satisfies
/// no limit.
fn number(row: &Value, place: &str) -> f64 {
    row.pointer(place).and_then(Value::as_f64).unwrap_or(f64::NAN)
}

/// Checks that FAST, both built in and as T-wares, fills a path whose buffer is half the bandwidth-delay
/// product. It must do so for this many seconds with each of its contenders, without loss at the start.
fn fast(result: &Value, contenders: usize, seconds: f64) -> Vec<String> {
    let mut missed = Vec::new();
    for (round_trip, min_rate) in [(120.0, 192.0), (400.0, 189.0)] {
        let is_meant = |row: &&Value| {
            let path = (number(row, "/path/round_trip_ms"), number(row, "/path/buffer"));
            row["contender"]
                .as_str()
                .is_some_and(|name| name.contains("FAST"))
                && path == (round_trip, 0.5)
        };
        let fasts: Vec<&Value> = rows(result).iter().filter(is_meant).collect();
        if fasts.len() != contenders {
            missed.push(format!(
                "{} contenders with FAST at {round_trip} ms, and not {contenders}",
                fasts.len()
            ));
        }
        let rates: Vec<f64> = fasts
            .iter()
            .map(|row| number(row, "/mbit_per_second/second_half"))
            .collect();
        let best = rates.iter().copied().fold(0.0, f64::max);
        if !rates.iter().all(|rate| *rate >= min_rate && rate / best > 0.99) {
            missed.push(format!(
                "rates of {rates:?} Mbit/s at {round_trip} ms: {min_rate} and within 1 % is the goal"
            ));
        }
        if !fasts.iter().all(|row| number(row, "/seconds") >= seconds) {
            missed.push(format!("less than {seconds} s at {round_trip} ms"));
        }
        if !fasts.iter().all(|row| number(row, "/dropped/at_start") == 0.0) {
            missed.push(format!("packets lost at the start at {round_trip} ms"));
        }
    }
    missed
}

/// Checks the cost of the full T-ware, in per cent of a processor. In the loop of our own TCP, the cost is
/// that of the whole sender.
fn tware(result: &Value) -> Vec<String> {
    let mut missed = Vec::new();
    for (interval, limit) in [("each ACK", 9.7), ("10 ms", 1.0)] {
        let is_case =
            |row: &&Value, case: &str| row["case"].as_str().is_some_and(|known| known.ends_with(case));
        let full = format!("{interval}, full");
        let own_loop = format!("ours, loop, {full}");
        let costs: Vec<f64> = rows(result)
            .iter()
            .filter(|row| is_case(row, &full) && !is_case(row, &own_loop))
            .map(|row| number(row, "/cpu_per_cent"))
            .collect();
        // The three costs are those of Linux in the loop, Linux in a thread and our own TCP in a thread.
        if costs.len() != 3 || !costs.iter().all(|cost| *cost < limit) {
            missed.push(format!(
                "{interval}: three costs below {limit} % are the goal: {costs:?}"
            ));
        }
        let ours = rows(result).iter().find(|row| row["case"] == own_loop);
        let cost = ours.map_or(f64::NAN, |row| {
            number(row, "/signals") / number(row, "/seconds") * number(row, "/ns_in_tware") / 1e9 * 100.0
        });
        if cost.is_nan() || cost >= limit {
            missed.push(format!("{own_loop}: {cost} %, and below {limit} % is the goal"));
        }
    }
    missed
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn diagnostics(list: &str, name: &str, result: &Value) -> Vec<Diagnostic> {
        let path = format!("{RESULTS}{name}/result.json");
        check(&Tree::from_texts(&[(LIST, list), (&path, &result.to_string())]))
    }

    #[test]
    fn a_quick_or_dirty_record_is_found() {
        let result =
            |revision: &str, quick: bool| json!({ "environment": { "revision": revision }, "quick": quick });
        assert_eq!(diagnostics("", "a", &result("8e4edc5", false)), []);
        for unclean in [
            result("8e4edc5-dirty", false),
            result("8e4edc5", true),
            result("unknown", false),
        ] {
            assert_eq!(diagnostics("", "a", &unclean).len(), 1, "{unclean}");
            assert_eq!(diagnostics("[results]\na = \"why\"", "a", &unclean), []);
        }
        assert_eq!(
            diagnostics("[results]\na = \"why\"", "a", &result("8e4edc5", false)).len(),
            1
        );
    }

    /// Returns a record of FAST with this rate at 120 ms and this loss at the start.
    fn of_fast(rate: f64, lost: u32) -> Value {
        let row = |round_trip: u32, contender: &str, rate: f64, lost: u32| {
            json!({ "contender": contender, "path": { "round_trip_ms": round_trip, "buffer": 0.5 },
                "mbit_per_second": { "second_half": rate }, "seconds": 1600, "dropped": { "at_start": lost } })
        };
        let rows = [
            row(120, "FAST", rate, lost),
            row(120, "iFAST", 195.0, 0),
            row(400, "FAST", 190.0, 0),
            row(400, "iFAST", 190.0, 0),
            row(400, "Reno", 90.0, 9),
        ];
        json!({ "environment": { "revision": "8e4edc5" }, "quick": false, "figures": { "rows": rows } })
    }

    #[test]
    fn a_record_of_fast_below_its_goal_is_found() {
        assert_eq!(diagnostics("", "itcp-fast", &of_fast(195.0, 0)), []);
        assert_eq!(diagnostics("", "itcp-fast", &of_fast(191.0, 0)).len(), 1);
        assert_eq!(
            diagnostics("", "itcp-fast", &of_fast(192.5, 0)).len(),
            1,
            "1 % less than the best"
        );
        assert_eq!(diagnostics("", "itcp-fast", &of_fast(195.0, 1)).len(), 1);
        assert_eq!(
            diagnostics("", "itcp-fast-lab", &of_fast(195.0, 0)).len(),
            2,
            "three contenders"
        );
    }

    #[test]
    fn a_record_of_a_tware_that_costs_too_much_is_found() {
        let result = |cost: f64| {
            let cases = ["ours, thread", "linux, loop", "linux, thread"].into_iter();
            let mut rows: Vec<Value> = cases
                .flat_map(|case| ["each ACK", "10 ms"].map(|interval| format!("{case}, {interval}, full")))
                .map(|case| json!({ "case": case, "cpu_per_cent": if case.starts_with("ours") { cost } else { 0.5 } }))
                .collect();
            for interval in ["each ACK", "10 ms"] {
                rows.push(json!({ "case": format!("ours, loop, {interval}, full"),
                    "signals": 1000, "seconds": 10, "ns_in_tware": 1000, "cpu_per_cent": 50.0 }));
            }
            json!({ "environment": { "revision": "8e4edc5" }, "quick": false, "figures": { "rows": rows } })
        };
        assert_eq!(diagnostics("", "itcp-overhead", &result(0.9)), []);
        assert_eq!(diagnostics("", "itcp-overhead", &result(1.1)).len(), 1);
        assert_eq!(diagnostics("", "itcp-overhead", &result(9.8)).len(), 2);
    }
}
