//! TCP's behaviour on the interpreter: the suite of `../tcp`, which runs on machine code there.

/// What runs the program in this run of the suite.
const ENGINE: hawser_programs::Engine = hawser_programs::Engine::Interp;

include!("../tcp/suite.rs");
