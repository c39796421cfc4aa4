//! Follows `docs/tutorial.md`, `docs/debugging.md` and `docs/testing-your-transport.md` word for word.

use crate::page::{follow_page, follow_page_with};

#[test]
fn the_tutorial_works_word_for_word() {
    let (files, commands) = follow_page("tutorial.md");
    assert!(
        files.len() >= 2 && commands >= 4,
        "the page lost its blocks: {files:?}, {commands} commands"
    );
}

#[test]
fn a_planted_bug_is_found_as_the_page_says() {
    let (files, commands) = follow_page("debugging.md");
    assert!(
        files.len() == 1 && commands >= 3,
        "the page lost its blocks: {files:?}, {commands} commands"
    );
}

#[test]
fn the_page_on_testing_works_word_for_word() {
    // The page begins with a copy of the example.
    let (files, commands) = follow_page_with("testing-your-transport.md", &[("stop-and-wait.mtp", "my.mtp")]);
    assert!(
        files.len() >= 2 && commands >= 4,
        "the page lost its blocks: {files:?}, {commands} commands"
    );
}
