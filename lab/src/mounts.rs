//! The mounts of a lab's process tree: a `/proc` with its own processes, and on request a read-only file
//! system.

use std::path::Path;

use hawser_host::netns::unshare;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::UnshareFlags;

use crate::LabError;
use crate::sys;

/// The only writable folder of a read-only lab.
const SCRATCH: &str = "/dev/shm";

/// Gives the calling process mounts of its own, in which `/proc` shows only the processes of its tree. With
/// `read_only`, all files of the machine are read-only for that tree, and `/dev/shm` is an empty writable
/// folder. Returns a warning if the system does not permit the new `/proc`.
///
/// This protects against mistakes, not against malice: a command of a lab is root of the lab, and can undo
/// it.
///
/// It must be called in the process that [`crate::process_tree`] has started, before any thread is started.
///
/// # Errors
/// The system permits no mount namespaces, and `read_only` was requested.
pub fn isolate(read_only: bool) -> Result<Option<String>, LabError> {
    match (unshare(UnshareFlags::NEWNS), read_only) {
        (Ok(()), _) => {}
        (Err(error), false) => return Ok(Some(seen(&error))),
        (Err(error), true) => return Err(LabError::io("make a mount namespace")(error)),
    }
    let private = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
    mount_change("/", private).map_err(|error| LabError::io("detach the mounts")(error.into()))?;
    if read_only {
        sys::make_read_only(Path::new("/")).map_err(LabError::io("make the files read-only"))?;
        mount(
            "tmpfs",
            SCRATCH,
            "tmpfs",
            MountFlags::NOSUID | MountFlags::NODEV,
            None,
        )
        .map_err(|error| LabError::io(format!("cover {SCRATCH}"))(error.into()))?;
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let mounted = mount("proc", "/proc", "proc", flags, None);
    Ok(mounted.err().map(|error| seen(&error)))
}

fn seen(error: &dyn std::fmt::Display) -> String {
    format!("commands of the lab see all processes of this machine in /proc: {error}")
}
