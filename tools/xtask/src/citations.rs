//! Citations of RFCs beside code, in the manner of duvet.
//!
//! ```text
//! //= RFC9293 3.8.6.3 (MUST-40)            cites a section, perhaps with the numbers of requirements
//! //# the delay MUST be less than 0.5 seconds   quotes it; several lines are one quotation
//! //= type=test                             the code is a test; scripts are always tests
//! //= type=exception                        the requirement is not met, and `//= reason=…` says why
//! ```
//!
//! In programs a citation may follow code on its line. In Rust it has its own line, because `//=` stands in strings.

use crate::rfc::{fold, is_section, labels_in};

/// The extensions of files that cite. The texts are lists of exceptions.
pub(crate) const FILES: &[&str] = &["mtp", "rs", "pkt", "steps", "txt"];

/// The relation of a citation's place to the section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CitationKind {
    /// Code that obeys it.
    Code,
    /// A test that checks it.
    Test,
    /// A statement that it is not met.
    Exception,
}

/// A cited section.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CitedSection {
    /// The document, such as `RFC9293`.
    pub(crate) document: String,
    pub(crate) section: String,
    /// The numbers of requirements (`MUST-40`) behind the section.
    pub(crate) labels: Vec<String>,
}

/// A citation with the lines that belong to it.
#[derive(Debug)]
pub(crate) struct Citation {
    pub(crate) line: usize,
    pub(crate) targets: Vec<CitedSection>,
    pub(crate) kind: CitationKind,
    /// The quotation, folded; empty without one.
    pub(crate) quotation: String,
    pub(crate) reason: String,
}

/// Returns the citations of a file.
pub(crate) fn read(path: &str, text: &str) -> Vec<Citation> {
    let kind = match is_script(path) {
        true => CitationKind::Test,
        false => CitationKind::Code,
    };
    let mut citations: Vec<Citation> = Vec::new();
    let mut open = false;
    for (index, line) in text.lines().enumerate() {
        let whole = line.trim_start();
        if let (Some(quoted), true) = (whole.strip_prefix("//#"), open) {
            if let Some(citation) = citations.last_mut() {
                citation.quotation = fold(&format!("{}\n{quoted}", citation.quotation));
            }
            continue;
        }
        let own = whole.strip_prefix("//=");
        let cited = own.or_else(|| match path.ends_with(".mtp") {
            true => line.split_once("//=").map(|(_, cited)| cited),
            false => None,
        });
        let Some(cited) = cited.map(str::trim) else {
            open = false;
            continue;
        };
        let last = citations.last_mut().filter(|_| open && own.is_some());
        if last.is_some_and(|citation| citation.add(cited)) {
            continue;
        }
        open = true;
        citations.push(Citation {
            line: index + 1,
            targets: targets(cited),
            kind,
            quotation: String::new(),
            reason: String::new(),
        });
    }
    citations
}

/// Returns whether a file is a script, which is a test of what it cites.
pub(crate) fn is_script(path: &str) -> bool {
    path.ends_with(".pkt") || path.ends_with(".steps")
}

impl Citation {
    /// Adds a line about the citation itself. Returns whether the line is one.
    fn add(&mut self, line: &str) -> bool {
        match line.split_once('=') {
            Some(("type", "test")) => self.kind = CitationKind::Test,
            Some(("type", "exception")) => self.kind = CitationKind::Exception,
            Some(("reason", reason)) => self.reason = reason.to_owned(),
            _ => return false,
        }
        true
    }
}

/// Returns the sections that the text of a citation names: `RFC9293 3.10.7.4 (fifth), 3.8.6; RFC5961 3.2`.
fn targets(cited: &str) -> Vec<CitedSection> {
    let mut depth = 0;
    let parts = cited.split(|c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth == 0 && (c == ',' || c == ';')
    });
    let mut document = "";
    let mut targets = Vec::new();
    for part in parts {
        let mut words = part.split_whitespace().peekable();
        let is_document = |word: &&str| word.len() > 1 && word.starts_with(|c: char| c.is_ascii_uppercase());
        if let Some(word) = words.next_if(|word| is_document(word) && !is_section(word)) {
            document = word;
        }
        let Some(section) = words.next().map(|word| word.trim_end_matches(':')) else {
            continue;
        };
        if is_section(section) && !document.is_empty() {
            let labels = labels_in(part, "").into_iter();
            let labels = labels.map(|(label, _)| label.to_owned()).collect();
            targets.push(CitedSection { document: document.to_owned(), section: section.to_owned(), labels });
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_of_several_documents_are_read() {
        let name =
            |target: CitedSection| format!("{} {} {:?}", target.document, target.section, target.labels);
        let named = |text: &str| targets(text).into_iter().map(name).collect::<Vec<_>>();
        assert_eq!(
            named("RFC9293 3.8.6.2.2 (MUST-39, a), 3.8.6 (SHLD-14); RFC7323 2.4: why"),
            [
                "RFC9293 3.8.6.2.2 [\"MUST-39\"]",
                "RFC9293 3.8.6 [\"SHLD-14\"]",
                "RFC7323 2.4 []"
            ]
        );
        assert_eq!(named("RFC6582 3.2 (3), partial ACK"), ["RFC6582 3.2 []"]);
        assert_eq!(named("RFC9293 A.2"), ["RFC9293 A.2 []"]);
    }

    #[test]
    fn quotations_kinds_and_reasons_belong_to_the_citation_above() {
        let text = "//= RFC1 2\n//# a\n//#  b\nx;  //= RFC1 3\n//# c\ny;\n//# not one\n\
                    //= RFC1 4\n//= type=exception\n//= reason=it is old\n//# d\n";
        let found = read("a.mtp", text);
        let quoted: Vec<&str> = found.iter().map(|citation| &*citation.quotation).collect();
        assert_eq!(quoted, ["a b", "c", "d"]);
        assert_eq!(
            (found[2].kind, &*found[2].reason),
            (CitationKind::Exception, "it is old")
        );
        assert_eq!(found[1].line, 4);
        assert_eq!(read("a.pkt", text)[0].kind, CitationKind::Test);
        let in_a_string = "let s = \"//= RFC1 2\";\n/// `//= RFC1 2`\n";
        assert_eq!(read("a.rs", in_a_string).len(), 0);
    }
}
