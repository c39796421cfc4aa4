//! Words that were removed from the tree: references to plans that a reader does not have, and private words
//! for things with an established name. A word is added here when its last use is gone.

use super::tree::Tree;
use super::{Diagnostic, rust_text};

/// Texts that no line of any file may contain, each with its replacement. They are spelt in two pieces, so
/// that this file does not find itself.
const LINES: &[(&str, &str)] = &[
    (
        concat!("language deci", "sion"),
        "the section of docs/language.md",
    ),
    (concat!("(se", "ed 00"), "the paper's authors, title and year"),
    (concat!("see", "ds/00"), "the paper's authors, title and year"),
];

/// Phrases that no page, comment or string may contain, each with its replacement.
const PHRASES: &[(&str, &str)] = &[
    ("turned down", "rejected, refused"),
    ("turns down", "rejects, refuses"),
    ("turn down", "reject, refuse"),
    ("at the most", "at most"),
    ("at the least", "at least"),
    ("is not there", "is absent, does not exist"),
    ("are not there", "are absent, do not exist"),
    ("rolls no dice", "draws no random numbers"),
];

/// Words that are too vague to be a whole name: a value is named after the thing that it limits or holds. Of
/// a constant's name, only the first word is compared.
const NAMES: &[Word] = &[
    word(&["most"], "what is limited, as in MAX_STREAMS"),
    word(&["least"], "what is limited, as in min_rtt"),
    word(&["way", "ways"], "path candidate, transport"),
    word(&["said"], "message, output"),
    word(&["look", "looks"], "poll, sample, event tap"),
];

/// A word that may not be part of a name (`Guest` in `GuestPlace` and `new_guest`), nor of a text for users:
/// pages, and strings outside tests.
struct Word {
    /// The forms of the word, in lower case.
    forms: &'static [&'static str],
    /// The replacement.
    instead: &'static str,
}

const fn word(forms: &'static [&'static str], instead: &'static str) -> Word {
    Word { forms, instead }
}

/// Every forbidden word.
const WORDS: &[Word] = &[
    word(
        &["stranger", "strangers"],
        "unauthenticated peer; closed-port segment",
    ),
    word(&["door", "doors", "doorway"], "listener"),
    word(&["house"], "shared state"),
    word(&["guest", "guests"], "incoming connection"),
    word(&["welcome", "welcomed"], "accept"),
    word(&["wish", "wishes"], "subscription; selection properties"),
    word(&["finding", "findings"], "diagnostic"),
    word(&["patience"], "timeout"),
    word(&["dice"], "rng; random numbers"),
    word(&["txunit", "rxunit"], "send_buffer, recv_buffer"),
    word(&["crumb", "crumbs"], "tiny segments"),
    word(&["weather"], "network conditions"),
    word(&["law", "laws"], "congestion controller"),
    word(&["doubt"], "suspected, degraded"),
    word(&["debt", "debts"], "pending request"),
    word(&["starved"], "blocked on memory"),
    word(&["owe", "owed"], "defer, pending"),
    word(&["told"], "notify, report, receive"),
    word(&["heard", "hears"], "received"),
];

/// Exempt files: historical records, and this list.
const LEFT_ALONE: &[&str] = &["CHANGELOG.md", "docs/decisions/", "tools/xtask/src/tidy/words.rs"];

/// Checks that no file contains a forbidden word or phrase.
pub(super) fn check(tree: &Tree) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    for (path, text) in &tree.files {
        let mut note = |at: usize, word: &str, instead: &str| {
            diagnostics.push(Diagnostic::new(
                format!("{path}:{}", rust_text::line_of(text, at)),
                format!("`{word}` is not written here"),
                format!("write {instead}"),
            ));
        };
        for (at, line) in lines(text) {
            let found = LINES.iter().filter(|(word, _)| line.contains(word));
            found.for_each(|(word, instead)| note(at, word, instead));
        }
        if LEFT_ALONE.iter().any(|known| path.starts_with(known)) {
            continue;
        }
        for (at, line) in lines(text) {
            let line = line.to_lowercase();
            let found = PHRASES.iter().filter(|(phrase, _)| line.contains(phrase));
            found.for_each(|(phrase, instead)| note(at, phrase, instead));
        }
        for (at, found) in names(path, text) {
            let parts = parts(found);
            judge(WORDS, &parts, |word, instead| note(at, word, instead));
            judge(NAMES, &alone(found, &parts), |word, instead| {
                note(at, word, instead)
            });
        }
        for (at, found) in texts(path, text) {
            let found = found.to_lowercase();
            let found: Vec<&str> = found.split(|c: char| !c.is_alphanumeric()).collect();
            judge(WORDS, &found, |word, instead| note(at, word, instead));
        }
    }
    diagnostics
}

/// Reports each of the words that is among the texts found.
fn judge(words: &[Word], found: &[impl AsRef<str>], mut note: impl FnMut(&str, &str)) {
    for word in words {
        let form = word
            .forms
            .iter()
            .find(|form| found.iter().any(|part| part.as_ref() == **form));
        if let Some(form) = form {
            note(form, word.instead);
        }
    }
}

fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_inclusive('\n').scan(0, |at, line| {
        let start = *at;
        *at += line.len();
        Some((start, line))
    })
}

/// Returns every name in a Rust file, once for each occurrence.
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

/// Returns the words of a name, in lower case: `MostDoors`, `MOST_DOORS` and `most_doors` are `most` and
/// `doors`.
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

/// Returns the only word of a name, or the first word of a constant's name.
fn alone(name: &str, parts: &[String]) -> Vec<String> {
    let is_constant = !name.contains(char::is_lowercase);
    let mut words = parts.iter().filter(|part| !part.is_empty());
    let first = words.next().cloned();
    first
        .filter(|_| is_constant || words.next().is_none())
        .into_iter()
        .collect()
}

/// Returns the texts of a file that users read.
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
    fn a_retired_word_is_found() {
        let count = |path: &str, text: &str| check(&Tree::of(&[(path, text)])).len();
        for (word, _) in LINES {
            assert_eq!(count("a/b.rs", &format!("//! See {word} 7.\n")), 1, "{word}");
        }
        for (phrase, _) in PHRASES {
            assert_eq!(count("a/b.rs", &format!("//! It {phrase}.\n")), 1, "{phrase}");
        }
        for word in NAMES {
            for form in word.forms {
                let constant = format!("{}_BYTES", form.to_uppercase());
                assert_eq!(count("a/b.rs", &format!("let {form} = 1;\n")), 1, "{form}");
                assert_eq!(
                    count("a/b.rs", &format!("const {constant}: u8 = 1;\n")),
                    1,
                    "{form}"
                );
                assert_eq!(
                    count("a/b.rs", &format!("// The {form}.\nfn the_{form}() {{}}\n")),
                    0,
                    "{form}"
                );
            }
        }
        for word in WORDS {
            for form in word.forms {
                let name = format!("fn the_{form}_of() {{}}\n");
                assert_eq!(count("a/b.rs", &name), 1, "{form}");
                assert_eq!(count("a.md", &format!("The {form}.\n")), 1, "{form}");
            }
        }
    }

    #[test]
    fn whole_words_are_matched_by_place() {
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
