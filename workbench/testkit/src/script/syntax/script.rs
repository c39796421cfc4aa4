//! The outer syntax: option lines, commands, and events with their times.

use std::collections::BTreeMap;

use super::text::{ScriptParse, ScriptPosition, ScriptSyntaxError, TokenCursor};
use super::tree::{Action, CommandText, EventTime, Script, ScriptEvent, Setting};
use super::{call, conditional, packet};
use crate::script::python;

/// Words with their replacements, and names for `#ifdef`: packetdrill's `-D NAME=VALUE`.
pub type Defines = BTreeMap<String, String>;

/// Parses a script.
///
/// # Errors
/// The first error in the text.
pub fn parse(text: &str, defines: &Defines) -> Result<Script, ScriptSyntaxError> {
    let text = conditional::select(text, defines)?;
    let cursor = &mut TokenCursor::new(&text, ScriptPosition { line: 1, column: 1 });
    let mut script = Script { options: settings(cursor)?, ..Script::default() };
    let mut known = defines.clone();
    script
        .options
        .iter()
        .for_each(|setting| define(setting, &mut known));
    if cursor.sees("`") {
        script.init = Some(command(cursor)?);
    }
    while !cursor.at_end() {
        if cursor.sees("`") {
            script.cleanup = Some(command(cursor)?);
            if !cursor.at_end() {
                return cursor.expected(
                    "the end of the script after its clean-up command",
                    "a command in the middle of a script needs a time: +0 `…`",
                );
            }
            break;
        }
        script.events.push(event(cursor, &known)?);
    }
    Ok(script)
}

/// Applies `--define=NAME=VALUE` and `-D NAME=VALUE` inside the script.
pub(super) fn define(setting: &Setting, known: &mut Defines) {
    if let ("define" | "D", Some((name, value))) = (
        setting.name.as_str(),
        setting.value.as_deref().and_then(|value| value.split_once('=')),
    ) {
        known.insert(name.to_owned(), value.trim_matches('"').to_owned());
    }
}

fn settings(cursor: &mut TokenCursor<'_>) -> ScriptParse<Vec<Setting>> {
    let mut settings = Vec::new();
    while cursor.sees("--") {
        let place = cursor.place();
        cursor.take("--");
        let line = cursor.line();
        let line = line.find("//").map_or(line, |comment| &line[..comment]).trim();
        let (name, value) = match line.split_once('=') {
            Some((name, value)) => (name.trim(), Some(value.trim().to_owned())),
            None => (line, None),
        };
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(ScriptSyntaxError {
                place,
                message: format!("`--{line}` is not an option"),
                hint: "write each option on a line of its own: --tolerance_usecs=10000".into(),
            });
        }
        settings.push(Setting { place, name: name.to_owned(), value });
    }
    Ok(settings)
}

fn command(cursor: &mut TokenCursor<'_>) -> ScriptParse<CommandText> {
    let place = cursor.place();
    cursor.expect("`", "")?;
    let text = cursor.until("`", "command")?.to_owned();
    Ok(CommandText { place, text })
}

fn event(cursor: &mut TokenCursor<'_>, defines: &Defines) -> ScriptParse<ScriptEvent> {
    cursor.skip_blank();
    let place = cursor.anchor();
    let when = when(cursor)?;
    let action = if cursor.take("<") {
        Action::Inbound(packet::packet(cursor, defines)?)
    } else if cursor.take(">") {
        Action::Outbound(packet::packet(cursor, defines)?)
    } else if cursor.sees("`") {
        Action::Command(command(cursor)?)
    } else if cursor.take("%{") {
        let place = cursor.place();
        let text = cursor.until("}%", "block of code")?;
        Action::Code(python::parse(text, place)?)
    } else {
        Action::Call(call::call(cursor, defines)?)
    };
    Ok(ScriptEvent { place, when, action })
}

fn when(cursor: &mut TokenCursor<'_>) -> ScriptParse<EventTime> {
    if cursor.take("*") {
        return Ok(EventTime::Any);
    }
    let place = cursor.clone();
    let relative = cursor.take("+");
    let from = cursor.seconds()?;
    if !cursor.take("~") {
        return Ok(if relative {
            EventTime::After(from)
        } else {
            EventTime::At(from)
        });
    }
    if cursor.take("+") != relative {
        return place.error(
            "a range is relative at both ends or at none",
            "write +.1~+.2, or .1~.2",
        );
    }
    let to = cursor.seconds()?;
    if to < from {
        return place.error("this range ends before it begins", "");
    }
    Ok(if relative {
        EventTime::AfterBetween(from, to)
    } else {
        EventTime::Between(from, to)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Script {
        parse(text, &Defines::new()).expect("a good script")
    }

    #[test]
    fn times_are_parsed() {
        let times: Vec<EventTime> = read("0 a() = 0\n+.1 a() = 0 1.5~2 a() = 0 +0~+.25 a() = 0 * a() = 0")
            .events
            .iter()
            .map(|e| e.when)
            .collect();
        let want = [
            EventTime::At(0),
            EventTime::After(100_000_000),
            EventTime::Between(1_500_000_000, 2_000_000_000),
            EventTime::AfterBetween(0, 250_000_000),
            EventTime::Any,
        ];
        assert_eq!(times, want);
    }

    #[test]
    fn every_part_of_a_script_is_parsed() {
        let script = read("// c\n--mss=1000 // c\n--x\n`init`\n0 `mid`\n+0 %{ assert 1 }%\n`end`\n/* c */");
        assert_eq!(script.options.len(), 2);
        assert_eq!(script.options[0].value.as_deref(), Some("1000"));
        assert_eq!(script.init.map(|c| c.text).as_deref(), Some("init"));
        assert_eq!(script.events.len(), 2);
        assert_eq!(script.cleanup.map(|c| c.text).as_deref(), Some("end"));
    }

    #[test]
    fn errors_state_their_place_and_the_expectation() {
        for (text, place, part) in [
            ("0 socket(", (1, 10), "found the end"),
            ("\n  x", (2, 3), "a time"),
            ("0 < S 0:0(0) win 70000", (1, 18), "16 bits"),
            ("0 < Q 0:0(0)", (1, 5), "flag"),
            ("0 < . 1:5(3)", (1, 7), "1:4(3)"),
            ("+0~1 a() = 0", (1, 1), "relative"),
            ("+0 `x", (1, 5), "does not end"),
            ("0 > . 1:1(0) <mss>", (1, 18), "maximum segment size"),
            ("0 > . 1:1(0) <foo 1>", (1, 15), "known option"),
            ("`a`\n`b` 0 a() = 0", (2, 5), "clean-up"),
        ] {
            let error = parse(text, &Defines::new()).expect_err(text);
            assert_eq!((error.place.line, error.place.column), place, "{text}: {error}");
            assert!(error.to_string().contains(part), "{text}: {error}");
        }
    }
}
