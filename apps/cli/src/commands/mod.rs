//! The sub-commands.

pub(crate) mod bench;
pub(crate) mod build;
pub(crate) mod check;
pub(crate) mod demo;
pub(crate) mod emit;
pub(crate) mod explain;
pub(crate) mod fmt;
pub(crate) mod get;
pub(crate) mod lab;
pub(crate) mod replay;
pub(crate) mod script;
pub(crate) mod serve;
pub(crate) mod sim;
pub(crate) mod swarm;
