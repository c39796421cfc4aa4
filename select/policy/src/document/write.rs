//! Writes properties and nodes as NEAT's JSON, which the reader accepts.

use serde_json::{Map, Value as Json, json};

use crate::cib::{Expiry, Node};
use crate::names::NameTable;
use crate::properties::Properties;
use crate::property::{Precedence, Property};
use crate::value::{Scalar, Value};

/// Returns a value as JSON.
pub fn value_json(value: &Value) -> Json {
    match value {
        Value::Any => Json::Null,
        Value::One(one) => scalar(one),
        Value::Range(start, end) => json!({ "start": number(*start), "end": number(*end) }),
        Value::Set(members) => members.iter().map(scalar).collect(),
    }
}

/// Returns a property with all its fields.
pub fn property_json(property: &Property) -> Json {
    let mut object = Map::new();
    object.insert("value".into(), value_json(&property.value));
    object.insert("precedence".into(), json!(property.precedence as u8));
    object.insert("score".into(), number(property.score));
    object.insert("evaluated".into(), json!(property.evaluated));
    if !property.banned.is_empty() {
        object.insert("banned".into(), property.banned.iter().map(value_json).collect());
    }
    Json::Object(object)
}

/// Returns a node with all its fields except defaults. `names` are those with which it was read.
pub fn node_json(node: &Node, names: &NameTable) -> Json {
    let mut object = Map::new();
    object.insert("uid".into(), json!(&*node.uid));
    for (key, holds) in [("root", node.root), ("link", node.link)] {
        if holds {
            object.insert(key.into(), json!(true));
        }
    }
    if node.priority != 0.0 {
        object.insert("priority".into(), number(node.priority));
    }
    match node.expire {
        Expiry::Never => drop(object.insert("expire".into(), json!(-1))),
        Expiry::At(time) => drop(object.insert("expire".into(), number(time))),
        Expiry::Unsaid => {}
    }
    if !node.description.is_empty() {
        object.insert("description".into(), json!(&*node.description));
    }
    if !node.matches.is_empty() {
        let all = node
            .matches
            .iter()
            .map(|properties| properties_json(properties, names));
        object.insert("match".into(), all.collect());
    }
    let all: Vec<Json> = node
        .alternatives
        .iter()
        .map(|properties| properties_json(properties, names))
        .collect();
    let properties = match <[Json; 1]>::try_from(all) {
        Ok([one]) => one,
        // One group, each of whose items is an alternative.
        Err(several) => json!([several]),
    };
    object.insert("properties".into(), properties);
    Json::Object(object)
}

/// Returns properties by name, each with its fields except defaults.
fn properties_json(properties: &Properties, names: &NameTable) -> Json {
    let brief = |property: &Property| {
        let mut object = Map::new();
        if property.value != Value::Any {
            object.insert("value".into(), value_json(&property.value));
        }
        if property.precedence != Precedence::Optional {
            object.insert("precedence".into(), json!(property.precedence as u8));
        }
        if property.score != 0.0 {
            object.insert("score".into(), number(property.score));
        }
        if property.evaluated {
            object.insert("evaluated".into(), json!(true));
        }
        if !property.banned.is_empty() {
            object.insert("banned".into(), property.banned.iter().map(value_json).collect());
        }
        Json::Object(object)
    };
    let named = properties
        .iter()
        .map(|(key, property)| (names.text(key).to_owned(), brief(property)));
    Json::Object(named.collect())
}

fn scalar(one: &Scalar) -> Json {
    match one {
        Scalar::Bool(truth) => json!(truth),
        Scalar::Number(figure) => number(*figure),
        Scalar::Text(text) => json!(&**text),
    }
}

/// Returns whole numbers without a fraction, and infinite ones as NEAT's text.
fn number(figure: f64) -> Json {
    match figure {
        f64::INFINITY => json!("Inf"),
        f64::NEG_INFINITY => json!("-Inf"),
        whole if whole.fract() == 0.0 && whole.abs() < 9e15 => json!(whole as i64),
        other => json!(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Format, nodes};

    #[test]
    fn nodes_are_read_as_they_were_written() {
        let text = r#"[
            { "uid": "a", "root": true, "expire": -1, "priority": 2.5, "description": "for people",
              "properties": { "interface": { "value": "eth0", "precedence": 2 }, "security": {},
                "own/x": { "value": [1, "two", true], "score": -5, "banned": ["two"] } } },
            { "uid": "b", "link": true, "expire": 1700000000.5,
              "match": [{ "interface": { "value": "eth0" } }, { "uid": { "value": "a" } }],
              "properties": [[{ "rtt": { "value": { "start": 1, "end": "Inf" } } }, { "mtu": { "precedence": 0 } }],
                             { "loss": { "value": 0.25, "evaluated": true } }] },
            { "uid": "c", "match": [{}] }
        ]"#;
        let mut names = NameTable::default();
        let read = nodes(text, Format::Json, "n", &mut names).expect("nodes").value;
        let written: Json = read.iter().map(|node| node_json(node, &names)).collect();
        let again = nodes(&written.to_string(), Format::Json, "n", &mut names)
            .expect("nodes")
            .value;
        assert_eq!(again, read, "{written}");
    }
}
