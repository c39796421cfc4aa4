//! The resolver's answers and their times (RFC 1035, 3596, 9460). This is a machine: a query in, an answer
//! with its delay out.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use crate::plan::Plan;
use crate::spec::{Answer, Name, Reply, Spec};

use super::service;

/// The bytes of a message's header, and the largest answer without extensions (RFC 1035, 4.2.1).
const HEADER: usize = 12;
const MAX_ANSWER: usize = 512;
/// The largest number of bytes of a name, and of one label (RFC 1035, 2.3.4).
const NAME: usize = 255;
const LABEL: u8 = 63;
/// The bytes of a record in addition to its data: a pointer to the name, type, class, time to live, length.
const RECORD: usize = 12;
/// Types of records, and the class of the Internet.
const TYPE_A: u16 = 1;
const TYPE_AAAA: u16 = 28;
const TYPE_HTTPS: u16 = 65;
const CLASS_INTERNET: u16 = 1;
/// Answers may not be cached, so that each question is answered by the script.
const TIME_TO_LIVE: u32 = 0;

/// Response codes (RFC 1035, 4.1.1).
const FORMAT_ERROR: u8 = 1;
const SERVER_FAILURE: u8 = 2;
const NAME_ERROR: u8 = 3;
const NOT_IMPLEMENTED: u8 = 4;
const REFUSED: u8 = 5;

/// The names with a script.
#[derive(Clone, Debug, Default)]
pub(crate) struct Zone {
    entries: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    addresses: Vec<IpAddr>,
    /// The data of its service records.
    services: Vec<Vec<u8>>,
    ipv4: Script,
    ipv6: Script,
    https: Script,
}

/// The script for one kind of question.
#[derive(Clone, Copy, Debug)]
struct Script {
    delay: Duration,
    answer: Answer,
}

impl Zone {
    /// Returns the zone of a lab. Names of hosts are replaced by their addresses.
    pub(crate) fn new(spec: &Spec, plan: &Plan) -> Zone {
        let entry = |name: &Name| Entry {
            addresses: name
                .addresses
                .iter()
                .flat_map(|text| plan.addresses(text))
                .collect(),
            services: name
                .services
                .iter()
                .filter_map(|service| service::data(service, plan))
                .collect(),
            ipv4: Script::new(name.both, name.ipv4),
            ipv6: Script::new(name.both, name.ipv6),
            https: Script::new(name.both, name.https),
        };
        Zone {
            entries: spec
                .names
                .iter()
                .map(|name| (normal(&name.name), entry(name)))
                .collect(),
        }
    }

    /// Returns whether there is a script for a name.
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.entries.contains_key(&normal(name))
    }

    /// Returns the answer to a query and its delay, or `None` if the bytes are not a query or the script is
    /// silence.
    pub(crate) fn answer(&self, query: &[u8]) -> Option<(Duration, Vec<u8>)> {
        let header: &[u8; HEADER] = query.first_chunk()?;
        let (is_answer, operation) = (header[2] & 0x80 != 0, header[2] >> 3 & 15);
        if is_answer {
            return None;
        }
        if operation != 0 {
            return Some((
                Duration::ZERO,
                reply(query, &Question::NONE, NOT_IMPLEMENTED, &[]),
            ));
        }
        let Some(question) = Question::read(query) else {
            return Some((Duration::ZERO, reply(query, &Question::NONE, FORMAT_ERROR, &[])));
        };
        let with = |code, data: &[Vec<u8>]| reply(query, &question, code, data);
        let Some(entry) = self.entries.get(&question.name) else {
            return Some((Duration::ZERO, with(NAME_ERROR, &[])));
        };
        let (script, data) = match (question.class, question.kind) {
            (CLASS_INTERNET, TYPE_A) => (entry.ipv4, entry.data(true)),
            (CLASS_INTERNET, TYPE_AAAA) => (entry.ipv6, entry.data(false)),
            (CLASS_INTERNET, TYPE_HTTPS) => (entry.https, entry.services.clone()),
            // The name exists, but has no record of that kind.
            _ => return Some((Duration::ZERO, with(0, &[]))),
        };
        let bytes = match script.answer {
            Answer::Addresses => with(0, &data),
            Answer::Missing => with(NAME_ERROR, &[]),
            Answer::Failure => with(SERVER_FAILURE, &[]),
            Answer::Refused => with(REFUSED, &[]),
            Answer::Silence => return None,
        };
        Some((script.delay, bytes))
    }
}

impl Entry {
    /// Returns the addresses of one family, in wire format.
    fn data(&self, is_v4: bool) -> Vec<Vec<u8>> {
        let own = self.addresses.iter().filter(|ip| ip.is_ipv4() == is_v4);
        own.map(|address| match address {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        })
        .collect()
    }
}

impl Script {
    fn new(both: Reply, own: Reply) -> Script {
        let delay = own.delay.or(both.delay).map_or(Duration::ZERO, Duration::from);
        Script { delay, answer: own.answer.or(both.answer).unwrap_or_default() }
    }
}

/// Returns whether an answer with this many addresses of one kind fits into a message.
pub(super) fn addresses_fit(name: &str, addresses: usize, bytes: usize) -> bool {
    HEADER + name.len() + 6 + addresses * (RECORD + bytes) <= MAX_ANSWER
}

/// Returns whether an answer with these service records fits into a message.
pub(super) fn services_fit(name: &str, data: &[Vec<u8>]) -> bool {
    HEADER + name.len() + 6 + data.iter().map(|one| RECORD + one.len()).sum::<usize>() <= MAX_ANSWER
}

/// Normalizes a name for comparison: lower case, and without the last dot.
fn normal(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// The single question of a query.
struct Question {
    name: String,
    kind: u16,
    class: u16,
    /// The offset of its end in the message.
    end: usize,
}

impl Question {
    /// The question of an answer to a malformed query.
    const NONE: Question = Question { name: String::new(), kind: 0, class: 0, end: HEADER };

    fn read(query: &[u8]) -> Option<Question> {
        if query.get(4..6)? != [0, 1] {
            return None;
        }
        let (mut at, mut name) = (HEADER, String::new());
        loop {
            let len = *query.get(at)?;
            at += 1;
            if len == 0 {
                break;
            }
            // A first question has no earlier name that a pointer could refer to.
            if len > LABEL || name.len() + usize::from(len) > NAME {
                return None;
            }
            let label = query.get(at..at + usize::from(len))?;
            at += usize::from(len);
            if !name.is_empty() {
                name.push('.');
            }
            name.push_str(&String::from_utf8_lossy(label).to_ascii_lowercase());
        }
        let rest: &[u8; 4] = query.get(at..)?.first_chunk()?;
        let kind = u16::from_be_bytes([rest[0], rest[1]]);
        let class = u16::from_be_bytes([rest[2], rest[3]]);
        Some(Question { name, kind, class, end: at + 4 })
    }
}

/// Returns an answer to the query with this question: records of its type with these data.
fn reply(query: &[u8], question: &Question, code: u8, data: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = query[..question.end].to_vec();
    // An authoritative answer, which returns the query's request for recursion and grants it.
    bytes[2] = 0x84 | query[2] & 0x79;
    bytes[3] = 0x80 | code;
    let questions = u16::from(question.end > HEADER);
    let counts = [questions, data.len() as u16, 0, 0];
    for (at, count) in (4..).step_by(2).zip(counts) {
        bytes[at..at + 2].copy_from_slice(&count.to_be_bytes());
    }
    for one in data {
        // A pointer to the name of the question (RFC 1035, 4.1.4).
        bytes.extend([0xc0, HEADER as u8]);
        bytes.extend(question.kind.to_be_bytes());
        bytes.extend(CLASS_INTERNET.to_be_bytes());
        bytes.extend(TIME_TO_LIVE.to_be_bytes());
        bytes.extend((one.len() as u16).to_be_bytes());
        bytes.extend(one);
    }
    bytes
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
            name = "broken.example"
            both = { answer = "failure" }
            ipv6 = { answer = "silence" }
            "#,
        )
        .expect("a lab");
        Zone::new(&spec, &Plan::new(&spec).expect("a plan"))
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
    fn names_that_fail_as_scripted() {
        let code = |name, kind| {
            zone()
                .answer(&query(name, kind))
                .map(|(_, answer)| (answer[3] & 15, answer[7]))
        };
        assert_eq!(code("nowhere.example", 1), Some((3, 0)));
        assert_eq!(code("broken.example", 1), Some((2, 0)));
        assert_eq!(code("broken.example", 28), None);
        assert_eq!(code("www.example", 15), Some((0, 0)), "it has no mail");
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
