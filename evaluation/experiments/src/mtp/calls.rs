//! The definitions that all carriers of calls share: a client's task, and its measurements.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::Error;

/// The line that a server prints when it accepts calls.
pub(super) const READY: &str = "listening";

pub(super) const PORT: u16 = 7_000;
/// Linux's congestion control, independent of the machine's default.
pub(super) const CONGESTION_CONTROL: &str = "cubic";

/// The task of a client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Calls {
    pub(super) server: IpAddr,
    pub(super) size: usize,
    /// The number of calls before the measured ones.
    pub(super) warm_up: usize,
    pub(super) count: usize,
}

/// The output of a client, in JSON.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Made {
    /// The duration of each answered call, in nanoseconds.
    pub(super) times: Vec<u64>,
    /// The number of calls that the transport aborted. Homa aborts a call whose peer is silent for 100 ms,
    /// which happens on an overloaded machine.
    pub(super) failed: u64,
}

pub(super) fn message(size: usize) -> Vec<u8> {
    (0..size).map(|at| (at * 7) as u8).collect()
}

pub(super) fn check(reply: &[u8], message: &[u8]) -> Result<(), Error> {
    if reply == message {
        Ok(())
    } else {
        Err("a reply has other bytes than its call".into())
    }
}
