//! The tests against Linux that run over every device.

use hawser_testing::tests;

use crate::testbed::{TestResult, Testbed};
use crate::{asynchronous, polled, shards};

/// The name and the body of a test.
pub(crate) type Test = (&'static str, fn(&Testbed) -> TestResult);

pub(crate) const AGAINST_LINUX: &[Test] = tests![
    polled::linux_echoes_our_data,
    polled::our_stack_echoes_data_of_linux,
    polled::a_closed_port_refuses,
    polled::an_address_in_use_is_refused,
    polled::a_reset_is_an_error,
    polled::our_reset_is_an_error_for_linux,
    polled::a_slow_linux_reader_stops_our_sender,
    polled::linux_half_closes_and_still_receives,
    polled::a_close_right_after_reading_is_orderly,
    polled::closing_leaves_no_contexts,
    polled::a_full_backlog_accepts_no_connections,
    asynchronous::a_half_closed_stream_still_receives,
    asynchronous::shared_memory_arrives_and_comes_back,
    asynchronous::fifty_connections_transfer_at_once,
    asynchronous::a_slow_reader_stops_the_sender,
    asynchronous::connecting_without_an_answer_times_out,
];

/// The tests of shards, each on a queue of the device.
pub(crate) const OF_SHARDS: &[Test] = tests![
    shards::linux_connects_to_all_shards,
    shards::shards_connect_to_linux,
    shards::queues_of_ended_shards_are_read,
];
