//! A transport program's chains as an eBPF object: compiled and loaded.

use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hawser_documents::temporary::Folder;
use libbpf_rs::{MapCore, Object, ObjectBuilder, OpenObject, set_print};

use super::ChainsError;

/// The code that is appended to a program's C.
const FRONT: &str = include_str!("../../bpf/front.h");

/// Each arena begins at its own address, whose lower half is 0.
const FIRST_ARENA: u64 = 1 << 44;
const BETWEEN_ARENAS: u64 = 1 << 32;
static ARENAS: AtomicU64 = AtomicU64::new(0);

/// The last program in C that was compiled, and its object. A process often opens the same program
/// repeatedly, and clang takes seconds for a large one.
static LAST: Mutex<Option<(String, Arc<[u8]>)>> = Mutex::new(None);

/// Compiles a program's C (`hawser build --as ebpf`), together with the code that runs its chains in
/// front of a stack, to an object.
pub(super) fn compile(c: &str) -> Result<Arc<[u8]>, ChainsError> {
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, object)) = last.as_ref().filter(|(compiled, _)| compiled == c) {
        return Ok(object.clone());
    }
    let object: Arc<[u8]> = run_clang(c)?.into();
    *last = Some((c.to_owned(), object.clone()));
    Ok(object)
}

fn run_clang(c: &str) -> Result<Vec<u8>, ChainsError> {
    let folder = Folder::new().map_err(ChainsError::Files)?;
    let (source, object) = (folder.join("chains.c"), folder.join("chains.o"));
    std::fs::write(&source, format!("{c}{FRONT}")).map_err(ChainsError::Files)?;
    let clang = std::env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let mut command = Command::new(&clang);
    command.args([
        "-g",
        "-O2",
        "-target",
        "bpf",
        "-mcpu=v3",
        "-ffreestanding",
        "-nostdlibinc",
        "-fno-builtin",
        "-w",
        "-c",
        "-o",
    ]);
    let output = command
        .arg(&object)
        .arg(&source)
        .output()
        .map_err(|error| ChainsError::NoCompiler { clang: clang.to_string_lossy().into(), error })?;
    if output.status.success() {
        std::fs::read(object).map_err(ChainsError::Files)
    } else {
        Err(ChainsError::Compiler(
            String::from_utf8_lossy(&output.stderr).into(),
        ))
    }
}

/// Loads the object without the programs for which `is_wanted` is false. It shares the maps in `shared` with
/// other objects, by their names.
pub(super) fn load(
    object: &[u8],
    shared: &[libbpf_rs::MapHandle],
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Object, ChainsError> {
    // The error contains the text that libbpf would print.
    let print = set_print(None);
    let loaded = open(object, shared, is_wanted).and_then(OpenObject::load);
    set_print(print);
    loaded.map_err(|error| match error.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => ChainsError::Permission,
        _ => ChainsError::Load(error),
    })
}

fn open(
    object: &[u8],
    shared: &[libbpf_rs::MapHandle],
    is_wanted: impl Fn(&str) -> bool,
) -> libbpf_rs::Result<OpenObject> {
    let mut object = ObjectBuilder::default().open_memory(object)?;
    for mut program in object.progs_mut() {
        let is_wanted = program.name().to_str().is_some_and(&is_wanted);
        program.set_autoload(is_wanted);
    }
    for mut map in object.maps_mut() {
        if map.name() == "hw_arena" {
            let number = ARENAS.fetch_add(1, Ordering::Relaxed);
            map.set_map_extra(FIRST_ARENA + number * BETWEEN_ARENAS)?;
        }
        if let Some(other) = shared.iter().find(|other| other.name() == map.name()) {
            map.reuse_fd(other.as_fd())?;
        }
    }
    Ok(object)
}
