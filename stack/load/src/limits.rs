//! Limits that errors name.

/// Attachments of one program at a time.
pub(crate) const MAX_ATTACHMENTS: usize = 16;

/// The maximum number of context types of a program: their addresses are gathered on the stack for each event.
pub(crate) const MAX_CONTEXTS: usize = 32;
