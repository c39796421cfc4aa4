//! The tests against Linux that run over every device.

use hawser_testing::tests;

use crate::stage::{Stage, TestResult};
use crate::{asynchronous, polled, shards};

/// The name and the body of a test.
pub(crate) type Test = (&'static str, fn(&Stage) -> TestResult);

pub(crate) const AGAINST_LINUX: &[Test] = tests![
    polled::linux_echoes_what_we_send,
    polled::we_echo_what_linux_sends,
    polled::a_closed_port_refuses,
    polled::an_address_in_use_is_refused,
    polled::a_reset_is_an_error,
    polled::our_reset_is_an_error_for_linux,
    polled::a_slow_linux_stops_us,
    polled::linux_half_closes_and_still_receives,
    polled::a_close_right_after_reading_is_orderly,
    polled::nothing_is_left_after_closing,
    polled::a_full_backlog_takes_no_more,
    asynchronous::a_half_closed_stream_still_receives,
    asynchronous::shared_memory_arrives_and_comes_back,
    asynchronous::fifty_at_once,
    asynchronous::a_slow_reader_stops_the_sender,
    asynchronous::no_answer_times_out,
];

/// The tests of shards, each on a queue of the device.
pub(crate) const OF_SHARDS: &[Test] = tests![
    shards::linux_reaches_them_all,
    shards::they_reach_linux,
    shards::queues_of_shards_that_are_gone_are_read,
];
