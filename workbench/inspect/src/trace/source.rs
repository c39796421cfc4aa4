//! Places in the source.

use hawser_ir::{Module, Span};
use serde::Serialize;

use crate::trace::shared_names::SharedName;

/// A line of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ProgramLine {
    /// The file, as the program names it; empty if the place is unknown.
    pub file: SharedName,
    /// The line's number, from 1.
    pub line: u32,
}

/// An index of the lines of a program's files.
#[derive(Debug)]
pub struct ProgramLines {
    /// For each file, its name and the offsets of its lines.
    files: Vec<(SharedName, Vec<u32>)>,
}

impl ProgramLines {
    /// Indexes all files of a program.
    #[must_use]
    pub fn from_module(module: &Module) -> ProgramLines {
        let begins = |text: &str| {
            let after = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
            std::iter::once(0)
                .chain(after.map(|(at, _)| at as u32 + 1))
                .collect()
        };
        let files = module.files.iter();
        ProgramLines {
            files: files
                .map(|(name, text)| (SharedName::new(name), begins(text)))
                .collect(),
        }
    }

    /// Returns the line in which a place begins.
    #[must_use]
    pub fn line(&self, span: Span) -> ProgramLine {
        let Some((file, begins)) = self.files.get(span.file as usize) else {
            return ProgramLine::default();
        };
        ProgramLine {
            file: file.clone(),
            line: begins.partition_point(|begin| *begin <= span.start) as u32,
        }
    }
}
