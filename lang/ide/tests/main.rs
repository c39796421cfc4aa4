//! What an editor asks, on the programs of the repository.

#![allow(clippy::disallowed_methods)] // tests read files

mod names;
mod workspace;
