//! Errors of blocks of code and of expressions.

use super::value::Value;
use crate::script::syntax::ScriptPosition;

/// A block of code failed, with the statement's place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BlockError {
    pub(crate) place: ScriptPosition,
    pub(crate) why: PythonFault,
}

/// The fault of a statement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PythonFault {
    /// An assertion is false: its text, and its message or the values that it compares.
    IsFalse { assertion: String, message: String },
    /// An expression has no value.
    NoValue(EvaluationError),
}

/// An expression could not be evaluated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum EvaluationError {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("`{0}` is not an integer")]
    NoInteger(Value),
    #[error("`{0}` and `{1}` are not integers")]
    NoIntegers(Value, Value),
    #[error("`{0}` is not a number")]
    NoNumber(Value),
    #[error("`{0}` is not a list")]
    NoList(Value),
    #[error("`{0}` has no value")]
    HoldsNothing(Value),
    #[error("division by zero")]
    DivisionByZero,
    #[error("the result of {0} and {1} exceeds 128 bits")]
    Overflow(i128, i128),
    /// The argument is the least integer, whose magnitude does not fit.
    #[error("this is too large")]
    AbsOverflow,
    #[error("a list of {len} has no item {at}")]
    NoItem { at: i128, len: usize },
    #[error("the format needs more values")]
    TooFewValues,
    #[error("`{0}` is not a known format")]
    UnknownForm(String),
    #[error("the text is too long")]
    TooLong,
    /// `min()` or `max()` had no arguments.
    #[error("{0}() needs a value")]
    OfNothing(String),
    #[error("`{name}()` with {arguments} arguments is not supported")]
    UnknownCall { name: String, arguments: usize },
}

/// A name could not be resolved.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum NameError {
    #[error("`{0}` is unknown")]
    Unknown(String),
    /// The program's table lacks this field of TCP_INFO.
    #[error("{0} is not mapped: the program's script.toml does not list it")]
    Unmapped(String),
    /// The expression of a field of TCP_INFO has no value.
    #[error("{field}: {why}")]
    Field { field: String, why: Box<EvaluationError> },
    #[error("the script has no connection")]
    NoConnection,
    #[error("`{0}` cannot be observed, or the connection has ended")]
    Unobservable(String),
}
