//! State that outlives a session: the quota bytes that metered paths have used, the servers that were seen to
//! speak Hawser, and the networks on which long packets are lost.
//!
//! It is one JSON file, which is replaced as a whole, under a lock that every process takes. A file that
//! cannot be parsed is an error and is left as it is. A process that went on without it might exceed a spent
//! quota, and trust a server that may have been replaced.
//!
//! The file and its lock belong to this user alone (mode 0600), in a folder to which no other user may write.
//! Links are not followed and files are not truncated, so that a path from elsewhere cannot change another
//! file.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hawser_documents::temporary::Folder;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use time::UtcDateTime;

use super::document::{MeteredPath, Period};

/// The version of the format, the only one that is read and written.
const VERSION: u32 = 1;
/// The maximum size of the file in bytes, enough for thousands of servers.
const MAX_BYTES: u64 = 1 << 20;
/// The time for which two facts are remembered. A server that was seen to speak Hawser is offered only
/// Hawser. Sessions on a network that lost long packets begin with small ones.
const MEMORY: Duration = Duration::from_secs(30 * 24 * 3_600);

/// The maximum number of servers, and of networks, that are remembered.
const MAX_ENTRIES: usize = 1_024;

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct SavedState {
    version: u32,
    /// By the document's name for the path, an interface or `any`.
    #[serde(default)]
    metered: BTreeMap<String, Metered>,
    /// The day on which each server was last seen to speak Hawser, by `name:port`.
    #[serde(default)]
    peers: BTreeMap<String, String>,
    /// The day on which long packets were last seen to be lost, by the network's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    narrow: BTreeMap<String, String>,
}

/// The use of a metered path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Metered {
    /// Bytes in both directions, including those that current sessions have set aside.
    used: u64,
    /// The first day of the period in which they were used.
    since: String,
}

/// A part of a quota that was set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) bytes: u64,
    /// Bytes that had been used or set aside before.
    pub(super) used: u64,
    /// The first day of the period.
    pub(super) since: String,
}

/// The state could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// This user has no default place, and the document names none.
    #[error("neither XDG_STATE_HOME nor HOME is set")]
    NoPlace,
    /// The file, its lock or its folder cannot be used.
    #[error("{path}: {fault}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        fault: StateFault,
    },
    /// The file is not valid.
    #[error("{path} is damaged: {why}; it contains the use of quotas: repair or remove it", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The problem with its content.
        why: String,
    },
    /// The runtime ended while the file was read or written.
    #[error("the state was not saved because the runtime is ending")]
    Interrupted,
}

/// The reason why a state file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateFault {
    /// A system call failed.
    #[error(transparent)]
    System(#[from] io::Error),
    /// The file is a link.
    #[error("it is a symbolic link, which is not followed")]
    Link,
    /// The file is a folder, a pipe or a device.
    #[error("it is not a file")]
    NoFile,
    /// Users other than this one and root may write to its folder.
    #[error(
        "other users can write to its folder and create links there: use a folder of your own (chmod \
             go-w)"
    )]
    SharedFolder,
}

impl From<StateError> for io::Error {
    fn from(error: StateError) -> Self {
        let kind = match &error {
            StateError::NoPlace => io::ErrorKind::NotFound,
            StateError::Damaged { .. } => io::ErrorKind::InvalidData,
            StateError::Interrupted => io::ErrorKind::Interrupted,
            StateError::File { fault, .. } => match fault {
                StateFault::System(error) => error.kind(),
                StateFault::Link | StateFault::NoFile => io::ErrorKind::InvalidInput,
                StateFault::SharedFolder => io::ErrorKind::PermissionDenied,
            },
        };
        Self::new(kind, error)
    }
}

/// The file that holds the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StateFile {
    path: PathBuf,
}

impl StateFile {
    pub(super) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// Returns the default file, if this user has one: `hawser/state.json` in `$XDG_STATE_HOME` or
    /// `~/.local/state` (XDG Base Directory Specification 0.8).
    pub(super) fn usual() -> Option<Self> {
        let folder = |name| {
            std::env::var_os(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let base = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")))?;
        Some(Self::at(base.join("hawser/state.json")))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Sets a slice of each quota aside. `share` computes its size from the remaining bytes. The slice counts
    /// as used from now on.
    pub(super) fn reserve(
        &self,
        meters: &[&MeteredPath],
        share: fn(u64) -> u64,
    ) -> Result<Vec<Slice>, StateError> {
        let mut slices = Vec::new();
        self.change(|state| {
            for meter in meters {
                let metered = state.metered.remove(&meter.key).unwrap_or_default();
                let mut metered = current(metered, meter.period);
                let bytes = share(meter.quota.saturating_sub(metered.used));
                slices.push(Slice { bytes, used: metered.used, since: metered.since.clone() });
                metered.used += bytes;
                state.metered.insert(meter.key.clone(), metered);
            }
        })?;
        Ok(slices)
    }

    /// Gives back the unused rest of a period's slices, unless another period has begun.
    pub(super) fn give_back(&self, rest: &[(MeteredPath, String, u64)]) -> Result<(), StateError> {
        self.change(|state| {
            for (meter, since, bytes) in rest {
                let Some(metered) = state.metered.get_mut(&meter.key) else {
                    continue;
                };
                if metered.since == *since {
                    metered.used = metered.used.saturating_sub(*bytes);
                }
            }
        })
    }

    /// Returns true if the server was seen to speak Hawser in the last thirty days.
    pub(super) fn speaks_hawser(&self, peer: &str) -> Result<bool, StateError> {
        Ok(self.read()?.peers.get(peer).is_some_and(|seen| *seen >= oldest()))
    }

    /// Records that the server was seen to speak Hawser today.
    pub(super) fn saw(&self, peer: &str) -> Result<(), StateError> {
        self.note(|state| &mut state.peers, peer)
    }

    /// Returns true if long packets were lost on the network in the last thirty days.
    pub(super) fn loses_long_packets(&self, network: &str) -> Result<bool, StateError> {
        Ok(self
            .read()?
            .narrow
            .get(network)
            .is_some_and(|seen| *seen >= oldest()))
    }

    /// Records that long packets were lost on the network today.
    pub(super) fn lost_long_packets(&self, network: &str) -> Result<(), StateError> {
        self.note(|state| &mut state.narrow, network)
    }

    /// Records an observation of today. Expired entries are forgotten, and the oldest ones if there are too
    /// many.
    fn note(
        &self,
        of: fn(&mut SavedState) -> &mut BTreeMap<String, String>,
        what: &str,
    ) -> Result<(), StateError> {
        let today = day(since_epoch());
        if of(&mut self.read()?).get(what) == Some(&today) {
            return Ok(());
        }
        self.change(|state| {
            let known = of(state);
            known.retain(|_, seen| *seen >= oldest());
            known.insert(what.to_owned(), today);
            while known.len() > MAX_ENTRIES {
                let first = known
                    .iter()
                    .min_by_key(|(_, seen)| *seen)
                    .map(|(name, _)| name.clone());
                first.map(|name| known.remove(&name));
            }
        })
    }

    fn read(&self) -> Result<SavedState, StateError> {
        let mut text = String::new();
        let read = open_own(OpenOptions::new().read(true), &self.path);
        match read.and_then(|file| Ok(file.take(MAX_BYTES).read_to_string(&mut text)?)) {
            Ok(_) => {}
            Err(StateFault::System(error)) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(SavedState::default());
            }
            Err(fault) => return Err(self.fault(fault)),
        }
        let state: SavedState = hawser_documents::json(&text).map_err(|fault| self.damaged(&fault))?;
        if state.version == VERSION {
            Ok(state)
        } else {
            Err(self.damaged(&format!("version {} is unknown", state.version)))
        }
    }

    /// Reads, changes and replaces the file under the lock.
    fn change(&self, change: impl FnOnce(&mut SavedState)) -> Result<(), StateError> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        own(folder).map_err(|fault| self.fault(fault))?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        let lock = open_own(&mut options, &beside(&self.path, ".lock")).map_err(|fault| self.fault(fault))?;
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive)
            .map_err(|error| self.fault(io::Error::from(error)))?;
        let before = self.read()?;
        let mut state = before.clone();
        state.version = VERSION;
        change(&mut state);
        if state == before {
            return Ok(());
        }
        let replace = || {
            let apart = Folder::within(folder)?;
            let new = apart.join("state");
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&new)?;
            serde_json::to_writer_pretty(&mut file, &state)?;
            file.write_all(b"\n")?;
            file.sync_all()?;
            std::fs::rename(&new, &self.path)
        };
        replace().map_err(|error: io::Error| self.fault(error))
    }

    fn fault(&self, fault: impl Into<StateFault>) -> StateError {
        StateError::File { path: self.path.clone(), fault: fault.into() }
    }

    fn damaged(&self, why: &impl std::fmt::Display) -> StateError {
        StateError::Damaged { path: self.path.clone(), why: why.to_string() }
    }
}

/// Returns the first day that still counts.
fn oldest() -> String {
    day(since_epoch().saturating_sub(MEMORY))
}

/// Creates the folder if it is absent. Fails if users other than this one and root may write to it.
fn own(folder: &Path) -> Result<(), StateFault> {
    hawser_socket::local::folder(folder)?;
    match hawser_socket::local::is_own(&std::fs::metadata(folder)?) {
        true => Ok(()),
        false => Err(StateFault::SharedFolder),
    }
}

/// Opens a file of this user alone. It neither follows a link nor waits for the other end of a pipe.
fn open_own(options: &mut OpenOptions, path: &Path) -> Result<File, StateFault> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = options
        .mode(0o600)
        .custom_flags(flags.bits().cast_signed())
        .open(path);
    let file = file.map_err(|error| match error.raw_os_error() {
        Some(number) if number == rustix::io::Errno::LOOP.raw_os_error() => StateFault::Link,
        _ => StateFault::System(error),
    })?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(StateFault::NoFile),
    }
}

/// Returns the use that counts now, which is zero when a new period has begun.
fn current(metered: Metered, period: Period) -> Metered {
    let today = day(since_epoch());
    let begin = match period {
        Period::Day => today,
        Period::Month => format!("{}-01", &today[..today.len() - 3]),
        Period::Ever if metered.since.is_empty() => today,
        Period::Ever => return metered,
    };
    if metered.since < begin {
        Metered { used: 0, since: begin }
    } else {
        metered
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Returns the day in UTC (ISO 8601), which sorts as text.
fn day(since_epoch: Duration) -> String {
    let seconds = i64::try_from(since_epoch.as_secs()).unwrap_or_default();
    // The clock of a machine may be beyond the years that there are names for.
    let time = UtcDateTime::from_unix_timestamp(seconds).unwrap_or(UtcDateTime::MAX);
    time.date().to_string()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    /// The expected values are those that `date -u -d @N +%F` prints.
    #[test]
    fn days_match_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01"),
            (951_782_399, "2000-02-28"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_709_164_800, "2024-02-29"),
            (1_735_689_599, "2024-12-31"),
            (1_735_689_600, "2025-01-01"),
            (4_107_542_400, "2100-03-01"),
        ] {
            assert_eq!(day(Duration::from_secs(seconds)), expected);
        }
    }

    /// Writes a state with one server, seen today.
    fn seen(path: &Path) -> Result<(), StateError> {
        StateFile::at(path.to_owned()).saw("example.net:4433")
    }

    #[test]
    fn a_link_in_place_of_the_lock_or_the_state_is_not_followed() {
        let folder = Folder::new().unwrap();
        let victim = folder.join("victim");
        std::fs::write(&victim, "mine").unwrap();
        let path = folder.join("state.json");
        for name in ["state.json.lock", "state.json"] {
            std::os::unix::fs::symlink(&victim, folder.join(name)).unwrap();
            let error = seen(&path).unwrap_err().to_string();
            assert!(error.contains("it is a symbolic link"), "{name}: {error}");
            std::fs::remove_file(folder.join(name)).unwrap();
        }
        seen(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "mine");
    }

    #[test]
    fn a_file_in_place_of_the_lock_is_not_truncated() {
        let folder = Folder::new().unwrap();
        let lock = folder.join("state.json.lock");
        std::fs::write(&lock, "mine").unwrap();
        seen(&folder.join("state.json")).unwrap();
        assert_eq!(std::fs::read_to_string(&lock).unwrap(), "mine");
    }

    #[test]
    fn state_and_lock_files_are_private_to_their_owner() {
        let folder = Folder::new().unwrap();
        let path = folder.join("new/state.json");
        seen(&path).unwrap();
        assert!(
            StateFile::at(path.clone())
                .speaks_hawser("example.net:4433")
                .unwrap()
        );
        for (path, mode) in [
            (folder.join("new"), 0o700),
            (path, 0o600),
            (folder.join("new/state.json.lock"), 0o600),
        ] {
            assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, mode, "{path:?}");
        }
        assert_eq!(
            std::fs::read_dir(folder.join("new")).unwrap().count(),
            2,
            "nothing else is left"
        );
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        let folder = Folder::new().unwrap();
        for mode in [0o702, 0o720, 0o1777] {
            std::fs::set_permissions(&folder, PermissionsExt::from_mode(mode)).unwrap();
            let error = seen(&folder.join("state.json")).unwrap_err().to_string();
            assert!(error.contains("chmod go-w"), "{error}");
        }
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn a_new_period_begins_with_zero_usage() {
        let today = day(since_epoch());
        let old = Metered { used: 9, since: "2001-02-03".into() };
        assert_eq!(current(old.clone(), Period::Ever), old);
        assert_eq!(
            current(old.clone(), Period::Day),
            Metered { used: 0, since: today.clone() }
        );
        let month = current(old, Period::Month);
        assert_eq!((month.used, month.since), (0, format!("{}-01", &today[..7])));
        let new = Metered { used: 9, since: today };
        assert_eq!(current(new.clone(), Period::Day), new);
        assert_eq!(current(new.clone(), Period::Month), new);
    }
}
