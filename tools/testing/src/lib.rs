//! Helpers for the tests of every room:
//!
//! * a harness for tests that need a network namespace of their own, or a process with one thread
//! * [`helper`] for tests that start a process
//! * [`expect_file`] for tests that detect a change
//! * [`internet_checksum`]
//! * a recorder of logged events (feature `log`) and a wire in memory (feature `lane`)
//!
//! The standard harness runs each test in a thread, and a process can enter a user namespace only while it
//! has one thread. Here tests run one after the other on the main thread. Output, filters and `--list` are
//! those of the standard harness, by libtest-mimic.
//!
//! A test asks [`has`] for what a machine may lack. Without it the test passes, and the table of phases lists
//! it with the missing [`Need`]. A program that is asked for the names of its tests (`--list`, as by nextest)
//! prints these alone.
//!
//! ```no_run
//! use hawser_testing::{TestResult, in_user_namespace, tests};
//!
//! fn packets_arrive() -> TestResult {
//!     Ok(())
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     in_user_namespace("packets between namespaces", tests![packets_arrive])
//! }
//! ```

#![forbid(unsafe_code)]

mod checksum;
mod expect;
#[cfg(feature = "log")]
mod log;
#[cfg(feature = "lane")]
pub mod memory_wire;
mod need;
mod unresponsive;

use std::path::Path;
use std::process::{Command, ExitCode};

#[cfg(feature = "namespaces")]
use hawser_host::netns::enter_user_namespace;
use libtest_mimic::{Arguments, Failed, Trial};

pub use checksum::internet_checksum;
pub use expect::expect_file;
#[cfg(feature = "log")]
pub use log::Log;
pub use need::{Need, has, skip};
pub use unresponsive::swallow_at_localhost;

/// The result of a test.
pub type TestResult<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The name and the body of a test.
pub type Test = (&'static str, fn() -> TestResult);

/// Lists tests by their paths, each with its path as its name: `tests![links::ipv6_is_carried]`.
#[macro_export]
macro_rules! tests {
    ($($test:path),* $(,)?) => { &[$((stringify!($test), $test)),*] };
}

/// Enters a user namespace like [`enter_namespace`], and runs the tests that the command line names, or all.
#[cfg(feature = "namespaces")]
pub fn in_user_namespace(what: &str, tests: &[Test]) -> ExitCode {
    match enter_namespace(what) {
        true => run(tests.iter().copied()),
        false => ExitCode::SUCCESS,
    }
}

/// Enters a user namespace, in which an ordinary user may make network namespaces, unless the command line
/// asks only for names. If the system does not permit this, reports that `what` is skipped and returns false.
#[cfg(feature = "namespaces")]
#[must_use]
pub fn enter_namespace(what: &str) -> bool {
    if is_listing() {
        return true;
    }
    let entered = enter_user_namespace();
    if let Err(reason) = &entered {
        skip(Need::Netns, what, reason);
    }
    entered.is_ok()
}

/// Runs the tests that the command line names, or all.
pub fn run<N: Into<String>>(
    tests: impl IntoIterator<Item = (N, impl FnOnce() -> TestResult + Send + 'static)>,
) -> ExitCode {
    // The option that `is_long` looks for is not an option of the harness.
    let mut arguments = Arguments::from_iter(std::env::args().filter(|argument| argument != LONG));
    arguments.test_threads = Some(1);
    let trial = |(name, test): (N, _)| Trial::test(name, || judge(test));
    libtest_mimic::run(&arguments, tests.into_iter().map(trial).collect()).exit_code()
}

fn judge(test: impl FnOnce() -> TestResult) -> Result<(), Failed> {
    test().map_err(|error| Failed::from(error.to_string()))
}

/// Returns a command that starts another program of a test: an example of the test's crate, which `cargo
/// test` builds before the tests.
///
/// # Panics
/// The example was not built: `cargo test --test NAME` and `--lib` build only the named targets.
#[must_use]
pub fn helper(name: &str) -> Command {
    let own = std::env::current_exe().expect("this program has a path");
    let built = own
        .parent()
        .and_then(Path::parent)
        .expect("it lies in target/debug/deps");
    let path = built.join("examples").join(name);
    assert!(
        path.exists(),
        "{} is absent: cargo build --examples",
        path.display()
    );
    Command::new(path)
}

/// The option that selects the tests of a long mode (`cargo xtask long`) in place of the usual ones.
const LONG: &str = "--long";

/// Returns whether the command line asks for the tests of a long mode.
#[must_use]
pub fn is_long() -> bool {
    std::env::args().any(|argument| argument == LONG)
}

/// Returns whether the command line asks only for the names of the tests.
#[must_use]
pub fn is_listing() -> bool {
    std::env::args().any(|argument| argument == "--list")
}
