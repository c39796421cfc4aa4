//! A host of a running lab, in which code and commands can run.

use std::ffi::OsStr;
use std::net::IpAddr;
use std::process::Command;
use std::sync::Arc;
use std::thread::JoinHandle;

use hawser_host::netns::Namespace;

use crate::names::View;
use crate::{LabError, sys};

/// A host. Code in it sees only the host's interfaces, addresses and names.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    pub(crate) name: &'a str,
    pub(crate) known_by: &'a [IpAddr],
    pub(crate) inside: &'a HostNamespaces,
}

/// A handle to a host that any thread can hold, and that outlives the lab's value. The host's
/// namespaces exist as long as there is a handle. The links end with the lab.
#[derive(Clone)]
pub struct HostHandle {
    name: Arc<str>,
    inside: HostNamespaces,
}

/// The namespaces of a host.
#[derive(Clone)]
pub(crate) struct HostNamespaces {
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) view: Option<Arc<View>>,
}

impl HostNamespaces {
    /// Gives the calling thread the host's view of the file system.
    fn enter(&self) -> std::io::Result<()> {
        self.view.as_ref().map_or(Ok(()), |view| view.enter())
    }
}

impl<'a> Host<'a> {
    /// Returns the name of the host.
    #[must_use]
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Returns the addresses at which other hosts reach it. Behind a translator, they are the translator's.
    #[must_use]
    pub fn addresses(&self) -> &'a [IpAddr] {
        self.known_by
    }

    /// Returns the first IPv4 address at which other hosts reach it.
    #[must_use]
    pub fn ipv4(&self) -> Option<IpAddr> {
        self.known_by.iter().copied().find(IpAddr::is_ipv4)
    }

    /// Returns the first IPv6 address at which other hosts reach it.
    #[must_use]
    pub fn ipv6(&self) -> Option<IpAddr> {
        self.known_by.iter().copied().find(IpAddr::is_ipv6)
    }

    /// Runs `work` on a thread in the host and waits for it. Sockets that it opens belong to the host
    /// permanently, in whichever thread they are used, and so do threads that it starts. A tokio runtime that
    /// is made here therefore works in the host.
    ///
    /// # Errors
    /// The host could not be entered.
    ///
    /// # Panics
    /// `work` panicked.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        let enter = || self.inside.enter().map(|()| work());
        self.inside
            .namespace
            .run(enter)?
            .map_err(LabError::io(format!("enter {}", self.name)))
    }

    /// Returns a command that will run in the host. It is killed when the thread that starts it ends.
    ///
    /// # Errors
    /// A handle of the host could not be made.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Result<Command, LabError> {
        let mut command = self.inside.namespace.command(program)?;
        let view = self.inside.view.as_ref().map(|view| view.handle()).transpose();
        let view = view.map_err(LabError::io(format!("copy a handle of {}", self.name)))?;
        sys::prepare_child(&mut command, view);
        Ok(command)
    }

    /// Returns a handle that does not borrow the lab.
    #[must_use]
    pub fn handle(&self) -> HostHandle {
        HostHandle { name: self.name.into(), inside: self.inside.clone() }
    }
}

impl HostHandle {
    /// Returns the name of the host.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Moves the calling thread into the host permanently, and with it the threads that it starts later. It
    /// is meant for threads of the caller's own, and for those of a runtime:
    /// `tokio::runtime::Builder::on_thread_start`.
    ///
    /// # Errors
    /// The host could not be entered.
    pub fn enter(&self) -> Result<(), LabError> {
        self.inside.namespace.enter()?;
        self.inside
            .enter()
            .map_err(LabError::io(format!("enter {}", self.name)))
    }

    /// Starts a thread in the host. The thread returns an error if it cannot enter the host.
    ///
    /// # Errors
    /// The thread could not be started.
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
