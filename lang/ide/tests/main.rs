//! What an editor asks, on the programs of the repository.

#![allow(clippy::disallowed_methods)] // tests read files

mod edit;
mod hostile;
mod hover;
mod names;
mod workspace;
