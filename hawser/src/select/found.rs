//! Answers about a name, made candidates.
//!
//! Hints of service records (RFC 9460, 7.3) race at once, until the addresses are known: those that
//! the addresses do not confirm are withdrawn. Only records about the destination itself count,
//! host and port: who asks for a stream to a destination has not said that it means a web origin.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::race::{self, Candidate, CandidateId, Event, Question, rfc6724};
use crate::resolve::{Answer, Records, Service};

use super::surroundings;
use super::{Destination, Kind, Way};

/// The ways of one race, numbered as the race knows them.
#[derive(Debug)]
pub(super) struct Found {
    destination: Destination,
    kinds: Arc<[Arc<dyn Kind>]>,
    ways: Vec<Way>,
    /// Hints, and the candidates made of them.
    hints: Vec<(IpAddr, CandidateId)>,
    /// Families whose addresses are known.
    is_known: [bool; 2],
    /// The best service at the destination itself.
    service: Option<Service>,
}

/// The most ways of one race; the race itself takes fewer.
const MOST_WAYS: usize = 4 * race::Race::MOST_CANDIDATES;

impl Found {
    pub(super) fn new(destination: Destination, kinds: Arc<[Arc<dyn Kind>]>) -> Found {
        let (ways, hints) = (Vec::new(), Vec::new());
        Found { destination, kinds, ways, hints, is_known: [false; 2], service: None }
    }

    /// The way of a candidate; ids come from here alone.
    pub(super) fn way(&self, id: CandidateId) -> Option<&Way> {
        self.ways.get(id.0 as usize)
    }

    /// Candidates that need no answer.
    pub(super) fn at_once(&mut self) -> Event {
        let kinds = Arc::clone(&self.kinds);
        let ways: Vec<Way> = kinds.iter().flat_map(|kind| kind.to_destination(&self.destination)).collect();
        let candidates = ways.into_iter().filter_map(|way| self.enter(way)).collect();
        Event::Found { question: None, candidates }
    }

    /// What an answer brings.
    pub(super) fn answered(&mut self, answer: Answer) -> Vec<Event> {
        let question = answer.question;
        match answer.result {
            Err(error) => vec![Event::Missing { question, why: error.failure() }],
            Ok(records) if question == Question::Service => vec![self.services(&records)],
            Ok(records) => self.addresses(question, &records),
        }
    }

    fn services(&mut self, records: &Records) -> Event {
        let own = self.destination.host().trim_end_matches('.').to_owned();
        let port = self.destination.port();
        let is_own = |service: &&Service| {
            service.target.trim_end_matches('.') == own && service.port.is_none_or(|other| other == port)
        };
        let mut candidates = Vec::new();
        for service in records.services.services.iter().filter(is_own) {
            self.service.get_or_insert_with(|| service.clone());
            let hints: Vec<IpAddr> = service.hints().filter(|hint| !self.knows(*hint)).collect();
            for (hint, candidate) in self.candidates(&hints, Some(service)) {
                self.hints.push((hint, candidate.id));
                candidates.push(candidate);
            }
        }
        Event::Found { question: Some(Question::Service), candidates }
    }

    fn addresses(&mut self, question: Question, records: &Records) -> Vec<Event> {
        self.is_known[usize::from(question == Question::Ipv6)] = true;
        let is_denied = |hint: &(IpAddr, CandidateId)| {
            hint.0.is_ipv6() == (question == Question::Ipv6) && !records.addresses.contains(&hint.0)
        };
        let denied: Vec<CandidateId> =
            self.hints.iter().filter(|hint| is_denied(hint)).map(|hint| hint.1).collect();
        let service = self.service.clone();
        let candidates = self.candidates(&records.addresses, service.as_ref());
        let candidates = candidates.into_iter().map(|(_, candidate)| candidate).collect();
        let found = Event::Found { question: Some(question), candidates };
        if denied.is_empty() { vec![found] } else { vec![Event::Withdrawn(denied), found] }
    }

    fn knows(&self, address: IpAddr) -> bool {
        self.is_known[usize::from(address.is_ipv6())]
    }

    /// Candidates for addresses, in the order of RFC 6724, each kind's in turn.
    fn candidates(&mut self, addresses: &[IpAddr], service: Option<&Service>) -> Vec<(IpAddr, Candidate)> {
        let destinations: Vec<_> = addresses.iter().copied().map(surroundings::destination).collect();
        let port = self.destination.port();
        let kinds = Arc::clone(&self.kinds);
        let mut all = Vec::new();
        for index in rfc6724::order(&destinations, rfc6724::DEFAULT_TABLE) {
            let destination = &destinations[index];
            let rank = rfc6724::rank(destination, rfc6724::DEFAULT_TABLE);
            let address = SocketAddr::new(destination.address, port);
            for way in kinds.iter().flat_map(|kind| kind.to_address(address, service)) {
                // This host is reached over no other interface.
                let interface = &*way.description.interface;
                if destination.address.is_loopback() && !interface.is_empty() && interface != "lo" {
                    continue;
                }
                let Some(mut candidate) = self.enter(way) else { return all };
                candidate.rank = rank;
                candidate.service = service
                    .map(|service| race::Service { encrypted_hello: false, priority: service.priority });
                all.push((destination.address, candidate));
            }
        }
        all
    }

    /// Numbers a way; none when there are too many.
    fn enter(&mut self, way: Way) -> Option<Candidate> {
        if self.ways.len() >= MOST_WAYS {
            return None;
        }
        let id = CandidateId(self.ways.len() as u32);
        let description = &way.description;
        let mut candidate =
            Candidate::new(id, Arc::clone(&description.transport), Arc::clone(&description.remote));
        candidate.interface = Arc::clone(&description.interface);
        (candidate.family, candidate.priority) = (way.family, way.priority);
        (candidate.security, candidate.handshake) = (way.security, way.handshake);
        self.ways.push(way);
        Some(candidate)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::resolve::{ResolveError, Services};
    use crate::select::kinds;

    fn found() -> Found {
        let kinds: Vec<Arc<dyn Kind>> = vec![Arc::new(kinds::Tcp::default())];
        Found::new(Destination::new("www.example", 443).expect("a destination"), kinds.into())
    }

    fn answer(question: Question, addresses: &[&str], services: Vec<Service>) -> Answer {
        let addresses = addresses.iter().map(|text| text.parse().expect("an address")).collect();
        let services = Services { alias: None, services };
        Answer { question, result: Ok(Records { addresses, services, lives_for: Duration::ZERO }) }
    }

    fn service(target: &str, port: Option<u16>, hint: [u8; 4]) -> Service {
        Service {
            priority: 1,
            target: target.to_owned(),
            port,
            alpn: vec!["h2".to_owned()],
            no_default_alpn: false,
            ipv4_hints: vec![hint.into()],
            ipv6_hints: Vec::new(),
            ech: None,
        }
    }

    fn remotes(event: &Event) -> Vec<String> {
        match event {
            Event::Found { candidates, .. } => candidates.iter().map(|one| one.remote.to_string()).collect(),
            other => panic!("{other:?}"),
        }
    }

    /// RFC 9460, 7.3: the addresses overrule the hints.
    #[test]
    fn hints_race_until_the_addresses_are_known() {
        let mut found = found();
        let services = vec![
            service("www.example.", None, [192, 0, 2, 1]),
            service("www.example.", Some(443), [192, 0, 2, 2]),
            service("other.example.", None, [192, 0, 2, 3]),
            service("www.example.", Some(8443), [192, 0, 2, 4]),
        ];
        let events = found.answered(answer(Question::Service, &[], services.clone()));
        assert_eq!(
            remotes(&events[0]),
            ["192.0.2.1:443", "192.0.2.2:443"],
            "those of the destination itself"
        );
        let events = found.answered(answer(Question::Ipv4, &["192.0.2.1", "192.0.2.9"], Vec::new()));
        assert_eq!(events[0], Event::Withdrawn(vec![CandidateId(1)]));
        assert_eq!(remotes(&events[1]).len(), 2);
        let late = found.answered(answer(Question::Service, &[], services));
        assert_eq!(remotes(&late[0]).len(), 0, "hints that come late are no news");
    }

    #[test]
    fn a_question_without_an_answer_is_told_as_such() {
        let result = Err(ResolveError::NoSuchName { name: "www.example".to_owned() });
        let events = found().answered(Answer { question: Question::Ipv6, result });
        let why = crate::race::Failure::NoSuchName;
        assert_eq!(events, [Event::Missing { question: Question::Ipv6, why }]);
    }

    #[test]
    fn no_interface_leads_to_this_host() {
        let words = ["tcp:eth0", "tcp:lo", "tcp"];
        let kinds = words.map(|word| kinds::Transports::new().parse(word, 0).expect("a kind"));
        let mut found = Found::new(Destination::new("localhost", 80).expect("a destination"), kinds.into());
        let events = found.answered(answer(Question::Ipv4, &["127.0.0.1"], Vec::new()));
        let Event::Found { candidates, .. } = &events[0] else { panic!("{events:?}") };
        let interfaces: Vec<&str> = candidates.iter().map(|one| &*one.interface).collect();
        assert_eq!(interfaces, ["lo", ""]);
    }

    #[test]
    fn ways_are_bounded() {
        let mut found = found();
        let many: Vec<String> =
            (0..MOST_WAYS + 50).map(|n| format!("192.0.{}.{}", n / 250, n % 250)).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        found.answered(answer(Question::Ipv4, &many, Vec::new()));
        assert_eq!(found.ways.len(), MOST_WAYS);
    }
}
