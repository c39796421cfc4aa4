//! The C compiler of this machine.

use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use super::BuildError;

/// The flags for every program. The emitted C has no undefined behaviour, so optimisation cannot change its
/// meaning. If the emitter is wrong, the stack protector, the checks of `_FORTIFY_SOURCE` and read-only
/// tables end the process.
const FLAGS: [&str; 10] = [
    "-std=c11",
    "-O2",
    "-fPIC",
    "-fvisibility=hidden",
    "-shared",
    "-fstack-protector-strong",
    "-U_FORTIFY_SOURCE", // Some compilers predefine it, and a second definition is a warning.
    "-D_FORTIFY_SOURCE=2",
    "-Wl,-z,relro,-z,now",
    "-Wl,-z,noexecstack",
];

/// Compiles a C text to a shared library.
pub(super) fn compile(c: &str, out: &Path) -> Result<(), BuildError> {
    let (compiler, arguments) = compiler();
    // If the search of $PATH met a folder or a file that may not be executed, it fails with EACCES
    // (execvp(3)).
    let searched = Path::new(&compiler).components().count() == 1;
    let missing = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => BuildError::NoCompiler { compiler: display(&compiler) },
        ErrorKind::PermissionDenied if searched => BuildError::NoCompiler { compiler: display(&compiler) },
        _ => BuildError::Io { what: format!("cannot run {}", display(&compiler)), error },
    };
    let mut child = Command::new(&compiler)
        .args(arguments)
        .args(FLAGS)
        .arg("-o")
        .arg(out)
        .args(["-x", "c", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(missing)?;
    let mut stdin = child.stdin.take();
    // A compiler that rejects its arguments does not read its input. Its own message then explains more than
    // the broken pipe.
    let written = stdin
        .as_mut()
        .map_or(Ok(()), |stdin| stdin.write_all(c.as_bytes()));
    drop(stdin);
    let output = child
        .wait_with_output()
        .map_err(|error| BuildError::Io { what: format!("cannot wait for {}", display(&compiler)), error })?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(BuildError::Compiler { compiler: display(&compiler), output: message });
    }
    written.map_err(|error| BuildError::Io { what: format!("cannot write to {}", display(&compiler)), error })
}

/// Returns `$CC` with its arguments, or `cc`.
fn compiler() -> (OsString, Vec<OsString>) {
    let chosen = std::env::var_os("CC").filter(|chosen| !chosen.is_empty());
    let Some(chosen) = chosen else {
        return ("cc".into(), Vec::new());
    };
    match chosen.to_str() {
        Some(text) => {
            let mut words = text.split_whitespace().map(OsString::from);
            (words.next().unwrap_or_else(|| "cc".into()), words.collect())
        }
        None => (chosen, Vec::new()),
    }
}

fn display(compiler: &OsString) -> String {
    compiler.to_string_lossy().into_owned()
}
