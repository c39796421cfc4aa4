//! Golden rankings: each case of `rankings/` has the result of NEAT's own policy manager. If that has a
//! fault, the case has the result of NEAT's rules (`rankings/README.md`).
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // Tests read files.

use std::fs;
use std::path::{Path, PathBuf};

use hawser_policy::document::{self, Format, property_json};
use hawser_policy::{Cib, NameTable, Options, Pib, PolicyStage, Ranking, rank};
use serde_json::{Value, json};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rankings")
}

fn json_of(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).expect("JSON")
}

/// Returns every case: its name and its contents.
fn cases() -> Vec<(String, Value)> {
    let names = fs::read_dir(folder()).expect("the folder is there");
    let names = names.map(|entry| {
        entry
            .expect("an entry")
            .file_name()
            .into_string()
            .expect("a name")
    });
    let mut names: Vec<String> = names
        .filter_map(|name| Some(name.strip_suffix(".json")?.to_owned()))
        .filter(|name| !name.ends_with(".expected") && !name.ends_with(".neat"))
        .collect();
    names.sort();
    names
        .into_iter()
        .map(|name| (name.clone(), json_of(&folder().join(format!("{name}.json")))))
        .collect()
}

fn ranked(case: &Value, options: Options) -> (Ranking, NameTable) {
    let mut names = NameTable::default();
    let (mut pib, mut cib) = (Pib::default(), Cib::default());
    let now = case["now"].as_f64().expect("a time");
    let learnt = case["learnt"].as_f64().unwrap_or(now);
    for (entries, kind) in [
        ("profiles", PolicyStage::Profile),
        ("policies", PolicyStage::Policy),
    ] {
        if case[entries].is_null() {
            continue;
        }
        let text = case[entries].to_string();
        let read = document::policies(&text, Format::Json, "none", Some(kind), &mut names).expect("policies");
        for policy in read.value {
            pib.insert(policy).expect("there is room");
        }
        for uid in case["remove"].as_array().into_iter().flatten() {
            pib.remove(kind, uid.as_str().expect("a name"));
        }
    }
    if !case["cib"].is_null() {
        let nodes = document::nodes(&case["cib"].to_string(), Format::Json, "none", &mut names);
        for node in nodes.expect("nodes").value {
            cib.insert(node, learnt).expect("there is room");
        }
    }
    let request = document::request(&case["request"].to_string(), Format::Json, &mut names);
    let request = request.expect("a request").value;
    let rows = cib.rows(now).expect("few rows");
    (
        rank(&request, &pib, &rows, &names, &options).expect("few candidates"),
        names,
    )
}

/// Returns a ranking in the form of the files of expectations: sets sorted, and equal candidates in order.
fn described(ranking: &Ranking, names: &NameTable) -> Value {
    let rows = ranking.candidates.iter().map(|candidate| {
        let properties = candidate.properties.iter().map(|(key, property)| {
            let mut json = property_json(property);
            json.as_object_mut().expect("an object").remove("banned");
            (names.text(key).to_owned(), json)
        });
        let properties: serde_json::Map<String, Value> = properties.collect();
        json!({ "score": [candidate.score.evaluated, candidate.score.rest], "properties": properties })
    });
    normal(&Value::Array(rows.collect()))
}

/// Normalizes rows: numbers unchanged, sets sorted, candidates of the same score in the order of their text.
fn normal(rows: &Value) -> Value {
    let mut rows: Vec<Value> = rows.as_array().expect("a list").iter().map(sorted).collect();
    let score = |row: &Value| [0, 1].map(|part| row["score"][part].as_f64().expect("a number"));
    for pair in rows.windows(2) {
        assert!(score(&pair[0]) >= score(&pair[1]), "the best are first: {pair:?}");
    }
    rows.sort_by(|one, other| {
        score(other)
            .partial_cmp(&score(one))
            .expect("numbers")
            .then(one.to_string().cmp(&other.to_string()))
    });
    Value::Array(rows)
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) if items.iter().all(|item| !item.is_number()) || items.len() != 2 => {
            let mut items: Vec<Value> = items.iter().map(sorted).collect();
            items.sort_by_key(Value::to_string);
            Value::Array(items)
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        Value::Object(members) => members
            .iter()
            .map(|(key, member)| (key.clone(), sorted(member)))
            .collect(),
        other => other.clone(),
    }
}

/// Sorts sets, except that objects of a score keep the order of their two parts. Sets of two numbers are
/// sorted here.
fn with_sets_sorted(mut rows: Value) -> Value {
    for row in rows.as_array_mut().into_iter().flatten() {
        for (_, property) in row["properties"].as_object_mut().expect("an object") {
            if let Value::Array(members) = &mut property["value"] {
                members.sort_by_key(Value::to_string);
            }
        }
    }
    rows
}

#[test]
fn rankings_match_those_of_neat() {
    let cases = cases();
    assert!(cases.len() >= 40, "{}", cases.len());
    let mut wrong = Vec::new();
    for (name, case) in &cases {
        let (ranking, names) = ranked(case, Options::default());
        let found = with_sets_sorted(described(&ranking, &names));
        let expected = json_of(&folder().join(format!("{name}.expected.json")));
        let expected = with_sets_sorted(normal(&expected));
        if found != expected {
            wrong.push(format!(
                "{name}: {}\nexpected {expected}\nfound    {found}",
                case["about"]
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// A case that departs from NEAT states the reason, and NEAT's result for it differs.
#[test]
fn departures_are_named_and_real() {
    let cases = cases();
    let departures = cases.iter().filter(|(name, _)| name.starts_with("departs-"));
    let mut count = 0;
    for (name, case) in departures {
        assert!(
            case["departs"].as_str().is_some_and(|why| why.len() > 20),
            "{name} says why"
        );
        let neat = json_of(&folder().join(format!("{name}.neat.json")));
        assert_ne!(
            neat,
            json_of(&folder().join(format!("{name}.expected.json"))),
            "{name}"
        );
        count += 1;
    }
    assert_eq!(
        count,
        cases
            .iter()
            .filter(|(_, case)| !case["departs"].is_null())
            .count()
    );
    assert!(count >= 10, "{count}");
}

/// A ranking with explanations is the same as without, and a step accounts for every property of a candidate.
#[test]
fn an_explanation_covers_every_property() {
    for (name, case) in cases() {
        let (plain, names) = ranked(&case, Options::default());
        let (reported, _) = ranked(&case, Options { explain: true, ..Options::default() });
        assert_eq!(described(&plain, &names), described(&reported, &names), "{name}");
        for candidate in &reported.candidates {
            for (key, property) in candidate.properties.iter() {
                let mut last = None;
                for change in candidate.steps().iter().flat_map(|step| &step.changes) {
                    if change.key == key {
                        last = change.after.clone();
                    }
                }
                assert_eq!(last.as_ref(), Some(property), "{name}: {}", names.text(key));
            }
        }
        assert!(
            plain
                .candidates
                .iter()
                .all(|candidate| candidate.steps().is_empty()),
            "{name}"
        );
    }
}
