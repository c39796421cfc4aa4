//! What `scripts/phases`, and with it `make test` and `make demo`, says where Rust is missing or too old, and
//! where something is skipped that must not be.

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
    let output = Command::new(tools.join("bash"))
        .arg(script)
        .arg("build")
        .env("PATH", tools)
        .output()?;
    assert_eq!(output.status.code(), Some(1));
    Ok(String::from_utf8(output.stderr)?)
}

#[test]
fn without_rust_or_with_an_old_one_the_first_line_says_which_is_needed_and_how_to_get_it()
-> Result<(), Box<dyn Error>> {
    let wanted = format!(
        "Hawser needs Rust {} or newer, and ",
        env!("CARGO_PKG_RUST_VERSION")
    );
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

/// A copy of the script, so that it leaves the logs of whoever runs this test alone.
fn phase(name: &str, required: &str) -> Result<(Option<i32>, String), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = hawser_temporary::Folder::new()?;
    fs::create_dir(folder.join("scripts"))?;
    for file in ["scripts/phases", "Cargo.toml"] {
        fs::copy(root.join(file), folder.join(file))?;
    }
    // Found before any cargo-deny.
    let cargo = folder.join("cargo");
    fs::write(&cargo, "#!/bin/sh\nexit 101\n")?;
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755))?;
    let path = format!("{}:{}", folder.display(), std::env::var("PATH")?);
    let script = folder.join("scripts/phases");
    let output = Command::new(script)
        .arg(name)
        .env("PATH", path)
        .env("HAWSER_REQUIRE", required)
        .output()?;
    Ok((output.status.code(), String::from_utf8(output.stdout)?))
}

#[test]
fn what_is_required_and_skipped_fails_its_phase() -> Result<(), Box<dyn Error>> {
    let (code, said) = phase("deny", "")?;
    assert!(
        code == Some(0) && said.starts_with("skipped: cargo-deny is not installed"),
        "{code:?} {said}"
    );
    let (code, said) = phase("deny", "netns,tun")?;
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = phase("deny", "netns,cargo-deny")?;
    assert!(
        code == Some(1) && said.contains("this must not be skipped here"),
        "{code:?} {said}"
    );
    Ok(())
}
