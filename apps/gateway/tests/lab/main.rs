//! Gateways in labs: permitted and forbidden traffic.

mod bounds;
mod forbidden;
mod names;
mod passing;
mod testbed;
mod unauthenticated;

use std::process::ExitCode;

pub(crate) use hawser_testing::TestResult;
use hawser_testing::{Test, in_user_namespace, tests};

const TESTS: &[Test] = tests![
    passing::a_download_survives_the_loss_of_a_path,
    passing::ends_and_resets_are_relayed,
    passing::a_session_that_ended_is_opened_again,
    names::an_unanswered_aaaa_holds_up_no_session,
    names::late_addresses_open_a_session,
    names::a_name_that_does_not_exist_is_reported,
    unauthenticated::sessions_are_refused,
    unauthenticated::requests_are_served_only_after_the_session_is_accepted,
    unauthenticated::sessions_do_not_lock_out_the_holders_of_tokens,
    forbidden::inside_addresses_and_names_are_refused,
    forbidden::all_destinations_are_denied_by_default,
    forbidden::a_rebound_name_does_not_reach_inside,
    bounds::slow_and_oversized_requests_are_closed,
    bounds::a_client_with_a_million_streams_is_limited,
    bounds::a_client_that_was_killed_makes_room_for_its_next_session,
];

fn main() -> ExitCode {
    in_user_namespace("gateways in labs", TESTS)
}
