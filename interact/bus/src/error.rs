//! What can be wrong with a request.

use std::fmt::Display;

use crate::flow::Target;

/// Why a source refused a modification, or a change of what is attached to it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The flow is gone, or never was.
    #[error("there is no flow {0}")]
    NoFlow(Target),
    /// The flow has no such variable: it is of another kind.
    #[error("the flow {0} has no such variable: it is of another kind")]
    NotOfFlow(Target),
    /// No right to set it.
    #[error("no right to set it")]
    NoRight,
    /// No right to attach, nor to detach.
    #[error("no right to attach or to detach")]
    NotToAttach,
    /// The provider takes no attachments.
    #[error("nothing can be attached to {0}")]
    NotAttachable(String),
    /// As many changes of attachments wait as can.
    #[error("{0} changes wait to be attached already")]
    Busy(usize),
    /// Outside the bounds of the right, or of the program.
    #[error("{value} is outside {min}..={max}")]
    OutOfRange {
        /// The value wanted.
        value: u64,
        /// The smallest allowed.
        min: u64,
        /// The greatest allowed.
        max: u64,
    },
    /// Somebody of no lower priority holds it.
    #[error("`{0}` holds it with priority {1}: take a higher one, or wait for the end of its lease")]
    Held(String, u8),
    /// The provider cannot do it: why.
    #[error("{0}")]
    Unable(String),
    /// Nothing to give back.
    #[error("it is not held by this subscriber")]
    NotHeld,
    /// A lease has a length.
    #[error("a lease is longer than 0 and at most one day")]
    Lease,
    /// The source holds as many variables as it can.
    #[error("the source has {0} variables held, its most")]
    Full(usize),
}

impl Refusal {
    /// The provider cannot do it, for a reason of its own.
    #[must_use]
    pub fn unable(why: impl Display) -> Refusal {
        Refusal::Unable(why.to_string())
    }
}

/// Why the bus refused a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BusError {
    /// No provider has an event of this name.
    #[error("no provider has an event `{name}`{hint}")]
    NoEvent {
        /// The name wanted.
        name: String,
        /// What there is with a similar name.
        hint: String,
    },
    /// No provider has a variable of this name.
    #[error("no provider has a variable `{name}`{hint}")]
    NoVariable {
        /// The name wanted.
        name: String,
        /// What there is with a similar name.
        hint: String,
    },
    /// The subscriber may not do that.
    #[error("`{who}` has no right to {what}: an operator's rights file grants it")]
    NoRight {
        /// The subscriber.
        who: String,
        /// `receive tcp.acked`, `read …`, `set …`, `take priority 9 (its highest is 3)`.
        what: String,
    },
    /// More fields and variables than a signal has room for.
    #[error("{0} values: a signal has room for {max}", max = crate::MAX_VALUES)]
    Wide(usize),
    /// There is no such source.
    #[error("there is no source {0}")]
    NoSource(u32),
    /// There is no such subscription of this subscriber.
    #[error("no subscription {0}")]
    NoSubscription(u32),
    /// An attachment cannot be called so.
    #[error("`{0}` is no name: 1 to 64 letters, digits, `-`, `_` and `.`")]
    Name(String),
    /// The source did not answer in time; it may be busy, or gone.
    #[error("the source did not answer in time")]
    Timeout,
    /// Too many of something.
    #[error("there are {1} {0} already, as many as can be")]
    Full(&'static str, usize),
    /// The source refused it.
    #[error(transparent)]
    Refused(#[from] Refusal),
}
