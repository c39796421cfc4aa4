//! A host of a running lab: somewhere to run things.

use std::ffi::OsStr;
use std::net::IpAddr;
use std::process::Command;
use std::sync::Arc;
use std::thread::JoinHandle;

use hawser_host::netns::Namespace;

use crate::names::View;
use crate::{LabError, sys};

/// A host. What runs in it sees its interfaces, its addresses and its names alone.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    pub(crate) name: &'a str,
    pub(crate) known_by: &'a [IpAddr],
    pub(crate) inside: &'a Inside,
}

/// A handle to a host that can be given to any thread, and outlives the lab's value: what it enters
/// stays for as long as there is a handle. The links end with the lab.
#[derive(Clone)]
pub struct HostHandle {
    name: Arc<str>,
    inside: Inside,
}

/// A host's namespaces.
#[derive(Clone)]
pub(crate) struct Inside {
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) view: Option<Arc<View>>,
}

impl Inside {
    /// Gives the calling thread the host's view of the file system.
    fn enter(&self) -> std::io::Result<()> {
        self.view.as_ref().map_or(Ok(()), |view| view.enter())
    }
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
    /// host for good, wherever they are used, and so do threads that it starts: a runtime of tokio
    /// that is made here works in the host.
    ///
    /// # Errors
    /// When the host cannot be entered.
    ///
    /// # Panics
    /// When `work` does.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        let enter = || self.inside.enter().map(|()| work());
        self.inside
            .namespace
            .run(enter)?
            .map_err(LabError::io(format!("enter {}", self.name)))
    }

    /// A command that will run in the host. It is killed when the thread that starts it ends.
    ///
    /// # Errors
    /// When a handle of the host cannot be made.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Result<Command, LabError> {
        let mut command = self.inside.namespace.command(program)?;
        let view = self.inside.view.as_ref().map(|view| view.handle()).transpose();
        let view = view.map_err(LabError::io(format!("copy a handle of {}", self.name)))?;
        sys::prepare_child(&mut command, view);
        Ok(command)
    }

    /// A handle that does not borrow the lab.
    #[must_use]
    pub fn handle(&self) -> HostHandle {
        HostHandle { name: self.name.into(), inside: self.inside.clone() }
    }
}

impl HostHandle {
    /// The host's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Moves the calling thread into the host for good, and with it the threads that it starts
    /// later. Meant for threads of one's own, and for those of a runtime:
    /// `tokio::runtime::Builder::on_thread_start`.
    ///
    /// # Errors
    /// When the host cannot be entered.
    pub fn enter(&self) -> Result<(), LabError> {
        self.inside.namespace.enter()?;
        self.inside
            .enter()
            .map_err(LabError::io(format!("enter {}", self.name)))
    }

    /// Starts a thread in the host.
    ///
    /// # Errors
    /// When no thread can be started. What keeps it from entering the host is what it returns.
    pub fn spawn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<Result<T, LabError>>, LabError> {
        let handle = self.clone();
        let thread = std::thread::Builder::new().name(format!("lab-{}", self.name));
        thread
            .spawn(move || handle.enter().map(|()| work()))
            .map_err(LabError::io(format!("start a thread in {}", self.name)))
    }
}
