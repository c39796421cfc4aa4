//! Temporary folders: no other code in Hawser creates them.
//!
//! All users can write to the folder for temporary files. If a name is predictable, such as one made of a
//! process id, another user can create it beforehand as a folder with links in it. A process of root's then
//! writes through those links. Names are therefore random, a folder is always created and never reused, and
//! its mode is 0700 whatever the umask.

#![forbid(unsafe_code)]

use std::fs::Permissions;
use std::io;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A new folder of mode 0700. When it is dropped, it is removed with its content.
#[derive(Debug)]
pub struct Folder(tempfile::TempDir);

impl Folder {
    /// Makes a folder in the directory for temporary files: `$TMPDIR`, or `/tmp`.
    ///
    /// # Errors
    /// When it cannot be created.
    #[expect(
        clippy::disallowed_methods,
        reason = "the folder that is made there has a random name"
    )]
    pub fn new() -> io::Result<Folder> {
        Folder::within(&std::env::temp_dir())
    }

    /// Makes a folder in `parent`, for files that are then renamed to a path there.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn within(parent: &Path) -> io::Result<Folder> {
        let mut builder = tempfile::Builder::new();
        builder
            .prefix(".hawser-")
            .permissions(Permissions::from_mode(0o700));
        builder.tempdir_in(parent).map(Folder)
    }
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        self.0.path()
    }
}

impl AsRef<Path> for Folder {
    fn as_ref(&self) -> &Path {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_its_owners_alone_and_goes_when_it_is_dropped() {
        let (one, two) = (Folder::new().expect("a folder"), Folder::new().expect("a folder"));
        assert_ne!(&*one, &*two);
        let inner = Folder::within(&one).expect("a folder");
        assert_eq!(inner.parent(), Some(&*one));
        for folder in [&one, &two, &inner] {
            let mode = std::fs::symlink_metadata(folder)
                .expect("it is there")
                .permissions()
                .mode();
            assert_eq!(mode & 0o7777, 0o700);
        }
        let path = inner.to_path_buf();
        std::fs::write(path.join("file"), "content").expect("a file");
        drop(inner);
        assert!(!path.exists());
    }
}
