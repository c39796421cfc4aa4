//! `cargo xtask requirements`: the requirements of RFCs that the code meets and that tests check.
//!
//! A requirement is *met* if code quotes it, *tested* if a test quotes it or names its number in a comment, and
//! *excepted* if a citation quotes it with the reason why it is not met. All others are *missing*.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::citations::{self, CitationKind, FILES};
use crate::rfc::{self, Requirement, Rfc, labels_in};
use crate::tidy::Tree;

/// The places at which a requirement is met, tested or excepted, each `file:line`.
#[derive(Debug, Default, Serialize)]
struct State {
    name: String,
    section: String,
    sentence: String,
    met: Vec<String>,
    tested: Vec<String>,
    excepted: Vec<String>,
}

/// Prints the counts of all RFCs at hand, or of those that the arguments name, and their missing requirements.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let json = arguments.iter().any(|argument| argument == "--json");
    let wanted: Vec<String> = arguments
        .iter()
        .filter(|argument| *argument != "--json")
        .map(|name| format!("RFC{}", name.trim_start_matches("RFC")))
        .collect();
    let library = rfc::library()?.ok_or(format!("{} names no folder of RFCs", rfc::FOLDER))?;
    if let Some(unknown) = wanted.iter().find(|name| !library.contains_key(*name)) {
        let known: Vec<&str> = library.keys().map(String::as_str).collect();
        return Err(format!(
            "there is no text of {unknown}; there are {}",
            known.join(", ")
        ));
    }
    let tree = Tree::read(&crate::root())?;
    let chosen = library
        .iter()
        .filter(|(name, _)| wanted.is_empty() || wanted.contains(name));
    let states: BTreeMap<&str, Vec<State>> = chosen
        .map(|(name, rfc)| (name.as_str(), states(&tree, name, rfc)))
        .collect();
    if json {
        let text = serde_json::to_string_pretty(&states).map_err(|error| error.to_string())?;
        println!("{text}");
    } else {
        for (name, states) in &states {
            print!("{}", report(name, states, !wanted.is_empty()));
        }
    }
    Ok(())
}

/// Finds the places of every requirement of an RFC.
fn states(tree: &Tree, name: &str, rfc: &Rfc) -> Vec<State> {
    let mut states: Vec<State> = rfc.requirements.iter().map(State::new).collect();
    for (path, text) in tree.with_extension(FILES) {
        for citation in citations::read(path, text) {
            let place = format!("{path}:{}", citation.line);
            let targets = citation.targets.iter().filter(|target| target.document == name);
            for section in targets.filter_map(|target| rfc.section(&target.section)) {
                let Some(quoted) = section.find(&citation.quotation) else {
                    continue;
                };
                for (requirement, state) in rfc.requirements.iter().zip(&mut states) {
                    let covered = requirement.places.iter().any(|(number, at)| {
                        *number == section.number && quoted.start <= at.start && at.end <= quoted.end
                    });
                    if covered {
                        state.places(citation.kind).push(place.clone());
                    }
                }
            }
        }
        if citations::is_script(path) || (path.contains("/tests/") && path.ends_with(".rs")) {
            add_named(path, text, &mut states);
        }
    }
    states
}

/// Adds the requirements whose numbers the comments of a test name.
fn add_named(path: &str, text: &str, states: &mut [State]) {
    for (index, line) in text.lines().enumerate() {
        let comment = line.split_once("//").map_or("", |(_, comment)| comment);
        if comment.starts_with('#') {
            continue; // a quotation, which belongs to a citation
        }
        for (label, _) in labels_in(comment, "") {
            if let Some(state) = states.iter_mut().find(|state| state.name == label) {
                state.tested.push(format!("{path}:{}", index + 1));
            }
        }
    }
}

impl State {
    fn new(requirement: &Requirement) -> State {
        State {
            name: requirement.name.clone(),
            section: requirement.section.clone(),
            sentence: requirement.sentence.clone(),
            ..State::default()
        }
    }

    fn places(&mut self, kind: CitationKind) -> &mut Vec<String> {
        match kind {
            CitationKind::Code => &mut self.met,
            CitationKind::Test => &mut self.tested,
            CitationKind::Exception => &mut self.excepted,
        }
    }

    fn is_missing(&self) -> bool {
        self.met.is_empty() && self.excepted.is_empty()
    }
}

/// Returns the counts of an RFC, with a list of the requirements that lack something if `all` are wanted.
fn report(name: &str, states: &[State], all: bool) -> String {
    let count = |holds: fn(&&State) -> bool| states.iter().filter(holds).count();
    let mut text = format!(
        "{name}: {} requirements: {} met, {} tested, {} excepted, {} missing\n",
        states.len(),
        count(|state| !state.met.is_empty()),
        count(|state| !state.tested.is_empty()),
        count(|state| !state.excepted.is_empty()),
        count(|state| state.is_missing()),
    );
    if !all {
        return text;
    }
    for state in states.iter().filter(|state| state.is_missing()) {
        text += &format!(
            "  missing {} ({}): {}\n",
            state.name, state.section, state.sentence
        );
    }
    let untested = |state: &&State| !state.met.is_empty() && state.tested.is_empty();
    for state in states.iter().filter(untested) {
        text += &format!(
            "  untested {} ({}): {}\n",
            state.name,
            state.section,
            state.met.join(", ")
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
3.8.  Windows\n\n   It MUST (MUST-1) be.  It SHOULD (SHLD-2) wait.  It MUST NOT (MUST-3) end,\n   and MUST (MUST-4) go.\n";

    #[test]
    fn requirements_are_met_tested_excepted_or_missing() {
        let tree = Tree::from_texts(&[
            (
                "a.mtp",
                "//= RFC9293 3.8\n//# It MUST (MUST-1) be.\n//= RFC9293 3.8 (MUST-3)\nx;\n",
            ),
            (
                "a.txt",
                "//= RFC9293 3.8\n//= type=exception\n//= reason=it is old\n//# It SHOULD (SHLD-2) wait.\n",
            ),
            ("a.pkt", "// RFC 9293, 3.8 (MUST-1): it is.\n"),
            ("b.pkt", "//= RFC9293 3.8\n//# MUST (MUST-4) go.\n"),
        ]);
        let states = states(&tree, "RFC9293", &Rfc::from_text(TEXT));
        assert_eq!((states[0].met.len(), states[0].tested.len()), (1, 1));
        assert_eq!(states[1].excepted, ["a.txt:1"]);
        assert_eq!(states[3].tested, ["b.pkt:1"]);
        let text = report("RFC9293", &states, true);
        let first = "RFC9293: 4 requirements: 1 met, 2 tested, 1 excepted, 2 missing";
        assert_eq!(text.lines().next(), Some(first));
        assert_eq!(text.lines().count(), 3, "{text}");
    }
}
