//! Parses text into steps, one for each line.

use std::net::IpAddr;
use std::time::Duration;

use hawser_engine::Direction;

use crate::step::cursor::{Error, LineCursor, LineParse};
use crate::step::literal::{self, Field, PacketLiteral, ValueLiteral};
use crate::step::report::StepPosition;
use crate::step::span;
use crate::step::verbs;

/// The maximum number of lines of a file.
const MAX_LINES: usize = 100_000;
/// The maximum number of bytes of a line.
const MAX_LINE: usize = 64 << 10;

/// A text could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}{}{hint}", if hint.is_empty() { "" } else { "\n  hint: " })]
pub struct StepSyntaxError {
    /// The place of the fault.
    pub place: StepPosition,
    /// The fault.
    pub message: String,
    /// A hint at the correct form; may be empty.
    pub hint: String,
}

/// A file of steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    pub(crate) setup: StepSetup,
    pub(crate) lines: Vec<StepLine>,
}

impl Steps {
    /// Returns the program that the file names, and the place of the name.
    #[must_use]
    pub fn program(&self) -> Option<(&str, StepPosition)> {
        self.setup
            .program
            .as_ref()
            .map(|(name, place)| (name.as_str(), *place))
    }

    /// Returns the program's params as the file sets them: `RTO=100ms`.
    #[must_use]
    pub fn params(&self) -> &[String] {
        &self.setup.params
    }

    /// Returns the number of steps.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns whether there are no steps.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

/// The program, and the ends between which it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StepSetup {
    pub(crate) program: Option<(String, StepPosition)>,
    pub(crate) params: Vec<String>,
    pub(crate) local: IpAddr,
    /// Further addresses of the stack.
    pub(crate) others: Vec<IpAddr>,
    pub(crate) remote: IpAddr,
    pub(crate) mtu: u32,
    pub(crate) tolerance: Duration,
}

impl Default for StepSetup {
    fn default() -> StepSetup {
        StepSetup {
            program: None,
            params: Vec::new(),
            local: IpAddr::from([10, 0, 0, 1]),
            others: Vec::new(),
            remote: IpAddr::from([10, 0, 0, 2]),
            mtu: 1500,
            tolerance: Duration::ZERO,
        }
    }
}

/// The time of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepTime {
    /// After the previous step.
    After(Duration),
    /// After the start.
    At(Duration),
}

/// A step and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StepLine {
    pub(crate) place: StepPosition,
    pub(crate) when: StepTime,
    pub(crate) step: Step,
    /// The step as it is written.
    pub(crate) text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Only lets time pass.
    Wait,
    /// A packet arrives.
    In(PacketLiteral),
    /// This many packets like this one leave, each within this time.
    Out { count: u32, packet: PacketLiteral, within: Option<Duration> },
    /// Any packets that have left so far.
    OutAny,
    /// No packet leaves until this time.
    OutNothing(StepTime),
    /// Default fields of incoming (or outgoing) packets, for fields that their own line does not state.
    Every { inbound: bool, packet: PacketLiteral },
    /// A condition about contexts, with its own column.
    Assert { text: String, column: u32 },
    /// A notice has arrived.
    Notify { handle: Option<String>, notice: String, error: Option<String> },
    /// The handle's context has ended.
    Gone { handle: Option<String> },
    /// A completion with these fields has arrived.
    Completion { handle: Option<String>, fields: Vec<Field> },
    /// Registered memory holds these bytes from an offset on.
    Holds { memory: Option<String>, data: ValueLiteral, at: Option<ValueLiteral> },
    /// The application makes a request.
    Request { handle: Option<String>, request: Request, fails: Option<String> },
}

/// A request of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Listen {
        port: u16,
    },
    Connect {
        to: Option<IpAddr>,
        port: u16,
        from: u16,
    },
    Accept {
        from: Option<String>,
    },
    Send {
        data: ValueLiteral,
        takes: Option<u64>,
    },
    Recv {
        data: ValueLiteral,
    },
    Open {
        direction: Direction,
        from: Option<String>,
    },
    Reset {
        reason: u64,
    },
    Stop {
        reason: u64,
    },
    Close,
    Abort,
    Release,
    Option {
        option: String,
        value: ValueLiteral,
    },
    /// A queue pair of this number with its own port, with a peer or for datagrams.
    Pair(ValueLiteral, Option<ValueLiteral>, bool),
    Register(Vec<Field>),
    Deregister,
    Post(Vec<Field>),
}

/// Parses a file.
///
/// # Errors
/// The first fault, its place, and a hint.
pub fn parse(text: &str) -> Result<Steps, StepSyntaxError> {
    let mut steps = Steps::default();
    for (index, line) in text.lines().enumerate() {
        let number = index as u32 + 1;
        let error = |error: Error| StepSyntaxError {
            place: StepPosition { line: number, column: error.column },
            message: error.message,
            hint: error.hint,
        };
        if index >= MAX_LINES || line.len() > MAX_LINE {
            let limit = format!("at most {MAX_LINES} lines of {MAX_LINE} bytes are read");
            return Err(error(Error::new(1, limit)));
        }
        if LineCursor::new(line).is_at_end() {
            continue;
        }
        if steps.lines.is_empty() && steps.setup.read(line, number).map_err(error)? {
            continue;
        }
        steps.lines.push(step(line, number).map_err(error)?);
    }
    Ok(steps)
}

/// Parses a single line. Returns `None` if it is empty or a comment.
///
/// # Errors
/// The first fault.
pub(crate) fn parse_line(line: &str, number: u32) -> Result<Option<StepLine>, StepSyntaxError> {
    let whole = line.len() <= MAX_LINE;
    let line = if whole { line } else { "" };
    if whole && LineCursor::new(line).is_at_end() {
        return Ok(None);
    }
    step(line, number).map(Some).map_err(|error| StepSyntaxError {
        place: StepPosition { line: number, column: error.column },
        message: error.message,
        hint: error.hint,
    })
}

impl StepSetup {
    /// Parses a line of the part before the steps. Returns false if it does not belong to that part.
    fn read(&mut self, line: &str, number: u32) -> LineParse<bool> {
        let mut cursor = LineCursor::new(line);
        let place = |column| StepPosition { line: number, column };
        if cursor.keyword("program") {
            let column = cursor.column();
            let name = cursor.remainder();
            if name.is_empty() {
                return Err(Error::new(column, "expected a program")
                    .hint("a built-in one as `tcp`, or a file relative to this one as `../my.mtp`"));
            }
            self.program = Some((name.to_owned(), place(column)));
        } else if cursor.keyword("param") {
            let column = cursor.column();
            let setting = cursor.remainder();
            if !setting.contains('=') {
                return Err(
                    Error::new(column, "expected a param and its value").hint("as in `param RTO = 100ms`")
                );
            }
            self.params.push(setting.to_owned());
        } else if cursor.keyword("local") {
            self.local = address(&mut cursor)?;
            while cursor.keyword("and") {
                self.others.push(address(&mut cursor)?);
            }
        } else if cursor.keyword("remote") {
            self.remote = address(&mut cursor)?;
        } else if cursor.keyword("mtu") {
            self.mtu = number_in(&mut cursor, 68..=65_535, "the MTU")? as u32;
        } else if cursor.keyword("tolerance") {
            self.tolerance = duration(&mut cursor)?;
        } else {
            return Ok(false);
        }
        cursor.end()?;
        Ok(true)
    }
}

const STEPS: &str = "`<` and `>` for packets, `assert`, `notify`, `gone`, `every`, or a request: listen, connect, \
                     accept, open, send, recv, close, reset, stop, abort, release, option, pair, register, deregister, post; \
                     `completion` and `holds` for what came of work";

fn step(line: &str, number: u32) -> LineParse<StepLine> {
    let mut cursor = LineCursor::new(line);
    let when = when(&mut cursor)?;
    let place = StepPosition { line: number, column: cursor.column() };
    let step = match () {
        () if cursor.is_at_end() => Step::Wait,
        () if cursor.take("<") => Step::In(PacketLiteral::read(&mut cursor)?),
        () if cursor.take(">") => outbound(&mut cursor)?,
        () if cursor.keyword("assert") => {
            let column = cursor.column();
            let text = cursor.remainder().to_owned();
            if text.is_empty() {
                return Err(
                    Error::new(column, "expected a condition").hint("as in `assert conn.flight == 0`")
                );
            }
            Step::Assert { text, column }
        }
        () if cursor.keyword("every") => {
            let inbound = cursor.take("<");
            if !inbound && !cursor.take(">") {
                return Err(Error::new(cursor.column(), "expected `<` or `>`")
                    .hint("as in `every < SW{sport: 7001, dport: 40000}`"));
            }
            Step::Every { inbound, packet: PacketLiteral::read(&mut cursor)? }
        }
        () => about_a_handle(&mut cursor)?,
    };
    cursor.end()?;
    Ok(StepLine { place, when, step, text: line.trim().to_owned() })
}

/// Parses `+100ms` or `1.5s`. Without a time, the step is due at once.
fn when(cursor: &mut LineCursor<'_>) -> LineParse<StepTime> {
    let column = cursor.column();
    let relative = cursor.take("+");
    if !relative && !cursor.rest().starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(StepTime::After(Duration::ZERO));
    }
    let span = match cursor.word() {
        "0" => Duration::ZERO,
        word => span::parse(word).ok_or_else(|| {
            Error::new(column, format!("`{word}` is no time"))
                .hint("a number and ns, us, ms, s, min or h: `+100ms` after the step before, `1.5s` after the start")
        })?,
    };
    Ok(if relative {
        StepTime::After(span)
    } else {
        StepTime::At(span)
    })
}

/// Parses the text after `>`.
fn outbound(cursor: &mut LineCursor<'_>) -> LineParse<Step> {
    if cursor.take("...") {
        return Ok(Step::OutAny);
    }
    if cursor.keyword("nothing") {
        return match () {
            () if cursor.keyword("for") => Ok(Step::OutNothing(StepTime::After(duration(cursor)?))),
            () if cursor.keyword("until") => Ok(Step::OutNothing(StepTime::At(duration(cursor)?))),
            () => Err(
                Error::new(cursor.column(), "expected `for` or `until`, and a time").hint(
                    "as in `> nothing for 300ms`, or `> nothing until 2s`, which counts from the start",
                ),
            ),
        };
    }
    let mut count = 1;
    if cursor.rest().starts_with(|c: char| c.is_ascii_digit()) {
        count = number_in(cursor, 1..=100_000, "the number of packets")? as u32;
        if !cursor.keyword("x") {
            return Err(Error::new(cursor.column(), "expected `x` and a packet")
                .hint("as in `> 16 x GBN{kind: DATA}`"));
        }
    }
    let packet = PacketLiteral::read(cursor)?;
    let within = match cursor.keyword("within") {
        true => Some(duration(cursor)?),
        false => None,
    };
    Ok(Step::Out { count, packet, within })
}

/// Parses a step with an optional `NAME:` before it.
fn about_a_handle(cursor: &mut LineCursor<'_>) -> LineParse<Step> {
    let column = cursor.column();
    let mut behind = cursor.clone();
    let name = behind.name().to_owned();
    let mut handle = None;
    if !name.is_empty() && behind.take(":") {
        handle = Some(name);
        *cursor = behind;
    }
    let verb_column = cursor.column();
    let verb = cursor.word();
    if let Some(step) = observation(verb, verb_column, handle.as_ref(), cursor)? {
        return Ok(step);
    }
    let request = match verb {
        "listen" => Request::Listen { port: port(cursor)? },
        "connect" => connect(cursor)?,
        "accept" => Request::Accept { from: from(cursor) },
        "open" => Request::Open {
            direction: match cursor.keyword("one") {
                true => Direction::One,
                false => Direction::Both,
            },
            from: from(cursor),
        },
        "reset" => Request::Reset { reason: number_in(cursor, 0..=u64::MAX, "the reason")? },
        "stop" => Request::Stop { reason: number_in(cursor, 0..=u64::MAX, "the reason")? },
        "send" => Request::Send {
            data: literal::data(cursor)?,
            takes: match cursor.keyword("takes") {
                true => Some(number_in(cursor, 0..=u64::MAX, "the bytes taken")?),
                false => None,
            },
        },
        "recv" => Request::Recv { data: literal::data(cursor)? },
        "close" => Request::Close,
        "abort" => Request::Abort,
        "release" => Request::Release,
        "option" => Request::Option { option: cursor.word().to_owned(), value: literal::data(cursor)? },
        other => match verbs::request(other, cursor)? {
            Some(request) => request,
            None => return Err(Error::new(column, format!("`{other}` begins no step")).hint(STEPS)),
        },
    };
    let fails = match cursor.keyword("fails") {
        true => Some(cursor.word().to_owned()),
        false => None,
    };
    Ok(Step::Request { handle, request, fails })
}

/// Parses a step that makes no request but checks arrivals and state.
fn observation(
    verb: &str,
    column: u32,
    handle: Option<&String>,
    cursor: &mut LineCursor<'_>,
) -> LineParse<Option<Step>> {
    let named = || handle.cloned();
    match verb {
        "notify" => {
            let notice = cursor.word().to_owned();
            let error = cursor.word().to_owned();
            if !NOTICES.contains(&notice.as_str()) {
                return Err(Error::new(column, format!("`{notice}` is no notice")).hint(NOTICES.join(", ")));
            }
            Ok(Some(Step::Notify {
                handle: named(),
                notice,
                error: (!error.is_empty()).then_some(error),
            }))
        }
        "gone" => Ok(Some(Step::Gone { handle: named() })),
        _ => verbs::observation(verb, handle, cursor),
    }
}

/// Parses `from NAME`, if present.
fn from(cursor: &mut LineCursor<'_>) -> Option<String> {
    cursor.keyword("from").then(|| cursor.name().to_owned())
}

pub(crate) const NOTICES: [&str; 10] = [
    "CONNECTED",
    "ACCEPTED",
    "EOF",
    "CLOSED",
    "FAILED",
    "RESET",
    "STOPPED",
    "MESSAGE",
    "READABLE",
    "WRITABLE",
];

/// Parses `7001`, `10.0.0.2:7001` or `[fd00::2]:7001`, optionally with `from 40000`.
fn connect(cursor: &mut LineCursor<'_>) -> LineParse<Request> {
    let column = cursor.column();
    let hint = "as in `connect 7001`, `connect 10.0.0.2:7001` or `connect fd00::2 7001`, and `from 40000` for the own port";
    let word = cursor.word();
    let wrong = || Error::new(column, format!("`{word}` is no port and no address with a port")).hint(hint);
    let (to, port) = match (word.parse::<u16>(), word.parse::<IpAddr>()) {
        (Ok(port), _) => (None, port),
        (_, Ok(address)) => (Some(address), port(cursor)?),
        _ => {
            let both = word.parse::<std::net::SocketAddr>().map_err(|_| wrong())?;
            (Some(both.ip()), both.port())
        }
    };
    let from = match cursor.keyword("from") {
        true => self::port(cursor)?,
        false => 0,
    };
    Ok(Request::Connect { to, port, from })
}

fn port(cursor: &mut LineCursor<'_>) -> LineParse<u16> {
    Ok(number_in(cursor, 1..=65_535, "a port")? as u16)
}

fn address(cursor: &mut LineCursor<'_>) -> LineParse<IpAddr> {
    let column = cursor.column();
    let word = cursor.word();
    word.parse()
        .map_err(|_| Error::new(column, format!("`{word}` is no address")).hint("as in 10.0.0.1 or fd00::1"))
}

fn duration(cursor: &mut LineCursor<'_>) -> LineParse<Duration> {
    let column = cursor.column();
    let word = cursor.word();
    span::parse(word).ok_or_else(|| {
        Error::new(column, format!("`{word}` is no time"))
            .hint("a number and ns, us, ms, s, min or h: 100ms, 1.5s")
    })
}

fn number_in(
    cursor: &mut LineCursor<'_>,
    range: std::ops::RangeInclusive<u64>,
    what: &str,
) -> LineParse<u64> {
    let column = cursor.column();
    let word = cursor.word();
    let number = word.parse::<u64>().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| {
        let (from, to) = (range.start(), range.end());
        Error::new(
            column,
            format!("`{word}` is not {what}: a number from {from} to {to}"),
        )
    })
}
