//! Citations of RFCs are true: the section exists, has the requirement, and contains the quotation word for word.
//!
//! Only texts that are at hand are compared (`HAWSER_RFCS`); without any, the check says so and passes.

use super::Diagnostic;
use super::tree::Tree;
use crate::citations::{self, Citation, CitationKind, CitedSection, FILES};
use crate::rfc::{self, Library, Rfc};

/// Checks every citation of the tree.
pub(super) fn check(tree: &Tree) -> Vec<Diagnostic> {
    match rfc::library() {
        Err(message) => vec![Diagnostic::new(
            rfc::FOLDER,
            message,
            "name the folder of the texts",
        )],
        Ok(Some(library)) => compare(tree, &library),
        Ok(None) => {
            println!("skipped: citations: {} names no folder of RFCs", rfc::FOLDER);
            compare(tree, &Library::new())
        }
    }
}

/// Compares the citations with the texts of a library.
fn compare(tree: &Tree, library: &Library) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    for (path, text) in tree.with_extension(FILES) {
        for citation in citations::read(path, text) {
            let faults = faults(&citation, library).into_iter();
            diagnostics
                .extend(faults.map(|(what, remedy)| {
                    Diagnostic::new(format!("{path}:{}", citation.line), what, remedy)
                }));
        }
    }
    diagnostics
}

/// Returns the faults of a citation, each with a remedy.
fn faults(citation: &Citation, library: &Library) -> Vec<(String, &'static str)> {
    let mut faults = Vec::new();
    if (citation.kind == CitationKind::Exception) == citation.reason.is_empty() {
        let remedy = "write `//= reason=…` beside `//= type=exception`, and only there";
        faults.push((
            "an exception has no reason, or a reason no exception".to_owned(),
            remedy,
        ));
    }
    let known = |target: &CitedSection| library.get(&target.document);
    for target in &citation.targets {
        if let Some(rfc) = known(target) {
            faults.extend(judge(target, rfc));
        }
    }
    let quoted = |target: &CitedSection| {
        let section = known(target).and_then(|rfc| rfc.section(&target.section));
        section.is_some_and(|section| section.find(&citation.quotation).is_some())
    };
    let all_known = citation.targets.iter().all(|target| known(target).is_some());
    if all_known && !citation.quotation.is_empty() && !citation.targets.iter().any(quoted) {
        let what = format!("\"{}\" is not in the section", citation.quotation);
        faults.push((what, "quote it word for word"));
    }
    faults
}

/// Returns the faults of a cited section.
fn judge(target: &CitedSection, rfc: &Rfc) -> Vec<(String, &'static str)> {
    let CitedSection { document, section, .. } = target;
    if rfc.section(section).is_none() {
        return vec![(
            format!("{document} has no section {section}"),
            "cite one that exists",
        )];
    }
    let has = |label: &&String| {
        let requirement = rfc.requirements.iter().find(|known| known.name == **label);
        match requirement {
            Some(known) => known.places.iter().any(|(place, _)| place == section),
            // RFC 9293 states MUST-22 in its appendix alone.
            None => rfc.sections.iter().any(|section| section.find(label).is_some()),
        }
    };
    let others = target.labels.iter().filter(|label| !has(label));
    let fault = |label: &String| format!("{document} does not have {label} in section {section}");
    others
        .map(|label| (fault(label), "cite the requirement that the line obeys"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
3.8.  Windows\n\n   A window MUST be probed (MUST-36).\n
3.9.  Delays\n\n   The delay MUST be less\n   than 0.5 seconds (MUST-40).\n   Table: MUST-22.\n";

    /// Returns the lines at which a program's citations are at fault.
    fn places(program: &str) -> Vec<String> {
        let library = Library::from([("RFC9293".to_owned(), Rfc::from_text(TEXT))]);
        let diagnostics = compare(&Tree::from_texts(&[("a.mtp", program)]), &library);
        diagnostics
            .into_iter()
            .map(|diagnostic| diagnostic.place)
            .collect()
    }

    #[test]
    fn sections_and_numbers_of_requirements_are_compared() {
        assert_eq!(
            places("//= RFC9293 3.9 (MUST-40, MUST-22)\nx;  //= RFC1 7\n"),
            [""; 0]
        );
        assert_eq!(places("//= RFC9293 3.7\n"), ["a.mtp:1"]);
        assert_eq!(places("\nx;  //= RFC9293 3.8 (MUST-40)\n"), ["a.mtp:2"]);
        assert_eq!(places("//= RFC9293 3.9 (MUST-41)\n"), ["a.mtp:1"]);
    }

    #[test]
    fn quotations_are_word_for_word_and_may_break_their_lines_elsewhere() {
        let quoted = |text: &str| places(&format!("//= RFC9293 3.8, 3.9\n{text}"));
        assert_eq!(
            quoted("//# The delay MUST be\n//# less than 0.5 seconds\n"),
            [""; 0]
        );
        assert_eq!(
            quoted("//# The delay MUST be less than 0.4 seconds\n"),
            ["a.mtp:1"]
        );
    }

    #[test]
    fn exceptions_have_reasons() {
        assert_eq!(places("//= RFC9293 3.8\n//= type=exception\n"), ["a.mtp:1"]);
        assert_eq!(
            places("//= RFC9293 3.8\n//= type=exception\n//= reason=none\n"),
            [""; 0]
        );
    }
}
