//! A document as a tree, for both formats. Duplicate keys are rejected.

use std::fmt;

use hawser_documents::Fault;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::Format;
use crate::limits;

/// The largest integer up to which each has an exact floating-point number.
const EXACT: u64 = 1 << 53;

/// A value of a document. Numbers are finite, or infinite in TOML; never NaN.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Tree {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Tree>),
    Table(Vec<(String, Tree)>),
}

impl Tree {
    /// Returns the kind of the value, in words.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Tree::Null => "null",
            Tree::Bool(_) => "a boolean",
            Tree::Number(_) => "a number",
            Tree::Text(_) => "a text",
            Tree::List(_) => "a list",
            Tree::Table(_) => "an object",
        }
    }

    fn depth(&self) -> usize {
        match self {
            Tree::List(items) => 1 + items.iter().map(Tree::depth).max().unwrap_or(0),
            Tree::Table(entries) => 1 + entries.iter().map(|(_, tree)| tree.depth()).max().unwrap_or(0),
            Tree::Null | Tree::Bool(_) | Tree::Number(_) | Tree::Text(_) => 0,
        }
    }
}

/// A text is not a valid document.
#[derive(Debug, thiserror::Error)]
pub(super) enum ParseError {
    /// The text is too long.
    #[error("the document has more than {} bytes", limits::DOCUMENT_BYTES)]
    Long,
    /// The text is not JSON, or not TOML.
    #[error(transparent)]
    Text(#[from] Fault),
    /// The document is nested too deeply.
    #[error("the document has more than {} levels of lists and objects", limits::DEPTH)]
    Deep,
}

/// Parses a text.
pub(super) fn parse(text: &str, format: Format) -> Result<Tree, ParseError> {
    if text.len() > limits::DOCUMENT_BYTES {
        return Err(ParseError::Long);
    }
    let tree: Tree = match format {
        Format::Json => hawser_documents::json(text)?,
        Format::Toml => hawser_documents::toml(text)?,
    };
    if tree.depth() > limits::DEPTH {
        return Err(ParseError::Deep);
    }
    Ok(tree)
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Builder)
    }
}

struct Builder;

impl<'de> Visitor<'de> for Builder {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E: Error>(self, truth: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(truth))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Tree, E> {
        exact(number.unsigned_abs()).map(|_| Tree::Number(number as f64))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Tree, E> {
        exact(number)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Tree, E> {
        if number.is_nan() {
            Err(E::custom("NaN is not a number"))
        } else {
            Ok(Tree::Number(number))
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree::Text(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Tree, E> {
        Ok(Tree::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Tree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Tree, A::Error> {
        let mut table: Vec<(String, Tree)> = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        while let Some(key) = entries.next_key::<String>()? {
            if !seen.insert(key.clone()) {
                return Err(A::Error::custom(format!("the key `{key}` occurs twice")));
            }
            table.push((key, entries.next_value()?));
        }
        Ok(Tree::Table(table))
    }
}

fn exact<E: Error>(number: u64) -> Result<Tree, E> {
    if number > EXACT {
        return Err(E::custom(
            "a whole number is at most 2^53; write it with an exponent if it need not be exact",
        ));
    }
    Ok(Tree::Number(number as f64))
}
