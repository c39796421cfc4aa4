//! Network namespaces, virtual cables and addresses: a network of one's own, without being root.
//!
//! ```no_run
//! use hawser_host::netns::{Namespace, Netlink, enter_user_namespace};
//!
//! # fn main() -> Result<(), hawser_host::netns::NamespaceError> {
//! enter_user_namespace()?; // before any thread is started
//! let peer = Namespace::create()?; // another host
//! let mut here = Netlink::open()?;
//! here.add_veth("cable0", "eth0", &peer)?;
//! here.bring_up("cable0")?;
//! let mut there = peer.run(Netlink::open)??;
//! there.bring_up("lo")?;
//! there.bring_up("eth0")?;
//! there.add_address("eth0", "10.9.0.1".parse().unwrap(), 24)?;
//! there.settle("eth0")?;
//! # Ok(())
//! # }
//! ```

mod counters;
mod netlink;
mod route;
mod shaper;

use std::ffi::{OsStr, OsString, c_int};
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::thread::UnshareFlags;

use crate::sys;

pub use counters::{InterfaceCounters, QueueCounters};
pub use netlink::Netlink;
pub use route::Route;
pub use shaper::ShaperRate;

pub use crate::sys::unshare;

/// A namespace, link, address or route could not be set up.
#[derive(Debug)]
pub struct NamespaceError {
    /// The operation that failed.
    action: String,
    error: io::Error,
}

impl NamespaceError {
    fn new(action: impl Into<String>) -> impl FnOnce(io::Error) -> NamespaceError {
        let action = action.into();
        move |error| NamespaceError { action, error }
    }

    /// Returns the system's error.
    #[must_use]
    pub fn error(&self) -> &io::Error {
        &self.error
    }

    pub(crate) fn into_error(self) -> io::Error {
        self.error
    }

    fn advice(&self) -> &'static str {
        match self.error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                "; it needs CAP_NET_ADMIN, which a user namespace gives where the system permits user \
                 namespaces (sysctl kernel.unprivileged_userns_clone, \
                 kernel.apparmor_restrict_unprivileged_userns, user.max_user_namespaces)"
            }
            Some(libc::ENOSPC) => {
                "; the limit user.max_user_namespaces or user.max_net_namespaces is \
                                   reached"
            }
            Some(libc::EUSERS) => "; user namespaces are nested too deeply",
            _ => "",
        }
    }
}

impl fmt::Display for NamespaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}: {}{}", self.action, self.error, self.advice())
    }
}

impl std::error::Error for NamespaceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// Moves the whole process into a new user namespace and a new network namespace, in which it is root. No
/// privilege is needed. The network has only a loopback interface, which is up.
///
/// # Errors
/// Fails if the system does not allow it, or if the process already has more than one thread. Call it before
/// anything else.
pub fn enter_user_namespace() -> Result<(), NamespaceError> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNET).map_err(|error| {
        let action = match error.raw_os_error() {
            Some(libc::EINVAL) => "enter a user namespace (the process must have only one thread)",
            _ => "enter a user namespace",
        };
        NamespaceError { action: action.to_owned(), error }
    })?;
    // Without privilege, a process may write a group map only after it has given up setgroups
    // (user_namespaces(7)).
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/uid_map", &format!("0 {user} 1"))?;
    write("/proc/self/gid_map", &format!("0 {group} 1"))?;
    Netlink::open()?.bring_up("lo")
}

/// Returns whether this process is in a user namespace other than the initial one, which maps all users to
/// themselves, from 0 on.
#[must_use]
pub fn is_in_user_namespace() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let words: Vec<&str> = map.split_whitespace().collect();
    !words.is_empty() && words != ["0", "0", "4294967295"]
}

fn write(path: &str, content: &str) -> Result<(), NamespaceError> {
    fs::write(path, content).map_err(NamespaceError::new(format!("write {path}")))
}

/// Sets a network parameter of the calling thread's network namespace. `key` is a name of `sysctl` with
/// slashes: `net/ipv4/ip_forward`.
///
/// # Errors
/// Fails if there is no such parameter, or if it may not be written.
pub fn set_parameter(key: &str, value: &str) -> Result<(), NamespaceError> {
    write(&format!("/proc/sys/{key}"), value)
}

/// A network namespace, which acts as another host on the network.
#[derive(Debug)]
pub struct Namespace {
    file: File,
}

impl Namespace {
    /// Returns the calling thread's network namespace.
    ///
    /// # Errors
    /// Fails if `/proc` is absent.
    pub fn current() -> Result<Namespace, NamespaceError> {
        let file = File::open("/proc/thread-self/ns/net")
            .map_err(NamespaceError::new("open the current network namespace"))?;
        Ok(Namespace { file })
    }

    /// Creates a namespace with only a loopback interface, which is down. The caller stays in its own
    /// namespace. This needs CAP_SYS_ADMIN, which [`enter_user_namespace`] gives.
    ///
    /// # Errors
    /// Fails if the system does not allow it.
    pub fn create() -> Result<Namespace, NamespaceError> {
        on_thread(|| {
            unshare(UnshareFlags::NEWNET).map_err(NamespaceError::new("make a network namespace"))?;
            Namespace::current()
        })?
    }

    /// Runs `work` on a thread inside the namespace. Sockets opened there belong to it permanently.
    ///
    /// # Errors
    /// Fails if the namespace cannot be entered.
    ///
    /// # Panics
    /// Panics if `work` does.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, NamespaceError> {
        on_thread(|| {
            self.enter()?;
            Ok(work())
        })?
    }

    /// Moves the calling thread into the namespace. Threads and processes that it starts later inherit the
    /// namespace.
    ///
    /// # Errors
    /// Fails if that is not permitted.
    pub fn enter(&self) -> Result<(), NamespaceError> {
        sys::enter_network_namespace(self.file.as_fd())
            .map_err(NamespaceError::new("enter a network namespace"))
    }

    /// Returns a command that will run inside the namespace, with administrators' programs (`tc`, `sysctl`)
    /// on its path. A user is root in a new namespace, but the user's path lacks them.
    ///
    /// # Errors
    /// Fails if the handle of the namespace cannot be duplicated.
    #[allow(unsafe_code)] // Runs code between fork and exec.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Result<Command, NamespaceError> {
        let file = self
            .file
            .try_clone()
            .map_err(NamespaceError::new("copy a namespace's handle"))?;
        let mut command = Command::new(program);
        command.env("PATH", administrators_path(std::env::var_os("PATH")));
        // SAFETY: between fork and exec the closure makes one system call, and allocates no memory.
        unsafe { command.pre_exec(move || sys::enter_network_namespace(file.as_fd())) };
        Ok(command)
    }

    fn handle(&self) -> c_int {
        use std::os::fd::AsRawFd;
        self.file.as_raw_fd()
    }
}

/// Returns a search path with the folders of administrators' programs at its end.
fn administrators_path(path: Option<OsString>) -> OsString {
    let mut path = path.unwrap_or_else(|| "/usr/bin:/bin".into());
    path.push(":/usr/sbin:/sbin");
    path
}

/// Runs `work` on a separate thread, so that the caller's namespaces do not change.
fn on_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, NamespaceError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("namespace".to_owned());
        let thread = thread
            .spawn_scoped(scope, work)
            .map_err(NamespaceError::new("start a thread"))?;
        match thread.join() {
            Ok(result) => Ok(result),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}
