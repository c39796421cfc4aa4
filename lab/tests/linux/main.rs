//! Labs in the kernel: links, translators, names, cleaning up. All of it also works for an ordinary user.

mod counters;
mod links;
mod names;
mod paths;
mod probe;
mod tasks;
mod timeline;
mod translation;

use std::process::ExitCode;

use hawser_lab::{Lab, Spec};

pub(crate) use hawser_testing::TestResult;
use hawser_testing::{Test, in_user_namespace, tests};

const TESTS: &[Test] = tests![
    links::the_kernel_shapes_to_the_rate,
    links::a_cell_delays_each_direction,
    links::a_cell_loses_the_configured_share,
    links::packets_above_the_path_mtu_are_lost,
    links::the_same_seed_loses_the_same_packets,
    links::a_cell_keeps_its_rate,
    links::a_full_queue_drops_packets,
    links::a_trace_is_followed,
    links::reordered_frames_are_overtaken,
    links::ipv6_is_carried,
    links::routers_forward,
    links::jumbo_frames_pass,
    links::sockets_leave_by_their_interface,
    links::ipv6_is_filtered_and_not_translated,
    paths::interfaces_keep_to_their_links,
    counters::every_kind_of_link_counts,
    counters::queues_are_seen_to_fill,
    counters::statistics_show_throughput_over_time,
    tasks::runtimes_live_in_hosts,
    tasks::sockets_of_two_hosts_share_a_runtime,
    tasks::threads_outlive_the_lab,
    timeline::a_link_can_begin_without_its_carrier,
    timeline::a_silent_link_keeps_its_carrier,
    timeline::a_link_that_is_down_loses_its_carrier,
    timeline::protocols_are_blocked,
    timeline::rates_can_change,
    timeline::a_file_is_played,
    timeline::a_kernel_link_refuses_silence_and_down,
    translation::streams_cross_a_translator,
    translation::rebinding_takes_other_ports,
    translation::echoes_cross_a_translator,
    names::hosts_resolve_each_others_names,
    names::scripted_answers_are_given,
    names::the_working_directory_is_kept,
];

fn main() -> ExitCode {
    in_user_namespace("labs", TESTS)
}

/// Builds two hosts `a` and `b`, with a link `link` that has these further lines.
pub(crate) fn pair(lines: &str) -> TestResult<Lab> {
    let text = format!(
        "seed = 7\nhost = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n\
         [[link]]\nname = \"link\"\nbetween = [\"a\", \"b\"]\n{lines}\n"
    );
    Ok(Lab::up(&Spec::parse(&text)?)?)
}
