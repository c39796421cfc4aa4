//! Follows `docs/tutorial.md` and `docs/debugging.md` word for word.

use crate::page::follow_page;

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
