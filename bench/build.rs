//! Compiles TCP as written by hand in C, and the measurement of the border's own cost twice; notes
//! the revision that reports name.

use std::process::Command;

/// Where the structures that the engine exchanges with programs are declared.
const RUNTIME: &str = "../lang/emit-c/runtime";

fn main() {
    // Reports tell what was measured: the revision that was built, not what lies there when it runs.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    let revision = git(&["describe", "--always", "--dirty", "--exclude=*"]);
    println!("cargo::rustc-env=HAWSER_REVISION={}", revision.as_deref().unwrap_or("unknown"));
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

/// One line of git's; nothing outside of a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
