//! Linux's own TCP between two namespaces, watched and steered. Real root is needed: eBPF cannot be
//! loaded in a user namespace. Where it cannot be loaded the tests say so and pass.

mod events;
mod filters;
mod lifetime;
mod network;
mod state;
mod steering;

use std::process::ExitCode;
use std::time::Instant;

use hawser_kernel::{Kernel, KernelError, Options};

/// How a test ends.
pub(crate) type TestResult<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

type Test = (&'static str, fn() -> TestResult);

const TESTS: &[Test] = &[
    ("events::each_event_is_seen", events::each_event_is_seen),
    ("events::under_our_congestion_control_too", events::under_our_congestion_control_too),
    ("events::bytes_add_up", events::bytes_add_up),
    ("events::a_reader_that_sleeps_loses_and_is_told", events::a_reader_that_sleeps_loses_and_is_told),
    ("events::wakes_are_rare", events::wakes_are_rare),
    ("events::one_namespace_or_all", events::one_namespace_or_all),
    ("filters::agree_with_a_naive_model", filters::agree_with_a_naive_model),
    ("filters::a_flow_and_a_port_select", filters::a_flow_and_a_port_select),
    ("steering::a_lease_ends_and_the_law_goes_on", steering::a_lease_ends_and_the_law_goes_on),
    ("steering::each_variable_acts", steering::each_variable_acts),
    ("steering::what_is_staged_acts_at_once", steering::what_is_staged_acts_at_once),
    ("steering::without_a_lease_is_refused", steering::without_a_lease_is_refused),
    ("steering::the_process_dies", steering::the_process_dies),
    ("steering::after_a_lease_its_own_control_is_back", steering::after_a_lease_its_own_control_is_back),
    ("steering::release_and_drop_put_controls_back", steering::release_and_drop_put_controls_back),
    ("steering::a_killed_process_leaves_no_control", steering::a_killed_process_leaves_no_control),
    ("steering::a_lost_control_is_not_replaced", steering::a_lost_control_is_not_replaced),
    ("steering::its_own_law_is_no_worse", steering::its_own_law_is_no_worse),
    ("state::probe_agrees_with_ss", state::probe_agrees_with_ss),
    ("state::records_have_what_is_asked_for", state::records_have_what_is_asked_for),
    ("state::live_sockets_are_reached", state::live_sockets_are_reached),
    ("state::flows_of_every_namespace_are_listed", state::flows_of_every_namespace_are_listed),
    ("lifetime::privilege_is_for_loading_alone", lifetime::privilege_is_for_loading_alone),
    ("lifetime::what_is_missing_is_named", lifetime::what_is_missing_is_named),
    ("lifetime::coming_and_going_leaks_nothing", lifetime::coming_and_going_leaks_nothing),
    ("lifetime::subscribing_200_times_leaks_nothing", lifetime::subscribing_200_times_leaks_nothing),
    ("lifetime::a_cgroup_is_adopted", lifetime::a_cgroup_is_adopted),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, name] = &arguments[..]
        && (first == "hold" || first == "adopt")
    {
        return steering::hold(name, first == "adopt");
    }
    if arguments.iter().any(|a| a == "--list") {
        TESTS.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    match Kernel::load(&Options { congestion_control: Some("hw_try".to_owned()), ..Options::default() }) {
        Err(KernelError::Missing(missing)) => {
            println!("skipped: Linux's own TCP by eBPF: {missing}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            println!("Linux's own TCP by eBPF: {error}");
            return ExitCode::FAILURE;
        }
        Ok(_) => {}
    }
    run(&arguments)
}

/// Runs those tests that the command line names, or all.
fn run(arguments: &[String]) -> ExitCode {
    let filters: Vec<&String> = arguments.iter().filter(|a| !a.starts_with('-')).collect();
    let (mut passed, mut failed) = (0, 0);
    for (name, test) in TESTS {
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
