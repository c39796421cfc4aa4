//! Formats nodes and events of the CIB as text.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

/// Formats a node as the socket lists it: its name, source, lifetime and properties.
pub(super) fn node(known: &Value) -> String {
    let node = &known["node"];
    let uid = node["uid"].as_str().unwrap_or_default();
    let source = known["source"].as_str().unwrap_or_default();
    let mut text = format!("{uid} ({source}) {}\n", until(&known["until"]));
    for matched in node["match"].as_array().into_iter().flatten() {
        let _ = writeln!(text, "   of what has {}", properties(matched));
    }
    match &node["properties"] {
        Value::Array(groups) => {
            let all = groups
                .iter()
                .flat_map(|group| group.as_array().into_iter().flatten());
            all.for_each(|one| line(&mut text, one));
        }
        one => line(&mut text, one),
    }
    text
}

fn line(text: &mut String, shown: &Value) {
    let _ = writeln!(text, "   {}", properties(shown));
}

/// Formats an event.
pub(super) fn event(event: &Value) -> String {
    let text = |key: &str| event[key].as_str().unwrap_or_default();
    let texts = |key: &str| {
        let all = event[key]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        all.map(|one| format!("   {one}\n")).collect::<String>()
    };
    match text("event") {
        "put" => format!("+ {}", node(event)),
        "deleted" => format!("- {} ({})\n", text("uid"), text("source")),
        "expired" => format!("- {} ({}) its time is over\n", text("uid"), text("source")),
        "loaded" => {
            format!(
                "files: {} policies, {} nodes\n{}",
                event["policies"],
                event["nodes"],
                texts("warnings")
            )
        }
        "refused" => format!(
            "files have errors, so the previous policies stay in force:\n{}",
            texts("errors")
        ),
        "trouble" => format!("! {}\n", text("why")),
        // A later version may report events that this one does not know.
        _ => String::new(),
    }
}

/// Formats the remaining lifetime of a node.
pub(super) fn until(until: &Value) -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64());
    match until.as_f64() {
        None => "for good".into(),
        Some(until) => format!("for {:.0} s", (until - now).max(0.0)),
    }
}

/// Formats the properties that have a value, and omits the others.
fn properties(properties: &Value) -> String {
    let all = properties.as_object().into_iter().flatten();
    let shown = all.filter_map(|(name, property)| {
        let value = match &property["value"] {
            Value::Null => return None,
            Value::String(text) => text.clone(),
            Value::Object(range) => format!("{}–{}", range["start"], range["end"]),
            Value::Array(all) => all
                .iter()
                .map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned))
                .collect::<Vec<_>>()
                .join(" or "),
            other => other.to_string(),
        };
        let score = property["score"].as_f64().filter(|score| *score != 0.0);
        Some(format!(
            "{name} = {value}{}",
            score.map_or_else(String::new, |score| format!(" [{score:+}]"))
        ))
    });
    let shown: Vec<String> = shown.collect();
    if shown.is_empty() {
        "nothing in particular".into()
    } else {
        shown.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nodes_and_events_are_readable() {
        let known = json!({ "source": "race", "until": null, "node": { "uid": "race/x",
            "match": [{ "interface": { "value": "eth0" } }],
            "properties": [[{ "mtu": { "value": { "start": 68, "end": 1500 } }, "security": {} },
                            { "local_ip": { "value": ["a", "b"] }, "ok": { "value": false, "score": -5 } }]] } });
        let expected = "race/x (race) for good\n   of what has interface = eth0\n   mtu = 68–1500\n   \
                        local_ip = a or b, ok = false [-5]\n";
        assert_eq!(node(&known), expected);
        assert_eq!(
            event(&json!({ "event": "expired", "uid": "a", "source": "race" })),
            "- a (race) its time is over\n"
        );
        assert_eq!(event(&json!({ "event": "later" })), "");
    }
}
