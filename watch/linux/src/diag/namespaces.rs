//! The network namespaces of this machine, and a netlink socket in each.
//!
//! A namespace is found by the processes in it, and by its name in `/run/netns`. To enter it briefly takes a
//! separate thread; a socket stays in the namespace in which it was created.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::DiagSocket;

/// The maximum number of namespaces, each of which has a socket.
const MAX_NAMESPACES: usize = 256;
/// The maximum number of entries of `/proc` and `/run/netns` that are read.
const MAX_ENTRIES: usize = 65_536;
/// The time for which a list of namespaces is reused: at least this, and at least `REST` times the time that
/// reading it took.
const FRESH: Duration = Duration::from_secs(1);
const REST: u32 = 20;
/// The folder in which `ip netns` keeps names.
const NAMED: &str = "/run/netns";

/// Returns the number of the calling thread's network namespace.
#[must_use]
pub fn own_namespace() -> Option<u64> {
    fs::metadata("/proc/thread-self/ns/net")
        .ok()
        .map(|file| file.ino())
}

/// Netlink sockets; the first is in the namespace in which the diagnostics were opened.
#[derive(Debug)]
pub(super) struct Lines {
    first: DiagSocket,
    others: Vec<DiagSocket>,
    /// The time of the next search for other namespaces, if they are wanted.
    refresh_at: Option<Instant>,
}

impl Lines {
    pub(super) fn own(first: DiagSocket) -> Lines {
        Lines { first, others: Vec::new(), refresh_at: None }
    }

    pub(super) fn first(&self) -> &DiagSocket {
        &self.first
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &DiagSocket> {
        std::iter::once(&self.first).chain(&self.others)
    }

    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut DiagSocket> {
        std::iter::once(&mut self.first).chain(&mut self.others)
    }

    /// Searches for other namespaces now, and again whenever [`Lines::refresh`] finds the list too old.
    pub(super) fn follow(&mut self) {
        let begin = Instant::now();
        let there = find();
        self.others.retain(|line| there.contains_key(&line.namespace));
        for (namespace, place) in there {
            let is_known = self.all().any(|line| line.namespace == namespace);
            if !is_known
                && self.others.len() < MAX_NAMESPACES
                && let Some(line) = enter(namespace, place)
            {
                self.others.push(line);
            }
        }
        self.refresh_at = Some(Instant::now() + FRESH.max(begin.elapsed() * REST));
    }

    /// Searches again, if other namespaces are wanted and the list is too old.
    pub(super) fn refresh(&mut self) {
        if self.refresh_at.is_some_and(|at| Instant::now() >= at) {
            self.follow();
        }
    }
}

/// Returns the present namespaces, each with a file that leads into it.
fn find() -> BTreeMap<u64, PathBuf> {
    let mut found = BTreeMap::new();
    let entries = |folder: &str| {
        fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .take(MAX_ENTRIES)
    };
    let named = entries(NAMED).map(|entry| entry.path());
    let is_process = |entry: &fs::DirEntry| {
        entry
            .file_name()
            .as_encoded_bytes()
            .iter()
            .all(u8::is_ascii_digit)
    };
    let of_processes = entries("/proc")
        .filter(is_process)
        .map(|entry| entry.path().join("ns/net"));
    for place in named.chain(of_processes) {
        // Processes that this process may not read are left out.
        if let Ok(file) = fs::metadata(&place) {
            found.entry(file.ino()).or_insert(place);
        }
    }
    found
}

/// Opens a socket in another namespace; `None` if it may not be entered, or is gone.
fn enter(namespace: u64, place: PathBuf) -> Option<DiagSocket> {
    let open = move || {
        let file = same(namespace, &place)?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).ok()?;
        DiagSocket::open(namespace).ok()
    };
    // The thread ends there, so that no thread of this process stays in another namespace.
    std::thread::Builder::new()
        .name("namespace".to_owned())
        .spawn(open)
        .ok()?
        .join()
        .ok()?
}

/// Opens the file if it still leads to that namespace: the process may have moved to another.
fn same(namespace: u64, place: &Path) -> Option<File> {
    let file = File::open(place).ok()?;
    file.metadata()
        .is_ok_and(|it| it.ino() == namespace)
        .then_some(file)
}
