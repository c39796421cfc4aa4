//! Chores of the repository: `cargo xtask tidy`, `cargo xtask long` and others.
//!
//! * [`tidy`]: the repository's rules, each a check that fails with a place and a remedy
//! * [`long`]: checks that run for as long as the caller chooses
//! * [`record`]: full measurements of benches and experiments, stored as records
//! * [`tap`]: the cost of the engine's observation points when they have no observer
//! * [`requirements`]: the requirements of RFCs that code meets and tests check
//! * [`size`]: lines of code and of tests, per crate
//! * [`mutants`]: a count of the wrong conditions of a program that its tests detect
//!
//! Invariant: [`CHORES`] is the only list of chores, and a chore is found there by its name.

#![forbid(unsafe_code)]

mod citations;
mod long;
mod mutants;
mod record;
mod requirements;
mod rfc;
mod size;
mod tap;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

struct Chore {
    /// The word after `cargo xtask`.
    name: &'static str,
    /// The arguments that may follow the name.
    usage: &'static str,
    /// A description of one line.
    about: &'static str,
    run: fn(&[String]) -> Result<(), String>,
}

const CHORES: &[Chore] = &[
    Chore {
        name: "tidy",
        usage: "[CHECK…]",
        about: "check the repository's rules",
        run: tidy::run,
    },
    Chore {
        name: "long",
        usage: "[NAME [-- ARGUMENT…]]",
        about: "run a long check",
        run: long::run,
    },
    Chore {
        name: "record",
        usage: "NAME",
        about: "measure a bench or an experiment, for the record",
        run: record::run,
    },
    Chore {
        name: "tap",
        usage: "",
        about: "count the cost of observers of the engine without an observer",
        run: tap::run,
    },
    Chore {
        name: "requirements",
        usage: "[RFC…] [--json]",
        about: "count the requirements of RFCs that are met and tested",
        run: requirements::run,
    },
    Chore {
        name: "picture",
        usage: "",
        about: "draw the arrows in ARCHITECTURE.md",
        run: picture,
    },
    Chore {
        name: "size",
        usage: "[REVISION]",
        about: "count the lines of code and of tests per crate",
        run: size::run,
    },
    Chore {
        name: "mutants",
        usage: "[--sample N] [--seed N] [--file NAME]",
        about: "negate conditions of TCP and check that the tests fail",
        run: mutants::run,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = arguments.split_first() else {
        eprint!("{}", usage());
        return ExitCode::from(2);
    };
    let Some(chore) = CHORES.iter().find(|chore| chore.name == name) else {
        eprint!("xtask: unknown chore `{name}`\n{}", usage());
        return ExitCode::from(2);
    };
    match (chore.run)(rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask {name}: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Draws the arrows between rooms in `ARCHITECTURE.md`.
fn picture(_: &[String]) -> Result<(), String> {
    let path = root().join("ARCHITECTURE.md");
    let page = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let page = tidy::picture::replaced(&page).ok_or("ARCHITECTURE.md has no block of Mermaid")?;
    std::fs::write(&path, page).map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns the list of chores.
fn usage() -> String {
    let mut text = String::from("usage:\n");
    for chore in CHORES {
        let call = format!("cargo xtask {} {}", chore.name, chore.usage);
        text += &format!("  {call:<48} {}\n", chore.about);
    }
    text
}

/// Returns the repository's top folder. Cargo names the checkout that it runs for.
fn root() -> PathBuf {
    let own = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let own = PathBuf::from(own);
    own.ancestors().nth(2).map_or_else(|| own.clone(), PathBuf::from)
}
