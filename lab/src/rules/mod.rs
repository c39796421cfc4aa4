//! The lab's own rules for frames, in addition to the simulator's ([`hawser_sim::link`]).
//!
//! | rule | file | parameters |
//! |---|---|---|
//! | protocols are lost silently | `filter` | `block` |
//! | all frames are lost silently | `silence` | `silent` |
//! | long packets are lost silently | `size` | `path_mtu` |
//! | a link whose times come from a file | `trace` | `trace` |
//! | addresses and ports are translated | `nat` | `nat` |
//!
//! Each rule is a machine: frames and times in, verdicts out.

pub(crate) mod filter;
pub(crate) mod nat;
pub(crate) mod packet;
pub(crate) mod silence;
pub(crate) mod size;
pub(crate) mod trace;
