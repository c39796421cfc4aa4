//! Errors of running a checked program, and of changing it while it runs.

use hawser_interp::Unsupported;
use hawser_ir::UnknownParam;

use crate::limits::{MAX_ATTACHMENTS, MAX_CONTEXTS};
use crate::{ParamError, Rejected};

/// A checked program cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// A value was given for a param that the program does not have.
    #[error(transparent)]
    Param(#[from] UnknownParam),
    /// The program uses a construct that does not run yet.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The program has more context types than machine code supports.
    #[error("{program}: {count} context types; a program as machine code has at most {MAX_CONTEXTS}")]
    Contexts {
        /// The program's name.
        program: String,
        /// The number of context types.
        count: usize,
    },
    /// The program and its version with an attachment cannot share memory.
    #[error("with the attachment, {program} would have other {what}")]
    Memory {
        /// The program's name.
        program: String,
        /// The tables that differ, such as `contexts`.
        what: &'static str,
    },
}

/// A text could not be attached or detached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The text does not pass the checker together with the program.
    #[error(transparent)]
    Rejected(Rejected),
    /// The text states no place for any of its processors.
    #[error("{name}.mtp attaches no processor: state the place of one, for example `attach cap after cc;`")]
    NoPlace {
        /// The attachment's name.
        name: String,
    },
    /// A setting does not fit the attachment's params.
    #[error("{name}.mtp: {error}")]
    Setting {
        /// The attachment's name.
        name: String,
        /// The fault in the setting.
        error: ParamError,
    },
    /// The maximum number of files is attached already.
    #[error("the limit of {MAX_ATTACHMENTS} attached files is reached: detach one")]
    Full,
    /// The attachment to remove does not exist.
    #[error("`{name}` is not attached; {}", attached_names(.attached))]
    NotAttached {
        /// The unknown name.
        name: String,
        /// The names of the current attachments.
        attached: Vec<String>,
    },
    /// The program was not written in the language.
    #[error("{program} was written by hand and accepts no attachments")]
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
        [] => "no file is attached".to_owned(),
        names => names.join(", "),
    }
}
