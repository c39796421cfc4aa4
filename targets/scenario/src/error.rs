//! What is wrong with a scenario, and where.

use std::fmt;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What is wrong with a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// The key, as `flow[2].bulk.bytes` (counted from 0); empty when it concerns the whole file.
    pub path: String,
    /// The line in the file, counted from 1, where known.
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// What may help.
    pub hint: Option<String>,
}

impl ScenarioError {
    /// An error at a key.
    #[must_use]
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> ScenarioError {
        ScenarioError {
            path: path.into(),
            line: None,
            message: message.into(),
            hint: None,
        }
    }

    /// Adds what may help.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> ScenarioError {
        ScenarioError {
            hint: Some(hint.into()),
            ..self
        }
    }

    /// Adds the line of its key in this text.
    #[must_use]
    pub fn located(self, text: &str) -> ScenarioError {
        let line = self
            .line
            .or_else(|| Some(line_of(text, offset_of(text, &self.path)?)));
        ScenarioError { line, ..self }
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "`{}`: ", self.path)?;
        }
        f.write_str(&self.message)?;
        self.hint
            .iter()
            .try_for_each(|hint| write!(f, "\n  hint: {hint}"))
    }
}

impl std::error::Error for ScenarioError {}

/// Reads the types of a document, a scenario or another; its meaning is checked afterwards.
///
/// # Errors
/// The line and key where it is no such document.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, ScenarioError> {
    let input = toml::Deserializer::parse(text).map_err(|error| from_toml(text, String::new(), &error))?;
    serde_path_to_error::deserialize::<_, T>(input).map_err(|error| {
        let path = Some(error.path().to_string())
            .filter(|path| path != ".")
            .unwrap_or_default();
        from_toml(text, path, error.inner())
    })
}

fn from_toml(text: &str, path: String, error: &toml::de::Error) -> ScenarioError {
    let message = error.message().trim().to_owned();
    let hint = hint_for(&message);
    let line = error.span().map(|span| line_of(text, span.start));
    ScenarioError {
        path,
        line,
        message,
        hint,
    }
}

/// For a misspelt key, the nearest of those that there are.
fn hint_for(message: &str) -> Option<String> {
    let mut names = message.strip_prefix("unknown field `")?.split('`');
    let wrong = names.next()?;
    let known = names.skip(1).step_by(2);
    let nearest = known.map(|name| (distance(wrong, name), name)).min()?;
    (nearest.0 <= 1 + wrong.len() / 3).then(|| format!("did you mean `{}`?", nearest.1))
}

/// For a name that there is not: the nearest of those that there are, or all when none is near.
pub fn there_are<'a>(what: &str, wrong: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    match names.clone().min_by_key(|name| distance(wrong, name)) {
        Some(name) if distance(wrong, name) <= 1 && wrong.len() > 1 => format!("did you mean `{name}`?"),
        Some(_) => format!("there are the {what} {}", names.collect::<Vec<_>>().join(", ")),
        None => format!("there are no {what}"),
    }
}

/// Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = corner + usize::from(x != *y);
            corner = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()
        .iter()
        .take(offset)
        .filter(|byte| **byte == b'\n')
        .count()
        + 1
}

/// Where the value of a key stands; of the deepest part of the path that is there.
fn offset_of(text: &str, path: &str) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    let mut offset = table.span().start;
    let mut value = DeValue::Table(table.into_inner());
    for step in path.split(['.', '[']).filter(|step| !step.is_empty()) {
        match descend(value, step) {
            Some(found) => {
                offset = found.span().start;
                value = found.into_inner();
            }
            None => break,
        }
    }
    Some(offset)
}

fn descend<'a>(value: DeValue<'a>, step: &str) -> Option<Spanned<DeValue<'a>>> {
    match value {
        DeValue::Table(mut table) => table.remove(step),
        DeValue::Array(array) => array.into_iter().nth(step.trim_end_matches(']').parse().ok()?),
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        assert_eq!(
            (
                distance("", "abc"),
                distance("kitten", "sitting"),
                distance("loss", "loss")
            ),
            (3, 3, 0)
        );
    }

    #[test]
    fn keys_are_found_in_the_text() {
        let text = "a = 1\n[[b]]\nc = 2\n[[b]]\nc = [\n  5,\n  6 ]\n";
        let line = |path| offset_of(text, path).map(|offset| line_of(text, offset));
        assert_eq!(line("a"), Some(1));
        assert_eq!(line("b[0].c"), Some(3));
        assert_eq!(line("b[1].c[1]"), Some(7));
        assert_eq!(line("b[1].missing"), Some(4));
    }
}
