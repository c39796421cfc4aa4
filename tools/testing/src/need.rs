//! The needs of tests that a machine may lack, and the report of a test that is skipped without one.
//!
//! `scripts/phases` reads the table of needs below: a line for each, with its name and its kind.

use std::env;
use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::process::Command;

use crate::is_listing;

/// Defines the needs. Each has a name, a kind, and a shell command that succeeds where the need is met. The
/// tests of a need without a command find out by themselves.
///
/// Root may have a `permission` that an ordinary user lacks. A need is `installed` for all users or for none.
macro_rules! needs {
    ($($(#[$doc:meta])* $need:ident $name:literal $kind:ident $($probe:literal)?,)*) => {
        /// Something that a test needs and that a machine may lack.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Need {
            $($(#[$doc])* $need,)*
        }

        impl Need {
            /// Returns the name in reports of skipped tests and in `HAWSER_REQUIRE`.
            const fn name(self) -> &'static str {
                match self { $(Need::$need => $name,)* }
            }

            const fn probe(self) -> &'static str {
                match self { $(Need::$need => concat!($($probe)?),)* }
            }
        }
    };
}

needs! {
    /// A user namespace in which the process is root, with network namespaces.
    Netns "netns" permission "unshare --user --map-root-user --net true",
    /// TUN and TAP devices.
    Tun "tun" permission ": <>/dev/net/tun",
    /// Programs in the kernel: Linux's own TCP, and AF_XDP.
    Ebpf "ebpf" permission,
    /// The permission to become another user, and `setpriv`, which does so.
    Root "root" permission "setpriv --reuid=65534 --regid=65534 --clear-groups true",
    /// A `cgroup2` file system.
    Cgroup2 "cgroup2" installed,
    /// MPTCP in the kernel.
    Mptcp "mptcp" installed,
    /// A build with the feature `dpdk`.
    Dpdk "dpdk" installed,
    /// The command `hawser`, built beside a program of another workspace.
    Hawser "hawser" installed,
    /// axe-core, which checks a page's accessibility.
    Axe "axe" installed,
    CargoDeny "cargo-deny" installed,
    /// The program that runs the tests.
    CargoNextest "cargo-nextest" installed,
    Chromium "chromium" installed,
    Curl "curl" installed "command -v curl",
    /// A host of the Internet.
    Internet "internet" installed,
    /// The command of iproute2.
    Ip "ip" installed "command -v ip",
    /// A run that is longer than those of `make test`.
    Long "long" installed,
    Mypy "mypy" installed "command -v mypy",
    Nginx "nginx" installed,
    Node "node" installed,
    Nvim "nvim" installed,
    Openssl "openssl" installed "command -v openssl",
    /// Packages of the system that `scripts/phases setup` could not install.
    Packages "packages" installed,
    /// A client of SOCKS for Python.
    Pysocks "pysocks" installed "PYTHONPATH=/usr/lib/python3/dist-packages python3 -c 'import socks'",
    Python "python" installed "python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))'",
    /// Sweeps on clusters.
    Ray "ray" installed,
    /// The command of iproute2 that lists sockets.
    Ss "ss" installed "command -v ss",
    /// DPDK's program that forwards packets.
    Testpmd "testpmd" installed,
    Tshark "tshark" installed "command -v tshark",
    /// The library of SCTP.
    Usrsctp "usrsctp" installed "PATH=$PATH:/usr/sbin:/sbin; ldconfig -p | grep -q libusrsctp.so.2",
    Valgrind "valgrind" installed "command -v valgrind",
}

/// Prints that `what` is not tested on this machine, which lacks `need`, and notes it for the table of phases.
///
/// # Panics
/// The file that `HAWSER_SKIPPED` names cannot be written.
pub fn skip(need: Need, what: impl Display, why: impl Display) {
    let reason = format!("{what}: {why}");
    println!("skipped: [{}] {reason}", need.name());
    if let Some(file) = env::var_os(SKIPPED) {
        let [program, test] =
            ["NEXTEST_BINARY_ID", "NEXTEST_TEST_NAME"].map(|name| env::var(name).unwrap_or_default());
        let line = line_of(need, &program, &test, &reason);
        let written = File::options()
            .append(true)
            .create(true)
            .open(&file)
            .and_then(|mut file| file.write_all(line.as_bytes()));
        assert!(written.is_ok(), "{}: {written:?}", file.display());
    }
}

/// The variable that names the file of skipped tests. `scripts/phases` sets it, and reads the file.
const SKIPPED: &str = "HAWSER_SKIPPED";

/// Returns a line of that file. It holds the need, nextest's names of the program and of the test, and the reason.
fn line_of(need: Need, program: &str, test: &str, reason: &str) -> String {
    let reason = reason.replace('\n', " ");
    format!("{}|{program}|{test}|{reason}\n", need.name())
}

/// Returns whether this machine has all that `what` needs. Otherwise reports the first missing need, like
/// [`skip`]. A program that is asked only for the names of its tests lists them all.
#[must_use]
pub fn has(what: impl Display, needs: &[Need]) -> bool {
    if is_listing() {
        return true;
    }
    for need in needs {
        if let Some(why) = failure(need.probe()) {
            skip(*need, what, why);
            return false;
        }
    }
    true
}

/// Returns the reason why a shell command fails, if it does.
fn failure(command: &str) -> Option<String> {
    match Command::new("sh").args(["-c", command]).output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            let message = String::from_utf8_lossy(&output.stderr);
            let why = format!("`{command}` fails: {}", message.trim());
            Some(why.trim_end_matches(": ").to_owned())
        }
        Err(error) => Some(format!("sh: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_test_is_one_line() {
        let line = line_of(Need::Tun, "hawser-cli::tests", "a::b over Tun", "a: no\ndevice");
        assert_eq!(line, "tun|hawser-cli::tests|a::b over Tun|a: no device\n");
    }

    #[test]
    fn a_failing_probe_is_reported_with_its_message() {
        assert_eq!(failure("true"), None);
        assert_eq!(failure(Need::Ebpf.probe()), None, "its tests find out");
        assert_eq!(failure("false").as_deref(), Some("`false` fails"));
        let why = failure("echo no device >&2; false");
        assert_eq!(
            why.as_deref(),
            Some("`echo no device >&2; false` fails: no device")
        );
    }
}
