//! Temporary folders: the only place in Hawser that makes them.
//!
//! The folder for temporary files belongs to everybody. A name that another user can foresee (one
//! made of a process id, for instance) can be planted there before it is used, as a folder with links
//! in it; a process of root's then writes through those links. So a name is random, the folder is
//! created and never taken as it is found, and its mode is 0700 whatever the mask.

#![forbid(unsafe_code)]

use std::fs::Permissions;
use std::io;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A new folder of mode 0700, which is removed with what is in it when it is dropped.
#[derive(Debug)]
pub struct Folder(tempfile::TempDir);

impl Folder {
    /// Makes one where temporary files belong: `$TMPDIR`, or `/tmp`.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn new() -> io::Result<Folder> {
        Folder::within(&std::env::temp_dir())
    }

    /// Makes one in `parent`, for files that are renamed to a place there.
    ///
    /// # Errors
    /// It cannot be created.
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
