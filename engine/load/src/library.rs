//! Programs as shared libraries: `hawser build` makes them, and every command runs them.
//!
//! A library holds the machine code of one program, the program's own texts, and a digest of the C from which
//! the code was made. Opening a library first reads the texts without loading code. It then compiles them
//! again, emits the C again and compares the digests. A match proves that tables and code belong together and
//! were made by this build of Hawser. The digest guards against mix-ups, not against forgery: an attacker who
//! can forge it can also change the code.
//!
//! * [`make`]: from a checked program to a file; [`toolchain`]: the C compiler
//! * [`open`]: from a file to a module and its code
//! * [`texts`]: the data of a library, as C and as read from the file

mod make;
#[allow(unsafe_code)] // Loads machine code.
mod open;
mod texts;
mod toolchain;

pub(crate) use make::compile_in;
pub use make::{BuildError, build, emit, emit_chains};
pub use open::{Library, LibraryError, texts_in_library};
