//! A fault of a document, and its place.

use std::fmt;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A fault of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The key, as `flow[2].bulk.bytes` (counted from 0); empty for the whole document.
    pub path: String,
    /// The place in the text, if it is known.
    pub place: Option<TextPosition>,
    /// The description of the fault, in plain words.
    pub message: String,
    /// A remedy, if one is known.
    pub hint: Option<String>,
}

/// A position in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextPosition {
    /// The line, counted from 1.
    pub line: usize,
    /// The character in the line, counted from 1.
    pub column: usize,
}

impl TextPosition {
    /// Returns the place of a byte in a text.
    pub(crate) fn from_offset(text: &str, offset: usize) -> TextPosition {
        let before = text.get(..offset).unwrap_or(text);
        let line = before.rsplit('\n').next().unwrap_or_default();
        TextPosition {
            line: before.matches('\n').count() + 1,
            column: line.chars().count() + 1,
        }
    }
}

impl fmt::Display for TextPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

impl Fault {
    /// Makes a fault at a key.
    #[must_use]
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Fault {
        Fault { path: path.into(), place: None, message: message.into(), hint: None }
    }

    /// Adds a remedy.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Fault {
        Fault { hint: Some(hint.into()), ..self }
    }

    /// Adds the place of its key in this TOML text.
    #[must_use]
    pub fn located(self, text: &str) -> Fault {
        let place = self
            .place
            .or_else(|| Some(TextPosition::from_offset(text, offset_of(text, &self.path)?)));
        Fault { place, ..self }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = self.place {
            write!(f, "{place}: ")?;
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

impl std::error::Error for Fault {}

/// Makes the hint for a reader's message about a misspelt key: the nearest known key.
pub(crate) fn hint_for(message: &str) -> Option<String> {
    let mut names = message.strip_prefix("unknown field `")?.split('`');
    let wrong = names.next()?;
    let known = names.skip(1).step_by(2);
    let nearest = known.map(|name| (distance(wrong, name), name)).min()?;
    (nearest.0 <= 1 + wrong.len() / 3).then(|| format!("did you mean `{}`?", nearest.1))
}

/// Makes the hint for an unknown name: the nearest known name, or all names if none is near.
pub fn there_are<'a>(what: &str, wrong: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    match names.clone().min_by_key(|name| distance(wrong, name)) {
        Some(name) if distance(wrong, name) <= 1 && wrong.len() > 1 => format!("did you mean `{name}`?"),
        Some(_) => format!("the {what} are {}", names.collect::<Vec<_>>().join(", ")),
        None => format!("there are no {what}"),
    }
}

/// Returns the Levenshtein distance.
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

/// Returns the fault of the first date in a document, because no document here has dates.
pub(crate) fn date_in(text: &str, table: &DeTable<'_>) -> Option<Fault> {
    let entries = table
        .iter()
        .map(|(key, value)| (key.get_ref().to_string(), value));
    let mut open: Vec<(String, &Spanned<DeValue<'_>>)> = entries.collect();
    while let Some((path, value)) = open.pop() {
        match value.get_ref() {
            DeValue::Datetime(_) => {
                return Some(Fault {
                    place: Some(TextPosition::from_offset(text, value.span().start)),
                    ..Fault::new(path, "dates are not supported; write seconds since 1970")
                });
            }
            DeValue::Array(values) => {
                let values = values.iter().enumerate();
                open.extend(values.map(|(at, value)| (format!("{path}[{at}]"), value)));
            }
            DeValue::Table(entries) => {
                let entries = entries.iter();
                open.extend(entries.map(|(key, value)| (format!("{path}.{}", key.get_ref()), value)));
            }
            DeValue::String(_) | DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) => {}
        }
    }
    None
}

/// Returns the offset of a key's value, or that of the longest prefix of the path that exists.
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
    fn edit_distances_are_computed() {
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
        let place = |path| {
            let place = offset_of(text, path).map(|offset| TextPosition::from_offset(text, offset));
            place.map(|place| (place.line, place.column))
        };
        assert_eq!(place("a"), Some((1, 5)));
        assert_eq!(place("b[0].c"), Some((3, 5)));
        assert_eq!(place("b[1].c[1]"), Some((7, 3)));
        assert_eq!(place("b[1].missing"), Some((4, 1)));
    }
}
