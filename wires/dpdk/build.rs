//! Compiles the wire's C code against DPDK's headers, and links DPDK: feature `dpdk`.

use std::process::ExitCode;

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=c");
    #[cfg(feature = "dpdk")]
    if let Err(why) = dpdk::link() {
        println!("cargo::error={why}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

#[cfg(feature = "dpdk")]
mod dpdk {
    use std::process::Command;

    /// The libraries that `c/port.c` calls; DPDK itself loads drivers.
    const LIBRARIES: [&str; 4] = ["rte_ethdev", "rte_mbuf", "rte_mempool", "rte_eal"];
    const OLDEST: &str = "22.11";

    pub(crate) fn link() -> Result<(), String> {
        println!("cargo::rerun-if-env-changed=PKG_CONFIG_PATH");
        pkg_config(&format!("--atleast-version={OLDEST}"))?;
        let mut build = cc::Build::new();
        build.file("c/port.c").std("gnu11").opt_level(2);
        for flag in pkg_config("--cflags")?.split_whitespace() {
            build.flag(flag);
        }
        build
            .try_compile("hawser_port")
            .map_err(|error| format!("c/port.c does not compile with this DPDK: {error}"))?;
        for folder in pkg_config("--libs-only-L")?.split_whitespace() {
            println!(
                "cargo::rustc-link-search=native={}",
                folder.trim_start_matches("-L")
            );
        }
        for library in LIBRARIES {
            println!("cargo::rustc-link-lib=dylib={library}");
        }
        Ok(())
    }

    fn pkg_config(what: &str) -> Result<String, String> {
        let output = Command::new("pkg-config").args([what, "libdpdk"]).output();
        match output {
            Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            _ => Err(format!(
                "DPDK of version {OLDEST} or newer is missing (pkg-config {what} libdpdk): install it \
                 (Debian: apt-get install libdpdk-dev pkg-config), or build without the feature `dpdk`"
            )),
        }
    }
}
