//! Random programs.
pub mod dice;
pub mod generate;
