//! Words that the tree is rid of: references to plans that a reader does not have, and private words for
//! what the field has a name for. A word is added here when its last use is gone.

use super::tree::Tree;
use super::{Diagnostic, rust_text};

/// A word that is not written.
struct Word {
    /// Its forms, in lower case.
    forms: &'static [&'static str],
    /// What is written instead.
    instead: &'static str,
    /// Where it is not written.
    place: Place,
    /// The folders that this holds for; none stands for all.
    rooms: &'static [&'static str],
}

/// Where a word is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// As part of any line of any file.
    Line,
    /// As a whole word in a name: `Guest` in `GuestPlace` and `new_guest`.
    Name,
    /// In names, and as a whole word in what users read: pages, and strings in code that is no test.
    NameAndText,
}

const fn word(
    forms: &'static [&'static str],
    instead: &'static str,
    place: Place,
    rooms: &'static [&'static str],
) -> Word {
    Word {
        forms,
        instead,
        place,
        rooms,
    }
}

/// Every such word. Those that are looked for in lines are spelt in two pieces, or this file would find itself.
const WORDS: &[Word] = &[
    word(
        &[concat!("language deci", "sion")],
        "the section of docs/language.md",
        Place::Line,
        &[],
    ),
    word(
        &[concat!("(se", "ed 00"), concat!("see", "ds/00")],
        "the paper's authors, title and year",
        Place::Line,
        &[],
    ),
    word(&["debt"], "pending request", Place::NameAndText, &[]),
    word(&["patience"], "timeout", Place::Name, &["tools/"]),
];

/// What is a record of its time, and this list.
const LEFT_ALONE: &[&str] = &["CHANGELOG.md", "docs/decisions/", "tools/xtask/src/tidy/words.rs"];

/// None of the words stands where it is not written.
pub(super) fn check(tree: &Tree) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    for (path, text) in &tree.files {
        for (at, found) in lines(text) {
            let words = WORDS.iter().filter(|word| word.place == Place::Line);
            judge(
                path,
                text,
                at,
                words,
                |form| found.contains(form),
                &mut diagnostics,
            );
        }
        if LEFT_ALONE.iter().any(|known| path.starts_with(known)) {
            continue;
        }
        for (at, found) in names(path, text) {
            let words = WORDS.iter().filter(|word| word.place != Place::Line);
            let parts = parts(found);
            judge(
                path,
                text,
                at,
                words,
                |form| parts.iter().any(|part| part == form),
                &mut diagnostics,
            );
        }
        for (at, found) in texts(path, text) {
            let words = WORDS.iter().filter(|word| word.place == Place::NameAndText);
            let found = found.to_lowercase();
            let is_in = |form: &str| {
                found
                    .split(|c: char| !c.is_alphanumeric())
                    .any(|part| part == form)
            };
            judge(path, text, at, words, is_in, &mut diagnostics);
        }
    }
    diagnostics
}

/// Notes those of the words that hold for a file and are in what was found at a place.
fn judge<'a>(
    path: &str,
    text: &str,
    at: usize,
    words: impl Iterator<Item = &'a Word>,
    is_in: impl Fn(&str) -> bool,
    diagnostics: &mut Vec<Diagnostic>,
) {
    for word in words {
        let holds = word.rooms.is_empty() || word.rooms.iter().any(|room| path.starts_with(room));
        let Some(form) = word.forms.iter().find(|form| holds && is_in(form)) else {
            continue;
        };
        diagnostics.push(Diagnostic::new(
            format!("{path}:{}", rust_text::line_of(text, at)),
            format!("`{form}` is not written here"),
            format!("write {}", word.instead),
        ));
    }
}

fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_inclusive('\n').scan(0, |at, line| {
        let start = *at;
        *at += line.len();
        Some((start, line))
    })
}

/// The names in a file of Rust, once for each place.
fn names<'a>(path: &str, text: &'a str) -> Vec<(usize, &'a str)> {
    if !path.ends_with(".rs") {
        return Vec::new();
    }
    let code = rust_text::code_only(text);
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut names = Vec::new();
    let mut at = 0;
    while let Some(start) = code[at..].find(is_part).map(|offset| at + offset) {
        at = code[start..]
            .find(|c| !is_part(c))
            .map_or(code.len(), |length| start + length);
        names.extend(text.get(start..at).map(|name| (start, name)));
    }
    names
}

/// The words of a name, in lower case: `MostDoors`, `MOST_DOORS` and `most_doors` are `most` and `doors`.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut previous = '_';
    for c in name.chars() {
        if c == '_' || c.is_uppercase() && !previous.is_uppercase() {
            parts.push(String::new());
        }
        if let (Some(last), true) = (parts.last_mut(), c != '_') {
            last.extend(c.to_lowercase());
        }
        previous = c;
    }
    parts
}

/// What users read in a file.
fn texts<'a>(path: &str, text: &'a str) -> Vec<(usize, &'a str)> {
    match path.rsplit_once('.') {
        Some((_, "md")) => vec![(0, text)]
            .into_iter()
            .flat_map(|(_, text)| lines(text))
            .collect(),
        Some((stem, "rs")) if !path.contains("/tests/") && !stem.ends_with("tests") => {
            let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
            rust_text::strings(&text[..end])
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_gone_is_found_when_it_comes_back() {
        for word in WORDS {
            for form in word.forms {
                let room = word.rooms.first().map_or(String::from("a/src"), |room| {
                    room.trim_end_matches('/').to_owned()
                });
                let path = format!("{room}/b.rs");
                let text = match word.place {
                    Place::Line => format!("//! See {form} 7.\n"),
                    Place::Name | Place::NameAndText => format!("fn the_{form}_of() {{}}\n"),
                };
                let found = check(&Tree::of(&[(&path, &text)]));
                assert_eq!(found.len(), 1, "{form}");
                assert_eq!(found[0].place, format!("{path}:1"));
            }
        }
    }

    #[test]
    fn words_are_whole_and_their_places_matter() {
        let is_word = |name: &str| parts(name).contains(&"guest".to_owned());
        assert!(is_word("NewGuestPlace") && is_word("MOST_GUEST") && is_word("guest"));
        assert!(!is_word("guestimate") && !is_word("Guests"));
        let source = "//! A guest.\nconst A: &str = \"a guest\";\n#[cfg(test)]\nmod tests {\n const B: &str = \"b\";\n}\n";
        let found: Vec<&str> = texts("a/src/b.rs", source)
            .into_iter()
            .map(|(_, text)| text)
            .collect();
        assert_eq!(found, ["\"a guest\""]);
        assert_eq!(texts("a/tests/b.rs", source), []);
        assert_eq!(texts("a.md", "one\ntwo\n"), [(0, "one\n"), (4, "two\n")]);
    }
}
