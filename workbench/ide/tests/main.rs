//! An editor's questions about the programs of the repository.

#![allow(clippy::disallowed_methods)] // tests read files

mod dissector;
mod edit;
mod hostile;
mod hover;
mod names;
mod workspace;
