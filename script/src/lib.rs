#![warn(missing_docs)]
#![forbid(unsafe_code)]
//! Scripts.
pub mod syntax;
mod python;
