//! What is known, across restarts and kills.

mod killed;
mod restarts;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use hawser_knowledge::{Knowledge, OpenError, Settings, StoreError};
use hawser_temporary::Folder;

/// A folder for one test, which anybody may enter.
struct Place(Folder);

impl Place {
    fn new() -> Place {
        let folder = Folder::new().expect("the folder for tests can be written");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("it is ours");
        Place(folder)
    }

    fn settings(&self) -> Settings {
        Settings {
            store: Some(self.0.join("store")),
            ..Settings::default()
        }
    }
}

/// Opens it when who had it before has let it go.
async fn open(settings: &Settings) -> Knowledge {
    for _ in 0..500 {
        match Knowledge::open(settings.clone()).await {
            Err(OpenError::Store(StoreError::InUse(_))) => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            other => return other.expect("it opens"),
        }
    }
    panic!("it is never let go");
}

/// The test of this name in a process of its own, which does its work when it finds `variable`.
fn child(test: &str, variable: &str, value: &std::path::Path) -> std::process::Command {
    let mut command = std::process::Command::new(std::env::current_exe().expect("it runs"));
    command
        .args(["--exact", test, "--nocapture"])
        .env(variable, value);
    command
}
