//! The owners of sockets: the process that has a socket open, and the control group in which it was created.
//!
//! The kernel does not report which process owns a socket. The open files of all processes are therefore
//! searched, up to a limit. A search runs at most four times a second and uses at most a twentieth of the
//! time; its result is reused in between.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The time for which a result is reused, also a negative one.
const FRESH: Duration = Duration::from_millis(250);
/// No further search begins for this many times the duration of the last one.
const REST: u32 = 20;
/// The maximum number of open files that are read.
const FILES: usize = 65_536;
/// The maximum number of control groups, and the maximum depth of their tree.
const GROUPS: usize = 65_536;
const DEPTH: usize = 32;
/// The maximum length of a command's name, in bytes: TASK_COMM_LEN of include/linux/sched.h is 16.
const COMMAND: usize = 64;
/// The folders in which control groups are mounted, alone or beside the older version.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// The process id.
    pub pid: u32,
    /// The name of its command, which the process may set to any text.
    pub command: String,
}

/// The owners of sockets, as last found.
#[derive(Debug, Default)]
pub struct Owners {
    processes: HashMap<u32, Process>,
    processes_until: Option<Instant>,
    groups: HashMap<u64, String>,
    groups_until: Option<Instant>,
}

impl Owners {
    /// Returns the process that has a socket open, by [`Flow::inode`](super::TcpFlow::inode); of several, the
    /// one with the smallest id. Returns `None` if no process has it open, or if the caller may not read the
    /// process.
    pub fn find(&mut self, inode: u32) -> Option<&Process> {
        if inode == 0 {
            return None;
        }
        if is_over(self.processes_until) {
            (self.processes, self.processes_until) = timed(processes);
        }
        self.processes.get(&inode)
    }

    /// Returns the path of a control group below the mount, as `/proc/PID/cgroup` prints it, by the group's
    /// number.
    pub fn group(&mut self, id: u64) -> Option<&str> {
        if id == 0 {
            return None;
        }
        if !self.groups.contains_key(&id) && is_over(self.groups_until) {
            (self.groups, self.groups_until) = timed(groups);
        }
        self.groups.get(&id).map(String::as_str)
    }
}

fn is_over(until: Option<Instant>) -> bool {
    until.is_none_or(|until| Instant::now() >= until)
}

/// Returns a search's result, and the time until which it is reused.
fn timed<T>(find: impl FnOnce() -> T) -> (T, Option<Instant>) {
    let begin = Instant::now();
    let found = find();
    (found, Some(Instant::now() + FRESH.max(begin.elapsed() * REST)))
}

/// Maps sockets to the processes that have them open.
fn processes() -> HashMap<u32, Process> {
    let mut found: HashMap<u32, Process> = HashMap::new();
    let mut pids: Vec<u32> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    pids.sort_unstable();
    let mut rest = FILES;
    for pid in pids {
        let mut command = None;
        for entry in fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten()
            .flatten()
        {
            rest -= 1;
            if rest == 0 {
                return found;
            }
            let Some(inode) = fs::read_link(entry.path())
                .ok()
                .and_then(|target| socket(&target))
            else {
                continue;
            };
            let command = command.get_or_insert_with(|| command_of(pid)).clone();
            found.entry(inode).or_insert(Process { pid, command });
        }
    }
    found
}

/// Parses `socket:[12345]`.
fn socket(target: &Path) -> Option<u32> {
    target
        .to_str()?
        .strip_prefix("socket:[")?
        .strip_suffix(']')?
        .parse()
        .ok()
}

fn command_of(pid: u32) -> String {
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    let name = name.strip_suffix(b"\n").unwrap_or(&name);
    String::from_utf8_lossy(&name[..name.len().min(COMMAND)]).into_owned()
}

/// Maps numbers of control groups to their paths. The number is that of the group's folder (`cgroup_id`).
fn groups() -> HashMap<u64, String> {
    let is_mount = |folder: &&&str| Path::new(folder).join("cgroup.controllers").exists();
    let Some(mount) = MOUNTS.iter().find(is_mount) else {
        return HashMap::new();
    };
    let mut found = HashMap::new();
    let mut waiting = vec![(PathBuf::from(mount), String::from("/"), 0)];
    while let Some((folder, path, depth)) = waiting.pop() {
        let Ok(file) = fs::metadata(&folder) else { continue };
        found.insert(file.ino(), path.clone());
        if depth >= DEPTH || found.len() + waiting.len() >= GROUPS {
            continue;
        }
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let name = entry.file_name().to_string_lossy().into_owned();
                let path = if path == "/" {
                    format!("/{name}")
                } else {
                    format!("{path}/{name}")
                };
                waiting.push((entry.path(), path, depth + 1));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;

    use super::*;
    use hawser_testing::{Need, skip};

    #[test]
    fn a_socket_of_this_process_is_attributed_to_it() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let link = fs::read_link(format!("/proc/self/fd/{}", listener.as_raw_fd())).expect("a link");
        let inode = socket(&link).expect("a socket");
        let mut owners = Owners::default();
        let process = owners.find(inode).expect("it is open").clone();
        assert_eq!(process.pid, std::process::id());
        assert_eq!(process.command, command_of(process.pid));
        assert_eq!(owners.find(0), None);
    }

    /// The expected path is the kernel's path of this process.
    #[test]
    fn a_control_group_is_known_by_its_folders_number() {
        let own = fs::read_to_string("/proc/self/cgroup").expect("a file");
        let Some(path) = own.lines().find_map(|line| line.strip_prefix("0::")) else {
            return;
        };
        let Some(mount) = MOUNTS
            .iter()
            .find(|folder| Path::new(folder).join("cgroup.controllers").exists())
        else {
            return skip(
                Need::Cgroup2,
                "a_control_group_is_known_by_its_folders_number",
                "it is not mounted",
            );
        };
        let Ok(folder) = fs::metadata(format!("{mount}{path}")) else {
            return;
        };
        assert_eq!(Owners::default().group(folder.ino()), Some(path));
    }
}
