//! Work on registered memory: the requests of an application of verbs, their completions, and the content of
//! its memory.

use std::net::SocketAddr;
use std::sync::Arc;

use hawser_engine::{Errno, Notice, Region, RequestError, WorkRequest};
use hawser_ir::Ty;

use crate::step::bench::{CONNECTION, StepBench, StepOutcome};
use crate::step::cursor::{Error, LineCursor, LineParse};
use crate::step::literal::{self, Field, Literal, ValueLiteral};
use crate::step::notice_names::errno;
use crate::step::parse::{Request, Step, StepLine};
use crate::step::payload::{self, Payload};
use crate::step::report::StepFailure;

/// The default name of registered memory.
const MEMORY: &str = "memory";
/// The fields of a work request, as in the language's request `post`.
const WORK: [&str; 11] = [
    "id",
    "code",
    "flags",
    "len",
    "key",
    "at",
    "remote_key",
    "remote_at",
    "value",
    "swap",
    "sub",
];
/// The fields of a completion.
const COMPLETION: [&str; 6] = ["id", "status", "code", "flags", "len", "value"];

/// Memory that a file has registered.
#[derive(Clone)]
pub(crate) struct Registered {
    domain: u32,
    key: u32,
    region: Arc<Region>,
}

/// Parses `pair 17 from 50000`, `pair 17 for datagrams`, `register {data: 100}`, `deregister` or `post {code:
/// WORK_SEND}`. Returns `None` for other words.
pub(crate) fn request(verb: &str, cursor: &mut LineCursor<'_>) -> LineParse<Option<Request>> {
    Ok(Some(match verb {
        "pair" => {
            let number = literal::data(cursor)?;
            let from = cursor
                .keyword("from")
                .then(|| literal::data(cursor))
                .transpose()?;
            let has_peer = !(cursor.keyword("for") && cursor.keyword("datagrams"));
            Request::Pair(number, from, has_peer)
        }
        "register" => Request::Register(literal::record(cursor)?),
        "deregister" => Request::Deregister,
        "post" => Request::Post(literal::record(cursor)?),
        _ => return Ok(None),
    }))
}

/// Parses `completion {id: 1}` or `holds 100@0 at 16`. Returns `None` for other words.
pub(crate) fn observation(
    verb: &str,
    handle: Option<&String>,
    cursor: &mut LineCursor<'_>,
) -> LineParse<Option<Step>> {
    let handle = handle.cloned();
    Ok(Some(match verb {
        "completion" => Step::Completion { handle, fields: literal::record(cursor)? },
        "holds" => Step::Holds {
            memory: handle,
            data: literal::data(cursor)?,
            at: match cursor.keyword("at") {
                true => Some(literal::data(cursor)?),
                false => None,
            },
        },
        _ => return Ok(None),
    }))
}

/// Returns the written form of the words of a completion's notice.
pub(crate) fn show_completion(words: [u64; 4]) -> String {
    let fields = COMPLETION.iter().zip(numbers_of(words));
    let fields: Vec<String> = fields.map(|(name, number)| format!("{name}: {number}")).collect();
    format!("completion {{{}}}", fields.join(", "))
}

/// Splits the words into the fields of [`COMPLETION`].
fn numbers_of([id, outcome, len, value]: [u64; 4]) -> [u64; 6] {
    [id, outcome & 0xff, outcome >> 8 & 0xff, outcome >> 16, len, value]
}

impl StepBench {
    /// Opens a queue pair, to the peer at the port of the program's packets, or for datagrams.
    pub(crate) fn open_pair(
        &mut self,
        line: &StepLine,
        name: &Option<String>,
        (number, from, has_peer): (&ValueLiteral, &Option<ValueLiteral>, bool),
    ) -> Result<Result<(), RequestError>, StepFailure> {
        let number = self.small(line, number, u32::MAX)?;
        let from = match from {
            Some(from) => self.small(line, from, u16::MAX.into())? as u16,
            None => 0,
        };
        let remote = SocketAddr::new(self.setup.remote, self.format.port());
        let remote = has_peer.then_some(remote);
        let opened = self.stack.open_pair(self.now, (number, from), remote, &[]);
        let name = name.clone().unwrap_or_else(|| CONNECTION.to_owned());
        Ok(opened.map(|handle| self.name(name, handle)))
    }

    /// Registers memory with its contents. Its key is `$NAME` from then on.
    pub(crate) fn register(
        &mut self,
        line: &StepLine,
        name: &Option<String>,
        fields: &[Field],
    ) -> Result<Result<(), RequestError>, StepFailure> {
        let (data, others): (Vec<&Field>, Vec<&Field>) =
            fields.iter().partition(|field| field.name == "data");
        let data = data.first().map(|field| Payload::parse(&field.value)).transpose();
        let bytes = data
            .map_err(|error| self.wrong(line, error))?
            .map_or_else(Vec::new, |payload| payload.bytes(0));
        let [at, domain, access] = self.numbers(line, others, ["at", "domain", "access"])?;
        let (domain, access) = (domain.unwrap_or(0) as u32, access.unwrap_or(0) as u32);
        let region = Region::new(bytes.len());
        region.bytes().copy_from_slice(&bytes);
        let key = self
            .stack
            .register(region.clone(), domain, access, at.unwrap_or(0));
        Ok(key.map(|key| {
            let name = name.clone().unwrap_or_else(|| MEMORY.to_owned());
            self.names.insert(name.clone(), key.into());
            let registered = Registered { domain, key, region };
            self.memory.insert(name, registered);
        }))
    }

    /// Invalidates a key. The bytes remain and can be checked.
    pub(crate) fn deregister(&mut self, line: &StepLine, name: &Option<String>) -> StepOutcome {
        let known = self.registered(line, name)?;
        match self.stack.deregister(known.domain, known.key) {
            true => Ok(()),
            false => Err(self.failed(line, "the key is ended", "it opened nothing any more".into())),
        }
    }

    /// Posts a work request.
    pub(crate) fn post(
        &mut self,
        line: &StepLine,
        name: &Option<String>,
        fields: &[Field],
    ) -> Result<Result<(), RequestError>, StepFailure> {
        let handle = self.handle(line, name.as_ref(), CONNECTION)?;
        let numbers = self.numbers(line, fields, WORK)?;
        let [
            id,
            code,
            flags,
            len,
            key,
            at,
            remote_key,
            remote_at,
            value,
            swap,
            sub,
        ] = numbers.map(Option::unwrap_or_default);
        let work = WorkRequest {
            id,
            code: code as u32,
            flags: flags as u32,
            len,
            local: (key as u32, at),
            remote: (remote_key as u32, remote_at),
            to: (sub > 0).then_some((self.setup.remote, sub as u32)),
            value,
            swap,
        };
        let posted = self.stack.post(self.now, handle, &work);
        Ok(posted.and_then(|has_room| match has_room {
            true => Ok(()),
            false => Err(RequestError::Refused(Errno::AGAIN)),
        }))
    }

    /// Expects that the next notice is a completion with these fields. Other fields are not compared.
    pub(crate) fn completion(
        &mut self,
        line: &StepLine,
        name: &Option<String>,
        fields: &[Field],
    ) -> StepOutcome {
        let handle = self.handle(line, name.as_ref(), CONNECTION)?;
        let wanted = self.numbers(line, fields, COMPLETION)?;
        let expected = line.text.clone();
        let happened = match self.next_notice(handle, "MESSAGE") {
            None => "no such notice arrived".to_owned(),
            Some(Notice::Message(words)) => {
                let found = numbers_of(words);
                let is_alike = |(wanted, found): (Option<u64>, u64)| wanted.is_none_or(|w| w == found);
                if wanted.into_iter().zip(found).all(is_alike) {
                    return Ok(());
                }
                show_completion(words)
            }
            Some(other) => {
                let (word, error) = crate::step::notice_names::notice_word(other);
                format!("notify {word}{error}")
            }
        };
        Err(self.failed(line, expected, happened))
    }

    /// Expects that registered memory holds these bytes.
    pub(crate) fn holds(
        &mut self,
        line: &StepLine,
        name: &Option<String>,
        (data, at): (&ValueLiteral, &Option<ValueLiteral>),
    ) -> StepOutcome {
        let known = self.registered(line, name)?;
        let wanted = Payload::parse(data).map_err(|error| self.wrong(line, error))?;
        let at = match at {
            Some(at) => self.small(line, at, u32::MAX)? as usize,
            None => 0,
        };
        let bytes = known.region.bytes();
        let found = bytes.get(at..at.saturating_add(wanted.len()));
        if found.is_some_and(|found| found == wanted.bytes(0)) {
            return Ok(());
        }
        let happened = match found {
            Some(found) => format!("holds {}", payload::show(found)),
            None => format!("it has {} bytes", bytes.len()),
        };
        Err(self.failed(line, format!("holds {}", data.literal), happened))
    }

    fn registered(&self, line: &StepLine, name: &Option<String>) -> Result<Registered, StepFailure> {
        let name = name.as_deref().unwrap_or(MEMORY);
        self.memory.get(name).cloned().ok_or_else(|| {
            let error = Error::new(line.place.column, format!("no memory is registered as `{name}`"));
            self.wrong(line, error.hint("as in `NAME: register {data: 100}`"))
        })
    }

    /// Returns the numbers of these fields, in order. Unwritten fields have none.
    fn numbers<'f, const N: usize>(
        &self,
        line: &StepLine,
        fields: impl IntoIterator<Item = &'f Field>,
        known: [&str; N],
    ) -> Result<[Option<u64>; N], StepFailure> {
        let mut numbers = [None; N];
        for field in fields {
            let Some(index) = known.iter().position(|known| *known == field.name) else {
                let error = Error::new(field.column, format!("there is no field `{}`", field.name));
                let hint = format!("there are: {}", known.join(", "));
                return Err(self.wrong(line, error.hint(hint)));
            };
            numbers[index] = Some(self.number(line, &field.value)?);
        }
        Ok(numbers)
    }

    /// Parses a number up to a limit.
    fn small(&self, line: &StepLine, value: &ValueLiteral, limit: u32) -> Result<u32, StepFailure> {
        let number = self.number(line, value)?;
        let small = u32::try_from(number).ok().filter(|number| *number <= limit);
        small.ok_or_else(|| {
            let message = format!("`{}` is more than {limit}", value.literal);
            self.wrong(line, Error::new(value.column, message))
        })
    }

    /// Parses a number, `$NAME`, a name of the language or of an enum of the program, or several of them
    /// joined by `|`.
    pub(crate) fn number(&self, line: &StepLine, value: &ValueLiteral) -> Result<u64, StepFailure> {
        self.read_number(value).map_err(|error| self.wrong(line, error))
    }

    fn read_number(&self, value: &ValueLiteral) -> LineParse<u64> {
        let Literal::Word(word) = &value.literal else {
            return Err(Error::new(
                value.column,
                format!("`{}` is not a number", value.literal),
            ));
        };
        let mut parts = word.split('|');
        parts.try_fold(0, |all, part| Ok(all | self.part(part, value.column)?))
    }

    fn part(&self, part: &str, column: u32) -> LineParse<u64> {
        if let Some(number) = errno(part) {
            return Ok(number.into());
        }
        let enums = &self.format.module().enums;
        let mut variants = enums.iter().flat_map(|names| &names.variants);
        if let Some((number, _)) = variants.find(|(_, name)| name == part) {
            return Ok(*number);
        }
        let value = ValueLiteral { column, literal: Literal::Word(part.to_owned()) };
        self.format.types().number(&Ty::uint(64), &value, &self.names)
    }
}
