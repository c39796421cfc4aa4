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
use hawser_testing::{Need, Test, is_listing, run, skip, tests};

const TESTS: &[Test] = tests![
    events::each_event_is_seen,
    events::events_are_seen_under_our_congestion_control,
    events::bytes_add_up,
    events::a_sleeping_reader_loses_events_and_is_notified,
    events::wakes_are_rare,
    events::events_come_from_one_namespace_or_all,
    events::the_end_of_a_connection_has_its_reason,
    filters::filters_agree_with_a_naive_model,
    filters::filters_select_a_flow_or_a_port,
    steering::a_lease_ends_and_the_controller_goes_on,
    steering::setting_each_variable_takes_effect,
    steering::staged_leases_act_at_once,
    steering::a_modification_without_a_lease_is_refused,
    steering::a_lease_ends_when_its_process_dies,
    steering::a_flow_returns_to_its_own_control_after_a_lease,
    steering::release_and_drop_put_controls_back,
    steering::a_killed_process_leaves_no_control,
    steering::an_unloaded_congestion_control_is_not_replaced,
    steering::our_kernel_controller_keeps_pace_with_newreno,
    bounds::after_a_lease_at_a_bound_a_flow_has_its_rate_back,
    bounds::a_pace_below_the_lowest_is_refused,
    state::probe_agrees_with_ss,
    state::records_have_what_is_asked_for,
    state::live_sockets_are_reached,
    state::flows_of_every_namespace_are_listed,
    holders::leases_of_a_killed_process_end_within_a_second,
    holders::a_successor_gives_a_flow_its_own_control_back,
    holders::a_flow_has_one_holder_at_a_time,
    holders::many_flows_are_adopted_by_one_visit,
    holders::a_burst_of_modifications_shares_visits,
    interfaces::flows_bound_to_an_interface_are_flows,
    interfaces::a_flow_that_is_bound_later_is_found_again,
    lifetime::only_loading_needs_privilege,
    lifetime::missing_capabilities_are_named,
    lifetime::loading_and_unloading_leaks_no_memory,
    lifetime::subscribing_200_times_leaks_no_memory,
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
                skip(Need::Ebpf, "Linux's own TCP", missing);
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
