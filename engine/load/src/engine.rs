//! The engines that can run a program.

use std::fmt;
use std::str::FromStr;

/// An engine for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Engine {
    /// The interpreter, which defines the meaning of a program.
    Interp,
    /// Machine code, compiled from C.
    Native,
}

impl Engine {
    /// Both engines, sorted by name.
    pub const ALL: [Engine; 2] = [Engine::Interp, Engine::Native];

    /// Returns the default engine for a program of this name. `.mtp` files are interpreted, because they
    /// change often. Built-in programs and libraries run as machine code.
    #[must_use]
    pub fn default_for(program: &str) -> Engine {
        if program.ends_with(".mtp") {
            Engine::Interp
        } else {
            Engine::Native
        }
    }

    /// Returns the engine's name: `interp` or `native`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Engine::Interp => "interp",
            Engine::Native => "native",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that belongs to no engine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown engine `{0}`: the engines are interp and native")]
pub struct UnknownEngine(pub String);

impl FromStr for Engine {
    type Err = UnknownEngine;

    fn from_str(text: &str) -> Result<Engine, UnknownEngine> {
        let known = Engine::ALL.into_iter().find(|engine| engine.name() == text);
        known.ok_or_else(|| UnknownEngine(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_read_as_they_are_written() {
        for engine in Engine::ALL {
            assert_eq!(engine.to_string().parse(), Ok(engine));
        }
        assert_eq!(
            "jit".parse::<Engine>().unwrap_err().to_string(),
            "unknown engine `jit`: the engines are interp and native"
        );
    }
}
