//! `hawser build FILE.mtp`: compiles a program to a shared library, to C, or to a dissector for Wireshark.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use hawser::lang::{self, Compilation, Disk, Loader, SourceMap};
use hawser::programs::{self, BuildError, LoadError, Machine, Module};
use serde_json::json;

use crate::exit::{Exit, Outcome};

/// Compile a program to machine code, to C, or to a dissector for Wireshark
///
/// Every command accepts the library as a program. It holds the source of the program beside the code. It
/// runs only with the Hawser that built it, and only while no other user can change the file. The command
/// needs a C compiler: $CC, or cc.
///
///   hawser build examples/stop-and-wait.mtp -o stop-and-wait.so
///   hawser sim swarm ./stop-and-wait.so --plain
///   hawser build --as wireshark my.mtp > my.lua && wireshark -X lua_script:my.lua capture.pcap
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The program (.mtp), or the name of a built-in one
    file: PathBuf,
    // The alias is the option of `hawser emit`; `former_names` puts `--as c` before it.
    /// The form of the result
    #[arg(
        long = "as",
        alias = "machine",
        value_name = "FORM",
        default_value = "library",
        overrides_with = "form"
    )]
    form: Form,
    /// The output file. By default a library is FILE.so beside the program, and a text goes to standard output
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Print the result as a JSON object; for a library
    #[arg(long)]
    json: bool,
}

/// The form of a compiled program.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// A shared library for this host
    Library,
    /// The C text of the library: one self-contained C11 file, whose lines refer to those of the program, so
    /// that compilers and debuggers show the program
    #[value(alias = "native")]
    C,
    /// C text for `clang -target bpf`: a program for the Linux kernel (6.9 or newer) for each chain, on memory
    /// that user space maps as well. It contains no parsers and headers
    Ebpf,
    /// A dissector in Lua for Wireshark, which shows fields, options and enums by the names of the program,
    /// verifies Internet checksums, and counts sequence numbers from the first of a connection
    /// (docs/wireshark.md)
    Wireshark,
}

pub(crate) fn run(args: &Args) -> Outcome {
    if args.form == Form::Library {
        return library(args);
    }
    if args.json {
        return Err(Exit::usage(
            "--json needs --as library, because the other forms are texts",
        ));
    }
    let module = checked(&args.file)?;
    let text = match args.form {
        Form::Wireshark => lang::dissector(&module).map_err(Exit::failed)?,
        Form::Ebpf => programs::emit(&module, Machine::Ebpf).map_err(Exit::failed)?,
        Form::C | Form::Library => programs::emit(&module, Machine::Native).map_err(Exit::failed)?,
    };
    match &args.output {
        None => {
            print!("{text}");
            Ok(())
        }
        Some(path) => std::fs::write(path, text)
            .map_err(|error| Exit::environment(format!("cannot write {}: {error}", path.display()))),
    }
}

fn library(args: &Args) -> Outcome {
    let output = args
        .output
        .clone()
        .unwrap_or_else(|| args.file.with_extension("so"));
    if output.extension().is_none_or(|ending| ending != "so") {
        return Err(Exit::usage(format!(
            "{}: the name of a library has to end in .so, because commands know it by this ending",
            output.display()
        )));
    }
    programs::build(&checked(&args.file)?, &output).map_err(refused)?;
    let bytes = std::fs::metadata(&output).map_err(Exit::environment)?.len();
    match args.json {
        true => println!(
            "{}",
            json!({ "output": output.display().to_string(), "bytes": bytes })
        ),
        false => println!("{} ({bytes} bytes)", output.display()),
    }
    Ok(())
}

fn refused(error: BuildError) -> Exit {
    match error {
        BuildError::Unsupported(_) => Exit::failed(error),
        BuildError::NoCompiler { .. } | BuildError::Compiler { .. } | BuildError::Io { .. } => {
            Exit::environment(error)
        }
    }
}

/// Compiles a program from a file or a built-in one. The checker's diagnostics go to standard error.
pub(super) fn checked(file: &Path) -> Result<Module, Exit> {
    let compilation = compiled(file)?;
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let colour = wanted && std::io::stderr().is_terminal();
    std::eprint!(
        "{}",
        hawser::lang::render(&compilation.diagnostics, &compilation.sources, colour)
    );
    compilation
        .module
        .ok_or_else(|| Exit::failed(format!("{} has errors", file.display())))
}

/// Compiles the program in a file, or the built-in one with that name, which has no errors. A file with the
/// name of a built-in program is given with its folder, as in `./tcp`.
pub(super) fn compiled(file: &Path) -> Result<Compilation, Exit> {
    if let Some(name) = built_in(file) {
        let loaded =
            programs::LoadedProgram::open(name, Some(programs::Engine::Interp)).map_err(Exit::failed)?;
        let module = Module::clone(loaded.module());
        let mut sources = SourceMap::default();
        for (path, text) in &module.files {
            sources.add(path, text);
        }
        return Ok(Compilation { module: Some(module), diagnostics: Vec::new(), sources });
    }
    if is_bare_name(file) && !file.exists() {
        return Err(Exit::usage(LoadError::Unknown(file.display().to_string())));
    }
    readable(file)?;
    Ok(lang::compile(file))
}

/// Returns whether a path has neither a folder nor an ending, like the name of a built-in program.
fn is_bare_name(file: &Path) -> bool {
    file.extension().is_none() && !file.as_os_str().as_encoded_bytes().contains(&b'/')
}

/// Returns the name of the built-in program that `file` names, if any.
pub(super) fn built_in(file: &Path) -> Option<&'static str> {
    programs::builtin_names().find(|name| file.as_os_str() == *name)
}

/// Reads a program's source. It refuses pipes and files longer than a program may be.
pub(super) fn readable(file: &Path) -> Result<String, Exit> {
    let text = Disk.load(file);
    text.map_err(|error| Exit::input(format!("cannot read {}: {error}", file.display())))
}
