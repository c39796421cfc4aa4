//! Sessions over emulated networks: what is lost, how long it takes, what comes of faults.
//!
//! Not the usual harness: a process can enter a user namespace only while it has one thread. What
//! the system does not permit is skipped, with the reason printed.

mod aggregate;
mod faults;
mod network;

use std::process::ExitCode;
use std::time::Instant;

use hawser::lab::enter_user_namespace;
use hawser_experiments::Error;

type TestResult<T = ()> = Result<T, Error>;

/// Name and body.
type Test = (&'static str, fn() -> TestResult);

const TESTS: &[Test] = &[
    ("aggregate::two_paths_add_up", aggregate::two_paths_add_up),
    ("aggregate::simult_flows_of_linux", aggregate::simult_flows_of_linux),
    ("faults::killing_a_path_loses_no_byte", faults::killing_a_path_loses_no_byte),
    ("faults::a_link_seen_to_go_is_left_at_once", faults::a_link_seen_to_go_is_left_at_once),
    ("faults::a_silent_link_is_left_soon", faults::a_silent_link_is_left_soon),
    ("faults::every_path_goes_and_comes_back", faults::every_path_goes_and_comes_back),
    ("faults::a_translator_is_rebound", faults::a_translator_is_rebound),
    ("faults::a_path_that_comes_back_is_used_again", faults::a_path_that_comes_back_is_used_again),
    ("faults::a_backup_carries_when_nothing_else_does", faults::a_backup_carries_when_nothing_else_does),
];

/// What `cargo xtask long sessions` runs: the goals themselves, on a machine that does nothing else.
const LONG: &[Test] = &[
    ("aggregate::paths_add_up_long", aggregate::paths_add_up_long),
    ("aggregate::short_transfers_take_the_best_path", aggregate::short_transfers_take_the_best_path),
    ("aggregate::simult_flows_of_linux_long", aggregate::simult_flows_of_linux_long),
    ("faults::killing_a_path_loses_no_byte_long", faults::killing_a_path_loses_no_byte_long),
    ("faults::every_path_goes_for_two_minutes", faults::every_path_goes_for_two_minutes),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|a| a == "--list") {
        TESTS.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    if let Err(reason) = enter_user_namespace() {
        println!("skipped: sessions in labs: {reason}");
        return ExitCode::SUCCESS;
    }
    let filters: Vec<&String> = arguments.iter().filter(|a| !a.starts_with('-')).collect();
    let (mut passed, mut failed) = (0, 0);
    let tests = if arguments.iter().any(|a| a == "--long") { LONG } else { TESTS };
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
