//! The tests of this crate as its users see it, in one program: each links everything.

mod bounded;
mod errata;
mod files;
mod hostile;
mod inspect;
mod loading;
mod reference;
