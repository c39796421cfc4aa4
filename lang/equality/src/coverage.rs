//! The nodes of the intermediate form that occur, with their counts.
//!
//! A chain's nodes count once it has run; nodes of parsers, headers and rules count if the program has them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Counts by name.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// For each node, the number of programs in which it occurs, and its total count.
    rows: BTreeMap<String, (u64, u64)>,
    current: BTreeMap<String, u64>,
}

impl Coverage {
    /// Counts a node of the running program.
    pub fn count(&mut self, name: impl Into<String>) {
        *self.current.entry(name.into()).or_default() += 1;
    }

    /// Ends the running program.
    pub fn next_program(&mut self) {
        for (name, count) in std::mem::take(&mut self.current) {
            let row = self.rows.entry(name).or_default();
            row.0 += 1;
            row.1 += count;
        }
    }

    /// Adds the counts of another run, given as a line from [`Coverage::lines`].
    pub fn absorb(&mut self, line: &str) {
        let mut words = line.rsplitn(3, ' ');
        let mut number = || words.next().and_then(|n| n.parse::<u64>().ok());
        let numbers = (number(), number());
        if let ((Some(count), Some(programs)), Some(name)) = (numbers, words.next()) {
            let row: &mut (u64, u64) = self.rows.entry(name.to_owned()).or_default();
            row.0 += programs;
            row.1 += count;
        }
    }

    /// Prints one line for each node, for [`Coverage::absorb`].
    #[must_use]
    pub fn lines(&self) -> String {
        self.rows
            .iter()
            .fold(String::new(), |mut text, (name, (programs, count))| {
                let _ = writeln!(text, "{name} {programs} {count}");
                text
            })
    }

    /// Returns the nodes that never occurred.
    #[must_use]
    pub fn missing<'a>(&self, names: &'a [String]) -> Vec<&'a str> {
        let names = names.iter().map(String::as_str);
        names.filter(|name| !self.rows.contains_key(*name)).collect()
    }

    /// Prints the table for people.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = String::from("| node | programs | times |\n|---|---:|---:|\n");
        for (name, (programs, count)) in &self.rows {
            let _ = writeln!(text, "| {name} | {programs} | {count} |");
        }
        text
    }
}
