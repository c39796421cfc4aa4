//! What tests of every room use: a harness for those that need a network namespace of their own, or a
//! process with one thread, [`helper`] for those that start a process, [`expect_file`] for those that
//! detect a change, [`internet_checksum`], what is logged (feature `log`), and a wire of memory (feature
//! `lane`).
//!
//! The standard harness runs each test in a thread, and a process can enter a user namespace only while
//! it has one thread. Here tests run one after the other on the main thread; output, filters and
//! `--list` are those of the standard harness, by libtest-mimic.
//!
//! A test that cannot run on this machine calls [`skip`] and passes: the table of phases names it.
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
#[cfg(feature = "lane")]
pub mod lane;
#[cfg(feature = "log")]
mod log;
mod swallow;

use std::path::Path;
use std::process::{Command, ExitCode};

#[cfg(feature = "namespaces")]
use hawser_host::netns::enter_user_namespace;
use libtest_mimic::{Arguments, Failed, Trial};

pub use checksum::internet_checksum;
pub use expect::expect_file;
#[cfg(feature = "log")]
pub use log::Log;
pub use swallow::swallow_at_localhost;

/// How a test ends.
pub type TestResult<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Name and body of a test.
pub type Test = (&'static str, fn() -> TestResult);

/// Tests by their paths, each with its path as its name: `tests![links::ipv6_is_carried]`.
#[macro_export]
macro_rules! tests {
    ($($test:path),* $(,)?) => { &[$((stringify!($test), $test)),*] };
}

/// Enters a user namespace, in which an ordinary user may make network namespaces, and runs the tests
/// that the command line names, or all; where that is not permitted, `what` they are is skipped.
#[cfg(feature = "namespaces")]
pub fn in_user_namespace(what: &str, tests: &[Test]) -> ExitCode {
    if !is_listing()
        && let Err(reason) = enter_user_namespace()
    {
        skip(what, reason);
        return ExitCode::SUCCESS;
    }
    run(tests.iter().map(|(name, test)| (*name, *test)))
}

/// Runs those of the tests that the command line names, or all.
pub fn run<N: Into<String>>(
    tests: impl IntoIterator<Item = (N, impl FnOnce() -> TestResult + Send + 'static)>,
) -> ExitCode {
    // What `is_long` asks for is not an option of the harness.
    let mut arguments = Arguments::from_iter(std::env::args().filter(|argument| argument != LONG));
    arguments.test_threads = Some(1);
    let trial = |(name, test): (N, _)| Trial::test(name, || judge(test));
    libtest_mimic::run(&arguments, tests.into_iter().map(trial).collect()).exit_code()
}

fn judge(test: impl FnOnce() -> TestResult) -> Result<(), Failed> {
    test().map_err(|error| Failed::from(error.to_string()))
}

/// A program that a test starts beside itself: an example of the test's crate, as `cargo test` builds them
/// before the tests.
///
/// # Panics
/// When it was not built: `cargo test --test NAME` and `--lib` build what is named alone.
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

/// Says that something is not tested on this machine, and why, on a line that the table of phases holds.
pub fn skip(what: impl std::fmt::Display, why: impl std::fmt::Display) {
    println!("skipped: {what}: {why}");
}

/// Asks for the tests of a long mode (`cargo xtask long`) in place of the usual ones.
const LONG: &str = "--long";

/// Whether the command line asks for the tests of a long mode.
#[must_use]
pub fn is_long() -> bool {
    std::env::args().any(|argument| argument == LONG)
}

/// Whether the command line asks for the tests' names alone.
#[must_use]
pub fn is_listing() -> bool {
    std::env::args().any(|argument| argument == "--list")
}
