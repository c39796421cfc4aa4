//! The requirements of loading, checked one by one beforehand, so that an error names the one that is
//! missing.

use std::os::fd::OwnedFd;
use std::path::Path;

use hawser_host::netns::is_in_user_namespace;
use libbpf_rs::btf::{Btf, types};
use rustix::fs::{FsWord, Mode, OFlags};
use rustix::thread::{CapabilitySet, capabilities};

use crate::hook::{Hook, Hooks};
use crate::{KernelError, Missing, Options};

/// The type of a cgroup2 file system (include/uapi/linux/magic.h).
const CGROUP2: FsWord = 0x6367_7270;

/// Finds the requested hooks that this kernel has. The search takes no privilege.
///
/// # Errors
/// When the kernel does not describe its types.
pub(super) fn hooks(options: &Options) -> Result<Hooks, KernelError> {
    let types = Btf::from_vmlinux().map_err(|_| Missing::TypeInformation)?;
    let has = |hook: &Hook| hook.types().iter().all(|name| knows(&types, name));
    let mut available: Hooks = Hook::ALL.into_iter().filter(has).collect();
    if options.congestion_control.is_none() {
        available.remove(Hook::CongestionControl);
    }
    if options.cgroup.is_none() {
        available.remove(Hook::InCgroup);
    }
    Ok(available)
}

/// Checks the requirements without which loading fails.
///
/// # Errors
/// The first requirement that is not met.
pub(super) fn check(options: &Options, available: Hooks) -> Result<(), KernelError> {
    if !available.has(Hook::State) {
        return Err(Missing::Hook(Hook::State.place()).into());
    }
    if options.congestion_control.is_some() && !available.has(Hook::CongestionControl) {
        return Err(Missing::CongestionControl.into());
    }
    Ok(())
}

fn knows(types: &Btf<'_>, name: &str) -> bool {
    types.type_by_name::<types::Typedef<'_>>(name).is_some()
        || types.type_by_name::<types::Struct<'_>>(name).is_some()
        || types.type_by_name::<types::Func<'_>>(name).is_some()
}

/// Checks that this process may load.
///
/// # Errors
/// The privilege that it lacks.
pub(super) fn privilege() -> Result<(), KernelError> {
    let held = capabilities(None).map_err(|error| KernelError::system("read the capabilities", error))?;
    let effective = held.effective;
    // CAP_SYS_ADMIN includes the two capabilities that were split off from it.
    let admin = effective.contains(CapabilitySet::SYS_ADMIN);
    for (capability, name, split) in [
        (CapabilitySet::BPF, "CAP_BPF", true),
        (CapabilitySet::PERFMON, "CAP_PERFMON", true),
        (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN", false),
    ] {
        if !(effective.contains(capability) || split && admin) {
            return Err(Missing::Capability(name).into());
        }
    }
    if is_in_user_namespace() {
        Err(Missing::InitialUserNamespace.into())
    } else {
        Ok(())
    }
}

/// Opens the folder of a control group.
pub(super) fn cgroup(folder: &Path) -> Result<OwnedFd, KernelError> {
    let missing = || Missing::Cgroup(folder.to_owned());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(folder, flags, Mode::empty()).map_err(|_| missing())?;
    let system = rustix::fs::fstatfs(&opened).map_err(|_| missing())?;
    if system.f_type == CGROUP2 {
        Ok(opened)
    } else {
        Err(missing().into())
    }
}
