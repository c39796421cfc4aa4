//! Values by reference: a client asks for the inside of a value by a number.

use hawser::debug::Value;
use serde_json::json;

/// Variables that were shown since the last stop, by number.
#[derive(Default)]
pub(super) struct Shown(Vec<Group>);

/// Variables that belong together.
struct Group {
    /// The context that they are fields of, by its type.
    context: Option<String>,
    variables: Vec<(String, Value)>,
}

impl Shown {
    /// Forgets all: the numbers of the last stop mean nothing any more.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Keeps variables; their number, or 0 where there are none.
    pub(super) fn keep(&mut self, context: Option<String>, variables: Vec<(String, Value)>) -> usize {
        if variables.is_empty() {
            return 0;
        }
        self.0.push(Group { context, variables });
        self.0.len()
    }

    /// The variables with a number.
    pub(super) fn variables(&mut self, number: usize) -> Vec<serde_json::Value> {
        let Some(group) = number.checked_sub(1).and_then(|index| self.0.get(index)) else {
            return Vec::new();
        };
        let variables = group.variables.clone();
        let shown = variables.into_iter().map(|(name, value)| {
            json!({
                "name": name,
                "value": value.to_string(),
                "variablesReference": self.keep_inside(value),
            })
        });
        shown.collect()
    }

    /// Keeps what is inside a value; its number, or 0 where nothing is.
    pub(super) fn keep_inside(&mut self, value: Value) -> usize {
        match value {
            Value::Fields(fields) => {
                let named = fields.into_iter().map(|(name, value)| (name.to_string(), value));
                self.keep(None, named.collect())
            }
            Value::List(elements, _) => {
                let numbered = elements.into_iter().enumerate();
                let numbered = numbered.map(|(number, element)| (format!("[{number}]"), element));
                self.keep(None, numbered.collect())
            }
            _ => 0,
        }
    }

    /// The field of a context that is shown under a number, by its whole name.
    pub(super) fn field(&self, number: usize, name: &str) -> Option<String> {
        let group = self.0.get(number.checked_sub(1)?)?;
        let context = group.context.as_ref()?;
        let is_there = group.variables.iter().any(|(known, _)| known == name);
        is_there.then(|| format!("{context}.{name}"))
    }
}
