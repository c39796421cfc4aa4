//! A mount namespace in which names come from the lab alone.
//!
//! The lab's files are on a file system in memory that covers a directory temporarily. They are bind-mounted
//! over the system's files, and stay there when the directory is uncovered again. The mounts are visible only
//! inside the namespace, and disappear with the last process in it.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use hawser_host::netns::{Namespace, unshare};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount,
};
use rustix::thread::UnshareFlags;

use crate::{LabError, ViewError, sys};

use super::RESOLVER;

/// The candidates for the directory to be covered temporarily. One of them exists on every machine.
const COVERED: &[&str] = &["/mnt", "/media", "/tmp"];
/// The directories in which resolvers of the system listen on Unix sockets, which no network namespace hides:
/// nscd, systemd-resolved, Avahi, the name services of userdb.
const SYSTEM_RESOLVERS: &[&str] = &[
    "/run/nscd",
    "/var/run/nscd",
    "/run/systemd/resolve",
    "/run/avahi-daemon",
    "/run/systemd/userdb",
];
const NAME_SERVICES: &str = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n\
                             networks: files\nprotocols: files\nservices: files\n";

/// A host's view of the file system.
#[derive(Debug)]
pub(crate) struct View {
    namespace: File,
}

impl View {
    /// Makes the view of a host with this network and this `hosts` file.
    pub(crate) fn make(network: &Namespace, hosts: &str) -> Result<View, LabError> {
        let namespace = network.run(|| build(hosts))??;
        Ok(View { namespace })
    }

    /// Moves the calling thread into the view. Its working directory stays the same.
    pub(crate) fn enter(&self) -> io::Result<()> {
        unshare(UnshareFlags::FS)?;
        sys::keeping_directory(|| sys::enter_mounts(self.namespace.as_fd()))
    }

    /// Returns a handle for a child between fork and exec.
    pub(crate) fn handle(&self) -> io::Result<File> {
        self.namespace.try_clone()
    }
}

/// Builds the view in the calling thread, and leaves the thread in it.
fn build(hosts: &str) -> Result<File, ViewError> {
    unshare(UnshareFlags::NEWNS)?;
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    let hatch = COVERED.iter().map(Path::new).find(|path| path.is_dir());
    let hatch = hatch.ok_or(ViewError::NoDirectory)?;
    for directory in SYSTEM_RESOLVERS.iter().filter(|path| Path::new(path).is_dir()) {
        hide(Path::new(directory))?;
    }
    mount("tmpfs", hatch, "tmpfs", MountFlags::empty(), None)?;
    let resolver = format!("nameserver {RESOLVER}\noptions timeout:5 attempts:2\n");
    for (target, content) in [
        ("/etc/resolv.conf", resolver.as_str()),
        ("/etc/hosts", hosts),
        ("/etc/nsswitch.conf", NAME_SERVICES),
    ] {
        lay_over(hatch, Path::new(target), content)?;
    }
    unmount(hatch, UnmountFlags::DETACH)?;
    // Show the interfaces of the host's network in place of the machine's. If the system does not permit
    // this, the machine's stay visible.
    let _ = mount("sysfs", "/sys", "sysfs", MountFlags::RDONLY, None);
    Ok(File::open("/proc/thread-self/ns/mnt")?)
}

/// Covers a directory with an empty one.
fn hide(directory: &Path) -> io::Result<()> {
    Ok(mount("tmpfs", directory, "tmpfs", MountFlags::empty(), None)?)
}

/// Mounts a file over one of the system's. The target of a symbolic link of the system may be in a hidden
/// directory; in that case the file is written there.
fn lay_over(hatch: &Path, target: &Path, content: &str) -> Result<(), ViewError> {
    let place = follow(target);
    if !place.exists() {
        let is_hidden = SYSTEM_RESOLVERS
            .iter()
            .any(|directory| place.starts_with(directory));
        if is_hidden {
            return Ok(fs::write(&place, content)?);
        }
        // Without the file, the C library's defaults equal the lab's settings, except for a resolver on this
        // host.
        return match target.ends_with("resolv.conf") {
            true => Err(ViewError::Missing(target.to_owned())),
            false => Ok(()),
        };
    }
    let name = target.file_name().ok_or(Errno::INVAL)?;
    let file = hatch.join(name);
    fs::write(&file, content)?;
    Ok(mount_bind(&file, &place)?)
}

/// Follows symbolic links to the final path, which need not exist.
fn follow(path: &Path) -> PathBuf {
    let mut place = path.to_owned();
    // The number of links that the kernel follows.
    for _ in 0..40 {
        match fs::read_link(&place) {
            Ok(to) => place = normal(&place.parent().unwrap_or(Path::new("/")).join(to)),
            Err(_) => break,
        }
    }
    place
}

/// Removes `..` from a path. Directories that are links themselves are rare enough in /etc and /run.
fn normal(path: &Path) -> PathBuf {
    let mut place = PathBuf::new();
    for part in path.components() {
        if part == std::path::Component::ParentDir {
            place.pop();
        } else {
            place.push(part);
        }
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_segments_are_removed_from_paths() {
        assert_eq!(normal(Path::new("/etc/../run/x/./y")), Path::new("/run/x/y"));
    }
}
