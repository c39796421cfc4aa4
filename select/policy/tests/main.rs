//! The tests of this crate as its users see it, in one program: each links everything.

mod documents;
mod hostile;
mod rankings;
