//! This command as a user who may do nothing.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use hawser_temporary::Folder;

/// A folder that everybody may enter, with a copy of the built command in it.
pub(crate) fn copy() -> (Folder, PathBuf) {
    let folder = Folder::new().expect("a folder");
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).expect("it is ours");
    let copy = folder.join("hawser");
    std::fs::copy(env!("CARGO_BIN_EXE_hawser"), &copy).expect("a copy");
    (folder, copy)
}
