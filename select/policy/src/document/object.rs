//! An object of a document whose keys are fixed.

use super::tree::Tree;

/// An object, its path, and its known keys.
pub(super) struct Object<'t> {
    entries: &'t [(String, Tree)],
    pub(super) path: String,
    known: &'static [&'static str],
}

impl<'t> Object<'t> {
    pub(super) fn new(entries: &'t [(String, Tree)], path: String, known: &'static [&'static str]) -> Self {
        Self { entries, path, known }
    }

    /// Returns the value of a key, which must be one of the known keys.
    pub(super) fn value(&self, key: &'static str) -> Option<&'t Tree> {
        debug_assert!(self.known.contains(&key), "{key} is missing among the known keys");
        self.entries
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, tree)| tree)
    }

    /// Returns the path of a key.
    pub(super) fn path_of(&self, key: &str) -> String {
        join(&self.path, key)
    }

    /// Returns the unknown keys, each with the one that was probably meant.
    pub(super) fn unknown(&self) -> impl Iterator<Item = (&'t str, Option<&'static str>)> {
        let known = self.known;
        let keys = self
            .entries
            .iter()
            .map(|(name, _)| name.as_str())
            .filter(|name| !known.contains(name));
        keys.map(move |key| {
            let near = known
                .iter()
                .map(|name| (strsim::damerau_levenshtein(key, name), *name));
            let near = near
                .filter(|(distance, name)| *distance <= 2.max(name.len() / 3))
                .min();
            (key, near.map(|(_, name)| name))
        })
    }
}

/// Extends a path by one step.
pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}
