//! Compiles the hand-written TCP in C and both variants of the ABI benchmark, and with the feature `dpdk` a
//! bare loop over its ports. Notes the revision that reports name.

mod revision;

/// The folder that declares the structures that the engine exchanges with programs.
const RUNTIME: &str = "../lang/emit-c/runtime";

fn main() {
    revision::note();
    println!("cargo::rerun-if-changed=handwritten");
    println!("cargo::rerun-if-changed={RUNTIME}");
    compile("handwritten.c", "handwritten", None);
    compile("abi_cost.c", "abi_cost_records", Some("0"));
    compile("abi_cost.c", "abi_cost_direct", Some("1"));
    #[cfg(feature = "dpdk")]
    compile_bare();
}

/// Compiles with the flags of Hawser's DPDK wire (`wires/dpdk`), whose build script reports a missing DPDK.
#[cfg(feature = "dpdk")]
fn compile_bare() {
    println!("cargo::rerun-if-changed=peers/dpdk");
    println!("cargo::rerun-if-env-changed=PKG_CONFIG_PATH");
    let output = std::process::Command::new("pkg-config")
        .args(["--cflags", "libdpdk"])
        .output();
    let flags = output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).into_owned(),
    );
    let mut build = cc::Build::new();
    build.file("peers/dpdk/bare.c").std("gnu11").opt_level(2);
    for flag in flags.split_whitespace() {
        build.flag(flag);
    }
    build.compile("bare");
    for library in ["rte_ethdev", "rte_mbuf", "rte_mempool", "rte_eal"] {
        println!("cargo::rustc-link-lib=dylib={library}");
    }
}

/// Compiles a file as generated programs are compiled: with -O2, independent of the profile of the Rust code.
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
