//! The rights of the SCTP process, which keeps only those needed to move packets.
//!
//! After [`confine`], a packet cannot make any thread of the process open a file or a socket. Nor can it
//! start a process or a thread, or make memory executable.

use std::collections::BTreeMap;
use std::io;

use libc::c_long;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter_all_threads,
};

/// The maximum number of descriptors: one for each association, and a few more.
pub(crate) const DESCRIPTORS: u64 = 1_024 + 32;

/// The permitted system calls: packets, the stream of each association, waiting, time, memory, exit.
const CALLS: &[c_long] = &[
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_ioctl,
    libc::SYS_fcntl,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_ppoll,
    libc::SYS_futex,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_sched_yield,
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_rseq,
    libc::SYS_set_robust_list,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Older forms of these calls on machines that have them.
#[cfg(target_arch = "x86_64")]
const OLDER: &[c_long] = &[libc::SYS_epoll_wait, libc::SYS_poll, libc::SYS_time];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[c_long] = &[];

/// Drops privileges, before any threads exist.
pub(crate) fn drop_privileges() -> io::Result<()> {
    set_no_new_privs(true)?;
    let none = CapabilitySet::empty();
    set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    )?;
    Ok(())
}

/// Drops the other rights permanently, in all threads.
pub(crate) fn confine() -> io::Result<()> {
    for (resource, limit) in [
        (Resource::Nofile, DESCRIPTORS),
        (Resource::Fsize, 0),
        (Resource::Core, 0),
        (Resource::Nproc, 0),
    ] {
        // A lower limit remains, because it cannot be raised.
        let limit = getrlimit(resource)
            .maximum
            .map_or(limit, |maximum| maximum.min(limit));
        let limit = Rlimit { current: Some(limit), maximum: Some(limit) };
        setrlimit(resource, limit)?;
    }
    apply_filter_all_threads(&filter()?).map_err(io::Error::other)
}

/// Returns a filter under which a call that is not listed fails with EPERM.
fn filter() -> io::Result<BpfProgram> {
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> = CALLS
        .iter()
        .chain(OLDER)
        .map(|call| (*call, Vec::new()))
        .collect();
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        rules.insert(call, vec![not_executable().map_err(io::Error::other)?]);
    }
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Errno(libc::EPERM as u32),
        SeccompAction::Allow,
        std::env::consts::ARCH.try_into().map_err(io::Error::other)?,
    );
    filter.and_then(BpfProgram::try_from).map_err(io::Error::other)
}

/// Returns a rule that the third argument of mmap and mprotect lacks PROT_EXEC.
fn not_executable() -> Result<SeccompRule, seccompiler::BackendError> {
    let executable = libc::PROT_EXEC as u64;
    let operator = SeccompCmpOp::MaskedEq(executable);
    let condition = SeccompCondition::new(2, SeccompCmpArgLen::Dword, operator, 0)?;
    SeccompRule::new(vec![condition])
}
