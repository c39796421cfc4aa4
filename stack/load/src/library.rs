//! Programs as shared libraries: `hawser build` makes them, every command runs them.
//!
//! A library holds the machine code of one program, the program's own texts, and a digest of the C
//! that the code was made from. Whoever opens it reads the texts without loading anything, compiles them
//! again, emits the C again, and compares: so tables and code belong together, and were made by this very Hawser. The digest
//! guards against mix-ups, not against forgers: whoever could forge it could change the code, too.
//!
//! * [`make`]: from a checked program to a file; [`toolchain`]: the C compiler
//! * [`open`]: from a file to a module and its code
//! * [`texts`]: what of it is data, as C and as read from the file

mod make;
#[allow(unsafe_code)] // It loads machine code.
mod open;
mod texts;
mod toolchain;

pub(crate) use make::compile_in;
pub use make::{BuildError, build, emit, emit_chains};
pub use open::{Library, LibraryError, texts_in_library};
