//! Properties as NEAT's JSON, which the reader understands again.

use serde_json::{Map, Value as Json, json};

use crate::property::Property;
use crate::value::{Scalar, Value};

/// A value.
pub fn value_json(value: &Value) -> Json {
    match value {
        Value::Any => Json::Null,
        Value::One(one) => scalar(one),
        Value::Range(start, end) => json!({ "start": number(*start), "end": number(*end) }),
        Value::Set(members) => members.iter().map(scalar).collect(),
    }
}

/// A property with all that it has.
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

fn scalar(one: &Scalar) -> Json {
    match one {
        Scalar::Bool(truth) => json!(truth),
        Scalar::Number(figure) => number(*figure),
        Scalar::Text(text) => json!(&**text),
    }
}

/// Whole numbers without a fraction, infinite ones as NEAT's text.
fn number(figure: f64) -> Json {
    match figure {
        f64::INFINITY => json!("Inf"),
        f64::NEG_INFINITY => json!("-Inf"),
        whole if whole.fract() == 0.0 && whole.abs() < 9e15 => json!(whole as i64),
        other => json!(other),
    }
}
