//! Turns answers about names into candidates.
//!
//! Service records (RFC 9460) are fully followed at the port of `https`: their target, which is looked up
//! separately, their port, their order, and aliases. A request for a stream to another port may be for any
//! service. Of its records only those about the destination itself count, host and port. If records name
//! other endpoints, the destination's own addresses without a record are a fallback, even those that came
//! before the records.
//!
//! Hints (7.3) race at once, until the addresses are known. Hints that the addresses do not confirm are then
//! withdrawn.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use hawser_race::resolve::{Answer, ResolvedRecords, ServiceRecord, Services};
use hawser_race::{self as race, CandidateId, Event, Question, rfc6724};

use super::{Candidate, Destination, Transport};
use hawser_session::network_identity;

/// The candidates of one race, with the race's numbers.
#[derive(Debug)]
pub(super) struct RaceCandidates {
    destination: Destination,
    transports: Arc<[Arc<dyn Transport>]>,
    candidates: Vec<Candidate>,
    /// Hints about a host, and the candidates made of them.
    hints: Vec<(String, IpAddr, CandidateId)>,
    /// Known addresses, by host and whether they are IPv6.
    known: BTreeMap<(String, bool), Vec<IpAddr>>,
    /// Candidates at the destination itself that were not named by a record when they were found.
    own: Vec<CandidateId>,
    /// The endpoints that the records name, best first.
    endpoints: Vec<Endpoint>,
}

/// The endpoint of a service, by a record or an alias.
#[derive(Clone, Debug)]
struct Endpoint {
    host: String,
    port: u16,
    /// The record; `None` for the end of an alias.
    service: Option<ServiceRecord>,
    rank: Option<hawser_race::ServiceParameters>,
}

/// The maximum number of candidates kept for one race; the race itself takes fewer.
const MAX_CANDIDATES: usize = 4 * hawser_race::Race::MAX_CANDIDATES;
/// The maximum number of hosts named by records that are looked up: those of the best records.
const MAX_HOSTS: usize = 4;
/// The port at which records may name other endpoints than the destination, for any transports.
const HTTPS: u16 = 443;
/// The lowest port of a record that is followed, except for that of `https`. Services at lower ports are not
/// web servers, and anyone can publish records.
const FIRST_PORT: u16 = 1_024;

impl RaceCandidates {
    pub(super) fn new(destination: Destination, transports: Arc<[Arc<dyn Transport>]>) -> RaceCandidates {
        let (candidates, hints, endpoints) = (Vec::new(), Vec::new(), Vec::new());
        RaceCandidates {
            destination,
            transports,
            candidates,
            hints,
            known: BTreeMap::new(),
            own: Vec::new(),
            endpoints,
        }
    }

    /// Returns the candidate with this id, which must be an id that this type assigned.
    pub(super) fn candidate(&self, id: CandidateId) -> Option<&Candidate> {
        self.candidates.get(id.0 as usize)
    }

    /// Returns the candidates that need no answer.
    pub(super) fn at_once(&mut self) -> Event {
        let transports = Arc::clone(&self.transports);
        let candidates: Vec<Candidate> = transports
            .iter()
            .flat_map(|transport| transport.to_destination(&self.destination))
            .collect();
        let candidates = candidates
            .into_iter()
            .filter_map(|candidate| self.enter(candidate))
            .collect();
        Event::Found { question: None, candidates }
    }

    /// Returns the events that follow from an answer.
    pub(super) fn answered(&mut self, answer: Answer) -> Vec<Event> {
        let question = answer.question;
        match answer.result {
            Err(error) => vec![Event::Missing { question, why: error.failure() }],
            Ok(records) if question == Question::Service => self.services(&records.services),
            Ok(records) if self.is_translated(&answer.host) => vec![self.translated(&records)],
            Ok(records) => self.addresses(&answer.host, question, &records),
        }
    }

    /// Returns whether an answer is about an IPv4 address of the destination's name, and so has NAT64
    /// addresses.
    fn is_translated(&self, host: &str) -> bool {
        host.parse::<IpAddr>().is_ok() && self.destination.address().is_none()
    }

    /// Makes candidates at NAT64 addresses, the last resort (RFC 8305, 7.2).
    fn translated(&mut self, records: &ResolvedRecords) -> Event {
        let endpoint = Endpoint {
            host: self.own_host().to_owned(),
            port: self.destination.port(),
            service: None,
            rank: None,
        };
        let last_resort = |(_, candidate)| race::Candidate { is_last_resort: true, ..candidate };
        let found = self.candidates(&records.addresses, &endpoint);
        Event::Found {
            question: Some(Question::Ipv6),
            candidates: found.into_iter().map(last_resort).collect(),
        }
    }

    /// Returns the hosts that the records name other than the destination itself.
    pub(super) fn other_hosts(&self) -> Vec<String> {
        let mut hosts: Vec<String> = Vec::new();
        let others = self
            .endpoints
            .iter()
            .filter(|endpoint| endpoint.host != self.own_host());
        for endpoint in others {
            if !hosts.contains(&endpoint.host) && hosts.len() < MAX_HOSTS {
                hosts.push(endpoint.host.clone());
            }
        }
        hosts
    }

    fn own_host(&self) -> &str {
        self.destination.host().trim_end_matches('.')
    }

    fn services(&mut self, services: &Services) -> Vec<Event> {
        self.endpoints = self.named(services);
        let ranks = self.ranks();
        let mut candidates = Vec::new();
        for endpoint in self.endpoints.clone() {
            // Known addresses of the destination itself are already in the race.
            let is_own = self.is_own(&endpoint);
            for is_ipv6 in [true, false] {
                let known = self.known.get(&(endpoint.host.clone(), is_ipv6)).cloned();
                let hints = || endpoint.service.iter().flat_map(ServiceRecord::hints);
                let is_hint = known.is_none();
                let addresses: Vec<IpAddr> = match known {
                    Some(_) if is_own => continue,
                    Some(addresses) => addresses,
                    None => hints().filter(|hint| hint.is_ipv6() == is_ipv6).collect(),
                };
                for (address, candidate) in self.candidates(&addresses, &endpoint) {
                    if is_hint {
                        self.hints.push((endpoint.host.clone(), address, candidate.id));
                    }
                    candidates.push(candidate);
                }
            }
        }
        let found = Event::Found { question: Some(Question::Service), candidates };
        if ranks.is_empty() {
            vec![found]
        } else {
            vec![Event::Ranked(ranks), found]
        }
    }

    /// Returns the ranks that the records give to earlier candidates at the destination itself.
    fn ranks(&self) -> Vec<(CandidateId, Option<hawser_race::ServiceParameters>)> {
        let ranked = |&id: &CandidateId| {
            let candidate = self.candidate(id)?;
            let record = self
                .endpoints
                .iter()
                .find(|endpoint| self.is_own(endpoint) && self.offers(endpoint, candidate));
            let rank = record.and_then(|endpoint| endpoint.rank);
            (rank.is_some() || self.is_elsewhere()).then_some((id, rank))
        };
        self.own.iter().filter_map(ranked).collect()
    }

    /// Returns whether a record about the destination itself names this candidate.
    fn offers(&self, endpoint: &Endpoint, candidate: &Candidate) -> bool {
        let Ok(address) = candidate.description.remote.parse::<SocketAddr>() else {
            return false;
        };
        self.transports
            .iter()
            .flat_map(|transport| transport.to_address(address, endpoint.service.as_ref()))
            .any(|offered| offered.description == candidate.description)
    }

    fn is_own(&self, endpoint: &Endpoint) -> bool {
        endpoint.host == self.own_host() && endpoint.port == self.destination.port()
    }

    /// Returns whether records name other endpoints than the destination itself.
    fn is_elsewhere(&self) -> bool {
        self.endpoints.iter().any(|endpoint| !self.is_own(endpoint))
    }

    /// Returns whether a transport of the request can use the endpoint, according to the protocols of its
    /// record.
    fn is_of_use(&self, endpoint: &Endpoint) -> bool {
        let families: [IpAddr; 2] = [Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()];
        families.into_iter().any(|address| {
            let address = SocketAddr::new(address, endpoint.port);
            self.transports.iter().any(|transport| {
                !transport
                    .to_address(address, endpoint.service.as_ref())
                    .is_empty()
            })
        })
    }

    /// Returns the endpoints that records name.
    fn named(&self, services: &Services) -> Vec<Endpoint> {
        let port = self.destination.port();
        let is_https = port == HTTPS || self.transports.iter().any(|transport| transport.is_https());
        let mut endpoints: Vec<Endpoint> = Vec::new();
        for service in &services.services {
            let endpoint = Endpoint {
                host: service.target.trim_end_matches('.').to_owned(),
                port: service.port.unwrap_or(port),
                rank: Some(hawser_race::ServiceParameters { priority: service.priority, is_choice: false }),
                service: Some(service.clone()),
            };
            let may_be_followed = is_https && (endpoint.port == HTTPS || endpoint.port >= FIRST_PORT);
            if (self.is_own(&endpoint) || may_be_followed) && self.is_of_use(&endpoint) {
                endpoints.push(endpoint);
            }
        }
        // The end of aliases offers the service without further parameters (RFC 9460, 3).
        if let Some(alias) = services.alias.as_ref().filter(|_| is_https) {
            let rank = hawser_race::ServiceParameters { priority: u16::MAX, is_choice: false };
            let host = alias.trim_end_matches('.').to_owned();
            endpoints.push(Endpoint { host, port, service: None, rank: Some(rank) });
        }
        let is_choice = endpoints.iter().any(|endpoint| !self.is_own(endpoint));
        endpoints
            .iter_mut()
            .filter_map(|endpoint| endpoint.rank.as_mut())
            .for_each(|rank| {
                rank.is_choice = is_choice;
            });
        endpoints
    }

    fn addresses(&mut self, host: &str, question: Question, records: &ResolvedRecords) -> Vec<Event> {
        let (host, is_ipv6) = (host.trim_end_matches('.').to_owned(), question == Question::Ipv6);
        self.known
            .insert((host.clone(), is_ipv6), records.addresses.clone());
        let is_denied = |(of, address, _): &&(String, IpAddr, CandidateId)| {
            *of == host && address.is_ipv6() == is_ipv6 && !records.addresses.contains(address)
        };
        let denied: Vec<CandidateId> = self.hints.iter().filter(is_denied).map(|hint| hint.2).collect();
        let (own, port) = (self.own_host().to_owned(), self.destination.port());
        let mut endpoints: Vec<Endpoint> = self
            .endpoints
            .iter()
            .filter(|endpoint| endpoint.host == host)
            .cloned()
            .collect();
        if host == own && !endpoints.iter().any(|endpoint| endpoint.port == port) {
            endpoints.push(Endpoint { host: own, port, service: None, rank: None });
        }
        let mut candidates = Vec::new();
        for endpoint in &endpoints {
            candidates.extend(
                self.candidates(&records.addresses, endpoint)
                    .into_iter()
                    .map(|one| one.1),
            );
        }
        let found = Event::Found { question: Some(question), candidates };
        if denied.is_empty() {
            vec![found]
        } else {
            vec![Event::Withdrawn(denied), found]
        }
    }

    /// Makes candidates for addresses of an endpoint, in the order of RFC 6724, each transport's in turn.
    fn candidates(&mut self, addresses: &[IpAddr], endpoint: &Endpoint) -> Vec<(IpAddr, race::Candidate)> {
        let destinations: Vec<_> = addresses
            .iter()
            .copied()
            .map(network_identity::destination)
            .collect();
        let transports = Arc::clone(&self.transports);
        let mut all = Vec::new();
        for index in rfc6724::order(&destinations, rfc6724::DEFAULT_TABLE) {
            let destination = &destinations[index];
            let rank = rfc6724::rank(destination, rfc6724::DEFAULT_TABLE);
            let address = SocketAddr::new(destination.address, endpoint.port);
            for candidate in transports
                .iter()
                .flat_map(|transport| transport.to_address(address, endpoint.service.as_ref()))
            {
                // This host itself is not reached over another interface.
                let interface = &*candidate.description.interface;
                if destination.address.is_loopback() && !interface.is_empty() && interface != "lo" {
                    continue;
                }
                let Some(mut entrant) = self.enter(candidate) else {
                    return all;
                };
                (entrant.rank, entrant.service) = (rank, endpoint.rank);
                if endpoint.rank.is_none() {
                    entrant.is_fallback = self.is_elsewhere();
                    self.own.push(entrant.id);
                }
                all.push((destination.address, entrant));
            }
        }
        all
    }

    /// Assigns a number to a candidate; `None` when there are too many.
    fn enter(&mut self, candidate: Candidate) -> Option<race::Candidate> {
        if self.candidates.len() >= MAX_CANDIDATES {
            return None;
        }
        let id = CandidateId(self.candidates.len() as u32);
        let description = &candidate.description;
        let mut entrant = race::Candidate::new(
            id,
            Arc::clone(&description.transport),
            Arc::clone(&description.remote),
        );
        entrant.interface = Arc::clone(&description.interface);
        (entrant.family, entrant.priority) = (candidate.family, candidate.priority);
        (entrant.security, entrant.handshake) = (candidate.security, candidate.handshake);
        self.candidates.push(candidate);
        Some(entrant)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::drive::lookup;
    use crate::{Request, transports};
    use hawser_race::resolve::ResolveError;
    use hawser_session::Trust;

    fn found() -> RaceCandidates {
        let transports: Vec<Arc<dyn Transport>> = vec![Arc::new(transports::Tcp::default())];
        RaceCandidates::new(
            Destination::new("www.example", 443).expect("a destination"),
            transports.into(),
        )
    }

    fn answer(question: Question, addresses: &[&str], services: Vec<ServiceRecord>) -> Answer {
        let addresses = addresses
            .iter()
            .map(|text| text.parse().expect("an address"))
            .collect();
        let services = Services { alias: None, services };
        let host = "www.example".to_owned();
        Answer {
            host,
            question,
            result: Ok(ResolvedRecords { addresses, services, lives_for: Duration::ZERO }),
        }
    }

    fn service(target: &str, port: Option<u16>, hint: [u8; 4]) -> ServiceRecord {
        ServiceRecord {
            priority: 1,
            target: target.to_owned(),
            port,
            alpn: vec!["h2".to_owned()],
            no_default_alpn: false,
            ipv4_hints: vec![hint.into()],
            ipv6_hints: Vec::new(),
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
    fn hints_are_raced_until_the_addresses_are_known() {
        let mut found = found();
        let services = vec![
            service("www.example.", None, [192, 0, 2, 1]),
            service("www.example.", Some(443), [192, 0, 2, 2]),
        ];
        let events = found.answered(answer(Question::Service, &[], services.clone()));
        assert_eq!(remotes(&events[0]), ["192.0.2.1:443", "192.0.2.2:443"]);
        let events = found.answered(answer(Question::Ipv4, &["192.0.2.1", "192.0.2.9"], Vec::new()));
        assert_eq!(events[0], Event::Withdrawn(vec![CandidateId(1)]));
        let late = found.answered(answer(Question::Service, &[], services));
        let found = late.last().expect("an event");
        assert_eq!(remotes(found).len(), 0, "hints that come late are no news");
    }

    /// Returns the race's order of an event's candidates, best first.
    fn ranks(event: &Event) -> Vec<(String, Option<u16>)> {
        let Event::Found { candidates, .. } = event else {
            panic!("{event:?}")
        };
        let rank = |one: &race::Candidate| {
            one.service
                .filter(|service| service.is_choice)
                .map(|it| it.priority)
        };
        candidates
            .iter()
            .map(|one| (one.remote.to_string(), rank(one)))
            .collect()
    }

    fn about(host: &str, question: Question, addresses: &[&str]) -> Answer {
        Answer { host: host.to_owned(), ..answer(question, addresses, Vec::new()) }
    }

    fn at(remote: &str, priority: Option<u16>) -> (String, Option<u16>) {
        (remote.to_owned(), priority)
    }

    /// RFC 9460, 2.4.3, 3 and 7.2: target, port and order come from the record; the destination itself comes
    /// last.
    #[test]
    fn records_name_other_endpoints() {
        let mut found = found();
        let mut services = vec![
            service("pool.example.", Some(8443), [192, 0, 2, 3]),
            service("www.example.", Some(8444), [192, 0, 2, 4]),
            service("pool.example.", Some(22), [192, 0, 2, 5]),
        ];
        services[1].priority = 2;
        let events = found.answered(answer(Question::Service, &[], services));
        assert_eq!(
            ranks(&events[0]),
            [at("192.0.2.3:8443", Some(1)), at("192.0.2.4:8444", Some(2))]
        );
        assert_eq!(found.other_hosts(), ["pool.example"]);
        let events = found.answered(about("pool.example", Question::Ipv4, &["192.0.2.6"]));
        assert_eq!(events[0], Event::Withdrawn(vec![CandidateId(0)]));
        assert_eq!(ranks(&events[1]), [at("192.0.2.6:8443", Some(1))]);
        let events = found.answered(about("www.example", Question::Ipv4, &["192.0.2.4"]));
        assert_eq!(
            ranks(&events[0]),
            [at("192.0.2.4:8444", Some(2)), at("192.0.2.4:443", None)]
        );
    }

    /// RFC 9460, 3: the destination's own addresses are a fallback, whether they come before the records or
    /// after.
    #[test]
    fn own_addresses_are_a_fallback_where_records_name_others() {
        let fallbacks = |event: &Event| match event {
            Event::Found { candidates, .. } => candidates.iter().map(|one| one.is_fallback).collect(),
            other => panic!("{other:?}"),
        };
        let own = || about("www.example", Question::Ipv4, &["192.0.2.1"]);
        let records = |services| answer(Question::Service, &[], services);
        let elsewhere = || vec![service("pool.example.", None, [192, 0, 2, 3])];

        let mut early = found();
        let before: Vec<bool> = fallbacks(&early.answered(own())[0]);
        let ranks = early.answered(records(elsewhere())).swap_remove(0);
        assert_eq!(before, [false]);
        assert_eq!(ranks, Event::Ranked(vec![(CandidateId(0), None)]));

        let mut late = found();
        late.answered(records(elsewhere()));
        let after: Vec<bool> = fallbacks(&late.answered(own())[0]);
        assert_eq!(after, [true]);

        // A record about the destination itself gives its addresses their rank among the others.
        let mut both = found();
        both.answered(own());
        let mut services = elsewhere();
        services.push(service("www.example.", None, [192, 0, 2, 1]));
        let ranks = both.answered(records(services)).swap_remove(0);
        let rank = race::ServiceParameters { priority: 1, is_choice: true };
        assert_eq!(ranks, Event::Ranked(vec![(CandidateId(0), Some(rank))]));

        // An endpoint that no transport of the request can use does not change their rank.
        let mut unusable = elsewhere();
        (unusable[0].alpn, unusable[0].no_default_alpn) = (vec!["h3".to_owned()], true);
        let mut other = found();
        other.answered(records(unusable));
        let after: Vec<bool> = fallbacks(&other.answered(own())[0]);
        assert_eq!(after, [false]);
    }

    /// RFC 9460, 2.4.2 and 3: an alias leads to another host, with records of its own or without.
    #[test]
    fn an_alias_resolves_to_its_target() {
        for has_record in [false, true] {
            let mut found = found();
            let services = has_record.then(|| service("pool.example.", Some(8443), [192, 0, 2, 3]));
            let services = Services {
                alias: Some("pool.example.".to_owned()),
                services: services.into_iter().collect(),
            };
            let records = ResolvedRecords { addresses: Vec::new(), services, lives_for: Duration::ZERO };
            let host = "www.example".to_owned();
            found.answered(Answer { host, question: Question::Service, result: Ok(records) });
            assert_eq!(found.other_hosts(), ["pool.example"]);
            let events = found.answered(about("pool.example", Question::Ipv6, &["2001:db8::6"]));
            let mut expected = vec![at("[2001:db8::6]:443", Some(u16::MAX))];
            if has_record {
                expected.insert(0, at("[2001:db8::6]:8443", Some(1)));
            }
            assert_eq!(ranks(&events[0]), expected);
        }
    }

    /// RFC 9460, 9.1: an origin of `https` at another port has records, too, and they name other endpoints.
    #[test]
    fn kinds_that_speak_http_follow_records_at_every_port() {
        let tls = |protocol: &str| -> Arc<dyn Transport> {
            let tls = transports::Tls::new(&Trust::Anyone, "www.example", &[protocol.to_owned()]);
            Arc::new(tls.expect("a name"))
        };
        for (protocol, expected) in [("h2", vec!["192.0.2.3:9000"]), ("imap", Vec::new())] {
            let destination = Destination::new("www.example", 8_443).expect("one");
            let request = Request { transports: [tls(protocol)].into(), ..Request::to(destination.clone()) };
            let asked = lookup(&request).expect("a question");
            assert_eq!(
                asked.questions().contains(&Question::Service),
                !expected.is_empty(),
                "{protocol}"
            );
            let mut found = RaceCandidates::new(destination, request.transports);
            let services = vec![service("pool.example.", Some(9_000), [192, 0, 2, 3])];
            let events = found.answered(answer(Question::Service, &[], services));
            assert_eq!(remotes(&events[0]), expected, "{protocol}");
        }
    }

    /// A request for another port does not imply a web origin.
    #[test]
    fn at_other_ports_only_direct_records_count() {
        let transports: Vec<Arc<dyn Transport>> = vec![Arc::new(transports::Tcp::default())];
        let mut found = RaceCandidates::new(
            Destination::new("www.example", 80).expect("one"),
            transports.into(),
        );
        let services = vec![
            service("pool.example.", None, [192, 0, 2, 3]),
            service("www.example.", Some(8443), [192, 0, 2, 4]),
            service("www.example.", None, [192, 0, 2, 5]),
        ];
        let events = found.answered(answer(Question::Service, &[], services));
        assert_eq!(ranks(&events[0]), [at("192.0.2.5:80", None)]);
        assert_eq!(found.other_hosts(), Vec::<String>::new());
    }

    /// RFC 9460, 7.1.2: an endpoint that speaks only HTTP/3 is not reached by TCP.
    #[test]
    fn endpoints_of_other_protocols_are_left_out() {
        let mut found = found();
        let mut other = service("pool.example.", None, [192, 0, 2, 3]);
        (other.alpn, other.no_default_alpn) = (vec!["h3".to_owned()], true);
        let events = found.answered(answer(Question::Service, &[], vec![other]));
        assert_eq!(ranks(&events[0]), []);
        let events = found.answered(about("www.example", Question::Ipv4, &["192.0.2.1"]));
        assert_eq!(ranks(&events[0]), [at("192.0.2.1:443", None)]);
    }

    #[test]
    fn a_failed_question_is_reported_with_its_reason() {
        let result = Err(ResolveError::NoSuchName { name: "www.example".to_owned() });
        let events =
            found().answered(Answer { host: "www.example".to_owned(), question: Question::Ipv6, result });
        let why = hawser_race::Failure::NoSuchName;
        assert_eq!(events, [Event::Missing { question: Question::Ipv6, why }]);
    }

    #[test]
    fn localhost_is_reached_without_other_interfaces() {
        let words = ["tcp:eth0", "tcp:lo", "tcp"];
        let transports = words.map(|word| transports::Transports::new().parse(word, 0).expect("a transport"));
        let mut found = RaceCandidates::new(
            Destination::new("localhost", 80).expect("a destination"),
            transports.into(),
        );
        let events = found.answered(about("localhost", Question::Ipv4, &["127.0.0.1"]));
        let Event::Found { candidates, .. } = &events[0] else {
            panic!("{events:?}")
        };
        let interfaces: Vec<&str> = candidates.iter().map(|one| &*one.interface).collect();
        assert_eq!(interfaces, ["lo", ""]);
    }

    #[test]
    fn candidates_are_bounded() {
        let mut found = found();
        let many: Vec<String> = (0..MAX_CANDIDATES + 50)
            .map(|n| format!("192.0.{}.{}", n / 250, n % 250))
            .collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        found.answered(answer(Question::Ipv4, &many, Vec::new()));
        assert_eq!(found.candidates.len(), MAX_CANDIDATES);
    }
}
