//! Written entries persist, damaged files are renamed, and callers do not wait.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use hawser_documents::temporary::Folder;
use serde_json::json;

use super::*;

const NOW: f64 = 1_700_000_000.0;

fn record(number: u32) -> StoredNode {
    let node = json!({ "uid": format!("n{number}"), "properties": { "rtt": { "value": number } } });
    StoredNode { origin: NodeOrigin::Controller, network: None, node }
}

/// Opens the store when the last one's thread has released it.
async fn open(path: &Path, now: f64) -> (Store, StoreContent) {
    for _ in 0..500 {
        match Store::open(path, now) {
            Err(StoreError::InUse(_)) => tokio::time::sleep(Duration::from_millis(10)).await,
            other => return other.expect("it opens"),
        }
    }
    panic!("it is never let go");
}

#[tokio::test]
async fn a_stored_node_is_loaded_until_its_end() {
    let folder = Folder::new().expect("a folder");
    let path = folder.join("deeper/store");
    let (store, loaded) = open(&path, NOW).await;
    assert!(loaded.nodes.is_empty() && loaded.warning.is_none());
    assert_eq!(
        fs::metadata(&path).expect("it is there").permissions().mode() & 0o777,
        0o600
    );
    let queue = store.queue();
    queue.keep("n1", &record(1), None);
    queue.keep("n2", &record(2), Some(NOW + 10.0));
    queue.keep("n3", &record(3), None);
    queue.keep("n3", &record(4), None);
    queue.keep("n5", &record(5), None);
    queue.forget("n5");
    queue.keep_outcomes("races", "{}".into());
    assert!(queue.flush().await);
    assert!(
        matches!(Store::open(&path, NOW), Err(StoreError::InUse(_))),
        "one has it"
    );
    drop(store);
    let (store, loaded) = open(&path, NOW + 10.0).await;
    assert_eq!(
        loaded.nodes,
        [record(1), record(2), record(4)],
        "the newest of each"
    );
    assert_eq!(loaded.outcomes.get("races").map(String::as_str), Some("{}"));
    drop(store);
    let (_store, loaded) = open(&path, NOW + 10.5).await;
    assert_eq!(loaded.nodes, [record(1), record(4)], "one has ended");
}

/// Truncated, overwritten, flipped: the store has either all that was written, or is new and the old file is
/// renamed.
#[tokio::test]
async fn a_damaged_file_is_put_aside() {
    let folder = Folder::new().expect("a folder");
    let path = folder.join("store");
    let (store, _) = open(&path, NOW).await;
    let queue = store.queue();
    let all: Vec<StoredNode> = (100..180).map(record).collect();
    for (number, record) in all.iter().enumerate() {
        queue.keep(&format!("n{}", number + 100), record, None);
    }
    assert!(queue.flush().await);
    drop(store);
    drop(open(&path, NOW).await);
    let good = fs::read(&path).expect("it is ours");
    let mut rng = fastrand::Rng::with_seed(7);
    let mut random = |below: usize| rng.usize(..below);
    let mut aside = 0;
    for round in 0..90 {
        let mut bad = good.clone();
        match round % 4 {
            0 => bad.truncate(random(good.len())),
            1 => bad[random(good.len())] ^= 1 << random(8),
            2 => (0..8).for_each(|_| bad[random(good.len())] ^= 0xff),
            _ => {
                let begin = random(good.len() - 600);
                bad[begin..begin + 600].fill_with(|| 0x5a);
            }
        }
        // Each round has its own folder, because the last one's thread may still be writing.
        let folder = folder.join(round.to_string());
        let path = folder.join("store");
        fs::create_dir(&folder).expect("it is ours");
        fs::write(&path, &bad).expect("it is ours");
        let is_known = bad.is_empty() || is_a_store(&bad);
        if !is_known {
            // Its header does not mark it as a store.
            assert!(
                matches!(Store::open(&path, NOW), Err(StoreError::Foreign { .. })),
                "round {round}"
            );
            assert_eq!(fs::read(&path).expect("it is left"), bad);
            continue;
        }
        let (store, loaded) = match Store::open(&path, NOW) {
            // Other fields of the header show that it is not a database.
            Err(StoreError::Foreign { .. }) => {
                assert_eq!(fs::read(&path).expect("it is left"), bad);
                continue;
            }
            other => other.expect("it opens"),
        };
        if loaded.warning.is_none() && !bad.is_empty() {
            assert_eq!(
                loaded.nodes, all,
                "round {round}: what is not noticed changes nothing"
            );
            continue;
        }
        assert!(loaded.nodes.is_empty() && loaded.outcomes.is_empty());
        assert_eq!(
            fs::metadata(&path).expect("a new one").permissions().mode() & 0o777,
            0o600
        );
        if loaded.warning.is_some() {
            aside += 1;
            let put = fs::read_dir(&folder)
                .expect("it is ours")
                .flatten()
                .map(|file| file.path());
            let put: Vec<PathBuf> = put
                .filter(|file| file.to_string_lossy().contains(".damaged-"))
                .collect();
            assert_eq!(fs::read(&put[0]).expect("it is kept"), bad);
        }
        // The new store works.
        store.queue().keep("n1", &record(1), None);
        assert!(store.queue().flush().await);
    }
    assert!(aside > 45, "{aside} of 90 were put aside");
}

/// SQLite's file format, 1.3: the magic, and the application id at offset 68.
fn is_a_store(bytes: &[u8]) -> bool {
    bytes.starts_with(b"SQLite format 3\0") && bytes.get(68..72) == Some(b"Hwsr")
}

#[test]
fn a_foreign_file_is_refused_and_left_unchanged() {
    let folder = Folder::new().expect("a folder");
    let (notes, database) = (folder.join("notes.txt"), folder.join("photos.db"));
    fs::write(&notes, "this is no database, however long it may be").expect("it is ours");
    let other = rusqlite::Connection::open(&database).expect("a database");
    other
        .execute_batch("CREATE TABLE photos (name TEXT); INSERT INTO photos VALUES ('sea')")
        .expect("a table");
    drop(other);
    for path in [&notes, &database] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).expect("it is ours");
        let before = fs::read(path).expect("it is ours");
        let error = Store::open(path, NOW).err().expect("it is no store");
        assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
        assert!(error.to_string().contains("choose another path"), "{error}");
        assert_eq!(fs::read(path).expect("it is there"), before);
        assert_eq!(
            fs::metadata(path).expect("it is there").permissions().mode() & 0o777,
            0o644
        );
    }
    assert_eq!(
        fs::read_dir(&folder).expect("it is ours").count(),
        2,
        "nothing was renamed"
    );
}

#[tokio::test]
async fn a_store_of_a_newer_version_is_put_aside_with_a_warning() {
    let folder = Folder::new().expect("a folder");
    let path = folder.join("store");
    drop(open(&path, NOW).await);
    for _ in 0..500 {
        let newer = rusqlite::Connection::open(&path).expect("a database");
        if newer.execute_batch("PRAGMA user_version = 2").is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (_store, loaded) = open(&path, NOW).await;
    let why = loaded.warning.expect("a warning");
    assert!(why.contains("version 2") && why.contains(".damaged-"), "{why}");
}

#[test]
fn a_path_that_is_not_a_regular_file_is_left_alone() {
    let folder = Folder::new().expect("a folder");
    let link = folder.join("link");
    std::os::unix::fs::symlink("elsewhere", &link).expect("it is ours");
    assert!(matches!(Store::open(&folder, NOW), Err(StoreError::NoFile(_))));
    assert!(matches!(Store::open(&link, NOW), Err(StoreError::NoFile(_))));
    assert!(!folder.join("elsewhere").exists());
}

#[tokio::test]
async fn writing_to_the_store_never_blocks() {
    let folder = Folder::new().expect("a folder");
    let (store, _) = open(&folder.join("store"), NOW).await;
    let queue = store.queue();
    let begin = std::time::Instant::now();
    for number in 0..20_000 {
        queue.keep(&format!("n{}", number % 100), &record(number), None);
    }
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    assert!(queue.lock().changes.len() <= 100, "of a key the newest waits");
    for number in 0..3 * MAX_WAITING {
        queue.forget(&format!("m{number}"));
        assert!(queue.lock().changes.len() <= MAX_WAITING);
    }
}
