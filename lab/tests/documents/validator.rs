//! The part of JSON Schema (2020-12) that the published schemas use. An unsupported keyword is a failure, so
//! that no part of a schema is ignored.

use serde_json::Value;

/// Returns the faults of a value, each with its path.
pub(crate) fn faults(root: &Value, schema: &Value, value: &Value, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (keyword, rule) in schema.as_object().expect("a schema is an object") {
        found.extend(obey(root, schema, (keyword, rule), value, path));
    }
    found
}

fn obey(
    root: &Value,
    schema: &Value,
    (keyword, rule): (&str, &Value),
    value: &Value,
    path: &str,
) -> Vec<String> {
    let wrong = |right: bool| {
        if right {
            vec![]
        } else {
            vec![format!("{path}: {value} against {keyword} {rule}")]
        }
    };
    // Numbers are compared as 64-bit floats, because the limits of these schemas are small.
    let against = |limit: fn(f64, f64) -> bool| {
        wrong(
            value
                .as_f64()
                .is_none_or(|number| rule.as_f64().is_some_and(|rule| limit(number, rule))),
        )
    };
    let length = |limit: fn(usize, u64) -> bool| {
        wrong(
            value
                .as_array()
                .is_none_or(|all| rule.as_u64().is_some_and(|rule| limit(all.len(), rule))),
        )
    };
    match keyword {
        "$schema" | "$defs" | "title" | "description" => vec![],
        "$ref" => {
            let target = rule
                .as_str()
                .and_then(|target| target.strip_prefix('#'))
                .and_then(|at| root.pointer(at));
            faults(root, target.expect("what is referred to"), value, path)
        }
        "type" => wrong(is_of_type(value, rule.as_str().expect("one type"))),
        "enum" => wrong(rule.as_array().is_some_and(|values| values.contains(value))),
        "pattern" => {
            let pattern = regex_lite::Regex::new(rule.as_str().expect("a text")).expect("a pattern");
            wrong(value.as_str().is_none_or(|text| pattern.is_match(text)))
        }
        "minimum" => against(|number, limit| number >= limit),
        "maximum" => against(|number, limit| number <= limit),
        "minItems" => length(|count, limit| count as u64 >= limit),
        "maxItems" => length(|count, limit| count as u64 <= limit),
        "items" => {
            let items = value.as_array().into_iter().flatten().enumerate();
            items
                .flat_map(|(i, item)| faults(root, rule, item, &format!("{path}[{i}]")))
                .collect()
        }
        "properties" => {
            let known = rule.as_object().into_iter().flatten();
            let present = known.filter_map(|(key, rule)| Some((key, rule, value.get(key)?)));
            present
                .flat_map(|(key, rule, value)| faults(root, rule, value, &format!("{path}.{key}")))
                .collect()
        }
        "additionalProperties" => {
            assert_eq!(*rule, false, "nothing else is used");
            let known = schema["properties"].as_object().expect("properties");
            wrong(
                value
                    .as_object()
                    .is_none_or(|table| table.keys().all(|key| known.contains_key(key))),
            )
        }
        "required" => {
            let mut keys = rule.as_array().into_iter().flatten().filter_map(Value::as_str);
            wrong(
                value
                    .as_object()
                    .is_none_or(|table| keys.all(|key| table.contains_key(key))),
            )
        }
        "anyOf" => {
            let mut choices = rule.as_array().into_iter().flatten();
            wrong(choices.any(|choice| faults(root, choice, value, path).is_empty()))
        }
        other => panic!("`{other}` is a keyword that is not known here"),
    }
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        other => panic!("`{other}` is no type that is used"),
    }
}
