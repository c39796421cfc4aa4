//! The checker: syntax tree to intermediate form.
