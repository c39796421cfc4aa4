//! The resolver's answers and their times (RFC 1035, 3596, 9460). This is a machine: a query in, an answer
//! with its delay out.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};

use crate::plan::LabPlan;
use crate::spec::{self, Reply, ReplySpec, Spec};

use super::service;

/// The largest answer without extensions (RFC 1035, 4.2.1).
const MAX_ANSWER: usize = 512;
/// The bytes of a message's header (RFC 1035, 4.1.1).
const HEADER: usize = 12;
/// Answers may not be cached, so that each question is answered by the script.
const TIME_TO_LIVE: u32 = 0;

/// The names with a script.
#[derive(Clone, Debug, Default)]
pub(crate) struct Zone {
    entries: BTreeMap<Name, Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    addresses: Vec<IpAddr>,
    services: Vec<RData>,
    ipv4: Script,
    ipv6: Script,
    https: Script,
}

/// The script for one kind of question.
#[derive(Clone, Copy, Debug)]
struct Script {
    delay: Duration,
    answer: ReplySpec,
}

impl Zone {
    /// Returns the zone of a lab. Names of hosts are replaced by their addresses.
    pub(crate) fn new(spec: &Spec, plan: &LabPlan) -> Zone {
        let entry = |name: &spec::Name| Entry {
            addresses: name
                .addresses
                .iter()
                .flat_map(|text| plan.addresses(text))
                .collect(),
            services: name
                .services
                .iter()
                .filter_map(|service| service::record(service, plan))
                .collect(),
            ipv4: Script::new(name.both, name.ipv4),
            ipv6: Script::new(name.both, name.ipv6),
            https: Script::new(name.both, name.https),
        };
        Zone {
            entries: spec
                .names
                .iter()
                .filter_map(|name| Some((parse_name(&name.name)?, entry(name))))
                .collect(),
        }
    }

    /// Returns whether there is a script for a name.
    pub(crate) fn knows(&self, name: &str) -> bool {
        parse_name(name).is_some_and(|name| self.entries.contains_key(&name))
    }

    /// Returns the answer to a query and its delay, or `None` if the bytes are not a query or the script is
    /// silence.
    pub(crate) fn answer(&self, query: &[u8]) -> Option<(Duration, Vec<u8>)> {
        let (delay, answer) = match Message::from_vec(query) {
            Ok(query) => self.reply(&query)?,
            Err(_) => (Duration::ZERO, malformed(query)?),
        };
        Some((delay, answer.to_vec().ok()?))
    }

    fn reply(&self, query: &Message) -> Option<(Duration, Message)> {
        if query.metadata.message_type == MessageType::Response {
            return None;
        }
        let answer = |code, question: Option<&Query>, data| {
            let mut answer = Message::response(query.metadata.id, query.metadata.op_code);
            answer.metadata.response_code = code;
            answer.metadata.recursion_desired = query.metadata.recursion_desired;
            filled(answer, question, data)
        };
        let at_once = |code, question| Some((Duration::ZERO, answer(code, question, Vec::new())));
        let question = match &query.queries[..] {
            _ if query.metadata.op_code != OpCode::Query => return at_once(ResponseCode::NotImp, None),
            [question] => question,
            _ => return at_once(ResponseCode::FormErr, None),
        };
        let Some(entry) = self.entries.get(&question.name) else {
            return at_once(ResponseCode::NXDomain, Some(question));
        };
        let (script, data) = match (question.query_class, question.query_type) {
            (DNSClass::IN, RecordType::A) => (entry.ipv4, entry.data(IpAddr::is_ipv4)),
            (DNSClass::IN, RecordType::AAAA) => (entry.ipv6, entry.data(IpAddr::is_ipv6)),
            (DNSClass::IN, RecordType::HTTPS) => (entry.https, entry.services.clone()),
            // The name exists, but has no record of that kind.
            _ => return at_once(ResponseCode::NoError, Some(question)),
        };
        let (code, data) = match script.answer {
            ReplySpec::Addresses => (ResponseCode::NoError, data),
            ReplySpec::Missing => (ResponseCode::NXDomain, Vec::new()),
            ReplySpec::Failure => (ResponseCode::ServFail, Vec::new()),
            ReplySpec::Refused => (ResponseCode::Refused, Vec::new()),
            ReplySpec::Silence => return None,
        };
        Some((script.delay, answer(code, Some(question), data)))
    }
}

impl Entry {
    /// Returns the addresses of one family.
    fn data(&self, is_of_family: fn(&IpAddr) -> bool) -> Vec<RData> {
        let own = self.addresses.iter().filter(|address| is_of_family(address));
        own.copied().map(RData::from).collect()
    }
}

impl Script {
    fn new(both: Reply, own: Reply) -> Script {
        let delay = own.delay.or(both.delay).map_or(Duration::ZERO, Duration::from);
        Script { delay, answer: own.answer.or(both.answer).unwrap_or_default() }
    }
}

/// Returns whether an answer with these records of one type fits into a message.
pub(super) fn fits(name: &Name, data: Vec<RData>) -> bool {
    let question = Query::query(name.clone(), RecordType::A);
    let answer = filled(Message::response(0, OpCode::Query), Some(&question), data);
    answer.to_vec().is_ok_and(|bytes| bytes.len() <= MAX_ANSWER)
}

/// Returns a name from its text. Labels may hold any ASCII characters, such as a leading `-` (RFC 2181, 11).
pub(super) fn parse_name(text: &str) -> Option<Name> {
    match text.strip_suffix('.').unwrap_or(text) {
        "" => Some(Name::root()),
        text if text.is_ascii() => Name::from_labels(text.split('.').map(str::as_bytes)).ok(),
        _ => None,
    }
}

/// Adds the question, and records with these data, to an authoritative answer.
fn filled(mut answer: Message, question: Option<&Query>, data: Vec<RData>) -> Message {
    answer.metadata.authoritative = true;
    answer.metadata.recursion_available = true;
    answer.add_queries(question.cloned());
    let name = question.map(|question| question.name.clone()).unwrap_or_default();
    let records = data.into_iter();
    answer.add_answers(records.map(|data| Record::from_rdata(name.clone(), TIME_TO_LIVE, data)));
    answer
}

/// Returns the answer to bytes that cannot be read, if they are a query.
fn malformed(query: &[u8]) -> Option<Message> {
    let [high, low, flags, ..] = *query.first_chunk::<HEADER>()?;
    let id = u16::from_be_bytes([high, low]);
    (flags & 0x80 == 0).then(|| Message::error_msg(id, OpCode::Query, ResponseCode::FormErr))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hawser_sim::rng::Rng;

    fn zone() -> Zone {
        let spec = Spec::parse(
            r#"
            host = [{ name = "a" }, { name = "b" }]
            link = [{ between = ["a", "b"] }]
            [[dns]]
            name = "www.example"
            addresses = ["192.0.2.1", "192.0.2.2", "2001:db8::1", "b"]
            ipv6 = { delay = "50ms" }
            https = { delay = "20ms" }
            services = [{ alpn = ["h3"], hints = ["b"] }]
            [[dns]]
            name = "-under_score.example"
            addresses = ["192.0.2.3"]
            [[dns]]
            name = "broken.example"
            both = { answer = "failure" }
            ipv6 = { answer = "silence" }
            "#,
        )
        .expect("a lab");
        Zone::new(&spec, &LabPlan::new(&spec).expect("a plan"))
    }

    /// Returns a query (RFC 1035, 4.1) that requests recursion.
    fn query(name: &str, kind: u16) -> Vec<u8> {
        let mut bytes = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            bytes.push(label.len() as u8);
            bytes.extend(label.bytes());
        }
        bytes.push(0);
        bytes.extend(kind.to_be_bytes());
        bytes.extend([0, 1]);
        bytes
    }

    #[test]
    fn a_query_returns_the_addresses_of_a_name() {
        let asked = query("WWW.example", 1);
        let (delay, answer) = zone().answer(&asked).expect("an answer");
        assert_eq!(delay, Duration::ZERO);
        assert_eq!(answer[..12], [0x12, 0x34, 0x85, 0x80, 0, 1, 0, 3, 0, 0, 0, 0]);
        assert_eq!(answer[12..asked.len()], asked[12..]);
        let record = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 192, 0, 2, 1];
        assert_eq!(answer[asked.len()..asked.len() + 16], record);
        assert_eq!(answer[answer.len() - 4..], [10, 77, 0, 2], "the host's");
        let (delay, answer) = zone().answer(&query("www.example", 28)).expect("an answer");
        assert_eq!((delay, answer[7]), (Duration::from_millis(50), 2));
        let (delay, answer) = zone().answer(&query("www.example", 65)).expect("an answer");
        assert_eq!((delay, answer[7]), (Duration::from_millis(20), 1));
        // RFC 9460, 2.2: priority 1, the owner itself, `h3`, the hints of host `b`.
        let data = [
            0, 1, 0, 0, 1, 0, 3, 2, b'h', b'3', 0, 4, 0, 4, 10, 77, 0, 2, 0, 6, 0, 16,
        ];
        assert_eq!(answer[asked.len() + 12..asked.len() + 12 + data.len()], data);
    }

    #[test]
    fn names_are_answered_as_scripted() {
        let code = |name, kind| {
            zone()
                .answer(&query(name, kind))
                .map(|(_, answer)| (answer[3] & 15, answer[7]))
        };
        assert_eq!(code("nowhere.example", 1), Some((3, 0)));
        assert_eq!(code("broken.example", 1), Some((2, 0)));
        assert_eq!(code("broken.example", 28), None);
        assert_eq!(code("www.example", 15), Some((0, 0)), "it has no mail");
        assert_eq!(code("-Under_score.example", 1), Some((0, 1)));
    }

    #[test]
    fn malformed_queries_are_rejected() {
        let mut answer = query("www.example", 1);
        answer[2] |= 0x80;
        assert_eq!(zone().answer(&answer), None);
        let mut status = query("www.example", 1);
        status[2] |= 2 << 3;
        assert_eq!(zone().answer(&status).map(|(_, a)| a[3] & 15), Some(4));
        let mut two = query("www.example", 1);
        two[5] = 2;
        assert_eq!(zone().answer(&two).map(|(_, a)| a[3] & 15), Some(1));
    }

    #[test]
    fn answering_any_bytes_never_panics() {
        let mut rng = Rng::new(3, "queries");
        let zone = zone();
        for _ in 0..100_000 {
            let mut bytes = query("www.example", 1);
            for _ in 0..rng.below(5) {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] = rng.bits() as u8;
            }
            bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize);
            let answer = zone.answer(&bytes);
            assert!(answer.is_none_or(|(_, answer)| answer.len() <= MAX_ANSWER));
        }
    }
}
