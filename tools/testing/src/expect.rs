//! Change detectors: texts that the code itself generated, stored in files beside the test.
//!
//! They show that an output changed, not that it is right. `UPDATE_EXPECT=1` replaces the stored text with
//! the current one; read the difference before committing it.

use std::fs;
use std::path::Path;

/// Compares a text with the one stored in a file. A missing file counts as an empty text.
///
/// # Errors
/// The texts differ; the message shows the difference. With `UPDATE_EXPECT` set, the only error is a file
/// that cannot be written.
pub fn expect_file(kept: &Path, found: &str) -> Result<(), String> {
    let is_update = std::env::var_os("UPDATE_EXPECT").is_some();
    compare(kept, found, is_update)
}

fn compare(kept: &Path, found: &str, is_update: bool) -> Result<(), String> {
    let expected = fs::read_to_string(kept).unwrap_or_default();
    if found == expected {
        return Ok(());
    }
    if !is_update {
        let path = kept.display();
        return Err(format!(
            "{path} differs (UPDATE_EXPECT=1 rewrites it)\nexpected:\n{expected}found:\n{found}"
        ));
    }
    let written = if found.is_empty() {
        fs::remove_file(kept)
    } else {
        fs::write(kept, found)
    };
    written.map_err(|error| format!("{}: {error}", kept.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_text_fails_until_it_is_updated() {
        let folder = hawser_documents::temporary::Folder::new().expect("a folder");
        let kept = folder.join("kept.txt");
        assert_eq!(compare(&kept, "", false), Ok(()), "absent and empty");
        let differs = compare(&kept, "new\n", false).expect_err("nothing was kept");
        assert!(differs.ends_with("expected:\nfound:\nnew\n"), "{differs}");
        assert!(!kept.exists(), "only an update writes");
        assert_eq!(compare(&kept, "new\n", true), Ok(()));
        assert_eq!(compare(&kept, "new\n", false), Ok(()));
        assert_eq!(compare(&kept, "", true), Ok(()));
        assert!(!kept.exists(), "the empty text needs no file");
    }
}
