//! Why a checked program cannot run, or cannot be changed while it runs.

use hawser_interp::Unsupported;
use hawser_ir::UnknownParam;

use crate::limits::{MAX_ATTACHMENTS, MAX_CONTEXTS};
use crate::{ParamError, Rejected};

/// Why a checked program cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// A value was given for a param that the program does not have.
    #[error(transparent)]
    Param(#[from] UnknownParam),
    /// It holds a construct that does not run yet.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// It has more context types than machine code can have.
    #[error("{program}: {count} context types; a program as machine code has at most {MAX_CONTEXTS}")]
    Contexts {
        /// The program's name.
        program: String,
        /// How many it has.
        count: usize,
    },
    /// The program and the same one with an attachment cannot share their memory.
    #[error("with the attachment, {program} would have other {what}")]
    Memory {
        /// The program's name.
        program: String,
        /// The tables that differ: `contexts`.
        what: &'static str,
    },
}

/// Why nothing is attached or detached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The text does not pass the checker together with the program.
    #[error(transparent)]
    Rejected(Rejected),
    /// The text places none of its processors.
    #[error(
        "{name}.mtp attaches nothing: state where a processor of it belongs, as in `attach cap after cc;`"
    )]
    NoPlace {
        /// The attachment's name.
        name: String,
    },
    /// A setting does not fit the attachment's params.
    #[error("{name}.mtp: {error}")]
    Setting {
        /// The attachment's name.
        name: String,
        /// What is wrong with it.
        error: ParamError,
    },
    /// As many files are attached as can be.
    #[error("{MAX_ATTACHMENTS} files are attached already, as many as can be: detach one")]
    Full,
    /// What is to be detached is not attached.
    #[error("`{name}` is not attached; {}", attached_names(.attached))]
    NotAttached {
        /// The name given.
        name: String,
        /// The names that are attached.
        attached: Vec<String>,
    },
    /// The program is no text in the language.
    #[error("{program} was written by hand: nothing can be attached")]
    HandWritten {
        /// The program's name.
        program: String,
    },
    /// The program with the attachment cannot run.
    #[error(transparent)]
    Run(#[from] RunError),
}

fn attached_names(attached: &[String]) -> String {
    match attached {
        [] => "nothing is".to_owned(),
        names => names.join(", "),
    }
}
