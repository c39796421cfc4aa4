//! Values by reference: a client asks for the members of a value by a number.

use serde_json::json;

use crate::debug::TraceValue;

/// The groups of variables shown since the last stop. A reference is an index plus 1.
#[derive(Default)]
pub(super) struct Shown(Vec<Group>);

/// Variables that are shown together.
struct Group {
    /// The type of the context to which the variables belong, if any.
    context: Option<String>,
    variables: Vec<(String, TraceValue)>,
}

impl Shown {
    /// Forgets all groups. References are valid only until the next stop.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Stores variables. Returns their reference, or 0 if the list is empty.
    pub(super) fn keep(&mut self, context: Option<String>, variables: Vec<(String, TraceValue)>) -> usize {
        if variables.is_empty() {
            return 0;
        }
        self.0.push(Group { context, variables });
        self.0.len()
    }

    /// Returns the variables with this reference.
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

    /// Stores the members of a value. Returns their reference, or 0 for a value without members.
    pub(super) fn keep_inside(&mut self, value: TraceValue) -> usize {
        match value {
            TraceValue::Fields(fields) => {
                let named = fields.into_iter().map(|(name, value)| (name.to_string(), value));
                self.keep(None, named.collect())
            }
            TraceValue::List(elements, _) => {
                let numbered = elements.into_iter().enumerate();
                let numbered = numbered.map(|(number, element)| (format!("[{number}]"), element));
                self.keep(None, numbered.collect())
            }
            _ => 0,
        }
    }

    /// Returns the qualified name of a context's field that is shown under this reference.
    pub(super) fn field(&self, number: usize, name: &str) -> Option<String> {
        let group = self.0.get(number.checked_sub(1)?)?;
        let context = group.context.as_ref()?;
        let is_there = group.variables.iter().any(|(known, _)| known == name);
        is_there.then(|| format!("{context}.{name}"))
    }
}
