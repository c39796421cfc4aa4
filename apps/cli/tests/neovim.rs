//! Neovim works with `hawser lsp` when set up exactly as in docs/editors.md. The expected results are looked
//! up in the source files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hawser_testing::{Need, skip};
use serde_json::{Value, json};

const DRIVE: &str = include_str!("neovim/drive.lua");

fn repository() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the repository is there")
}

/// Returns the minor version of Neovim 0.x, if it is installed.
fn version() -> Option<u32> {
    let output = Command::new("nvim").arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.strip_prefix("NVIM v0.")?.split('.').next()?.parse().ok()
}

/// Returns the blocks in one language from the Neovim section of docs/editors.md.
fn blocks(language: &str) -> Vec<String> {
    let page = fs::read_to_string(repository().join("docs/editors.md")).expect("the page");
    let (_, section) = page.split_once("\n## Neovim\n").expect("a section");
    let (section, _) = section.split_once("\n## ").expect("another section");
    let blocks = section.split("\n```").skip(1).step_by(2);
    let in_language = blocks.filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n'));
    in_language.map(str::to_owned).collect()
}

/// Prepares a folder with copies of TCP, of an example and of its scenario, and a home in which Neovim is set
/// up as on the page.
fn prepared(version: u32) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("neovim");
    _ = fs::remove_dir_all(&folder);
    let root = repository();
    for (from, to) in [
        ("transports/tcp", "tcp"),
        ("examples", "."),
        ("examples/scenarios", "scenarios"),
    ] {
        fs::create_dir_all(folder.join(to)).expect("a folder");
        for entry in fs::read_dir(root.join(from)).expect("a folder of the repository") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_str().expect("UTF-8");
            if from.ends_with("tcp") && name.ends_with(".mtp") || name.starts_with("stop-and-wait.") {
                fs::copy(&path, folder.join(to).join(name)).expect("a copy");
            }
        }
    }

    let [newest, older, commands, colours] = &blocks("lua")[..] else {
        panic!("the page has other blocks: {:?}", blocks("lua"));
    };
    let server = if version >= 11 { newest } else { older };
    let colours = if version >= 9 { colours } else { "" };
    fs::write(
        folder.join("init.lua"),
        format!("{server}\n{commands}\n{colours}"),
    )
    .expect("a file");
    fs::write(folder.join("drive.lua"), DRIVE).expect("a file");
    let [install] = &blocks("console")[..] else {
        panic!("the page has other commands: {:?}", blocks("console"));
    };
    let install = install.replace("HAWSER", root.to_str().expect("UTF-8"));
    let status = Command::new("sh")
        .args(["-ec", &install])
        .env("HOME", folder.join("home"))
        .status();
    assert!(status.expect("sh").success(), "{install}");
    folder
}

/// Runs Neovim with the driver script, and returns its observations.
fn driven(folder: &Path) -> Value {
    let command = Path::new(env!("CARGO_BIN_EXE_hawser"))
        .parent()
        .expect("a folder");
    let path = format!("{}:{}", command.display(), std::env::var("PATH").expect("a path"));
    let output = Command::new("nvim")
        .args([
            "--headless",
            "-n",
            "-i",
            "NONE",
            "-u",
            "init.lua",
            "-c",
            "luafile drive.lua",
        ])
        .current_dir(folder)
        .env("HOME", folder.join("home"))
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("XDG_DATA_HOME")
        .env_remove("XDG_STATE_HOME")
        .env("PATH", path)
        .env("SEEN", folder.join("seen.json"))
        .stdin(Stdio::null())
        .output()
        .expect("Neovim starts");
    let printed = String::from_utf8_lossy(&output.stderr);
    let seen = fs::read_to_string(folder.join("seen.json"));
    let seen = seen.unwrap_or_else(|error| panic!("{error}: {printed}"));
    let seen: Value = serde_json::from_str(&seen).expect("JSON");
    assert_eq!(seen.get("failed"), None, "{printed}\n{seen:#}");
    seen
}

/// Counts the occurrences of a word in a text.
fn count(text: &str, word: &str) -> usize {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|found| *found == word).count()
}

#[test]
fn neovim_works_as_the_page_describes() {
    let Some(version) = version() else {
        return skip(
            Need::Nvim,
            "neovim_works_as_the_page_describes",
            "it cannot be started",
        );
    };
    let folder = prepared(version);
    let seen = driven(&folder);
    let text = |name: &str| fs::read_to_string(folder.join("tcp").join(name)).expect("a program");
    assert_eq!(seen["filetype"], "mtp");

    let line = text("recovery.mtp")
        .lines()
        .position(|line| line.contains("uint64 "));
    let line = line.expect("a line") + 1;
    assert_eq!(
        (&seen["mistake_line"], &seen["shown_line"]),
        (&json!(line), &json!(line))
    );
    let mistake = seen["mistake"].as_str().expect("a text");
    assert!(mistake.contains("unknown type `uint65`"), "{mistake}");

    let hover = seen["hover"].as_str().expect("a text");
    // RFC 9293, section 3.1: the 32-bit sequence number follows the two ports.
    assert!(
        hover.contains("seq<32> seq") && hover.contains("bytes 4 to 7"),
        "{hover}"
    );

    let definition = seen["definition"].as_str().expect("a text");
    assert!(
        text("header.mtp").lines().any(|line| line == definition),
        "{definition}"
    );
    assert_eq!(
        Some(seen["column"].as_u64().expect("a number") as usize),
        definition.find("seq, ").map(|at| at + 1)
    );

    let files = fs::read_dir(folder.join("tcp")).expect("a folder");
    let mut expected = serde_json::Map::new();
    for entry in files {
        let name = entry.expect("an entry").file_name().into_string().expect("UTF-8");
        let times = count(&text(&name), "snd_wl1");
        if times > 0 {
            expected.insert(name, json!(times));
        }
    }
    assert!(expected.len() > 1, "{expected:?}");
    assert_eq!(seen["renamed"], Value::Object(expected));

    let command = seen["command"].as_str().expect("a text");
    assert!(
        command.contains("hawser sim run ") && command.contains("stop-and-wait.toml"),
        "{command}"
    );
    let run = seen["run"].as_str().expect("a text");
    assert!(
        run.contains("1048576 bytes") && run.contains("Process exited 0"),
        "{run}"
    );

    let grammar = json!({ "is_wrong": false, "event": "type", "keyword": "keyword.return" });
    assert_eq!(seen["grammar"], grammar);
}
