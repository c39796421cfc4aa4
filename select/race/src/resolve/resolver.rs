//! Asks questions, and hands over each answer as soon as it arrives.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Question;
use hickory_resolver::lookup::Lookup as Found;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::{Query, ResponseCode};
use hickory_resolver::proto::rr::{RData, RecordType};
use hickory_resolver::{Hosts, TokioResolver};
use tokio::task::JoinSet;

use crate::resolve::nat64::{IPV4_ONLY, Prefix, prefixes};
use crate::resolve::service::{Understood, understand};
use crate::resolve::target::as_dns;
use crate::resolve::{BadName, Config, ConfigError, HostTarget, ResolveError, Services};

/// The maximum number of addresses of one answer that are kept.
pub const MAX_ADDRESSES: usize = 64;
/// The maximum length of a chain of aliases that is followed (RFC 9460, 3.1 asks for a limit).
const MAX_ALIASES: usize = 8;
/// The validity of answers that need no query.
const FOR_EVER: Duration = Duration::from_secs(86_400);

/// The questions about a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The name or address, as given.
    host: String,
    target: HostTarget,
    /// The name of the service question.
    service: Option<String>,
    /// True if NAT64 addresses are wanted for an IPv4 address.
    is_translated: bool,
    questions: Vec<Question>,
}

impl Lookup {
    /// Asks for addresses of both families.
    ///
    /// # Errors
    /// When the text is not a valid host.
    pub fn addresses(host: &str) -> Result<Lookup, BadName> {
        let questions = vec![Question::Ipv6, Question::Ipv4];
        let target = HostTarget::parse(host)?;
        Ok(Lookup {
            host: host.to_owned(),
            target,
            service: None,
            is_translated: false,
            questions,
        })
    }

    /// Asks for addresses of both families, and HTTPS records of the origin at this port (RFC 9460, 9.1).
    ///
    /// # Errors
    /// When the text is not a valid host.
    pub fn https(host: &str, port: u16) -> Result<Lookup, BadName> {
        let target = HostTarget::parse(host)?;
        let service = match (&target, port) {
            (HostTarget::Name(name), 80 | 443) => Some(name.clone()),
            (HostTarget::Name(name), _) => Some(format!("_{port}._https.{name}")),
            _ => None,
        };
        // The service question comes first, because its answer has hints (version 3, hostname resolution).
        let questions = vec![Question::Service, Question::Ipv6, Question::Ipv4];
        Ok(Lookup {
            host: host.to_owned(),
            target,
            service,
            is_translated: false,
            questions,
        })
    }

    /// If the host is an IPv4 address, also asks for the IPv6 addresses by which the network's NAT64 reaches
    /// it (RFC 8305, 7.1; RFC 7050).
    #[must_use]
    pub fn translated(mut self) -> Lookup {
        self.is_translated = true;
        self
    }

    /// Restricts it to some of its questions: a host without IPv6 does not need IPv6 addresses.
    #[must_use]
    pub fn only(mut self, questions: &[Question]) -> Lookup {
        self.questions.retain(|question| questions.contains(question));
        self
    }

    /// Returns its questions, in the order in which they are asked.
    #[must_use]
    pub fn questions(&self) -> &[Question] {
        &self.questions
    }
}

/// The answer to one question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The name or address of the lookup.
    pub host: String,
    /// The question that this answers.
    pub question: Question,
    /// The records, or the error.
    pub result: Result<ResolvedRecords, ResolveError>,
}

/// The records that were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedRecords {
    /// The addresses, in the order of the answer; empty for a service question.
    pub addresses: Vec<IpAddr>,
    /// The services, for a service question.
    pub services: Services,
    /// The time for which the records are valid, from now on.
    pub lives_for: Duration,
}

/// Asks name servers. Clones share connections and the cache.
#[derive(Clone)]
pub struct Resolver {
    inner: TokioResolver,
    hosts: Arc<Hosts>,
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resolver")
            .field("options", self.inner.options())
            .finish_non_exhaustive()
    }
}

impl Resolver {
    /// Makes a resolver with this configuration. After a change of the network, or for another source
    /// address, make another one.
    ///
    /// # Errors
    /// When the configuration cannot be used.
    pub fn new(config: &Config) -> Result<Resolver, ConfigError> {
        let mut builder =
            TokioResolver::builder_with_config(config.servers.clone(), TokioRuntimeProvider::default());
        *builder.options_mut() = config.options.clone();
        let inner = builder
            .build()
            .map_err(|error| ConfigError::Text { what: "resolv.conf", why: error.to_string() })?;
        Ok(Resolver { inner, hosts: Arc::new(config.hosts_table()?) })
    }

    /// Asks all questions of a lookup at once. It must be called within a tokio runtime with time and I/O.
    #[must_use]
    pub fn lookup(&self, lookup: &Lookup) -> Answers {
        let mut answers = Answers { questions: JoinSet::new() };
        answers.also(self, lookup);
        answers
    }

    async fn answer(&self, lookup: &Lookup, question: Question) -> Result<ResolvedRecords, ResolveError> {
        let local = |text: &str, all: &[IpAddr]| match of_family(all, question) {
            addresses if addresses.is_empty() => {
                Err(ResolveError::NoRecord { name: text.to_owned(), question })
            }
            addresses => {
                Ok(ResolvedRecords { addresses, services: Services::default(), lives_for: FOR_EVER })
            }
        };
        match (&lookup.target, question) {
            (HostTarget::Address(IpAddr::V4(address)), Question::Ipv6) if lookup.is_translated => {
                self.translated(*address).await
            }
            (HostTarget::Address(address), _) => local(&address.to_string(), &[*address]),
            (HostTarget::ThisHost, _) => local("localhost", &HostTarget::LOOPBACK),
            (HostTarget::Nothing, _) => Err(ResolveError::NoSuchName { name: "invalid".to_owned() }),
            (HostTarget::Name(name), Question::Ipv4 | Question::Ipv6) => match self.in_hosts(name) {
                Some(addresses) => local(name, &addresses),
                None => self.addresses(name, question).await,
            },
            // A name in the hosts file has only the addresses of the file, and no services.
            (HostTarget::Name(name), Question::Service) => match (self.in_hosts(name), &lookup.service) {
                (None, Some(service)) => self.services(service).await,
                _ => local(name, &[]),
            },
        }
    }

    /// Returns the addresses of a name in the hosts file, if it is there.
    fn in_hosts(&self, name: &str) -> Option<Vec<IpAddr>> {
        let name = as_dns(name).ok()?;
        let find = |kind| self.hosts.lookup_static_host(&Query::query(name.clone(), kind));
        let both = [find(RecordType::A), find(RecordType::AAAA)];
        let found: Vec<IpAddr> = both.iter().flatten().flat_map(addresses_of).collect();
        (!found.is_empty()).then_some(found)
    }

    async fn addresses(&self, name: &str, question: Question) -> Result<ResolvedRecords, ResolveError> {
        let kind = if question == Question::Ipv4 {
            RecordType::A
        } else {
            RecordType::AAAA
        };
        let found = match self.ask(name, kind).await {
            Ok(found) => found,
            Err(error) => {
                let looped = self.alias_loop(name, &error).await;
                return Err(looped.unwrap_or_else(|| ResolveError::new(name, question, &error)));
            }
        };
        let all: Vec<IpAddr> = addresses_of(&found).collect();
        let addresses = of_family(&all, question);
        match addresses.is_empty() {
            true => Err(ResolveError::NoRecord { name: name.to_owned(), question }),
            false => {
                Ok(
                    ResolvedRecords {
                        addresses,
                        services: Services::default(),
                        lives_for: lives_for(&found),
                    },
                )
            }
        }
    }

    /// Returns the prefixes of this network's NAT64 (RFC 7050); empty if there is no NAT64.
    ///
    /// # Errors
    /// When no server answered, or the answer is not usable.
    pub async fn nat64(&self) -> Result<Vec<Prefix>, ResolveError> {
        match self.addresses(IPV4_ONLY, Question::Ipv6).await {
            Ok(records) => Ok(prefixes(&records.addresses)),
            Err(ResolveError::NoSuchName { .. } | ResolveError::NoRecord { .. }) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Returns the loop of aliases behind an answer, if there is one. A server that knows that there is no
    /// record includes its SOA (RFC 2308, 2.2); an endless chain of aliases comes without.
    async fn alias_loop(&self, name: &str, error: &NetError) -> Option<ResolveError> {
        let NetError::Dns(DnsError::NoRecordsFound(none)) = error else {
            return None;
        };
        if none.soa.is_some() || none.response_code != ResponseCode::NoError {
            return None;
        }
        let mut chain = vec![none.query.name().to_ascii().to_ascii_lowercase()];
        while chain.len() <= MAX_ALIASES {
            let found = self.ask(chain.last()?, RecordType::CNAME).await.ok()?;
            let next = found.answers().iter().find_map(|record| match &record.data {
                RData::CNAME(target) => Some(target.0.to_ascii().to_ascii_lowercase()),
                _ => None,
            })?;
            let is_round = chain.contains(&next);
            chain.push(next);
            if is_round {
                break;
            }
        }
        Some(ResolveError::AliasLoop { name: name.to_owned(), chain: chain.join(" → ") })
    }

    /// Returns the addresses by which the network's NAT64 reaches this address.
    async fn translated(&self, address: Ipv4Addr) -> Result<ResolvedRecords, ResolveError> {
        let prefixes = self.nat64().await?;
        let addresses: Vec<IpAddr> = prefixes
            .iter()
            .map(|prefix| prefix.embed(address).into())
            .collect();
        match addresses.is_empty() {
            true => Err(ResolveError::NoRecord { name: address.to_string(), question: Question::Ipv6 }),
            // The resolver caches the prefixes as long as they are valid.
            false => {
                Ok(ResolvedRecords { addresses, services: Services::default(), lives_for: Duration::ZERO })
            }
        }
    }

    /// Asks for services, through aliases.
    async fn services(&self, name: &str) -> Result<ResolvedRecords, ResolveError> {
        let question = Question::Service;
        let none = || ResolveError::NoRecord { name: name.to_owned(), question };
        let (mut at, mut alias, mut lives) = (name.to_owned(), None, FOR_EVER);
        let mut chain = vec![format!("{}.", name.trim_end_matches('.'))];
        loop {
            let found = match self.ask(&at, RecordType::HTTPS).await {
                Ok(found) => found,
                // The end of a chain of aliases need not have a record (RFC 9460, 3).
                Err(error) if alias.is_some() && error.is_no_records_found() => break,
                Err(error) => return Err(ResolveError::new(name, question, &error)),
            };
            lives = lives.min(lives_for(&found));
            let records = found.answers().iter().filter_map(|record| match &record.data {
                RData::HTTPS(https) => Some(&https.0),
                RData::SVCB(svcb) => Some(svcb),
                _ => None,
            });
            // Among records of one priority, and among aliases, the order is random (RFC 9460, 2.4.1 and
            // 2.4.2).
            let mut records: Vec<_> = records.collect();
            fastrand::shuffle(&mut records);
            // A chain of CNAMEs ends at the owner of the records.
            let owner = found
                .answers()
                .last()
                .map_or_else(|| found.query().name().clone(), |last| last.name.clone());
            match understand(&owner, records.into_iter()) {
                Understood::Alias(target) => {
                    at = target.to_ascii().to_ascii_lowercase();
                    let is_round = chain.contains(&at);
                    chain.push(at.clone());
                    if is_round || chain.len() > MAX_ALIASES {
                        return Err(ResolveError::AliasLoop {
                            name: name.to_owned(),
                            chain: chain.join(" → "),
                        });
                    }
                    alias = Some(at.clone());
                }
                Understood::Unavailable => return Err(none()),
                Understood::Services(services) if services.is_empty() && alias.is_none() => {
                    return Err(none());
                }
                Understood::Services(services) => {
                    let services = Services { alias, services };
                    return Ok(ResolvedRecords { addresses: Vec::new(), services, lives_for: lives });
                }
            }
        }
        match alias {
            Some(_) => {
                let services = Services { alias, services: Vec::new() };
                Ok(ResolvedRecords { addresses: Vec::new(), services, lives_for: lives })
            }
            None => Err(none()),
        }
    }

    async fn ask(&self, name: &str, kind: RecordType) -> Result<Found, NetError> {
        match as_dns(name) {
            Ok(name) => self.inner.lookup(name, kind).await,
            Err(error) => Err(error.into()),
        }
    }
}

fn addresses_of(found: &Found) -> impl Iterator<Item = IpAddr> {
    found.answers().iter().filter_map(|record| match record.data {
        RData::A(address) => Some(IpAddr::V4(address.0)),
        RData::AAAA(address) => Some(IpAddr::V6(address.0)),
        _ => None,
    })
}

fn of_family(addresses: &[IpAddr], question: Question) -> Vec<IpAddr> {
    let is_wanted = |address: &IpAddr| match question {
        Question::Ipv4 => address.is_ipv4(),
        Question::Ipv6 => address.is_ipv6(),
        Question::Service => false,
    };
    addresses
        .iter()
        .copied()
        .filter(is_wanted)
        .take(MAX_ADDRESSES)
        .collect()
}

fn lives_for(found: &Found) -> Duration {
    found.valid_until().saturating_duration_since(Instant::now())
}

/// The answers that have not arrived yet. Dropping it cancels the pending questions.
#[derive(Debug)]
pub struct Answers {
    questions: JoinSet<Answer>,
}

impl Answers {
    /// Adds the questions of another lookup.
    pub fn also(&mut self, resolver: &Resolver, lookup: &Lookup) {
        for &question in &lookup.questions {
            let (resolver, lookup) = (resolver.clone(), lookup.clone());
            self.questions.spawn(async move {
                let result = resolver.answer(&lookup, question).await;
                Answer { host: lookup.host, question, result }
            });
        }
    }

    /// Waits for the next answer, in the order of arrival; `None` when there are no more. The future may be
    /// dropped without losing an answer.
    pub async fn next(&mut self) -> Option<Answer> {
        loop {
            // A question that was cancelled with its runtime has no answer.
            if let Ok(answer) = self.questions.join_next().await? {
                return Some(answer);
            }
        }
    }

    /// Lets the pending questions continue for a time. Later lookups then find the answers in the cache
    /// (version 3, connection attempts, recommends a second).
    pub fn linger(mut self, limit: Duration) {
        tokio::spawn(async move {
            let all = async { while self.next().await.is_some() {} };
            // Questions that take longer are cancelled with it.
            let _ = tokio::time::timeout(limit, all).await;
        });
    }
}
