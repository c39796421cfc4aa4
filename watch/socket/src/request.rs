//! The requests at the socket, without I/O.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use hawser_bus::{Filter, Rule, Scope, SourceFlow, Subscription};
use hawser_documents::Fault;
use serde::Deserialize;
use serde::de::{self, Deserializer};

use crate::local::LINE;

/// A request of a subscriber, one line each.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Introduces the subscriber; without it, its name is `user-` and the user's number.
    Hello(Hello),
    /// Asks for the available events and variables.
    Offers(NoParameters),
    /// Asks for the present flows.
    Flows(Flows),
    /// Asks for the subscriptions of all subscribers.
    Subscriptions(NoParameters),
    /// Asks for the log of modifications.
    Audit(NoParameters),
    /// Subscribes to events from now on.
    Subscribe(Subscribe),
    /// Changes the filters or the scope of a subscription.
    Change(SubscriptionChange),
    /// Ends a subscription.
    Unsubscribe(u32),
    /// Asks for the counts of a subscription's events.
    Statistics(u32),
    /// Asks for variables of a flow.
    Probe(Probe),
    /// Sets a variable for the length of a lease.
    Modify(Modify),
    /// Sets a variable, or gives it back, without an answer unless the request is malformed.
    Steer(Steer),
    /// Gives a variable back before its lease is over.
    Release(Release),
    /// Asks for a queue of signals in memory that both processes share.
    Ring(Ring),
    /// Asks for the attachments of running programs.
    Attachments(NoParameters),
    /// Attaches processors to a running program.
    Attach(Attach),
    /// Detaches processors.
    Detach(Detach),
    /// Asks for the documents that pass a filter.
    List(Json),
    /// Stores a document.
    Put(Json),
    /// Deletes a document by its name.
    Delete(String),
    /// Subscribes to changes of documents that pass a filter, from now on.
    Watch(Json),
}

/// Unparsed JSON: the provider of documents reads it, and detects duplicate keys and checks numbers itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Json(pub String);

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        let text = Box::<serde_json::value::RawValue>::deserialize(deserializer)?;
        Ok(Json(text.get().to_owned()))
    }
}

/// A request without parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoParameters {}

/// The parameters of a query for flows.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flows {
    /// The scope to which the flows must belong.
    #[serde(default, deserialize_with = "scope")]
    pub scope: Scope,
}

/// The introduction of a subscriber.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// Its name in the log and for other subscribers: 1 to 64 letters, digits, `-`, `_`, `.`.
    pub name: String,
    /// The priority of its modifications.
    #[serde(default = "one")]
    pub priority: u8,
}

fn one() -> u8 {
    1
}

/// A subscription.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subscribe {
    /// Names of events, or patterns.
    pub events: Vec<String>,
    /// Names of variables whose values come with each signal.
    #[serde(default)]
    pub with: Vec<String>,
    /// The flows whose events are received.
    #[serde(default, deserialize_with = "scope")]
    pub scope: Scope,
    /// The priority when several subscribers set a variable.
    #[serde(default = "one")]
    pub priority: u8,
    /// The interval of the time filter: nanoseconds, or a text such as `10ms`.
    #[serde(default, deserialize_with = "span")]
    pub interval: Duration,
    /// The frequency filter: every n-th event passes.
    #[serde(default)]
    pub frequency: u32,
    /// True if signals go into the ring instead of lines.
    #[serde(default)]
    pub ring: bool,
}

impl Subscribe {
    /// Converts to the bus's subscription.
    #[must_use]
    pub fn subscription(&self) -> Subscription {
        Subscription {
            events: self.events.iter().map(|event| event.as_str().into()).collect(),
            with: self.with.clone(),
            scope: self.scope.clone(),
            priority: self.priority,
            filter: Filter { interval: self.interval, frequency: self.frequency },
        }
    }
}

/// A change of a subscription; members that are absent stay as they are.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubscriptionChange {
    /// The subscription's number.
    pub subscription: u32,
    /// The flows whose events are received.
    #[serde(default, deserialize_with = "some_scope")]
    pub scope: Option<Scope>,
    /// The priority when several subscribers set a variable.
    #[serde(default)]
    pub priority: Option<u8>,
    /// The interval of the time filter.
    #[serde(default, deserialize_with = "some_span")]
    pub interval: Option<Duration>,
    /// The frequency filter: every n-th event passes.
    #[serde(default)]
    pub frequency: Option<u32>,
}

impl SubscriptionChange {
    /// Applies the change to a subscription.
    pub fn apply(&self, subscription: &mut Subscription) {
        if let Some(scope) = &self.scope {
            subscription.scope = scope.clone();
        }
        subscription.priority = self.priority.unwrap_or(subscription.priority);
        subscription.filter.interval = self.interval.unwrap_or(subscription.filter.interval);
        subscription.filter.frequency = self.frequency.unwrap_or(subscription.filter.frequency);
    }
}

/// A query for variables.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// The flow that is queried.
    #[serde(deserialize_with = "parsed")]
    pub flow: SourceFlow,
    /// Names or patterns; none stand for `*`.
    #[serde(default)]
    pub variables: Vec<String>,
}

/// A modification.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Modify {
    /// The flow of the variable.
    #[serde(deserialize_with = "parsed")]
    pub flow: SourceFlow,
    /// The name of the variable.
    pub variable: String,
    /// The value to set.
    pub value: u64,
    /// The length of the lease: nanoseconds, or a text such as `2s`.
    #[serde(deserialize_with = "span")]
    pub lease: Duration,
    /// The priority when several subscribers set the variable; by default, the subscriber's own.
    #[serde(default)]
    pub priority: Option<u8>,
}

/// A modification without an answer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Steer {
    /// The flow of the variable.
    #[serde(deserialize_with = "parsed")]
    pub flow: SourceFlow,
    /// The name of the variable.
    pub variable: String,
    /// The value to set; if absent, the variable is given back.
    #[serde(default)]
    pub value: Option<u64>,
    /// The length of the lease, if there is a value.
    #[serde(default, deserialize_with = "span")]
    pub lease: Duration,
}

/// A request to attach processors to a program.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attach {
    /// The source whose program they are attached to.
    pub source: u32,
    /// Their common name: 1 to 64 letters, digits, `-`, `_`, `.`.
    pub name: String,
    /// Their text, in the language of transport programs.
    pub text: String,
    /// Values of the text's parameters: `CAP=20000`.
    #[serde(default)]
    pub params: Vec<String>,
}

/// A request to detach processors.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Detach {
    /// The source whose program they are detached from.
    pub source: u32,
    /// Their common name.
    pub name: String,
}

/// A request for a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ring {
    /// The minimum number of signals that it must hold.
    pub slots: usize,
}

/// A request to give a variable back.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// The flow of the variable.
    #[serde(deserialize_with = "parsed")]
    pub flow: SourceFlow,
    /// The name of the variable.
    pub variable: String,
}

/// The reasons for which a line is not a valid request.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The line is too long.
    #[error("a line has at most {LINE} bytes; this one was dropped")]
    TooLong,
    /// The line is not UTF-8.
    #[error("the line is not UTF-8")]
    NotUtf8,
    /// The line is not JSON, or does not have the form of a request.
    #[error("{0}; for instance {EXAMPLE}")]
    Syntax(String),
    /// The name is not valid for a client.
    #[error("`{0}` is not a valid name: expected 1 to 64 letters, digits, `-`, `_` and `.`")]
    Name(String),
}

/// Parses a line.
///
/// # Errors
/// The fault of the line, with a correct example.
pub fn parse(line: &[u8]) -> Result<Request, RequestError> {
    let text = std::str::from_utf8(line).map_err(|_| RequestError::NotUtf8)?;
    let request: Request =
        hawser_documents::json(text).map_err(|fault| RequestError::Syntax(of_line(&fault)))?;
    if let Request::Hello(Hello { name, .. }) = &request
        && !is_name(name)
    {
        return Err(RequestError::Name(name.clone()));
    }
    Ok(request)
}

/// Formats a fault of a line, with its column and its key.
fn of_line(fault: &Fault) -> String {
    let column = fault
        .place
        .map_or_else(String::new, |place| format!("column {}: ", place.column));
    match fault.path.as_str() {
        "" => format!("{column}{}", fault.message),
        path => format!("{column}`{path}`: {}", fault.message),
    }
}

/// Returns whether a line, which may be malformed, is meant as a `steer`: its error is then marked as such.
pub(super) fn is_steering(line: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(line)
        .is_ok_and(|object| object.contains_key("steer"))
}

/// Returns whether the beginning of an overlong line is that of a `steer`, judged by its first key.
pub(super) fn begins_steering(beginning: &[u8]) -> bool {
    let text = String::from_utf8_lossy(beginning);
    let first = text.trim_start().strip_prefix('{').map(str::trim_start);
    first.is_some_and(|first| first.starts_with("\"steer\""))
}

const EXAMPLE: &str = r#"{"offers":{}} or {"subscribe":{"events":["tcp.*"],"interval":"10ms"}}"#;

fn is_name(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=64).contains(&name.len()) && name.chars().all(letter)
}

/// The reasons for which a text is not a time span.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpanError {
    /// The text is not a number with a unit.
    #[error("`{0}` is not a duration: write it like 10ms (ns, us, ms, s, min, h)")]
    Syntax(String),
    /// The span has more nanoseconds than fit into 64 bits.
    #[error("`{0}` is too long: a duration is at most 5124095h")]
    TooLong(String),
    /// The number has no unit.
    #[error("`{0}` has no unit: write {0}s for seconds, or another of ns, us, ms, min, h")]
    NoUnit(String),
}

/// Parses a span with its unit: `10us`, `1.5ms`, `2s`, `1min`; `0` needs no unit.
///
/// # Errors
/// The fault of the text.
pub fn parse_span(text: &str) -> Result<Duration, SpanError> {
    let wrong = || SpanError::Syntax(text.to_owned());
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "" if number == "0" => 1.0,
        "" if number.parse::<f64>().is_ok() => return Err(SpanError::NoUnit(text.to_owned())),
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "min" => 60e9,
        "h" => 3_600e9,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    // A double is exact enough: a span of days is still exact to a microsecond.
    let nanos = (number * unit).round();
    if nanos >= u64::MAX as f64 {
        return Err(SpanError::TooLong(text.to_owned()));
    }
    Ok(Duration::from_nanos(nanos as u64))
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a duration is a text such as `10ms`, or whole nanoseconds"
)]
enum Span {
    Number(u64),
    Text(String),
}

fn span<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    match Span::deserialize(deserializer)? {
        Span::Number(nanos) => Ok(Duration::from_nanos(nanos)),
        Span::Text(text) => parse_span(&text).map_err(de::Error::custom),
    }
}

fn some_span<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    span(deserializer).map(Some)
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a scope is a rule such as `remote.port=443`, or {\"flow\":\"3:1f\"}"
)]
enum Which {
    Flow { flow: String },
    Rule(String),
}

fn scope<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Scope, D::Error> {
    match Which::deserialize(deserializer)? {
        Which::Flow { flow } => flow.parse().map(Scope::One).map_err(de::Error::custom),
        Which::Rule(text) if text.trim().is_empty() => Ok(Scope::All),
        Which::Rule(text) => text.parse::<Rule>().map(Scope::Rule).map_err(de::Error::custom),
    }
}

fn some_scope<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Scope>, D::Error> {
    scope(deserializer).map(Some)
}

fn parsed<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(deserializer: D) -> Result<T, D::Error> {
    String::deserialize(deserializer)?
        .parse()
        .map_err(de::Error::custom)
}

#[cfg(test)]
mod tests {
    use hawser_bus::{FlowId, SourceId};

    use super::*;

    #[test]
    fn lines_are_requests() {
        let target = SourceFlow { source: SourceId(3), flow: FlowId(0x1f) };
        let read = |line: &str| parse(line.as_bytes()).expect("a request");
        assert_eq!(read(r#"{"offers":{}}"#), Request::Offers(NoParameters {}));
        let twice = r#"{"uid":"a", "uid":1e2}"#;
        assert_eq!(
            read(&format!(r#"{{"put":{twice}}}"#)),
            Request::Put(Json(twice.into()))
        );
        let Request::Subscribe(all) = read(r#"{"subscribe":{"events":["tcp.*"]}}"#) else {
            panic!("no subscription")
        };
        assert_eq!(all.subscription(), Subscription::new(["tcp.*"]));
        let line = r#"{"subscribe":{"events":["a.b"],"with":[".c"],"scope":"remote.port=1","interval":"1.5ms",
                       "frequency":3,"priority":9}}"#;
        let Request::Subscribe(all) = read(line) else {
            panic!("no subscription")
        };
        let rule = Scope::Rule("remote.port=1".parse().expect("a rule"));
        let want = Subscription::new(["a.b"])
            .with([".c"])
            .with_scope(rule)
            .every(Duration::from_micros(1_500))
            .each_nth(3)
            .priority(9);
        assert_eq!(all.subscription(), want);
        let line = r#"{"modify":{"flow":"3:1f","variable":"tcp.conn.cc.cwnd","value":5,"lease":"2s"}}"#;
        let want = Modify {
            flow: target,
            variable: "tcp.conn.cc.cwnd".into(),
            value: 5,
            lease: Duration::from_secs(2),
            priority: None,
        };
        assert_eq!(read(line), Request::Modify(want));
        let line = r#"{"change":{"subscription":1,"scope":{"flow":"3:1f"},"interval":7}}"#;
        let Request::Change(change) = read(line) else {
            panic!("no change")
        };
        let mut subscription = Subscription::new(["a"]).each_nth(4);
        change.apply(&mut subscription);
        assert_eq!(
            subscription,
            Subscription::new(["a"])
                .each_nth(4)
                .every(Duration::from_nanos(7))
                .with_scope(Scope::One(target))
        );
    }

    #[test]
    fn malformed_requests_are_refused_with_a_reason() {
        for (line, why) in [
            ("", "the text ends where a value is expected"),
            (
                r#"{"offer":{}}"#,
                "unknown value `offer`: expected one of `hello`, `offers`, ",
            ),
            (
                r#"{"offers":{},"flows":{}}"#,
                "a name, or an object with one key, is expected",
            ),
            ("7", "a name, or an object with one key, is expected"),
            (r#"{"offers":{}"#, "column 12: the text ends within an object"),
            (
                r#"{"offers":{"x":1}}"#,
                "`offers.x`: unknown key `x`: no key is expected",
            ),
            (r#"{"subscribe":{}}"#, "`subscribe`: the key `events` is missing"),
            (
                r#"{"subscribe":{"events":[],"interval":"soon"}}"#,
                "`soon` is not a duration",
            ),
            (
                r#"{"subscribe":{"events":[],"scope":"port=1"}}"#,
                "`port=1` is not a condition",
            ),
            (r#"{"probe":{"flow":"x"}}"#, "`x` is not a flow"),
            (
                r#"{"modify":{"flow":"1:1","variable":"a","value":-1,"lease":1}}"#,
                "`modify.value`: expected a whole number from 0 to 18446744073709551615, found -1",
            ),
            (
                r#"{"modify":{"flow":"1:1","variable":"a","value":1}}"#,
                "`modify`: the key `lease` is missing",
            ),
            (r#"{"hello":{"name":"a b"}}"#, "`a b` is not a valid name"),
            (
                r#"{"hello":{"name":"a","priority":256}}"#,
                "`hello.priority`: expected a whole number from 0 to 255, found 256",
            ),
        ] {
            let error = parse(line.as_bytes()).expect_err("it is wrong");
            assert!(error.to_string().contains(why), "{line}: {error}");
        }
        assert!(matches!(parse(b"\xff"), Err(RequestError::NotUtf8)));
    }

    #[test]
    fn spans_have_units() {
        for (text, want) in [
            ("250ns", 250),
            ("0", 0),
            ("10us", 10_000),
            ("1.5ms", 1_500_000),
            ("2s", 2_000_000_000),
            ("2min", 120_000_000_000),
            ("1.5h", 5_400_000_000_000),
        ] {
            assert_eq!(parse_span(text), Ok(Duration::from_nanos(want)));
        }
        for text in ["", "ms", "1hour", "h", "1d", "-1s", "1..2s", "1 s"] {
            assert!(parse_span(text).is_err(), "{text}");
        }
        for text in ["5124096h", "999999999999999s", "99999999999999999999999ns"] {
            assert_eq!(parse_span(text), Err(SpanError::TooLong(text.into())));
        }
        assert!(parse_span("5124095h").is_ok());
        let why = parse_span("5").expect_err("nanoseconds, or seconds?");
        assert_eq!(
            why.to_string(),
            "`5` has no unit: write 5s for seconds, or another of ns, us, ms, min, h"
        );
    }
}
