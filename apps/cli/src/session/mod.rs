//! The parts that `send`, `recv`, `cat` and `gateway` share: opening a session, showing it, and transferring
//! a file over it.

mod args;
mod exchange;
mod file;
mod gateway;
mod opening;
mod target;
mod watch;

pub(crate) use args::{CodeArgs, RequestedRole, SessionArgs, Wait, parse_congestion};
pub(crate) use exchange::exchange;
pub(crate) use file::{BEGINNING, Budget, Intake, ReceiveResult, in_time, receive, send};
pub(crate) use gateway::GatewayArgs;
pub(crate) use opening::{Invitation, Met, Opening, address, listen, runtime};
pub(crate) use target::{PartialFile, is_harmless};
pub(crate) use watch::SessionDisplay;
