//! The tests of this crate as its users see it, in one program: each links everything.

mod examples;
mod format;
mod one_style;
mod shapes;
