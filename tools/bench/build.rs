//! Compiles TCP as written by hand in C, the measurement of the border's own cost twice, and with the feature `dpdk` a
//! bare loop over its ports; notes the revision that reports name.

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
    #[cfg(feature = "dpdk")]
    compile_bare();
}

/// As what Hawser's wire needs of DPDK is compiled (`targets/dpdk`), whose build says what is missing where DPDK is.
#[cfg(feature = "dpdk")]
fn compile_bare() {
    println!("cargo::rerun-if-changed=dpdk");
    println!("cargo::rerun-if-env-changed=PKG_CONFIG_PATH");
    let output = std::process::Command::new("pkg-config")
        .args(["--cflags", "libdpdk"])
        .output();
    let flags = output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).into_owned(),
    );
    let mut build = cc::Build::new();
    build.file("dpdk/bare.c").std("gnu11").opt_level(2);
    for flag in flags.split_whitespace() {
        build.flag(flag);
    }
    build.compile("bare");
    for library in ["rte_ethdev", "rte_mbuf", "rte_mempool", "rte_eal"] {
        println!("cargo::rustc-link-lib=dylib={library}");
    }
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
