//! Places in the source.

use hawser_ir::{Module, Span};
use serde::Serialize;

use crate::trace::name::Name;

/// A line of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Line {
    /// The file, as the program names it; empty if the place is unknown.
    pub file: Name,
    /// The line's number, from 1.
    pub line: u32,
}

/// An index of the lines of a program's files.
#[derive(Debug)]
pub struct Lines {
    /// For each file, its name and the offsets of its lines.
    files: Vec<(Name, Vec<u32>)>,
}

impl Lines {
    /// Indexes all files of a program.
    #[must_use]
    pub fn of(module: &Module) -> Lines {
        let begins = |text: &str| {
            let after = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
            std::iter::once(0)
                .chain(after.map(|(at, _)| at as u32 + 1))
                .collect()
        };
        let files = module.files.iter();
        Lines {
            files: files.map(|(name, text)| (Name::of(name), begins(text))).collect(),
        }
    }

    /// Returns the line in which a place begins.
    #[must_use]
    pub fn line(&self, span: Span) -> Line {
        let Some((file, begins)) = self.files.get(span.file as usize) else {
            return Line::default();
        };
        Line {
            file: file.clone(),
            line: begins.partition_point(|begin| *begin <= span.start) as u32,
        }
    }
}
