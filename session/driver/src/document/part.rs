//! The parts of a document: each read checks the form of a value, and adds a fault with the value's path.

use std::cell::RefCell;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::{Map, Value};

use super::values::{MAX_SIZE, MAX_TIME, size, time};
use super::{DocumentError, hex};

/// The faults of a document, in the order in which they were found.
pub(super) type Faults = RefCell<Vec<DocumentError>>;

/// A value of a document with its path.
pub(super) struct Part<'a> {
    pub(super) value: &'a Value,
    path: String,
    faults: &'a Faults,
}

impl<'a> Part<'a> {
    /// Returns the whole document.
    pub(super) fn whole(value: &'a Value, faults: &'a Faults) -> Part<'a> {
        Part { value, path: String::new(), faults }
    }

    /// Adds a fault of this value; returns `None` so that a read can end with it.
    pub(super) fn fault<T>(&self, message: impl Display, hint: Option<&str>) -> Option<T> {
        let (path, message) = (self.path.clone(), message.to_string());
        self.add(DocumentError { path, message, hint: hint.map(Into::into) });
        None
    }

    /// Adds a fault that another reader has found.
    pub(super) fn add(&self, fault: DocumentError) {
        self.faults.borrow_mut().push(fault);
    }

    fn is_no<T>(&self, form: &str) -> Option<T> {
        self.fault(format!("{} is not {form}", self.value), None)
    }

    /// Adds a fault that names the understood forms.
    fn not_parsed<T>(&self, forms: &str) -> Option<T> {
        self.fault(format!("{} cannot be parsed", self.value), Some(forms))
    }

    pub(super) fn flag(&self) -> Option<bool> {
        self.value.as_bool().or_else(|| self.is_no("true or false"))
    }

    /// Reads a text that is not empty.
    pub(super) fn text(&self) -> Option<&'a str> {
        let text = self.value.as_str().filter(|text| !text.is_empty());
        text.or_else(|| self.is_no("a text with at least one character"))
    }

    /// Reads a text of at most `most` bytes.
    pub(super) fn short_text(&self, most: usize) -> Option<String> {
        match self.text()? {
            text if text.len() <= most => Some(text.to_owned()),
            text => self.fault(format!("{text:?} has more than {most} bytes"), None),
        }
    }

    /// Reads a text of which another reader states the faults.
    pub(super) fn parsed<T, E: Display>(&self, parse: impl FnOnce(&str) -> Result<T, E>) -> Option<T> {
        parse(self.text()?).map_or_else(|why| self.fault(why, None), Some)
    }

    /// Reads one of several words.
    pub(super) fn choice<T: Clone>(&self, choices: &[(&str, T)]) -> Option<T> {
        let chosen = choices.iter().find(|(word, _)| *self.value == **word);
        chosen.map(|(_, choice)| choice.clone()).or_else(|| {
            let words: Vec<String> = choices.iter().map(|(word, _)| format!("{word:?}")).collect();
            self.is_no(&format!("one of {}", words.join(", ")))
        })
    }

    /// Reads an integer.
    pub(super) fn number<T: TryFrom<u64>>(&self, range: RangeInclusive<u64>) -> Option<T> {
        let number = self.value.as_u64().filter(|number| range.contains(number));
        let (least, most) = (range.start(), range.end());
        number
            .and_then(|number| T::try_from(number).ok())
            .or_else(|| self.is_no(&format!("an integer from {least} to {most}")))
    }

    /// Reads a time: seconds, or a number with a unit.
    pub(super) fn time(&self) -> Option<Duration> {
        match time(self.value) {
            Some(seconds) if seconds <= MAX_TIME => Duration::try_from_secs_f64(seconds).ok(),
            Some(_) => self.too_large(&format!("at most {MAX_TIME} s")),
            None => self.not_parsed("seconds, or a number with ms, s or min"),
        }
    }

    /// Reads a size: bytes, or a number with a unit.
    pub(super) fn size(&self) -> Option<u64> {
        match size(self.value) {
            Some(bytes) if bytes <= MAX_SIZE => Some(bytes),
            Some(_) => self.too_large(&format!("at most {MAX_SIZE} B")),
            None => self.not_parsed("bytes, or a number with B, KB, MB, GB, KiB, MiB or GiB"),
        }
    }

    fn too_large<T>(&self, limit: &str) -> Option<T> {
        self.fault(format!("{} is too large", self.value), Some(limit))
    }

    /// Reads bytes in hexadecimal digits; `forms` describes the texts that are allowed.
    pub(super) fn hex<const N: usize>(&self, forms: &str) -> Option<[u8; N]> {
        hex(self.text()?).or_else(|| self.not_parsed(forms))
    }

    /// Returns the items of a list of this many.
    pub(super) fn items(&self, count: RangeInclusive<usize>) -> Vec<Part<'a>> {
        let Some(items) = self.value.as_array() else {
            return self.is_no("a list").unwrap_or_default();
        };
        let (least, most, found) = (count.start(), count.end(), items.len());
        if !count.contains(&found) {
            let range = if least == most {
                least.to_string()
            } else {
                format!("{least} to {most}")
            };
            return self
                .fault(
                    format!("the list has {found} items, and {range} are allowed"),
                    None,
                )
                .unwrap_or_default();
        }
        let path = |index| format!("{}[{index}]", self.path);
        let items = items.iter().enumerate();
        items
            .map(|(index, value)| Part { value, path: path(index), faults: self.faults })
            .collect()
    }

    /// Returns the items of a list, or the value itself if it is not a list.
    pub(super) fn one_or_several(&self, most: usize) -> Vec<Part<'a>> {
        match self.value {
            Value::Array(_) => self.items(1..=most),
            value => vec![Part { value, path: self.path.clone(), faults: self.faults }],
        }
    }

    /// Returns the table that this value is.
    pub(super) fn table(&self) -> Table<'a> {
        let fields = self.value.as_object().or_else(|| self.is_no("a table with keys"));
        Table {
            fields,
            path: self.path.clone(),
            faults: self.faults,
            known: Vec::new(),
        }
    }
}

/// A table of a document. When it is dropped, it adds a fault for each key that was not asked for.
pub(super) struct Table<'a> {
    fields: Option<&'a Map<String, Value>>,
    path: String,
    faults: &'a Faults,
    known: Vec<&'static str>,
}

impl<'a> Table<'a> {
    fn part(&self, key: &str, value: &'a Value) -> Part<'a> {
        let path = match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        };
        Part { value, path, faults: self.faults }
    }

    /// Returns the value of a key.
    pub(super) fn get(&mut self, key: &'static str) -> Option<Part<'a>> {
        self.known.push(key);
        Some(self.part(key, self.fields?.get(key)?))
    }

    /// Returns the value of a key that the table must have.
    pub(super) fn required(&mut self, key: &'static str) -> Option<Part<'a>> {
        self.get(key).or_else(|| {
            self.fields?;
            self.part(key, &Value::Null).fault("the key is missing", None)
        })
    }

    pub(super) fn flag(&mut self, key: &'static str) -> Option<bool> {
        self.get(key)?.flag()
    }

    pub(super) fn text(&mut self, key: &'static str) -> Option<&'a str> {
        self.get(key)?.text()
    }

    pub(super) fn time(&mut self, key: &'static str) -> Option<Duration> {
        self.get(key)?.time()
    }

    /// Reads a time of which 0 means that there is no limit.
    pub(super) fn limit(&mut self, key: &'static str) -> Option<Duration> {
        self.time(key).filter(|time| !time.is_zero())
    }

    pub(super) fn size(&mut self, key: &'static str) -> Option<u64> {
        self.get(key)?.size()
    }

    /// Returns the table of a key; it has no keys if there is none.
    pub(super) fn table(&mut self, key: &'static str) -> Table<'a> {
        match self.get(key) {
            Some(part) => part.table(),
            None => Table {
                fields: None,
                path: String::new(),
                faults: self.faults,
                known: Vec::new(),
            },
        }
    }

    /// Returns all keys, which can be any, with their values.
    pub(super) fn entries(mut self) -> Vec<(&'a str, Part<'a>)> {
        let fields = self.fields.take().into_iter().flatten();
        fields
            .map(|(key, value)| (key.as_str(), self.part(key, value)))
            .collect()
    }
}

impl Drop for Table<'_> {
    fn drop(&mut self) {
        let keys = self.fields.into_iter().flatten().map(|(key, _)| key.as_str());
        for key in keys.filter(|key| !self.known.contains(key)) {
            let near = self
                .known
                .iter()
                .map(|known| (strsim::damerau_levenshtein(key, known), known));
            let near = near
                .filter(|(distance, known)| *distance <= 2.max(known.len() / 3))
                .min();
            let hint = near.map(|(_, known)| format!("did you mean `{known}`?"));
            self.part(key, &Value::Null)
                .fault::<()>("unknown key", hint.as_deref());
        }
    }
}
