//! The language's built-in names, for pages and tools that must stay in step with the checker.

use crate::consts::BUILTIN_CONSTANTS;
use crate::container::{LIST_METHODS, OPTION_METHODS, SORTED_METHODS, WINDOW_METHODS};
use crate::deploy::{CALLS, SOURCES};
use crate::layout::builtin_structs;
use crate::names::{FUNCTION_NAMES, INSTRUCTION_NAMES, TYPE_NAMES, WORDS};

/// The names of one kind.
#[derive(Clone, Debug)]
pub struct Names {
    /// A description of the kind: "a type", "an instruction".
    pub kind: &'static str,
    /// The names, in the checker's order.
    pub names: Vec<String>,
}

/// Returns all built-in names, except the constants (errno, ICMP), which are in [`constants`].
#[must_use]
pub fn vocabulary() -> Vec<Names> {
    let plain = |kind, names: &[&str]| Names { kind, names: names.iter().map(|n| (*n).to_owned()).collect() };
    let methods = |kind, forms: &[(&str, &str)]| Names {
        kind,
        names: forms.iter().map(|(name, _)| (*name).to_owned()).collect(),
    };
    let mut all = vec![
        plain("a type", TYPE_NAMES),
        plain("a function", FUNCTION_NAMES),
        plain("an instruction", INSTRUCTION_NAMES),
        plain("a word", WORDS),
        plain("a registration", CALLS),
        plain("a source", SOURCES),
        methods("a method of lists", LIST_METHODS),
        methods("a method of sorted lists", SORTED_METHODS),
        methods("a method of windows", WINDOW_METHODS),
        methods("a method of option lists", OPTION_METHODS),
    ];
    for structure in builtin_structs() {
        let names = structure.fields.into_iter().map(|field| field.name).collect();
        all.push(Names { kind: "a field of a built-in structure", names });
    }
    all
}

/// Returns the built-in constants, errno, options and ICMP, with their values.
pub fn constants() -> impl Iterator<Item = (&'static str, u32)> {
    BUILTIN_CONSTANTS.iter().copied()
}
