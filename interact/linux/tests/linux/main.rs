//! Linux's own TCP between two namespaces, watched and steered. Real root is needed: eBPF cannot be loaded in
//! a user namespace. If it cannot be loaded, the tests print so and pass.

mod bounds;
mod events;
mod filters;
mod holders;
mod interfaces;
mod lifetime;
mod network;
mod state;
mod steering;

use std::process::ExitCode;

use hawser_linux::{Kernel, KernelError, Options};
pub(crate) use hawser_testing::TestResult;
use hawser_testing::{Test, is_listing, run, skip, tests};

const TESTS: &[Test] = tests![
    events::each_event_is_seen,
    events::under_our_congestion_control_too,
    events::bytes_add_up,
    events::a_reader_that_sleeps_loses_and_is_notified,
    events::wakes_are_rare,
    events::one_namespace_or_all,
    events::the_end_of_a_connection_has_its_reason,
    filters::agree_with_a_naive_model,
    filters::a_flow_and_a_port_select,
    steering::a_lease_ends_and_the_controller_goes_on,
    steering::each_variable_acts,
    steering::staged_leases_act_at_once,
    steering::without_a_lease_is_refused,
    steering::the_process_dies,
    steering::after_a_lease_its_own_control_is_back,
    steering::release_and_drop_put_controls_back,
    steering::a_killed_process_leaves_no_control,
    steering::a_lost_control_is_not_replaced,
    steering::its_own_controller_is_no_worse,
    bounds::after_a_lease_at_a_bound_a_flow_has_its_rate_back,
    bounds::a_pace_below_the_lowest_is_refused,
    state::probe_agrees_with_ss,
    state::records_have_what_is_asked_for,
    state::live_sockets_are_reached,
    state::flows_of_every_namespace_are_listed,
    holders::leases_of_a_killed_process_are_over_within_a_second,
    holders::a_successor_gives_a_flow_its_own_control_back,
    holders::a_flow_has_one_holder_at_a_time,
    holders::many_flows_are_adopted_by_one_visit,
    holders::a_burst_of_modifications_shares_visits,
    interfaces::flows_bound_to_an_interface_are_flows,
    interfaces::a_flow_that_is_bound_later_is_found_again,
    lifetime::privilege_is_for_loading_alone,
    lifetime::what_is_missing_is_named,
    lifetime::coming_and_going_leaks_nothing,
    lifetime::subscribing_200_times_leaks_nothing,
    lifetime::a_cgroup_is_adopted,
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, name] = &arguments[..]
        && ["hold", "hold-long", "adopt", "adopt-long"].contains(&first.as_str())
    {
        return steering::hold(first, name);
    }
    if !is_listing() {
        match Kernel::load(&Options { congestion_control: Some("hw_try".to_owned()), ..Options::default() }) {
            Err(KernelError::Missing(missing)) => {
                skip("Linux's own TCP by eBPF", missing);
                return ExitCode::SUCCESS;
            }
            Err(error) => {
                println!("Linux's own TCP by eBPF: {error}");
                return ExitCode::FAILURE;
            }
            Ok(_) => {}
        }
    }
    run(TESTS.iter().map(|&(name, test)| (name, test)))
}
