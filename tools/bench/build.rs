//! Compiles TCP as written by hand in C, and the measurement of the border's own cost twice; notes
//! the revision that reports name.

mod revision;

/// Where the structures that the engine exchanges with programs are declared.
const RUNTIME: &str = "../../lang/emit-c/runtime";

fn main() {
    revision::note();
    println!("cargo::rerun-if-changed=handwritten");
    println!("cargo::rerun-if-changed={RUNTIME}");
    compile("handwritten.c", "handwritten", None);
    compile("abi_cost.c", "abi_cost_records", Some("0"));
    compile("abi_cost.c", "abi_cost_direct", Some("1"));
}

/// As generated programs are compiled: -O2, whatever the Rust around it is compiled with.
fn compile(file: &str, library: &str, direct: Option<&str>) {
    let mut build = cc::Build::new();
    build
        .file(format!("handwritten/{file}"))
        .include(RUNTIME)
        .std("c11")
        .opt_level(2)
        .debug(false)
        .warnings(true);
    build.flag_if_supported("-Wno-unused-function");
    if direct.is_some() {
        build.define("DIRECT", direct);
    }
    build.compile(library);
}
