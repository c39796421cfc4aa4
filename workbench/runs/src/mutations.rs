//! Programs with a single change, which a program's checks must notice.
//!
//! [`mutants`] lists the changes of a text, in its order: each statement deleted, each condition negated,
//! each operator exchanged for its neighbour. [`Mutant::applied`] makes one of them. The callers decide which
//! changed programs the checker accepts and which checks run on them: `hawser sim mutants` runs the swarm on
//! each, `cargo xtask mutants` runs TCP's checks.
//!
//! Assertions and invariants are left alone: they only observe, so no check can notice their absence.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod conditions;
mod operators;
mod statements;

use hawser_syntax::Span;

/// A kind of change to a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MutationKind {
    /// A statement is deleted.
    Delete,
    /// A condition is negated.
    Negate,
    /// An operator is replaced by its neighbour: `<` by `<=`, `+` by `-`.
    Exchange,
}

impl MutationKind {
    /// All kinds of change.
    pub const ALL: [MutationKind; 3] = [MutationKind::Delete, MutationKind::Negate, MutationKind::Exchange];

    /// Returns its name: `delete`, `negate`, `exchange`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            MutationKind::Delete => "delete",
            MutationKind::Negate => "negate",
            MutationKind::Exchange => "exchange",
        }
    }
}

/// A single change to a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// The kind of the change.
    pub change: MutationKind,
    /// The changed range.
    pub at: Span,
    /// The line of the change, counted from 1.
    pub line: usize,
    /// The original text of the range, on one line.
    pub was: String,
    /// The new text of the range.
    pub now: String,
}

impl Mutant {
    /// Returns the changed text. `text` is the one from which the mutant was made.
    #[must_use]
    pub fn applied(&self, text: &str) -> String {
        let (before, after) = (
            text.get(..self.at.start as usize),
            text.get(self.at.end as usize..),
        );
        [before.unwrap_or_default(), &self.now, after.unwrap_or_default()].concat()
    }
}

/// Returns every mutant of a text with these changes, in the order of the text. The result is empty if the
/// text cannot be parsed.
#[must_use]
pub fn mutants(text: &str, changes: &[MutationKind]) -> Vec<Mutant> {
    let (file, _) = hawser_syntax::parse(text, 0);
    let mutant = |change, at: Span, now: String| Mutant {
        change,
        at,
        line: text[..at.start as usize].matches('\n').count() + 1,
        was: one_line(&text[at.start as usize..at.end as usize]),
        now,
    };
    let mut all = Vec::new();
    for change in changes {
        match change {
            MutationKind::Delete => {
                // A block without statements may stand wherever a statement may.
                let deleted = statements::statements(&file).into_iter();
                all.extend(deleted.map(|at| mutant(*change, at, "{ }".to_owned())));
            }
            MutationKind::Negate => {
                let negated = |at: Span| format!("(!({}))", &text[at.start as usize..at.end as usize]);
                let conditions = conditions::conditions(&file).into_iter();
                all.extend(conditions.map(|at| mutant(*change, at, negated(at))));
            }
            MutationKind::Exchange => {
                let exchanged = operators::exchanges(&file, text).into_iter();
                all.extend(exchanged.map(|(at, now)| mutant(*change, at, now)));
            }
        }
    }
    all.sort_by_key(|mutant| (mutant.at.start, mutant.at.end, mutant.change));
    all
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
void f(c_t c) {
    uint8 n = 1;
    if (c.a < n) {
        c.a += n + 2;
        emit timer_start(c.t, 1s);
    } else done;
    assert(c.a > 0);
    return;
}
";

    fn changed(change: MutationKind) -> Vec<(usize, String, String)> {
        let mutants = mutants(SOURCE, &[change]).into_iter();
        mutants
            .map(|mutant| (mutant.line, mutant.was, mutant.now))
            .collect()
    }

    #[test]
    fn every_statement_but_declarations_and_asserts_is_deleted() {
        let lines: Vec<(usize, String)> = changed(MutationKind::Delete)
            .into_iter()
            .map(|(line, was, _)| (line, was))
            .collect();
        let expected = [
            (
                3,
                "if (c.a < n) { c.a += n + 2; emit timer_start(c.t, 1s); } else done;",
            ),
            (4, "c.a += n + 2;"),
            (5, "emit timer_start(c.t, 1s);"),
            (6, "done;"),
            (8, "return;"),
        ];
        assert_eq!(lines, expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn each_operator_is_replaced_by_its_neighbour() {
        let expected = [(3, "c.a < n", "c.a <= n"), (4, "n + 2", "n - 2")];
        let expected = expected.map(|(line, was, now)| (line, was.to_owned(), now.to_owned()));
        assert_eq!(changed(MutationKind::Exchange), expected);
    }

    #[test]
    fn a_mutant_differs_in_its_place_alone() {
        for mutant in mutants(SOURCE, &MutationKind::ALL) {
            let text = mutant.applied(SOURCE);
            let (start, end) = (mutant.at.start as usize, mutant.at.end as usize);
            assert_eq!(text[..start], SOURCE[..start]);
            assert!(text.ends_with(&SOURCE[end..]) && text != SOURCE, "{text}");
            let (_, diagnostics) = hawser_syntax::parse(&text, 0);
            assert!(diagnostics.is_empty(), "{diagnostics:?} in\n{text}");
        }
        assert_eq!(mutants(SOURCE, &MutationKind::ALL).len(), 5 + 1 + 2);
    }
}
