//! Without the feature `log`, the functions of this module do not log.

use std::io;
use std::net::SocketAddr;

use hawser_engine::{Handle, Notice, RequestError, Stack};

#[derive(Default)]
pub(crate) struct Log {}

impl Log {
    pub(crate) fn drops(&mut self, _: &Stack) {}
}

#[cfg(feature = "xdp")]
pub(crate) fn device_opened(_: &str, _: &dyn std::fmt::Display) {}

pub(crate) fn opened(_: &str, _: SocketAddr, _: &Result<Handle, RequestError>) {}

pub(crate) fn ended(_: &str, _: &Stack, _: Handle) {}

pub(crate) fn state(_: &Stack, _: Handle, _: Notice) {}

pub(crate) fn device_failed(_: &io::Error) {}
