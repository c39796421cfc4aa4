//! Compiles the eBPF programs with clang, if the feature `ebpf` is on.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const SOURCE: &str = "bpf/hawser.bpf.c";

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-env-changed=CLANG");
    if env::var_os("CARGO_FEATURE_EBPF").is_none() {
        return ExitCode::SUCCESS;
    }
    match compile() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("cargo::error={why}");
            ExitCode::FAILURE
        }
    }
}

fn compile() -> Result<(), String> {
    let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let out = variable("OUT_DIR")?.join("hawser.bpf.o");
    // The headers of libbpf for eBPF programs, from the crate that holds them.
    let headers = variable("DEP_BPF_INCLUDE")?;
    let mut command = Command::new(&clang);
    command.args(["-g", "-O2", "-target", "bpf", "-mcpu=v3", "-Wall", "-Wextra"]);
    command.args(["-Wno-unused-parameter", "-Wno-missing-field-initializers"]);
    command.arg(format!("-D__TARGET_ARCH_{}", architecture()?));
    command.arg("-I").arg(headers);
    // Debian and its derivatives keep architecture-dependent headers in a folder of their own.
    for folder in multiarch() {
        command.arg("-idirafter").arg(folder);
    }
    let output = command
        .arg("-c")
        .arg(SOURCE)
        .arg("-o")
        .arg(&out)
        .output()
        .map_err(|error| {
            format!(
                "clang, which compiles the eBPF programs, does not start ({}: {error}): install it (Debian: \
             apt-get install clang libelf-dev zlib1g-dev pkg-config), or build without the feature `ebpf`",
                Path::new(&clang).display()
            )
        })?;
    if output.status.success() {
        return Ok(());
    }
    let printed = String::from_utf8_lossy(&output.stderr);
    for line in printed.lines() {
        println!("cargo::warning={line}");
    }
    Err(format!("clang did not compile {SOURCE}: see the lines above"))
}

fn variable(name: &str) -> Result<PathBuf, String> {
    env::var_os(name)
        .map(PathBuf::from)
        .ok_or_else(|| format!("{name} is not set: build with cargo"))
}

/// Returns the kernel's name of the architecture.
fn architecture() -> Result<&'static str, String> {
    match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => Ok("x86"),
        Ok("aarch64") => Ok("arm64"),
        Ok("riscv64") => Ok("riscv"),
        Ok("s390x") => Ok("s390"),
        Ok("powerpc64") => Ok("powerpc"),
        other => Err(format!(
            "the feature `ebpf` does not know the architecture {other:?}"
        )),
    }
}

fn multiarch() -> Vec<PathBuf> {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let folder = PathBuf::from(format!("/usr/include/{arch}-linux-gnu"));
    if folder.is_dir() { vec![folder] } else { Vec::new() }
}
