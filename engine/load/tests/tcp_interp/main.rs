//! TCP's behaviour on the interpreter: the suite of `../tcp`, which runs as machine code there.

/// The engine in this run of the suite.
const ENGINE: hawser_load::Engine = hawser_load::Engine::Interp;

include!("../tcp/suite.rs");
