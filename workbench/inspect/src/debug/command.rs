//! Commands in the form in which users write them.

use std::time::Duration;

use crate::debug::breakpoint::BreakCondition;

/// A parsed command.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Moves to another place.
    Go(Move),
    /// Goes to the statement that created a packet, by its number in a capture.
    Packet(u64),
    /// Adds a breakpoint.
    Break {
        /// The breakpoint's condition to stop.
        what: BreakCondition,
        /// The only host to which it applies.
        host: Option<String>,
        /// An expression that must be true for a stop.
        condition: Option<String>,
    },
    /// Removes one breakpoint, or all.
    Clear(Option<u32>),
    /// Shows the breakpoints.
    Breakpoints,
    /// Shows the value of an expression.
    Print(String),
    /// Shows the active functions.
    Stack,
    /// Shows the variables that the selected function sees.
    Locals,
    /// Shows the contexts of all hosts.
    Contexts,
    /// Shows the packets in flight.
    Flight,
    /// Shows the source with this many lines on each side.
    List(u32),
    /// Shows all effects of the event.
    Trace,
    /// Selects the host for later questions.
    Host(String),
    /// Selects the function for later questions.
    Frame(usize),
    /// Shows these commands.
    Help,
    /// Ends the debugger.
    Quit,
}

/// A move to another place.
#[derive(Clone, Debug, PartialEq)]
pub enum Move {
    /// To the next breakpoint, or to the end.
    Continue,
    /// To the last breakpoint before, or to the beginning.
    Reverse,
    /// To the next statement, including those of called functions.
    Step,
    /// To the next statement of this function or of its callers.
    Next,
    /// To the next statement of its callers.
    Out,
    /// To the previous statement.
    Back,
    /// To the next event.
    Event,
    /// To the beginning of this event, or from there to the previous event.
    BackEvent,
    /// To a place in the run.
    To(RunTarget),
}

/// A place in the run.
#[derive(Clone, Debug, PartialEq)]
pub enum RunTarget {
    /// The event with this number; the first is 1.
    Event(u64),
    /// The first event at or after this time since the start.
    Time(Duration),
}

/// A command is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// There is no such command.
    #[error("unknown command `{0}`: `help` lists the commands")]
    Unknown(String),
    /// An argument is missing or superfluous.
    #[error("expected {0}")]
    Expected(&'static str),
}

/// The help text with all commands.
pub const HELP: &str = "\
continue, c           go on to the next breakpoint, or to the end of the run
reverse, rc           go back to the last breakpoint before, or to the beginning
event, e              go to the next event; `back event`: to the beginning of this one, then to the one before
step, s               go to the next statement, into functions that are called
next, n               go to the next statement of this function or of its callers
out, o                go to the next statement of the caller
back, b               go back to the statement before
goto N                go to the event with this number; `goto 1.5s`: to the first event at this time or later;
                      `goto packet N`: to the statement that made this packet
break 52              stop before line 52 of the program; `break cubic.mtp:52`: of another of its files
break event NAME      stop before an event
break field cc.cwnd   stop after a statement that changed a field
break packet N        stop before packet N is made; without N: any packet
break assert          stop at a false assertion
   … on HOST          on this host alone
   … if EXPRESSION    where it is true; for packets it sees the fields of the header
breakpoints           show them; `clear N` removes one, `clear` all
print EXPRESSION, p   show a value: `print cc.cwnd / MSS`, `print ctx`, `print ev.len`
contexts              show the contexts of all hosts
locals                show what the function sees
stack                 show the functions that run; `frame N` asks about one of them
host NAME             ask `print` about another host
flight                show packets under to
list, l               show the source
trace                 show all that this event does, as `hawser sim trace` does
help, quit
";

impl Command {
    /// Parses a command. An empty text is none.
    ///
    /// # Errors
    /// The form that was expected.
    pub fn parse(text: &str) -> Result<Option<Command>, CommandError> {
        let (word, rest) = split(text.trim());
        let go = |to| Ok(Some(Command::Go(to)));
        let command = match word {
            "" => return Ok(None),
            "continue" | "c" => return go(Move::Continue),
            "reverse" | "rc" => return go(Move::Reverse),
            "step" | "s" => return go(Move::Step),
            "next" | "n" => return go(Move::Next),
            "out" | "o" => return go(Move::Out),
            "event" | "e" => return go(Move::Event),
            "back" | "b" => match rest {
                "" => return go(Move::Back),
                "event" | "e" => return go(Move::BackEvent),
                _ => return Err(CommandError::Expected("`back` or `back event`")),
            },
            "goto" => goto(rest)?,
            "break" => breakpoint(rest)?,
            "clear" if rest.is_empty() => Command::Clear(None),
            "clear" => Command::Clear(Some(number(rest, "the number of a breakpoint: `clear 2`")?)),
            "breakpoints" => Command::Breakpoints,
            "print" | "p" if rest.is_empty() => {
                return Err(CommandError::Expected("an expression: `print ctx`"));
            }
            "print" | "p" => Command::Print(rest.to_owned()),
            "stack" => Command::Stack,
            "locals" => Command::Locals,
            "contexts" => Command::Contexts,
            "flight" => Command::Flight,
            "list" | "l" if rest.is_empty() => Command::List(5),
            "list" | "l" => Command::List(number(rest, "a number of lines: `list 10`")?),
            "trace" => Command::Trace,
            "host" if rest.is_empty() => return Err(CommandError::Expected("a host: `host b`")),
            "host" => Command::Host(rest.to_owned()),
            "frame" => Command::Frame(number(rest, "a number that `stack` shows: `frame 1`")?),
            "help" => Command::Help,
            "quit" | "q" => Command::Quit,
            other => return Err(CommandError::Unknown(other.to_owned())),
        };
        Ok(Some(command))
    }
}

/// Splits off the first word.
fn split(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim())
}

fn number<T: std::str::FromStr>(text: &str, expected: &'static str) -> Result<T, CommandError> {
    text.parse().map_err(|_| CommandError::Expected(expected))
}

fn goto(rest: &str) -> Result<Command, CommandError> {
    const EXPECTED: &str = "`goto 12` (an event), `goto 1.5s` (a time) or `goto packet 17`";
    match split(rest) {
        ("packet", packet) => Ok(Command::Packet(number(packet, EXPECTED)?)),
        (event, "") if event.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok(Command::Go(Move::To(RunTarget::Event(number(event, EXPECTED)?))))
        }
        (time, "") => {
            let time = time
                .parse::<hawser_sim::scenario::units::TimeSpan>()
                .map_err(|_| CommandError::Expected(EXPECTED))?;
            Ok(Command::Go(Move::To(RunTarget::Time(time.into()))))
        }
        _ => Err(CommandError::Expected(EXPECTED)),
    }
}

fn breakpoint(rest: &str) -> Result<Command, CommandError> {
    const EXPECTED: &str = "a line (`break 52`, `break cubic.mtp:52`), `break event NAME`, `break field cc.cwnd`, \
                            `break packet 17` or `break assert`";
    let (rest, condition) = match rest.split_once(" if ") {
        Some((rest, condition)) => (rest.trim(), Some(condition.trim().to_owned())),
        None => (rest, None),
    };
    let (rest, host) = match rest.split_once(" on ") {
        Some((rest, host)) => (rest.trim(), Some(host.trim().to_owned())),
        None => (rest, None),
    };
    let what = match split(rest) {
        ("assert", "") => BreakCondition::Assert,
        ("event", name) if !name.is_empty() => BreakCondition::Event(name.to_owned()),
        ("field", name) if !name.is_empty() => BreakCondition::Field(name.to_owned()),
        ("packet", "") => BreakCondition::Packet(None),
        ("packet", packet) => BreakCondition::Packet(Some(number(packet, EXPECTED)?)),
        (place, "") => match place.rsplit_once(':') {
            Some((file, line)) => BreakCondition::Line {
                file: Some(file.to_owned()).filter(|file| !file.is_empty()),
                line: number(line, EXPECTED)?,
            },
            None => BreakCondition::Line { file: None, line: number(place, EXPECTED)? },
        },
        _ => return Err(CommandError::Expected(EXPECTED)),
    };
    Ok(Command::Break { what, host, condition })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breakpoints_have_a_host_and_a_condition() {
        let parsed = Command::parse("break field cc.cwnd on a if cc.cwnd > 5").expect("a command");
        let expected = Command::Break {
            what: BreakCondition::Field("cc.cwnd".to_owned()),
            host: Some("a".to_owned()),
            condition: Some("cc.cwnd > 5".to_owned()),
        };
        assert_eq!(parsed, Some(expected));
    }

    #[test]
    fn goto_accepts_events_times_and_packets() {
        let to = |text: &str| Command::parse(text).expect(text);
        assert_eq!(to("goto 12"), Some(Command::Go(Move::To(RunTarget::Event(12)))));
        let time = Duration::from_millis(1500);
        assert_eq!(
            to("goto 1.5s"),
            Some(Command::Go(Move::To(RunTarget::Time(time))))
        );
        assert_eq!(to("goto packet 3"), Some(Command::Packet(3)));
    }

    #[test]
    fn a_wrong_command_is_rejected_and_an_empty_one_ignored() {
        for text in [
            "go",
            "break",
            "break event",
            "break x:y",
            "goto",
            "goto now",
            "clear x",
            "frame",
            "print",
        ] {
            assert!(Command::parse(text).is_err(), "{text}");
        }
        assert_eq!(Command::parse("  "), Ok(None));
    }

    #[test]
    fn the_help_has_every_command() {
        for line in HELP.lines().filter(|line| !line.starts_with(' ')) {
            for form in line.split("  ").next().unwrap_or("").split(", ") {
                let form = form.replace('N', "1");
                let parsed = Command::parse(form.trim());
                assert!(!matches!(parsed, Err(CommandError::Unknown(_))), "{form}");
            }
        }
    }
}
