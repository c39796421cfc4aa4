//! This command as a user who may do nothing.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use hawser_temporary::Folder;

/// A folder that everybody may enter, with a copy of the built command in it. A process of its own makes it: a descriptor
/// for writing that another test's child inherits here for a moment would keep the copy from being started (ETXTBSY).
pub(crate) fn copy() -> (Folder, PathBuf) {
    let folder = Folder::new().expect("a folder");
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).expect("it is ours");
    let copy = folder.join("hawser");
    let copied = Command::new("cp")
        .arg(env!("CARGO_BIN_EXE_hawser"))
        .arg(&copy)
        .status();
    assert!(
        copied.is_ok_and(|status| status.success()),
        "a copy of the command"
    );
    (folder, copy)
}
