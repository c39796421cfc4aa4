//! What `scripts/phases`, and with it `make test` and `make demo`, says where Rust is missing or too old.

use std::error::Error;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

/// What `scripts/phases build` prints to standard error where only these tools and `rustc` can be found.
fn build_with(tools: &Path, rustc: Option<&str>) -> Result<String, Box<dyn Error>> {
    for tool in ["bash", "dirname", "sed", "cut", "sort", "head"] {
        let found = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(tool));
        let found = found.iter().find(|path| path.exists()).ok_or(tool)?;
        symlink(found, tools.join(tool))?;
    }
    for (name, prints) in [("rustc", rustc), ("cargo", rustc)] {
        let Some(prints) = prints else { continue };
        let path = tools.join(name);
        fs::write(&path, format!("#!{}/bash\necho '{prints}'\n", tools.display()))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/phases");
    let output = Command::new(tools.join("bash")).arg(script).arg("build").env("PATH", tools).output()?;
    assert_eq!(output.status.code(), Some(1));
    Ok(String::from_utf8(output.stderr)?)
}

#[test]
fn without_rust_or_with_an_old_one_the_first_line_says_which_is_needed_and_how_to_get_it()
-> Result<(), Box<dyn Error>> {
    let wanted = format!("Hawser needs Rust {} or newer, and ", env!("CARGO_PKG_RUST_VERSION"));
    // What Debian 12 has.
    let old = "rustc 1.63.0 (4b91a6ea7 2022-08-08)";
    for (rustc, present) in [(None, "there is none; "), (Some(old), "this is 1.63.0 (")] {
        let tools = hawser_temporary::Folder::new()?;
        let said = build_with(&tools, rustc)?;
        let expected = format!("{wanted}{present}");
        assert!(said.starts_with(&expected), "expected {expected}, got {said}");
        let how = "install it as https://rustup.rs says: curl --proto =https --tlsv1.2 -sSf https://sh.rustup.rs | sh\n";
        assert!(said.ends_with(how), "{said}");
    }
    Ok(())
}
