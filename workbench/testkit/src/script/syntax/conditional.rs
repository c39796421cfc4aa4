//! Conditional lines: `#ifdef NAME`, `#ifndef NAME`, `#else`, `#endif`, each on its own line.
//!
//! NAME is defined if it was given on the command line (`-D NAME`) or by an earlier `--define`. Omitted lines
//! become empty, so that the others keep their line numbers.

use std::borrow::Cow;

use super::script::{Defines, define};
use super::text::{ScriptParse, ScriptPosition, ScriptSyntaxError};
use super::tree::Setting;

/// The maximum nesting of conditions.
const DEEPEST: usize = 32;

/// An `#ifdef` whose `#endif` has not been reached.
struct Open {
    place: ScriptPosition,
    /// True if the lines around it are included.
    outer: bool,
    /// True if the lines of this part are included.
    taken: bool,
    has_else: bool,
}

/// Returns the text with excluded lines blanked.
pub(super) fn select<'a>(text: &'a str, defines: &Defines) -> ScriptParse<Cow<'a, str>> {
    if !text.lines().any(|line| line.trim_start().starts_with('#')) {
        return Ok(Cow::Borrowed(text));
    }
    let mut known = defines.clone();
    let mut open: Vec<Open> = Vec::new();
    let mut selected = String::with_capacity(text.len());
    for (number, line) in (1..).zip(text.split('\n')) {
        if number > 1 {
            selected.push('\n');
        }
        let column = (line.len() - line.trim_start().len()) as u32 + 1;
        let place = ScriptPosition { line: number, column };
        let taken = open.last().is_none_or(|part| part.outer && part.taken);
        let mut words = line.split_whitespace();
        match words.next() {
            Some(word @ ("#ifdef" | "#ifndef")) => {
                let Some(name) = words.next() else {
                    return wrong(place, &format!("{word} needs a name"), "write #ifdef NAME");
                };
                if open.len() == DEEPEST {
                    return wrong(place, "this is nested too deeply", "32 levels are allowed");
                }
                let wanted = known.contains_key(name) == (word == "#ifdef");
                open.push(Open { place, outer: taken, taken: wanted, has_else: false });
            }
            Some("#else") => match open.last_mut().filter(|part| !part.has_else) {
                Some(part) => (part.taken, part.has_else) = (!part.taken, true),
                None => {
                    return wrong(
                        place,
                        "this #else belongs to no #ifdef",
                        "each #ifdef may have one",
                    );
                }
            },
            Some("#endif") => {
                if open.pop().is_none() {
                    return wrong(place, "this #endif belongs to no #ifdef", "");
                }
            }
            _ if !taken => {}
            _ => {
                if let Some((name, value)) = line.strip_prefix("--").and_then(|line| line.split_once('=')) {
                    let value = Some(value.trim().to_owned());
                    define(
                        &Setting { place, name: name.trim().to_owned(), value },
                        &mut known,
                    );
                }
                selected.push_str(line);
            }
        }
    }
    match open.pop() {
        Some(part) => wrong(part.place, "this #ifdef does not end", "it ends with #endif"),
        None => Ok(Cow::Owned(selected)),
    }
}

fn wrong<T>(place: ScriptPosition, message: &str, hint: &str) -> ScriptParse<T> {
    Err(ScriptSyntaxError { place, message: message.into(), hint: hint.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(text: &str) -> String {
        let defines = Defines::from([("A".to_owned(), "1".to_owned())]);
        select(text, &defines).expect(text).replace('\n', "|")
    }

    #[test]
    fn excluded_lines_are_blanked_and_places_are_kept() {
        assert_eq!(selected("1\n#ifdef A\n2\n#else\n3\n#endif\n4"), "1||2||||4");
        assert_eq!(
            selected("1\n  #ifdef B\n2\n#else\n3\n#endif // why\n4"),
            "1||||3||4"
        );
        assert_eq!(
            selected("#ifndef A\n1\n#endif\n# no condition\n"),
            "|||# no condition|"
        );
        assert_eq!(selected("--define=C=1\n#ifdef C\n1\n#endif"), "--define=C=1||1|");
        assert_eq!(
            selected("#ifdef B\n#ifdef A\n1\n#else\n2\n#endif\n#endif\n3"),
            "|||||||3"
        );
        assert_eq!(
            selected("#ifdef A\n#ifdef B\n1\n#else\n2\n#endif\n#endif\n3"),
            "||||2|||3"
        );
    }

    #[test]
    fn conditions_that_do_not_match_up_are_errors_with_their_place() {
        for (text, line, part) in [
            ("\n#ifdef A\n1", 2, "does not end"),
            ("1\n#else", 2, "no #ifdef"),
            ("#ifdef A\n#else\n#else\n#endif", 3, "no #ifdef"),
            ("#endif", 1, "no #ifdef"),
            ("\n\n#ifdef", 3, "needs a name"),
        ] {
            let error = select(text, &Defines::new()).expect_err(text);
            assert_eq!(error.place.line, line, "{text}");
            assert!(error.message.contains(part), "{text}: {error}");
        }
        assert!(select(&"#ifdef A\n".repeat(100_000), &Defines::new()).is_err());
    }
}
