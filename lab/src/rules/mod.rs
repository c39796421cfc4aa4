//! What the lab does to frames beside the simulator's rules ([`hawser_sim::link`]).
//!
//! | rule | file | parameters |
//! |---|---|---|
//! | protocols are lost without a sign | `filter` | `block` |
//! | everything is lost without a sign | `silence` | `silent` |
//! | long packets are lost without a sign | `size` | `path_mtu` |
//! | a line whose times come from a file | `trace` | `trace` |
//! | addresses and ports are translated | `nat` | `nat` |
//!
//! Each is a machine: frames and times in, verdicts out.

pub(crate) mod filter;
pub(crate) mod nat;
pub(crate) mod packet;
pub(crate) mod silence;
pub(crate) mod size;
pub(crate) mod trace;
