//! Tests of the library for C: its header, its symbols, its examples, and wrong uses of it.

#![allow(unsafe_code)] // the functions for C take pointers

mod examples;
mod header;
mod many;
mod misuse;
mod program;
mod session;
