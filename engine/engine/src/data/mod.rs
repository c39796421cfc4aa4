//! Ordered data: an application's bytes to be sent and received, unit by unit.
//!
//! * `send_buffer`, `recv_buffer`: one unit of each direction
//! * `units`: all units of one context

mod recv_buffer;
mod send_buffer;
mod units;

pub(crate) use recv_buffer::{PAGE, PagePool, RecvBuffer};
pub(crate) use send_buffer::{ChunkPool, SendBuffer};
pub(crate) use units::Units;
