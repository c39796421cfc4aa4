//! The tests of this crate's public interface, in one program, because each test program links everything.

mod bounded;
mod errata;
mod files;
mod hostile;
mod inspect;
mod loading;
mod reference;
