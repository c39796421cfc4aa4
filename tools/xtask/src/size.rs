//! `cargo xtask size [REVISION]`: counts the lines of code and of tests in Rust, per crate, beside the numbers of
//! another revision: by default the last release, if its tag is here.
//!
//! Blank lines and lines that hold only comments are not counted. Tests are the files of `tests/` and
//! `benches/`, and what `#[cfg(test)]` marks. Budgets are stated for the product, which is everything outside of
//! `evaluation/`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::root;
use crate::tidy::rust_text;

/// The maximum number of lines of code of the product.
const PRODUCT_MAX: usize = 165_000;
/// The maximum number of lines of code of a crate.
const CRATE_MAX: usize = 15_000;
/// The maximum number of lines of tests, in percent of the product's lines of code.
const TESTS_MAX: usize = 50;

/// Lines of code and of tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    code: usize,
    tests: usize,
}

/// The size of each crate, by its folder.
type Sizes = BTreeMap<String, Size>;

pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let root = root();
    let now = sizes(&working_tree(&root)?);
    let other = match arguments {
        [] => git(&root, &["describe", "--tags", "--abbrev=0"])
            .ok()
            .map(|tag| tag.trim().to_owned()),
        [revision] => Some(revision.clone()),
        _ => return Err("give one revision".to_owned()),
    };
    let before = match &other {
        Some(revision) => sizes(&revision_files(&root, revision)?),
        None => Sizes::new(),
    };
    print!("{}", table(&now, other.as_deref().map(|name| (name, &before))));
    Ok(())
}

/// Formats the sizes, those of another revision beside them.
fn table(now: &Sizes, before: Option<(&str, &Sizes)>) -> String {
    let mut text = format!("{:<32}{:>9}{:>9}", "crate", "code", "tests");
    if let Some((name, _)) = before {
        let _ = write!(text, "  {name:>16}");
    }
    text.push('\n');
    let mut line = |name: &str, size: Size, old: Option<Size>, note: &str| {
        let old = old.map_or_else(String::new, |old| format!("{:>9}{:>9}", old.code, old.tests));
        let line = format!("{name:<32}{:>9}{:>9}{old}  {note}", size.code, size.tests);
        let _ = writeln!(text, "{}", line.trim_end());
    };
    let old = |folder: &str| before.map(|(_, sizes)| sizes.get(folder).copied().unwrap_or_default());
    for (folder, size) in now {
        let note = if size.code > CRATE_MAX && is_product(folder) {
            "above 15,000"
        } else {
            ""
        };
        line(folder, *size, old(folder), note);
    }
    let (product, others) = sums(now);
    let before = before.map(|(_, sizes)| sums(sizes));
    let percent = product.tests * 100 / product.code.max(1);
    let note = format!("tests are {percent} % of code; at most {PRODUCT_MAX} and {TESTS_MAX} %");
    line("the product", product, before.map(|sums| sums.0), &note);
    line("evaluation", others, before.map(|sums| sums.1), "");
    text
}

fn is_product(folder: &str) -> bool {
    !Path::new(folder).starts_with("evaluation")
}

/// Returns the sums of the product and of its evaluation.
fn sums(sizes: &Sizes) -> (Size, Size) {
    let (mut product, mut others) = (Size::default(), Size::default());
    for (folder, size) in sizes {
        let sum = if is_product(folder) {
            &mut product
        } else {
            &mut others
        };
        sum.code += size.code;
        sum.tests += size.tests;
    }
    (product, others)
}

/// Measures the Rust files among these, by the crate that contains them.
fn sizes(files: &BTreeMap<String, String>) -> Sizes {
    let is_package = |(path, text): (&String, &String)| {
        let folder = path.strip_suffix("/Cargo.toml")?;
        text.contains("[package]").then(|| folder.to_owned())
    };
    let crates: BTreeSet<String> = files.iter().filter_map(is_package).collect();
    let rust = || files.iter().filter(|(path, _)| path.ends_with(".rs"));
    let test_modules: Vec<String> = rust().flat_map(|(path, text)| test_modules(path, text)).collect();
    let mut sizes = Sizes::new();
    for (path, text) in rust() {
        let Some(own) = Path::new(path)
            .ancestors()
            .find_map(|folder| crates.get(folder.to_str()?))
        else {
            continue;
        };
        let of_tests = ["/tests/", "/benches/"]
            .iter()
            .any(|folder| path[own.len()..].starts_with(folder));
        let is_test = of_tests || test_modules.iter().any(|module| path.starts_with(module));
        let size = sizes.entry(own.clone()).or_default();
        let found = measure(text);
        if is_test {
            size.tests += found.code + found.tests;
        } else {
            size.code += found.code;
            size.tests += found.tests;
        }
    }
    sizes
}

/// Measures a file that is no test by its place.
fn measure(text: &str) -> Size {
    let code = rust_text::without_comments(text);
    let marked = rust_text::marked_for_tests(text);
    let (mut size, mut at) = (Size::default(), 0);
    for line in code.split_inclusive('\n') {
        if !line.trim().is_empty() {
            match marked.iter().any(|range| range.contains(&at)) {
                true => size.tests += 1,
                false => size.code += 1,
            }
        }
        at += line.len();
    }
    size
}

/// Returns the paths of the modules that a file declares for tests alone: a file's, and a folder's.
fn test_modules(path: &str, text: &str) -> Vec<String> {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    let folder = match stem.rsplit_once('/') {
        Some((folder, "lib" | "main" | "mod")) => folder,
        _ => stem,
    };
    let names = rust_text::marked_for_tests(text).into_iter().filter_map(|range| {
        let (_, declaration) = text[range].split_once("mod ")?;
        declaration.trim_end().strip_suffix(';').map(str::to_owned)
    });
    names
        .flat_map(|name| [format!("{folder}/{name}.rs"), format!("{folder}/{name}/")])
        .collect()
}

/// Returns the files that git tracks or would track.
fn working_tree(root: &Path) -> Result<BTreeMap<String, String>, String> {
    let listing = git(root, &["ls-files", "-z", "-co", "--exclude-standard"])?;
    let read = |path: &str| Some((path.to_owned(), std::fs::read_to_string(root.join(path)).ok()?));
    Ok(listing
        .split('\0')
        .filter(|path| is_read(path))
        .filter_map(read)
        .collect())
}

/// Returns the files of a revision.
fn revision_files(root: &Path, revision: &str) -> Result<BTreeMap<String, String>, String> {
    let listing = git(root, &["ls-tree", "-r", "-z", "--name-only", revision])?;
    let paths: Vec<&str> = listing.split('\0').filter(|path| is_read(path)).collect();
    let objects: String = paths.iter().map(|path| format!("{revision}:{path}\n")).collect();
    let start = Command::new("git")
        .args(["cat-file", "--batch"])
        .current_dir(root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut git = start.map_err(|error| format!("git: {error}"))?;
    let mut stdin = git.stdin.take().ok_or("git takes no input")?;
    // A thread writes the names, so that neither side waits for the other.
    let writer = std::thread::spawn(move || stdin.write_all(objects.as_bytes()));
    let output = git
        .wait_with_output()
        .map_err(|error| format!("git: {error}"))?
        .stdout;
    writer
        .join()
        .map_err(|_| "the names could not be written")?
        .map_err(|error| format!("git: {error}"))?;
    let mut rest = &output[..];
    let mut files = BTreeMap::new();
    for path in paths {
        // Each answer is a line with the size at its end, then the content and a line feed.
        let end = rest
            .iter()
            .position(|byte| *byte == b'\n')
            .ok_or("git's answer is cut")?;
        let head = String::from_utf8_lossy(&rest[..end]);
        let size: usize = head
            .rsplit(' ')
            .next()
            .and_then(|size| size.parse().ok())
            .ok_or("git has no such file")?;
        let content = rest.get(end + 1..end + 1 + size).ok_or("git's answer is cut")?;
        files.insert(path.to_owned(), String::from_utf8_lossy(content).into_owned());
        rest = rest.get(end + 2 + size..).unwrap_or_default();
    }
    Ok(files)
}

fn is_read(path: &str) -> bool {
    path.ends_with(".rs") || path.ends_with("Cargo.toml")
}

fn git(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git").args(arguments).current_dir(root).output();
    let output = output.map_err(|error| format!("git: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_counted_without_blanks_comments_and_tests() {
        let text = "//! Head.\n\nfn a() {\n    // Why.\n    b(); // what\n}\n\n#[cfg(test)]\nmod tests {\n    fn c() {}\n}\n";
        assert_eq!(measure(text), Size { code: 3, tests: 4 });
        let text =
            "/* a\n b */\nconst A: &str = \"\n// not a comment\n\";\n#[cfg(test)]\nuse a::b;\nfn d() {}\n";
        assert_eq!(measure(text), Size { code: 4, tests: 2 });
    }

    #[test]
    fn modules_and_folders_of_tests_are_tests() {
        let files = [
            ("a/Cargo.toml", "[package]\n"),
            ("a/src/lib.rs", "mod x;\n#[cfg(test)]\nmod checks;\n"),
            ("a/src/x.rs", "fn x() {}\n#[cfg(test)]\npub(crate) mod own;\n"),
            ("a/src/checks.rs", "fn t() {}\n"),
            ("a/src/x/own.rs", "fn t() {}\n"),
            ("a/tests/main.rs", "fn t() {}\n"),
            ("evaluation/Cargo.toml", "[package]\n"),
            ("evaluation/src/main.rs", "fn main() {}\n"),
            ("evaluation/b/Cargo.toml", "[package]\n"),
            ("evaluation/b/src/main.rs", "fn main() {}\n"),
        ];
        let files = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
        let sizes = sizes(&files.into());
        assert_eq!(sizes["a"], Size { code: 2, tests: 7 });
        assert_eq!(sums(&sizes).1, Size { code: 2, tests: 0 });
    }
}
