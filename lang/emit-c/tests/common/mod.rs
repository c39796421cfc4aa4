//! Compiles emitted C, loads it, and runs chains with it.

pub(crate) mod packets;

use std::path::{Path, PathBuf};
use std::process::Command;

use hawser_emit_c::abi::{self, Build, Coalesce, Entry, Memory, Parse, React, Records};
use hawser_emit_c::{Marks, Options, emit};
use hawser_ir::Module;
use hawser_ir::abi::ChainOutcome;

/// The memory that a chain runs on; every region is 8-byte aligned.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct World {
    pub(crate) event: Vec<u64>,
    pub(crate) keyed: Option<(u32, Vec<u64>)>,
    pub(crate) fresh: Option<Vec<u64>>,
    pub(crate) globals: Vec<Vec<u64>>,
    pub(crate) scratch: Vec<u64>,
}

/// A compiled program.
pub(crate) struct Compiled {
    react: React,
    parse: Parse,
    build: Build,
    coalesce: Coalesce,
    _library: libloading::Library,
}

/// Returns the paths of all programs that the tests know: those of `lang/tests` and the built-in ones.
pub(crate) fn programs() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/wire.mtp");
    let mut paths = vec![root.join("transports/tcp/tcp.mtp"), own];
    for folder in ["lang/tests/pass", "lang/tests/run"] {
        let entries = std::fs::read_dir(root.join(folder)).expect("the folder is there");
        let files = entries.map(|entry| entry.expect("it can be read").path());
        paths.extend(files.filter(|path| path.extension().is_some_and(|e| e == "mtp")));
    }
    paths.sort();
    paths
}

/// A checked module.
pub(crate) fn module(path: &Path) -> Module {
    let compilation = hawser_driver::compile(path);
    compilation
        .module
        .unwrap_or_else(|| panic!("{} does not pass the checker", path.display()))
}

/// Compiles a module's C with the given flags; panics with the compiler's output.
pub(crate) fn compile(module: &Module, name: &str, flags: &[&str]) -> Compiled {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = folder.join(format!("{name}.c"));
    let object = folder.join(format!("{name}.so"));
    let emitted = emit(
        module,
        &Options { marks: Marks::Comments, loadable: false, ..Options::default() },
    );
    std::fs::write(&source, &emitted.c).expect("the folder can be written");
    let out = Command::new("cc")
        .args(["-std=c11", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"])
        .args(flags)
        .arg("-o")
        .args([&object, &source])
        .output()
        .expect("a C compiler is installed");
    assert!(
        out.status.success(),
        "{name}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    // SAFETY: the library was built just now from our own text; it has no constructors.
    let library = unsafe { libloading::Library::new(&object) }.expect("what was linked can be loaded");
    // SAFETY: the symbol has this type: runtime/program.h.
    let table = unsafe {
        let function = library.get::<Entry>(emitted.symbol.as_bytes());
        function.expect("the table's function is exported")()
    };
    // SAFETY: the table is static data of the library, which lives as long as `Compiled`.
    let abi::RawProgram { react, parse, build, coalesce, .. } = unsafe { &*table };
    Compiled {
        react: *react,
        parse: *parse,
        build: *build,
        coalesce: *coalesce,
        _library: library,
    }
}

impl Compiled {
    /// Runs an event's chain on a world, and returns its outcome and its records.
    pub(crate) fn react(&self, params: &[u64], world: &mut World, room: usize) -> (ChainOutcome, Vec<u8>) {
        self.react_wanting(params, world, room, u64::MAX)
    }

    /// Like `react`, with only some signals wanted.
    pub(crate) fn react_wanting(
        &self,
        params: &[u64],
        world: &mut World,
        room: usize,
        wanted: u64,
    ) -> (ChainOutcome, Vec<u8>) {
        let mut globals: Vec<*mut u8> = world.globals.iter_mut().map(|g| g.as_mut_ptr().cast()).collect();
        globals.push(std::ptr::null_mut());
        let memory = Memory {
            keyed: world
                .keyed
                .as_mut()
                .map_or(std::ptr::null_mut(), |(_, b)| b.as_mut_ptr().cast()),
            fresh: world
                .fresh
                .as_mut()
                .map_or(std::ptr::null_mut(), |b| b.as_mut_ptr().cast()),
            globals: globals.as_ptr(),
            scratch: world.scratch.as_mut_ptr().cast(),
            keyed_type: world.keyed.as_ref().map_or(0, |(kind, _)| kind + 1),
            pad: 0,
        };
        let mut out = vec![0xaa_aa_aa_aa_aa_aa_aa_aau64; room.div_ceil(8)];
        let start: *mut u8 = out.as_mut_ptr().cast();
        // SAFETY: `out` has `room` bytes.
        let end = unsafe { start.add(room) };
        let mut records = Records { at: start, end, wanted };
        let event = world.event.as_mut_ptr().cast();
        // SAFETY: every region is as large as the module says, aligned, and alive during the call.
        let outcome = unsafe { (self.react)(params.as_ptr(), event, &memory, &mut records) };
        let len = records.at as usize - start as usize;
        let bytes: &[u8] = bytemuck::cast_slice(&out);
        (
            abi::outcome(outcome).expect("a chain ends in one of four ways"),
            bytes[..len].to_vec(),
        )
    }
}
