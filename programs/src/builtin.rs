//! Programs by name and by file.

use std::fmt;
use std::path::Path;

use hawser_driver::{Compilation, Memory, compile, compile_with};
use hawser_ir::Module;

/// Name, then all files: path and text, the main one first. Written by the build script.
const BUILTIN: &[(&str, &[(&str, &str)])] = include!(concat!(env!("OUT_DIR"), "/builtin.rs"));

/// A program that cannot run: the checker's findings, to be rendered.
#[derive(Debug)]
pub struct Rejected(pub Box<Compilation>);

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.render(false).trim_end())
    }
}

impl std::error::Error for Rejected {}

/// The names of the programs that come with Hawser, in order.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILTIN.iter().map(|(name, _)| *name)
}

/// A program that comes with Hawser; `None` where there is none of this name.
///
/// The build has checked it, so that an error here is a fault of Hawser's own.
#[must_use]
pub fn builtin(name: &str) -> Option<Result<Module, Rejected>> {
    let (_, texts) = BUILTIN.iter().find(|(known, _)| *known == name)?;
    let (main, _) = texts.first()?;
    let loader = Memory::new(texts.iter().copied());
    Some(checked(compile_with(&loader, Path::new(main))))
}

/// A program of the user's own.
///
/// # Errors
/// The findings, when the file or what it imports cannot be read or does not pass the checker.
pub fn load(path: &Path) -> Result<Module, Rejected> {
    checked(compile(path))
}

pub(crate) fn checked(mut compilation: Compilation) -> Result<Module, Rejected> {
    compilation.module.take().ok_or_else(|| Rejected(Box::new(compilation)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_that_comes_with_hawser_runs() {
        for name in names() {
            let module = builtin(name).expect("it is listed").expect("the build has checked it");
            crate::Interpreted::new(module, &[]).expect("it needs nothing that does not run yet");
        }
        assert!(builtin("no-such-program").is_none());
    }

    #[test]
    fn a_missing_file_is_a_finding() {
        let rejected = load(Path::new("no/such/file.mtp")).expect_err("there is no such file");
        assert!(rejected.to_string().contains("no/such/file.mtp"), "{rejected}");
    }
}
