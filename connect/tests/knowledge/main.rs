//! The knowledge across restarts and kills.

mod killed;
mod open;
mod restarts;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use hawser_connect::knowledge::Settings;
use hawser_documents::temporary::Folder;

/// A folder for one test, which any user may enter.
struct TestFolder(Folder);

impl TestFolder {
    fn new() -> TestFolder {
        let folder = Folder::new().expect("the folder for tests can be written");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("it is ours");
        TestFolder(folder)
    }

    fn settings(&self) -> Settings {
        Settings { store: Some(self.0.join("store")), ..Settings::default() }
    }
}
