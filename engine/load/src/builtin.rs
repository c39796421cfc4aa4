//! Loads programs by name and by file.

use std::path::Path;

use hawser_driver::{Compilation, Instead, MemoryLoader, compile, compile_with};
use hawser_ir::Module;

/// A program's name; the replaced file and its replacement, if any; the path and text of each file.
type Row = (
    &'static str,
    Option<[&'static str; 2]>,
    &'static [(&'static str, &'static str)],
);

/// The rows, each with its main file first. The build script writes them.
const BUILTIN: &[Row] = include!(concat!(env!("OUT_DIR"), "/builtin.rs"));

/// A program that does not pass the checker. It holds the diagnostics, ready to be rendered.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.render(false).trim_end())]
pub struct Rejected(pub Box<Compilation>);

/// Returns the names of the programs that come with Hawser, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILTIN.iter().map(|(name, ..)| *name)
}

/// Returns a program that comes with Hawser, or `None` if the name is unknown.
///
/// The build has checked the program, so that an error here is a bug in Hawser.
#[must_use]
pub fn builtin(name: &str) -> Option<Result<Module, Rejected>> {
    let (_, exchanged, texts) = BUILTIN.iter().find(|(known, ..)| *known == name)?;
    let main = Path::new(texts.first()?.0);
    let loader = MemoryLoader::new(texts.iter().copied());
    Some(checked(match exchanged.map(|files| files.map(Path::new)) {
        Some([part, other]) => compile_with(&Instead { loader: &loader, part, other }, main),
        None => compile_with(&loader, main),
    }))
}

/// Loads a user's program from a file.
///
/// # Errors
/// The diagnostics, if the file or one of its imports cannot be read or does not pass the checker.
pub fn load(path: &Path) -> Result<Module, Rejected> {
    checked(compile(path))
}

pub(crate) fn checked(mut compilation: Compilation) -> Result<Module, Rejected> {
    compilation
        .module
        .take()
        .ok_or_else(|| Rejected(Box::new(compilation)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_that_comes_with_hawser_runs() {
        for name in names() {
            let module = builtin(name)
                .expect("it is listed")
                .expect("the build has checked it");
            crate::Interpreted::new(module, &[]).expect("it needs nothing that does not run yet");
        }
        assert!(builtin("no-such-program").is_none());
    }

    #[test]
    fn a_variant_replaces_one_file() {
        let files = |name: &str| -> Vec<String> {
            let module = builtin(name)
                .expect("it is listed")
                .expect("the build has checked it");
            module.files.into_iter().map(|(path, _)| path).collect()
        };
        let (usual, fast) = (files("tcp"), files("tcp-fast"));
        let only = |one: &[String], other: &[String]| -> Vec<String> {
            one.iter().filter(|file| !other.contains(file)).cloned().collect()
        };
        assert_eq!(only(&usual, &fast), ["tcp/cubic.mtp", "tcp/slowstart.mtp"]);
        assert_eq!(only(&fast, &usual), ["tcp/fast.mtp"]);
        assert_eq!(only(&files("tcp-newreno"), &usual), ["tcp/newreno.mtp"]);
    }

    #[test]
    fn a_missing_file_is_reported() {
        let rejected = load(Path::new("no/such/file.mtp")).expect_err("there is no such file");
        assert!(rejected.to_string().contains("no/such/file.mtp"), "{rejected}");
    }
}
