//! `hawser build FILE.mtp`: compiles a program to a shared library.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use hawser::lang::{self, Compilation, Disk, Loader, SourceMap};
use hawser::programs::{self, BuildError, Module};
use serde_json::json;

use crate::exit::{Exit, Outcome};

/// Compile a program to machine code
///
/// The result is a shared library that every command accepts as a program. It holds the source of the
/// program beside the code. It runs only with the Hawser that built it, and only while nobody else can
/// change the file. A C compiler is needed: $CC, or cc.
///
///   hawser build examples/stop-and-wait.mtp -o stop-and-wait.so
///   hawser swarm ./stop-and-wait.so --plain
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The program (.mtp), or the name of a built-in one
    file: PathBuf,
    /// The output file; by default FILE.so beside the program
    #[arg(short, long, value_name = "FILE.so")]
    output: Option<PathBuf>,
    /// Print the result as a JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let output = args
        .output
        .clone()
        .unwrap_or_else(|| args.file.with_extension("so"));
    if output.extension().is_none_or(|ending| ending != "so") {
        return Err(Exit::usage(format!(
            "{}: a program that is built has a name that ends in .so, by which it is known",
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
        let loaded = programs::Loaded::open(name, Some(programs::Engine::Interp)).map_err(Exit::failed)?;
        let module = Module::clone(loaded.module());
        let mut sources = SourceMap::default();
        for (path, text) in &module.files {
            sources.add(path, text);
        }
        return Ok(Compilation { module: Some(module), diagnostics: Vec::new(), sources });
    }
    readable(file)?;
    Ok(lang::compile(file))
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
