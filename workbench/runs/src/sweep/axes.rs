//! The axes of a sweep: keys of a scenario with their values, and seeds.

use hawser_sim::ScenarioError;
use serde::Deserialize;
use toml::{Table, Value};

/// The number of steps above which a range is taken for a mistake.
const MAX_STEPS: f64 = 1e6;

/// A `[[vary]]` of a sweep's file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AxisSpec {
    key: Option<String>,
    name: Option<String>,
    values: Option<Vec<Value>>,
    from: Option<Value>,
    to: Option<Value>,
    step: Option<Value>,
    choice: Option<Vec<WrittenChoice>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenChoice {
    label: String,
    set: Table,
}

/// One axis of a sweep.
#[derive(Debug)]
pub(super) struct Axis {
    pub(super) name: String,
    pub(super) choices: Vec<Choice>,
}

/// A value of the axis, which may set several keys.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) label: String,
    pub(super) set: Vec<(String, Value)>,
}

pub(super) fn axes(written: Vec<AxisSpec>) -> Result<Vec<Axis>, ScenarioError> {
    let mut axes = Vec::<Axis>::new();
    for (number, one) in written.into_iter().enumerate() {
        let path = format!("vary[{number}]");
        let axis = axis(one, &path)?;
        if axes.iter().any(|other| other.name == axis.name) {
            let message = format!("`{}` already varies", axis.name);
            return Err(ScenarioError::new(path, message).with_hint("give it a `name` of its own"));
        }
        for (place, choice) in axis.choices.iter().enumerate() {
            if axis.choices[..place]
                .iter()
                .any(|other| other.label == choice.label)
            {
                let message = format!("`{}` occurs twice", choice.label);
                return Err(ScenarioError::new(path, message));
            }
        }
        axes.push(axis);
    }
    Ok(axes)
}

fn axis(written: AxisSpec, path: &str) -> Result<Axis, ScenarioError> {
    let wrong = |message: &str| ScenarioError::new(path, message);
    let forms = "give a `key` with `values`, a `key` with `from`, `to` and `step`, or a `name` with `[[vary.choice]]`";
    let (key, values) = match written {
        AxisSpec {
            key: Some(key),
            values: Some(values),
            from: None,
            to: None,
            step: None,
            choice: None,
            name,
        } => ((name.unwrap_or_else(|| key.clone()), key), values),
        AxisSpec {
            key: Some(key),
            values: None,
            from: Some(from),
            to: Some(to),
            step,
            choice: None,
            name,
        } => {
            let values = range(&from, &to, step.as_ref(), path)?;
            ((name.unwrap_or_else(|| key.clone()), key), values)
        }
        AxisSpec {
            key: None,
            name: Some(name),
            values: None,
            from: None,
            to: None,
            step: None,
            choice: Some(choices),
        } if !choices.is_empty() => {
            let choice = |written: WrittenChoice| Choice {
                label: written.label,
                set: written.set.into_iter().collect(),
            };
            return Ok(Axis { name, choices: choices.into_iter().map(choice).collect() });
        }
        _ => return Err(wrong("this entry cannot vary").with_hint(forms)),
    };
    if values.is_empty() {
        return Err(wrong("the list of values is empty").with_hint(forms));
    }
    let (name, key) = key;
    let choice = |value: Value| Choice { label: label(&value), set: vec![(key.clone(), value)] };
    Ok(Axis { name, choices: values.into_iter().map(choice).collect() })
}

fn label(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn as_number(value: &Value) -> Option<f64> {
    value
        .as_float()
        .or_else(|| value.as_integer().map(|number| number as f64))
}

/// Returns the numbers of a range in steps of 1, or of the given step. The last one lies within the range.
fn range(from: &Value, to: &Value, step: Option<&Value>, path: &str) -> Result<Vec<Value>, ScenarioError> {
    let one = Value::Integer(1);
    let step = step.unwrap_or(&one);
    let (Some(first), Some(last), Some(width)) = (as_number(from), as_number(to), as_number(step)) else {
        let message = "`from`, `to` and `step` are numbers; values with units are listed as `values`";
        return Err(ScenarioError::new(path, message));
    };
    // The rounding error of decimal fractions must not remove the last step.
    let steps = ((last - first) / width + 1e-9).floor();
    if !(0.0..MAX_STEPS).contains(&steps) {
        let message = format!(
            "the range from {first} to {last} in steps of {width} has no values, or too \
                               many"
        );
        return Err(ScenarioError::new(path, message));
    }
    if let (Value::Integer(first), Value::Integer(_), Value::Integer(width)) = (from, to, step) {
        let value = |number: i64| Some(Value::Integer(first.checked_add(width.checked_mul(number)?)?));
        let values: Option<Vec<_>> = (0..=steps as i64).map(value).collect();
        return values.ok_or_else(|| ScenarioError::new(path, "a number of this range is too large"));
    }
    // 0.1 + 2 · 0.2 is written 0.5: twelve digits are finer than any useful step.
    let rounded = |value: f64| format!("{value:.12}").parse().unwrap_or(value);
    let value = |number: i64| Value::Float(rounded(first + width * number as f64));
    Ok((0..=steps as i64).map(value).collect())
}

/// Parses seeds: a list, or `{ from = 1, to = 100 }`. Without any, the only seed is 1.
pub(super) fn seeds(written: Option<&Value>) -> Result<Vec<u64>, ScenarioError> {
    let wrong = |message: &str| {
        ScenarioError::new("seeds", message).with_hint("seeds = [1, 2, 3], or seeds = { from = 1, to = 100 }")
    };
    let values = match written {
        None => return Ok(vec![1]),
        Some(Value::Array(values)) => values.clone(),
        Some(Value::Table(table)) => {
            let known = table.keys().all(|key| key == "from" || key == "to");
            let (Some(from), Some(to), true) = (table.get("from"), table.get("to"), known) else {
                return Err(wrong("a range of seeds has `from` and `to`"));
            };
            range(from, to, None, "seeds")?
        }
        Some(_) => return Err(wrong("these are not seeds")),
    };
    let seed = |value: &Value| u64::try_from(value.as_integer()?).ok();
    let mut seeds: Vec<u64> = values
        .iter()
        .map(|value| seed(value).ok_or_else(|| wrong("a seed is a whole number from 0 up")))
        .collect::<Result<_, _>>()?;
    let count = seeds.len();
    seeds.sort_unstable();
    seeds.dedup();
    if seeds.is_empty() || seeds.len() < count {
        return Err(wrong("give at least one seed, and each seed only once"));
    }
    Ok(seeds)
}

/// Sets a key of a scenario: `program`, `params.RTO`, `link.0.rate` or, by its name, `link.a-b.rate`.
pub(super) fn set(table: &mut Table, key: &str, value: Value) -> Result<(), ScenarioError> {
    let mut steps: Vec<&str> = key.split('.').collect();
    let last = steps.pop().unwrap_or_default();
    let mut place = TomlPlace::Table(table);
    for step in steps {
        place = place.descend(step, key)?;
    }
    match place {
        TomlPlace::Table(table) => {
            table.insert(last.to_owned(), value);
            Ok(())
        }
        TomlPlace::Array(values) => {
            *element(values, last, key)? = value;
            Ok(())
        }
    }
}

enum TomlPlace<'a> {
    Table(&'a mut Table),
    Array(&'a mut Vec<Value>),
}

impl<'a> TomlPlace<'a> {
    /// Descends one step. A missing table is created, and a missing element is an error.
    fn descend(self, step: &str, key: &str) -> Result<TomlPlace<'a>, ScenarioError> {
        let value = match self {
            TomlPlace::Table(table) => table.entry(step).or_insert_with(|| Value::Table(Table::new())),
            TomlPlace::Array(values) => element(values, step, key)?,
        };
        match value {
            Value::Table(table) => Ok(TomlPlace::Table(table)),
            Value::Array(values) => Ok(TomlPlace::Array(values)),
            _ => Err(ScenarioError::new(
                key,
                format!("`{step}` is a value and has no keys"),
            )),
        }
    }
}

/// Finds an element by its number or its name.
fn element<'a>(values: &'a mut [Value], step: &str, key: &str) -> Result<&'a mut Value, ScenarioError> {
    let count = values.len();
    // As in reports, links without a name are named after their ends.
    let is_between = |ends: &Vec<Value>| {
        ends.iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join("-")
            == step
    };
    let named = |value: &Value| match value.get("name").and_then(Value::as_str) {
        Some(name) => name == step,
        None => value
            .get("between")
            .and_then(Value::as_array)
            .is_some_and(is_between),
    };
    let place = step.parse().ok().or_else(|| values.iter().position(named));
    place
        .and_then(|place: usize| values.get_mut(place))
        .ok_or_else(|| {
            let message = format!(
                "the element `{step}` does not exist: elements are named, or numbered from 0; there are \
                 {count}"
            );
            ScenarioError::new(key, message)
        })
}
