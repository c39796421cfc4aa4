//! Runs this command as an unprivileged user.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use hawser_documents::temporary::Folder;

/// Copies the built command into a folder that every user may enter. A separate process makes the copy. In
/// this process, a child of another test could briefly inherit the writable descriptor, and then the copy
/// could not be started (ETXTBSY).
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
