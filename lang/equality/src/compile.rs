//! The steps from a seed to a loaded program: text, check, C, shared object.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, LazyLock};

use hawser_emit_c::{Emitted, Machine, Marks, Options};
use hawser_interp::Interpreter;
use hawser_ir::Module;

use crate::generate;

/// The options for compiling C.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The level of optimisation, which follows `-O`.
    pub level: String,
    /// True if undefined behaviour traps.
    pub trap: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { level: "0".to_owned(), trap: true }
    }
}

/// A program that was checked and printed.
pub struct Printed {
    /// The name of the program and of its file.
    pub name: String,
    pub text: String,
    /// The checked module.
    pub module: Arc<Module>,
    /// The values of its params.
    pub params: Vec<u64>,
    pub interpreter: Interpreter,
    pub c: String,
    /// The symbol of the function that returns its table.
    pub symbol: String,
}

/// Returns the program of a seed.
///
/// # Errors
/// If the checker rejects it, which is a bug of the generator or of the checker.
pub fn generated(seed: u64) -> Result<Printed, String> {
    printed(&format!("random{seed}"), generate::program(seed))
}

/// Checks a program and prints it as C.
///
/// # Errors
/// If the checker finds errors, or if the interpreter cannot run the program.
pub fn printed(name: &str, text: String) -> Result<Printed, String> {
    let path = format!("{name}.mtp");
    let files = hawser_driver::MemoryLoader::new([(path.as_str(), text.as_str())]);
    let compilation = hawser_driver::compile_with(&files, Path::new(&path));
    let Some(module) = compilation.module.as_ref().filter(|_| !compilation.failed()) else {
        return Err(compilation.render(false));
    };
    let module = Arc::new(module.clone());
    let defaults = module.params.iter().map(|param| param.default).collect();
    let interpreter =
        Interpreter::new(module.clone(), defaults).map_err(|unsupported| unsupported.to_string())?;
    Ok(of_module(text, module, interpreter))
}

/// Prints a module as C.
#[must_use]
pub fn of_module(text: String, module: Arc<Module>, interpreter: Interpreter) -> Printed {
    let emitted = c_of(&module, Machine::Native);
    let (name, params) = (module.name.clone(), interpreter.params().to_vec());
    Printed {
        name,
        text,
        module,
        params,
        interpreter,
        c: emitted.c,
        symbol: emitted.symbol,
    }
}

/// Returns a module's C without line marks.
#[must_use]
pub fn c_of(module: &Module, machine: Machine) -> Emitted {
    let options = Options { machine, marks: Marks::Nothing, ..Options::default() };
    hawser_emit_c::emit(module, &options)
}

/// Compiles several programs' C into one shared object in `folder`.
///
/// # Errors
/// Returns the compiler's output.
pub fn shared_object(
    folder: &Path,
    programs: &[(&str, &str)],
    settings: &Settings,
) -> Result<PathBuf, String> {
    let object = folder.join("programs.so");
    let mut command = compiler_for(settings);
    command
        .arg("-shared")
        .arg("-fPIC")
        .args(flags(settings))
        .arg("-o")
        .arg(&object);
    for (name, c) in programs {
        let source = folder.join(format!("{name}.c"));
        std::fs::write(&source, c).map_err(|error| format!("{}: {error}", source.display()))?;
        command.arg(source);
    }
    run(command)?;
    Ok(object)
}

/// Returns the C compiler: `CC`, or `cc`.
#[must_use]
pub fn compiler() -> Command {
    Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
}

/// Returns the compiler for these settings. For unoptimised code it is clang, which takes half of gcc's time,
/// if `CC` is unset and clang is installed.
fn compiler_for(settings: &Settings) -> Command {
    static HAS_CLANG: LazyLock<bool> = LazyLock::new(|| {
        let version = Command::new("clang").arg("--version").output();
        std::env::var_os("CC").is_none() && version.is_ok_and(|output| output.status.success())
    });
    if settings.level == "0" && *HAS_CLANG {
        Command::new("clang")
    } else {
        compiler()
    }
}

/// The flags common to all programs. The emitter promises C11 with GNU extensions, and warnings do not matter
/// here.
fn flags(settings: &Settings) -> Vec<String> {
    let mut flags = vec![
        "-std=gnu11".to_owned(),
        "-w".to_owned(),
        format!("-O{}", settings.level),
    ];
    if settings.trap {
        flags.push("-fsanitize=undefined".to_owned());
        flags.push("-fsanitize-undefined-trap-on-error".to_owned());
    }
    flags
}

/// Runs a compiler to its end.
///
/// # Errors
/// Returns the first lines of its output.
pub fn run(mut command: Command) -> Result<(), String> {
    let output = command
        .output()
        .map_err(|error| format!("cannot start {:?}: {error}", command.get_program()))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let first: Vec<&str> = stderr.lines().take(20).collect();
    Err(format!("{}\n{}", output.status, first.join("\n")))
}
