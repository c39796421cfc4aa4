//! Connects to a destination. Its name is resolved once, each address of the answer is checked, and the
//! allowed ones are raced over TCP.
//!
//! Invariants: a connection is made only to a checked address. There is no second resolution that could give
//! another answer (DNS rebinding). A name that no rule could allow is not resolved.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hawser::race::resolve::nat64::Prefix;
use hawser::race::resolve::{Answer, Answers, Lookup, Resolver};
use hawser::race::{
    Action, Candidate, CandidateId, Defeat, Event, Failure, Family, Profile, Question, Questions, Race,
    Request,
};
use hawser::time::Instant;
use tokio::net::TcpStream;
use tokio::task::{AbortHandle, JoinSet};

use hawser::session::relay::{Destination, Host, Reply};

use crate::destination::{AllowList, check};

/// The rules of allowed destinations, and the resolver.
pub(crate) struct Rules<'a> {
    pub(crate) allow: &'a AllowList,
    /// The addresses of this machine.
    pub(crate) own: &'a [IpAddr],
    /// The prefixes of this network's translators.
    pub(crate) nat64: &'a [Prefix],
    pub(crate) resolver: &'a Resolver,
    /// The maximum time for resolution and connection.
    pub(crate) limit: Duration,
}

/// A connection could not be made.
#[derive(Debug)]
pub(crate) struct Unreached {
    pub(crate) reply: Reply,
    /// The reason, for the gateway's operator.
    pub(crate) why: String,
}

impl Unreached {
    fn new(reply: Reply, why: impl ToString) -> Unreached {
        Unreached { reply, why: why.to_string() }
    }
}

/// Connects to `destination` if it is allowed.
///
/// All outgoing connections of the gateway are made here, so a better race of sockets would be added here.
pub(crate) async fn reach(destination: &Destination, rules: &Rules<'_>) -> Result<TcpStream, Unreached> {
    if !rules.allow.may_allow(destination.host(), destination.port()) {
        return Err(Unreached::new(Reply::NotAllowed, "no rule allows it"));
    }
    let text = match destination.host() {
        Host::Address(address) => address.to_string(),
        // The final dot makes the name absolute, so that this machine's search domains do not apply.
        Host::Name(name) => format!("{name}."),
    };
    let lookup = Lookup::addresses(&text).map_err(|error| Unreached::new(Reply::HostUnreachable, error))?;
    let (stream, address) = Contest::new(destination, rules, &lookup).run().await?;
    let (local, peer) = (stream.local_addr(), stream.peer_addr());
    let is_here = matches!((local, peer), (Ok(local), Ok(peer)) if local.ip() == peer.ip());
    // The address was assigned to this machine a moment ago, or is not reported by the system.
    if is_here
        && check(
            destination,
            address.ip(),
            rules.allow,
            &[address.ip()],
            rules.nat64,
        )
        .is_err()
    {
        return Err(Unreached::new(
            Reply::NotAllowed,
            format!("{address} is the gateway's own"),
        ));
    }
    Ok(stream)
}

/// A race and its running sockets.
struct Contest<'a> {
    destination: &'a Destination,
    rules: &'a Rules<'a>,
    began: std::time::Instant,
    race: Race,
    answers: Answers,
    attempts: JoinSet<(CandidateId, io::Result<TcpStream>)>,
    running: BTreeMap<CandidateId, AbortHandle>,
    /// The addresses that passed the check.
    addresses: BTreeMap<CandidateId, SocketAddr>,
    /// The refusal of the first address that failed the check.
    refused: Option<String>,
}

impl<'a> Contest<'a> {
    fn new(destination: &'a Destination, rules: &'a Rules<'a>, lookup: &Lookup) -> Contest<'a> {
        let mut questions = Questions::default();
        for question in lookup.questions() {
            match question {
                Question::Ipv4 => questions.ipv4 += 1,
                Question::Ipv6 => questions.ipv6 += 1,
                Question::Service => questions.service += 1,
            }
        }
        let request = Request { deadline: rules.limit, ..Request::default() };
        Contest {
            destination,
            rules,
            began: std::time::Instant::now(),
            race: Race::new(Profile::RFC8305, request, questions, Instant::ORIGIN),
            answers: rules.resolver.lookup(lookup),
            attempts: JoinSet::new(),
            running: BTreeMap::new(),
            addresses: BTreeMap::new(),
            refused: None,
        }
    }

    async fn run(mut self) -> Result<(TcpStream, SocketAddr), Unreached> {
        let mut connected: Option<(CandidateId, TcpStream)> = None;
        let (mut event, mut wake) = (Event::Wake, Instant::after(self.rules.limit));
        loop {
            for action in self.race.on(event, self.now()) {
                match action {
                    Action::Start(id) => self.start(id),
                    Action::Won(winner) => {
                        // A race is won only by the event that came with its stream.
                        if let Some((id, stream)) = connected.take()
                            && id == winner
                        {
                            return Ok((stream, self.addresses[&id]));
                        }
                    }
                    Action::AllFailed(defeat) => return Err(self.defeated(&defeat)),
                    Action::Cancel(id) => {
                        self.running.remove(&id).iter().for_each(AbortHandle::abort);
                    }
                    Action::Wake(at) => wake = at,
                    // No outcomes are remembered, so no probes are made.
                    Action::Record(..) | Action::Probe(_) => {}
                }
            }
            let until = wake - self.now();
            event = tokio::select! {
                Some(answer) = self.answers.next() => self.resolved(answer),
                Some(Ok((id, result))) = self.attempts.join_next() => match result {
                    Ok(stream) => {
                        connected = Some((id, stream));
                        Event::Connected(id)
                    }
                    Err(error) => Event::Failed(id, failure(&error)),
                },
                () = tokio::time::sleep(until) => Event::Wake,
            };
        }
    }

    fn now(&self) -> Instant {
        Instant::after(self.began.elapsed())
    }

    fn start(&mut self, id: CandidateId) {
        let address = self.addresses[&id];
        let attempt = self
            .attempts
            .spawn(async move { (id, TcpStream::connect(address).await) });
        self.running.insert(id, attempt);
    }

    /// Converts an answer to candidates: the addresses that pass the check.
    fn resolved(&mut self, answer: Answer) -> Event {
        let question = answer.question;
        let records = match answer.result {
            Ok(records) => records,
            Err(error) => {
                return Event::Missing { question, why: error.failure() };
            }
        };
        let mut candidates = Vec::new();
        for ip in records.addresses {
            let address = SocketAddr::new(ip, self.destination.port());
            match check(
                self.destination,
                ip,
                self.rules.allow,
                self.rules.own,
                self.rules.nat64,
            ) {
                Ok(()) => {
                    // A lookup's answers are limited to far fewer than this.
                    let id = CandidateId(u32::try_from(self.addresses.len()).unwrap_or(u32::MAX));
                    let mut candidate = Candidate::new(id, "tcp", address.to_string());
                    candidate.rank = u16::from(candidate.family == Family::Ipv4);
                    self.addresses.insert(id, address);
                    candidates.push(candidate);
                }
                Err(refusal) => {
                    self.refused.get_or_insert_with(|| refusal.to_string());
                }
            }
        }
        match candidates.is_empty() {
            true => Event::Missing { question, why: Failure::Prohibited },
            false => Event::Found { question: Some(question), candidates },
        }
    }

    /// Returns the answer for the client. A refusal by the rules is reported only if no address was allowed.
    fn defeated(&self, defeat: &Defeat) -> Unreached {
        if let (true, Some(refused)) = (self.addresses.is_empty(), &self.refused) {
            return Unreached::new(Reply::NotAllowed, refused);
        }
        let failures = defeat.candidates.iter().map(|(_, failure)| *failure);
        let reply = failures.clone().map(reply).min_by_key(|reply| preference(*reply));
        let unanswered = defeat.questions.iter().map(|(_, failure)| *failure);
        let all: Vec<String> = failures
            .chain(unanswered)
            .map(|failure| failure.to_string())
            .collect();
        Unreached::new(reply.unwrap_or(Reply::HostUnreachable), all.join("; "))
    }
}

/// Returns the rank of a failure: of several, the lowest reveals most about the destination.
fn preference(reply: Reply) -> u8 {
    match reply {
        Reply::Refused => 0,
        Reply::TimedOut => 1,
        Reply::HostUnreachable => 2,
        Reply::NetworkUnreachable => 3,
        Reply::NotAllowed => 4,
        Reply::Failure | Reply::UnknownKind | Reply::Succeeded => 5,
    }
}

fn reply(failure: Failure) -> Reply {
    match failure {
        Failure::Refused | Failure::Reset | Failure::Security | Failure::Protocol => Reply::Refused,
        Failure::Unreachable | Failure::InterfaceGone => Reply::NetworkUnreachable,
        Failure::NoSuchName | Failure::NoRecord | Failure::NameServer | Failure::Prohibited => {
            Reply::HostUnreachable
        }
        Failure::Timeout | Failure::Deadline => Reply::TimedOut,
        Failure::Local
        | Failure::LessSecure
        | Failure::Connectionless
        | Failure::Cancelled
        | Failure::NotStarted
        | Failure::Stalled => Reply::Failure,
    }
}

fn failure(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Failure::Refused,
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => Failure::Reset,
        io::ErrorKind::NetworkUnreachable => Failure::Unreachable,
        io::ErrorKind::HostUnreachable | io::ErrorKind::PermissionDenied => Failure::Prohibited,
        io::ErrorKind::TimedOut => Failure::Timeout,
        _ => Failure::Local,
    }
}
