//! Relative links in the documentation have a target.

use super::Diagnostic;
use super::tree::Tree;

/// Checks that every relative link of a Markdown file names an existing file or folder, and an existing
/// heading.
pub(super) fn check(tree: &Tree) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    for (path, text) in tree.with_extension(&["md"]) {
        for (line, link) in links(text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            if let Some(what) = judge(tree, path, link) {
                diagnostics.push(Diagnostic::new(
                    format!("{path}:{line}"),
                    what,
                    "correct the link",
                ));
            }
        }
    }
    diagnostics
}

/// Describes the fault of a relative link of the page `path`.
fn judge(tree: &Tree, path: &str, link: &str) -> Option<String> {
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let target = if file.is_empty() {
        Some(path.to_owned())
    } else {
        resolve(path, file)
    };
    let Some(target) = target.filter(|target| tree.exists(target)) else {
        return Some(format!("the link `{link}` leads nowhere"));
    };
    let lost =
        !heading.is_empty() && target.ends_with(".md") && !headings(tree.text(&target)).any(|h| h == heading);
    lost.then(|| format!("{target} has no heading `#{heading}`"))
}

/// Returns the targets of `[…](target)`, with their lines. Code is left out.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut in_block = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        }
        if in_block {
            continue;
        }
        for piece in line
            .split('`')
            .step_by(2)
            .flat_map(|plain| plain.split("](").skip(1))
        {
            let end = piece.find([')', ' ']).unwrap_or(piece.len());
            found.push((index + 1, &piece[..end]));
        }
    }
    found
}

/// Resolves a link relative to a page to a path of the repository. Returns `None` if the link leaves the
/// repository.
fn resolve(page: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(if parts.is_empty() {
        ".".to_owned()
    } else {
        parts.join("/")
    })
}

/// Returns the anchors of a page's headings, in the form that web viewers of repositories generate.
fn headings(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter(|line| line.starts_with('#')).map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_links_are_found() {
        let page = "[a](b.md) [b](../README.md) [c](gone.md) `[d](x)` [e](https://e.example)\n\
                    ```\n[f](y)\n```\n[g](b.md#the-two-words) [h](b.md#lost) [i](#own) [j](../../x) [k](..)\n# Own\n";
        let tree = Tree::from_texts(&[
            ("docs/a.md", page),
            ("docs/b.md", "## The `two` words\n"),
            ("README.md", ""),
        ]);
        let found: Vec<String> = check(&tree)
            .into_iter()
            .map(|diagnostic| diagnostic.what)
            .collect();
        let expected = [
            "the link `gone.md` leads nowhere",
            "docs/b.md has no heading `#lost`",
            "the link `../../x` leads nowhere",
        ];
        assert_eq!(found, expected);
    }
}
