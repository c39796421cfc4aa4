//! The interpreter: the one meaning of a program.
