//! `cargo xtask tidy`: the repository's rules, one file per check.
//!
//! A check is a pure function from the [`Tree`] (every file's text and cargo's data about the crates) to its
//! diagnostics. Each diagnostic names the fault, its place and a remedy. Every check has a test that breaks
//! its rule and sees it fail.

mod architecture;
mod arrows;
mod citations;
mod coverage;
mod format;
mod heads;
mod links;
mod manifests;
mod marks;
pub(crate) mod picture;
mod purity;
mod ratchet;
mod recorded;
pub(crate) mod rust_text;
mod tree;

use std::fmt;

pub(crate) use tree::Tree;

/// A violation of a rule.
#[derive(Debug, PartialEq, Eq)]
struct Diagnostic {
    /// The file, with `:line` if the violation has a line.
    place: String,
    /// A description of the violation.
    what: String,
    /// The change that removes the violation.
    remedy: String,
}

impl Diagnostic {
    fn new(place: impl Into<String>, what: impl Into<String>, remedy: impl Into<String>) -> Diagnostic {
        Diagnostic { place: place.into(), what: what.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n    to do: {}", self.place, self.what, self.remedy)
    }
}

/// A rule of the repository.
struct Check {
    name: &'static str,
    run: fn(&Tree) -> Vec<Diagnostic>,
}

const CHECKS: &[Check] = &[
    Check { name: "arrows", run: arrows::check },
    Check { name: "manifests", run: manifests::check },
    Check { name: "architecture", run: architecture::check },
    Check { name: "picture", run: picture::check },
    Check { name: "heads", run: heads::check },
    Check { name: "ratchet", run: ratchet::check },
    Check { name: "purity", run: purity::check },
    Check { name: "format", run: format::check },
    Check { name: "coverage", run: coverage::check },
    Check { name: "marks", run: marks::check },
    Check { name: "citations", run: citations::check },
    Check { name: "links", run: links::check },
    Check { name: "recorded", run: recorded::check },
];

/// Runs the named checks, or all of them.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    if let Some(unknown) = arguments
        .iter()
        .find(|name| CHECKS.iter().all(|check| check.name != *name))
    {
        let known: Vec<&str> = CHECKS.iter().map(|check| check.name).collect();
        return Err(format!(
            "unknown check `{unknown}`; the checks are {}",
            known.join(", ")
        ));
    }
    let tree = Tree::read(&crate::root())?;
    let mut count = 0;
    for check in CHECKS {
        if !arguments.is_empty() && !arguments.iter().any(|name| name == check.name) {
            continue;
        }
        let diagnostics = (check.run)(&tree);
        for diagnostic in &diagnostics {
            println!("{}: {diagnostic}", check.name);
        }
        count += diagnostics.len();
    }
    println!("tidy: {} files, {} crates", tree.files.len(), tree.crates.len());
    println!("tidy: {}", coverage::summary(&tree));
    if count == 0 {
        Ok(())
    } else {
        Err(format!("{count} diagnostics"))
    }
}
