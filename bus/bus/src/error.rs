//! Errors of requests to the bus and to a source.

use std::fmt::Display;

use crate::flow::SourceFlow;

/// The reasons for which a source refuses a modification, or a change of its attachments.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The flow is gone, or never existed.
    #[error("the flow {0} does not exist")]
    NoFlow(SourceFlow),
    /// The flow has no such variable, because it is of another kind.
    #[error("the flow {0} is of another kind and does not have this variable")]
    NotOfFlow(SourceFlow),
    /// The subscriber has no right to set the variable.
    #[error("the subscriber has no right to set the variable")]
    NoRight,
    /// The subscriber has no right to attach or to detach.
    #[error("the subscriber has no right to attach or to detach")]
    NotToAttach,
    /// The provider takes no attachments.
    #[error("the source {0} does not accept attachments")]
    NotAttachable(String),
    /// The queue of changes of attachments is full.
    #[error("{0} changes already wait to be attached; try again later")]
    Busy(usize),
    /// The value is outside the bounds of the subscriber's right, or of the program.
    #[error("{value} is outside {min}..={max}")]
    OutOfRange {
        /// The requested value.
        value: u64,
        /// The smallest allowed value.
        min: u64,
        /// The largest allowed value.
        max: u64,
    },
    /// A subscriber of equal or higher priority holds the variable.
    #[error(
        "`{0}` holds the variable with priority {1}: use a higher priority, or wait for the end of the \
             lease"
    )]
    Held(String, u8),
    /// The provider cannot do it, for this reason.
    #[error("{0}")]
    Unable(String),
    /// The subscriber does not hold the variable that it releases.
    #[error("this subscriber does not hold the variable")]
    NotHeld,
    /// The length of the lease is 0, or above the maximum.
    #[error("the duration of a lease must be above 0 and at most one day")]
    Lease,
    /// The source already has the maximum number of held variables.
    #[error("subscribers already hold {0} variables of the source, its limit")]
    Full(usize),
}

impl Refusal {
    /// Makes a refusal of the provider, with its reason.
    #[must_use]
    pub fn unable(why: impl Display) -> Refusal {
        Refusal::Unable(why.to_string())
    }
}

/// The reasons for which the bus refuses a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BusError {
    /// No provider has an event of this name.
    #[error("no provider has an event `{name}`{hint}")]
    NoEvent {
        /// The requested name.
        name: String,
        /// Existing events with a similar name.
        hint: String,
    },
    /// No provider has a variable of this name.
    #[error("no provider has a variable `{name}`{hint}")]
    NoVariable {
        /// The requested name.
        name: String,
        /// Existing variables with a similar name.
        hint: String,
    },
    /// The subscriber has no right to do this.
    #[error("`{who}` has no right to {what}: an operator can grant it in the rights file")]
    NoRight {
        /// The name of the subscriber.
        who: String,
        /// The refused act: `receive tcp.acked`, `read …`, `set …`, `take priority 9 (its highest is 3)`.
        what: String,
    },
    /// The subscription has more fields and variables than fit into a signal.
    #[error("a signal has at most {max} values, not {0}", max = crate::MAX_VALUES)]
    Wide(usize),
    /// No source has this number.
    #[error("the source {0} does not exist")]
    NoSource(u32),
    /// The subscriber has no subscription of this number.
    #[error("the subscription {0} does not exist")]
    NoSubscription(u32),
    /// The name is not valid for an attachment.
    #[error("`{0}` is not a valid name: expected 1 to 64 letters, digits, `-`, `_` and `.`")]
    Name(String),
    /// The source did not answer in time; it may be busy, or gone.
    #[error("the source did not answer in time")]
    Timeout,
    /// A table of the bus is full.
    #[error("the limit of {1} {0} is reached")]
    Full(&'static str, usize),
    /// The source refused the request.
    #[error(transparent)]
    Refused(#[from] Refusal),
}
