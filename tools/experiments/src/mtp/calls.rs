//! What all carriers of calls have in common: whom a client calls and how often, and what it measures.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::Error;

/// What a server prints when it can be called.
pub(super) const READY: &str = "listening";

pub(super) const PORT: u16 = 7_000;
/// Linux's congestion control, whatever the machine's default is.
pub(super) const CONGESTION_CONTROL: &str = "cubic";

/// What a client does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Calls {
    pub(super) server: IpAddr,
    pub(super) size: usize,
    /// Calls before those that count.
    pub(super) warm_up: usize,
    pub(super) count: usize,
}

/// What a client prints, in JSON.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Made {
    /// How long each call took that was answered, in nanoseconds.
    pub(super) times: Vec<u64>,
    /// Calls that the transport gave up: Homa ends one whose peer gives no sign for 100 ms, as on a machine that has
    /// more to do than processors.
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
