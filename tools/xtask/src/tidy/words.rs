//! Words that the tree is rid of: references to plans that a reader does not have, and private words for
//! what the field has a name for. A word is added here when its last use is gone.

use super::Finding;
use super::tree::Tree;

/// What is not written, and what is. Spelt in two pieces, or this file would find itself.
const WORDS: &[(&str, &str)] = &[
    (
        concat!("language deci", "sion"),
        "the section of docs/language.md",
    ),
    (concat!("(se", "ed 00"), "the paper's authors, title and year"),
    (concat!("see", "ds/00"), "the paper's authors, title and year"),
];

/// None of the words stands anywhere.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let lines = tree.files.iter().flat_map(|(path, text)| {
        text.lines()
            .enumerate()
            .map(move |(index, line)| (format!("{path}:{}", index + 1), line))
    });
    let found = lines.flat_map(|(place, line)| {
        let words = WORDS.iter().filter(move |(word, _)| line.contains(word));
        words.map(move |(word, instead)| {
            Finding::new(
                place.clone(),
                format!("`{word}` is not written here"),
                format!("write {instead}"),
            )
        })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_gone_is_found_when_it_comes_back() {
        let tree = |text: &str| Tree::of(&[("a/b.rs", text)]);
        assert_eq!(check(&tree("//! As docs/language.md says.\n")), []);
        for (word, _) in WORDS {
            assert_eq!(check(&tree(&format!("//! See {word} 7.\n"))).len(), 1, "{word}");
        }
    }
}
