//! Limits that errors name.

/// The maximum number of attachments of a program at a time.
pub(crate) const MAX_ATTACHMENTS: usize = 16;

/// The maximum number of context types of a program. Their addresses are gathered on the call stack for each
/// event.
pub(crate) const MAX_CONTEXTS: usize = 32;
