//! The tests of this crate as its users see it, in one program: each links everything.

mod bounds;
mod codes;
mod common;
mod hostile;
mod layout;
mod offload;
