//! The list of declared departures: the scripts written elsewhere that are expected to fail, with reasons.

use serde::Deserialize;

use crate::script::run::{Leniency, ScriptOutcome, ScriptReport, System};

/// A program's declared departures.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Departures {
    lenient: Vec<Lenient>,
    departure: Vec<Departure>,
}

/// A property that is not compared.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Lenient {
    compare: Aspect,
    /// The system whose scripts it concerns; all scripts if absent.
    system: Option<System>,
    #[allow(dead_code, reason = "the key is required for readers of the file")]
    reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Aspect {
    OptionOrder,
    Push,
    ExtraAcks,
    Window,
}

/// Scripts or constructs that are expected to fail, with the reason.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Departure {
    /// Ends of paths, in which `*` matches any text.
    scripts: Vec<String>,
    /// Parts of the constructs that a report lists as unsupported.
    constructs: Vec<String>,
    reason: String,
}

/// A list of departures could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DeparturesError(String);

impl Departures {
    /// Parses a `departures.toml`.
    ///
    /// # Errors
    /// Fails if it is not TOML, has an unknown key, or lacks a reason.
    pub fn parse(text: &str) -> Result<Departures, DeparturesError> {
        let list: Departures =
            hawser_documents::toml(text).map_err(|fault| DeparturesError(fault.to_string()))?;
        match list
            .departure
            .iter()
            .find(|departure| departure.reason.trim().is_empty())
        {
            Some(departure) => {
                let what = departure.scripts.first().or(departure.constructs.first());
                let what = what.map_or("a departure", String::as_str);
                Err(DeparturesError(format!("{what}: a departure needs a reason")))
            }
            None => Ok(list),
        }
    }

    /// Returns the comparisons that are omitted for scripts of a system.
    #[must_use]
    pub fn leniency(&self, system: System) -> Leniency {
        let is_for = |of: Option<System>| of.is_none_or(|of| of == system);
        let lenient = self.lenient.iter().filter(|lenient| is_for(lenient.system));
        let has = |aspect| lenient.clone().any(|lenient| lenient.compare == aspect);
        Leniency {
            option_order: has(Aspect::OptionOrder),
            push: has(Aspect::Push),
            extra_acks: has(Aspect::ExtraAcks),
            window: has(Aspect::Window),
        }
    }

    /// Returns the reason why this script was expected to fail, if it was. `path` has `/` between its parts.
    #[must_use]
    pub fn reason(&self, path: &str, report: &ScriptReport) -> Option<&str> {
        let failure = report.failure()?;
        let found = self.departure.iter().find(|departure| {
            let by_name = departure.scripts.iter().any(|pattern| ends_with(path, pattern));
            let is_construct = matches!(report.verdict, ScriptOutcome::Unsupported(_));
            by_name
                || is_construct
                    && departure
                        .constructs
                        .iter()
                        .any(|part| failure.got.contains(part.as_str()))
        });
        found.map(|departure| departure.reason.as_str())
    }
}

/// Returns whether a path ends with a pattern that begins at the start of one of the path's parts.
fn ends_with(path: &str, pattern: &str) -> bool {
    let starts = std::iter::once(0).chain(path.match_indices('/').map(|(at, _)| at + 1));
    starts.into_iter().any(|start| matches(&path[start..], pattern))
}

fn matches(text: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        None => text == pattern,
        Some((before, after)) => text.strip_prefix(before).is_some_and(|rest| {
            let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
            ends.into_iter().any(|at| matches(&rest[at..], after))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn departures_are_found_by_path_and_pattern() {
        assert!(ends_with("/a/tcp/close/x.pkt", "close/x.pkt"));
        assert!(ends_with("/a/tcp/fastopen/server/x.pkt", "tcp/fastopen/*"));
        assert!(ends_with("x.pkt", "*.pkt"));
        assert!(!ends_with("/a/preclose/x.pkt", "close/x.pkt"));
        assert!(!ends_with("/a/close/x.pkt", "close/y*"));
    }

    #[test]
    fn every_departure_has_a_reason() {
        assert!(Departures::parse("[[departure]]\nscripts = [\"a\"]\nreason = \"b\"").is_ok());
        assert!(Departures::parse("[[departure]]\nscripts = [\"a\"]").is_err());
        let lenient = Departures::parse("[[lenient]]\ncompare = \"push\"\nreason = \"b\"").expect("a list");
        assert_eq!(
            lenient.leniency(System::Linux),
            Leniency { push: true, ..Leniency::default() }
        );
    }
}
