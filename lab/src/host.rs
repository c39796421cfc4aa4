//! A host of a running lab: somewhere to run things.

use std::ffi::OsStr;
use std::net::IpAddr;
use std::process::Command;

use hawser_host::netns::Namespace;

use crate::names::View;
use crate::{LabError, sys};

/// A host. What runs in it sees its interfaces, its addresses and its names alone.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    pub(crate) name: &'a str,
    pub(crate) known_by: &'a [IpAddr],
    pub(crate) namespace: &'a Namespace,
    pub(crate) view: Option<&'a View>,
}

impl<'a> Host<'a> {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// The addresses that other hosts reach it by; behind a translator, that one's.
    #[must_use]
    pub fn addresses(&self) -> &'a [IpAddr] {
        self.known_by
    }

    /// The first of them of IPv4.
    #[must_use]
    pub fn ipv4(&self) -> Option<IpAddr> {
        self.known_by.iter().copied().find(IpAddr::is_ipv4)
    }

    /// The first of them of IPv6.
    #[must_use]
    pub fn ipv6(&self) -> Option<IpAddr> {
        self.known_by.iter().copied().find(IpAddr::is_ipv6)
    }

    /// Runs `work` on a thread in the host and waits for it. Sockets that it opens belong to the
    /// host for good, wherever they are used, and so do threads that it starts.
    ///
    /// # Errors
    /// When the host cannot be entered.
    ///
    /// # Panics
    /// When `work` does.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        let enter = || self.view.map_or(Ok(()), View::enter).map(|()| work());
        self.namespace.run(enter)?.map_err(LabError::io(format!("enter {}", self.name)))
    }

    /// A command that will run in the host. It is killed when the thread that starts it ends.
    ///
    /// # Errors
    /// When a handle of the host cannot be made.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Result<Command, LabError> {
        let mut command = self.namespace.command(program)?;
        let view = self.view.map(View::handle).transpose();
        let view = view.map_err(LabError::io(format!("copy a handle of {}", self.name)))?;
        sys::prepare_child(&mut command, view);
        Ok(command)
    }
}
