//! Every external crate comes from the public registry under an allowed licence.
//!
//! The check reads the list of `deny.toml`, so that `cargo deny` judges by the same list.

use serde::Deserialize;

use super::Diagnostic;
use super::tree::{Foreign, Tree};

const LIST: &str = "deny.toml";

#[derive(Deserialize)]
struct Deny {
    licenses: Licences,
}

#[derive(Deserialize)]
struct Licences {
    allow: Vec<String>,
}

/// Checks that every external crate has an allowed licence and an allowed source.
pub(super) fn check(tree: &Tree) -> Vec<Diagnostic> {
    let deny: Deny = match toml::from_str(tree.text(LIST)) {
        Ok(deny) => deny,
        Err(error) => return vec![Diagnostic::new(LIST, format!("{error}"), "mend the file")],
    };
    tree.foreign
        .iter()
        .filter_map(|foreign| judge(foreign, &deny))
        .collect()
}

fn judge(foreign: &Foreign, deny: &Deny) -> Option<Diagnostic> {
    let Some(licence) = &foreign.licence else {
        return Some(Diagnostic::new(
            &foreign.name,
            "it states no licence",
            "use another crate",
        ));
    };
    if !allowed(licence, &deny.licenses.allow) {
        let what = format!("its licence `{licence}` is not allowed by {LIST}");
        return Some(Diagnostic::new(&foreign.name, what, "use another crate"));
    }
    (!foreign.source.starts_with("registry+")).then(|| {
        let what = format!("it comes from {}", foreign.source);
        Diagnostic::new(&foreign.name, what, "use a published version")
    })
}

/// Returns whether the list satisfies an SPDX expression: `AND` needs both sides, `OR` one.
fn allowed(expression: &str, list: &[String]) -> bool {
    // `MIT/Apache-2.0` is an old notation for OR.
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let mut tokens = spaced.split_whitespace().peekable();
    any_of(&mut tokens, list)
}

type Tokens<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any_of(tokens: &mut Tokens<'_>, list: &[String]) -> bool {
    let mut met = all_of(tokens, list);
    while tokens.next_if_eq(&"OR").is_some() {
        met |= all_of(tokens, list);
    }
    met
}

fn all_of(tokens: &mut Tokens<'_>, list: &[String]) -> bool {
    let mut met = one(tokens, list);
    while tokens.next_if_eq(&"AND").is_some() {
        met &= one(tokens, list);
    }
    met
}

fn one(tokens: &mut Tokens<'_>, list: &[String]) -> bool {
    let Some(token) = tokens.next() else { return false };
    if token == "(" {
        let met = any_of(tokens, list);
        tokens.next_if_eq(&")");
        return met;
    }
    let mut name = token.to_owned();
    if tokens.next_if_eq(&"WITH").is_some() {
        name = format!("{token} WITH {}", tokens.next().unwrap_or_default());
    }
    list.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_read_as_spdx_defines() {
        let list = ["MIT", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(allowed(good, &list), "{good}");
        }
        for bad in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(MIT OR Apache-2.0) AND Zlib",
            "Apache-2.0",
        ] {
            assert!(!allowed(bad, &list), "{bad}");
        }
    }

    #[test]
    fn foreign_licences_and_sources_are_found() {
        let deny = "[licenses]\nallow = [\"MIT\"]\n";
        let crate_of = |licence: &str, source: &str| Foreign {
            name: "x 1.0.0".to_owned(),
            licence: (!licence.is_empty()).then(|| licence.to_owned()),
            source: source.to_owned(),
        };
        let judged = |licence: &str, source: &str| {
            let mut tree = Tree::of(&[(LIST, deny)]);
            tree.foreign.push(crate_of(licence, source));
            check(&tree).len()
        };
        assert_eq!(judged("MIT", "registry+https://r/index"), 0);
        assert_eq!(judged("GPL-3.0", "registry+https://r/index"), 1);
        assert_eq!(judged("", "registry+https://r/index"), 1);
        assert_eq!(judged("MIT", "git+https://elsewhere"), 1);
    }
}
