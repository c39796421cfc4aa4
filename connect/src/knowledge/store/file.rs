//! The file: a SQLite database with one table.
//!
//! Each row has a digest, because the database detects damage to its structure but not to its content. A
//! damaged store is renamed, and a new one is begun. A file whose header does not mark it as a store is left
//! alone. Invariants: only its owner may read it (0600), and one process at a time has it open.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OpenFlags, params};
use sha2::{Digest, Sha256};

use super::{Changes, EntryKind, StoreContent, StoreError, StoredNode};

/// The application id of a store, which includes the version of its form: "Hwsr", 1.
const APPLICATION: i64 = 0x4877_7372;
const VERSION: i64 = 1;
/// The maximum size of a store, in bytes; a larger file is not a store of Hawser.
const BYTES: u64 = 64 << 20;
/// The maximum number of rows that are read.
const ROWS: i64 = 4_096;

const TABLE: &str = "CREATE TABLE entries (
    kind TEXT NOT NULL, name TEXT NOT NULL, until REAL, text TEXT NOT NULL, digest BLOB NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID";

/// An open store.
pub(super) struct File {
    connection: Connection,
}

/// The reason why a file cannot be read.
enum Bad {
    /// Its content is damaged.
    Content(String),
    /// Another error.
    Other(StoreError),
}

impl File {
    /// Opens a file, or begins one.
    pub(super) fn open(path: &Path, now: f64) -> Result<(File, StoreContent), StoreError> {
        let system = |error| StoreError::System { file: path.into(), error };
        prepare(path)?;
        match File::read(path, now) {
            Ok(opened) => Ok(opened),
            Err(Bad::Other(error)) => Err(error),
            Err(Bad::Content(why)) => {
                restrict(path)?;
                let aside = put_aside(path, now).map_err(system)?;
                prepare(path)?;
                let (file, mut loaded) = File::read(path, now).map_err(|bad| match bad {
                    Bad::Other(error) => error,
                    Bad::Content(why) => StoreError::Database { file: path.into(), why },
                })?;
                let (path, aside) = (path.display(), aside.display());
                loaded.warning = Some(format!(
                    "{path} cannot be used ({why}): it was renamed to {aside}, and a new store was created"
                ));
                Ok((file, loaded))
            }
        }
    }

    fn read(path: &Path, now: f64) -> Result<(File, StoreContent), Bad> {
        let bad = |error: rusqlite::Error| judge(path, &error);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(bad)?;
        let settings = "PRAGMA locking_mode = EXCLUSIVE; PRAGMA trusted_schema = OFF;
            PRAGMA cell_size_check = ON; PRAGMA synchronous = FULL; BEGIN EXCLUSIVE; COMMIT;";
        connection.execute_batch(settings).map_err(bad)?;
        let pragma =
            |name: &str| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0));
        let foreign = |why: &str| Bad::Other(StoreError::Foreign { file: path.into(), why: why.into() });
        // The id is read from the header alone, so that damage elsewhere does not hide the kind of file.
        let application = pragma("application_id").map_err(bad)?;
        if application != APPLICATION && application != 0 {
            return Err(foreign("it is the database of another program"));
        }
        if fs::metadata(path).is_ok_and(|file| file.len() > BYTES) {
            let why = format!("it has more than {BYTES} bytes");
            return Err(if application == 0 {
                foreign(&why)
            } else {
                Bad::Content(why)
            });
        }
        let tables = connection
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| {
                row.get::<_, i64>(0)
            })
            .map_err(|error| match application {
                0 => foreign(&error.to_string()),
                _ => bad(error),
            })?;
        if application == 0 && tables > 0 {
            return Err(foreign("it is the database of another program"));
        }
        restrict(path).map_err(Bad::Other)?;
        if application == 0 {
            let begin = format!(
                "BEGIN; PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION}; {TABLE}; COMMIT;"
            );
            connection.execute_batch(&begin).map_err(bad)?;
        }
        let version = pragma("user_version").map_err(bad)?;
        if version != VERSION {
            return Err(Bad::Content(format!(
                "it is a store of version {version}, but this program needs version {VERSION}"
            )));
        }
        let check: String = connection
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .map_err(bad)?;
        if check != "ok" {
            return Err(Bad::Content(check));
        }
        let mut file = File { connection };
        let loaded = file.load(now).map_err(|error| match error {
            Some(error) => judge(path, &error),
            None => Bad::Content("a row was changed".into()),
        })?;
        Ok((file, loaded))
    }

    /// Reads all rows; an error without a value means that a row is damaged.
    fn load(&mut self, now: f64) -> Result<StoreContent, Option<rusqlite::Error>> {
        self.connection
            .execute("DELETE FROM entries WHERE until < ?1", params![now])
            .map_err(Some)?;
        let mut loaded = StoreContent::default();
        let mut statement = self
            .connection
            .prepare("SELECT kind, name, until, text, digest FROM entries ORDER BY kind, name LIMIT ?1")
            .map_err(Some)?;
        let mut rows = statement.query(params![ROWS]).map_err(Some)?;
        while let Some(row) = rows.next().map_err(Some)? {
            let kind: String = row.get(0).map_err(Some)?;
            let name: String = row.get(1).map_err(Some)?;
            let until: Option<f64> = row.get(2).map_err(Some)?;
            let text: String = row.get(3).map_err(Some)?;
            let kept_digest: Vec<u8> = row.get(4).map_err(Some)?;
            if kept_digest != digest(&kind, &name, until, &text) {
                return Err(None);
            }
            if kind == EntryKind::Outcomes.word() {
                loaded.outcomes.insert(name, text);
            } else if let Ok(record) = serde_json::from_str::<StoredNode>(&text) {
                loaded.nodes.push(record);
            } else {
                return Err(None);
            }
        }
        Ok(loaded)
    }

    /// Writes all changes or none.
    pub(super) fn write(&mut self, changes: &Changes) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        {
            let mut put =
                transaction.prepare_cached("INSERT OR REPLACE INTO entries VALUES (?1, ?2, ?3, ?4, ?5)")?;
            let mut delete =
                transaction.prepare_cached("DELETE FROM entries WHERE kind = ?1 AND name = ?2")?;
            for ((kind, name), kept) in changes {
                let kind = kind.word();
                match kept {
                    Some(kept) => {
                        let digest = digest(kind, name, kept.until, &kept.text);
                        put.execute(params![kind, name, kept.until, kept.text, digest])?;
                    }
                    None => {
                        delete.execute(params![kind, name])?;
                    }
                }
            }
        }
        transaction.commit()
    }
}

fn digest(kind: &str, name: &str, until: Option<f64>, text: &str) -> Vec<u8> {
    let mut hasher = Sha256::new();
    for part in [kind, name, text] {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hasher.update(until.unwrap_or(f64::NAN).to_bits().to_be_bytes());
    hasher.finalize()[..16].to_vec()
}

/// Classifies an error as one of the content or of the system.
fn judge(path: &Path, error: &rusqlite::Error) -> Bad {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Bad::Other(StoreError::InUse(path.into()))
        }
        Some(ErrorCode::NotADatabase) => {
            Bad::Other(StoreError::Foreign { file: path.into(), why: "it is not a database".into() })
        }
        Some(
            ErrorCode::PermissionDenied
            | ErrorCode::ReadOnly
            | ErrorCode::SystemIoFailure
            | ErrorCode::DiskFull
            | ErrorCode::CannotOpen
            | ErrorCode::OutOfMemory,
        ) => Bad::Other(StoreError::Database { file: path.into(), why: error.to_string() }),
        _ => Bad::Content(error.to_string()),
    }
}

/// Creates the file if it is missing, accessible to its owner only. An existing file is not opened, because
/// closing it would release the locks of other holders in this process.
fn prepare(path: &Path) -> Result<(), StoreError> {
    let system = |error| StoreError::System { file: path.into(), error };
    match fs::symlink_metadata(path) {
        Ok(file) if !file.is_file() => Err(StoreError::NoFile(path.into())),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
                DirBuilder::new()
                    .recursive(true)
                    .mode(0o700)
                    .create(folder)
                    .map_err(system)?;
            }
            fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path)
                .map_err(system)?;
            Ok(())
        }
        Err(error) => Err(system(error)),
    }
}

/// Restricts a store to its owner.
fn restrict(path: &Path) -> Result<(), StoreError> {
    let system = |error| StoreError::System { file: path.into(), error };
    let mode = fs::metadata(path).map_err(system)?.permissions().mode();
    match mode & 0o177 {
        0 => Ok(()),
        _ => fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(system),
    }
}

/// Renames the file, together with the journal of an interrupted transaction.
fn put_aside(path: &Path, now: f64) -> io::Result<PathBuf> {
    let with = |end: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    let mut end = format!(".damaged-{now:.0}");
    for number in 1.. {
        if !with(&end).exists() {
            break;
        }
        end = format!(".damaged-{now:.0}-{number}");
    }
    fs::rename(path, with(&end))?;
    match fs::rename(with("-journal"), with(&format!("{end}-journal"))) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(with(&end)),
    }
}
