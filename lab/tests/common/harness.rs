//! A harness for tests in labs: not the usual one, since a process can enter a user namespace only while
//! it has one thread. What the system does not permit is skipped, with the reason printed.

use std::process::ExitCode;
use std::time::Instant;

use hawser_lab::enter_user_namespace;

/// How a test ends.
pub(crate) type TestResult<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Name and body.
pub(crate) type Test = (&'static str, fn() -> TestResult);

/// Runs those of `tests` that the command line names, or all; `what` they are is said when they cannot be.
pub(crate) fn run(what: &str, tests: &[Test]) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|a| a == "--list") {
        tests.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    if let Err(reason) = enter_user_namespace() {
        println!("skipped: {what}: {reason}");
        return ExitCode::SUCCESS;
    }
    let filters: Vec<&String> = arguments.iter().filter(|a| !a.starts_with('-')).collect();
    let (mut passed, mut failed) = (0, 0);
    for (name, test) in tests {
        if !filters.is_empty() && !filters.iter().any(|f| name.contains(f.as_str())) {
            continue;
        }
        let start = Instant::now();
        let result = std::panic::catch_unwind(test).unwrap_or_else(|_| Err("it panicked".into()));
        let took = start.elapsed().as_millis();
        match result {
            Ok(()) => {
                println!("test {name} ... ok ({took} ms)");
                passed += 1;
            }
            Err(error) => {
                println!("test {name} ... FAILED: {error} ({took} ms)");
                failed += 1;
            }
        }
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {verdict}. {passed} passed; {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
