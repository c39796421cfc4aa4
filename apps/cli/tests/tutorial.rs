//! Follows `docs/tutorial.md`, `docs/debugging.md` and `docs/testing-your-transport.md` word for word.
//!
//! Blocks marked `mtp file=NAME`, and others of this form, are written to that file, one after the other. trycmd
//! then runs the blocks marked `console`, in the order of the page, and compares the output with the page.
//! `TRYCMD=overwrite` writes the output into the page.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::blocks::blocks;

#[test]
fn the_tutorial_works_word_for_word() {
    let (files, commands) = follow("tutorial.md", &[]);
    assert!(
        files.len() >= 2 && commands >= 4,
        "the page lost its blocks: {files:?}, {commands} commands"
    );
}

#[test]
fn a_planted_bug_is_found_as_the_page_says() {
    let (files, commands) = follow("debugging.md", &[]);
    assert!(
        files.len() == 1 && commands >= 3,
        "the page lost its blocks: {files:?}, {commands} commands"
    );
}

#[test]
fn the_page_on_testing_works_word_for_word() {
    // The page begins with a copy of the example.
    let (files, commands) = follow("testing-your-transport.md", &[("stop-and-wait.mtp", "my.mtp")]);
    assert!(
        files.len() >= 2 && commands >= 4,
        "the page lost its blocks: {files:?}, {commands} commands"
    );
}

/// Follows a page of `docs/` in a folder with copies of examples. Each is given by its name in `examples/` and
/// the name of the copy. Returns the files that the page writes and the number of its commands.
fn follow(page: &str, copies: &[(&str, &str)]) -> (BTreeSet<String>, usize) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let original = root.join("docs").join(page);
    // trycmd runs the commands of a page in the folder `NAME.in` beside it. The link leads it to the page.
    let link = Path::new(env!("CARGO_TARGET_TMPDIR")).join(page);
    let folder = link.with_extension("in");
    let _ = fs::remove_file(&link);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder for the test");
    symlink(&original, &link).expect("a link");
    for (example, copy) in copies {
        fs::copy(root.join("examples").join(example), folder.join(copy)).expect("the example is there");
    }
    let (mut files, mut commands) = (BTreeSet::new(), 0);
    for block in blocks(&fs::read_to_string(&original).expect("the page is there")) {
        match block.info.split_once(" file=") {
            Some((_, name)) => append(&folder, name, &block.text, files.insert(name.to_owned())),
            None if block.info == "console" => commands += count(page, &block.text),
            None => {}
        }
    }
    trycmd::TestCases::new()
        .case(&link)
        .register_bin("hawser", Path::new(env!("CARGO_BIN_EXE_hawser")))
        .env("NO_COLOR", "1")
        .run();
    (files, commands)
}

/// Counts the commands of a console block. trycmd would skip the commands of another program.
fn count(page: &str, block: &str) -> usize {
    let commands: Vec<&str> = block.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    for command in &commands {
        assert!(
            command.starts_with("hawser "),
            "docs/{page}: `{command}` is not a hawser command"
        );
    }
    commands.len()
}

/// Appends a block to a file, which is created for its first block.
fn append(folder: &Path, name: &str, text: &str, new: bool) {
    assert!(!name.contains(['/', ' ']), "{name} is no plain file name");
    let mut file = fs::OpenOptions::new()
        .create(new)
        .append(true)
        .open(folder.join(name))
        .expect("open");
    let gap = if new { "" } else { "\n" };
    write!(file, "{gap}{text}").expect("write");
}
