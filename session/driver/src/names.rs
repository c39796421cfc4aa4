//! Addresses of the names in a document: a session begins with the first that lead somewhere, and is given
//! those that come later.
//!
//! Both families of each name are asked for at once. A session begins when there is a candidate and
//! IPv6 addresses are known, or a while after that if they are not (RFC 8305, 3). Invariant: every name's
//! questions are asked once.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Weak;
use std::time::Duration;

use tokio::time::Instant;

use super::document::{Document, Machine, Plan};
use super::open_error::OpenError;
use super::shared::{End, Quotas, Shared};
use crate::surroundings::ordered;
use hawser_resolve::{Answer, Answers, Config, Lookup, Resolver};

/// How long a session that could begin over IPv4 waits for IPv6 addresses (RFC 8305, 8: Resolution Delay).
const DELAY: Duration = Duration::from_millis(50);

/// The questions about a document's names.
pub(super) struct Names {
    document: Document,
    machine: Machine,
    answers: Option<Answers>,
    /// How many questions about a name have no answer yet.
    open: BTreeMap<String, usize>,
    /// Why names have no addresses, as far as that is known.
    failures: Vec<String>,
}

impl Names {
    /// Asks for the addresses of each name in the document. Those that are addresses need no answer.
    pub(super) fn ask(document: &Document, machine: Machine) -> Result<Self, OpenError> {
        let (document, answers) = (document.clone(), None);
        let mut names = Self {
            document,
            machine,
            answers,
            open: BTreeMap::new(),
            failures: Vec::new(),
        };
        let mut resolver = None;
        for name in names.document.names() {
            if let Ok(address) = name.parse() {
                names.machine.addresses.insert(name, vec![address]);
                continue;
            }
            let resolver = match &mut resolver {
                Some(resolver) => resolver,
                none => none.insert(Resolver::new(&Config::system()?)?),
            };
            let lookup = Lookup::addresses(&name)?;
            match &mut names.answers {
                Some(answers) => answers.also(resolver, &lookup),
                none => *none = Some(resolver.lookup(&lookup)),
            }
            names.open.insert(name, lookup.questions().len());
        }
        Ok(names)
    }

    /// Candidates, as soon as it is worth beginning with them.
    pub(super) async fn plan(&mut self) -> Result<Plan, OpenError> {
        let mut begins_at: Option<Instant> = None;
        while !self.open.is_empty() {
            let until = async {
                match begins_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let addresses = tokio::select! {
                addresses = self.next() => addresses.unwrap_or_default(),
                () = until => break,
            };
            for (name, addresses) in addresses {
                self.machine.addresses.entry(name).or_default().extend(addresses);
            }
            if self.document.plan(&self.machine).is_ok() {
                if self.machine.addresses.values().flatten().any(IpAddr::is_ipv6) {
                    break;
                }
                begins_at.get_or_insert(Instant::now() + DELAY);
            }
        }
        for addresses in self.machine.addresses.values_mut() {
            *addresses = ordered(std::mem::take(addresses));
        }
        self.machine.awaited = self.open.keys().cloned().collect();
        self.document.plan(&self.machine).map_err(|error| {
            let reasons = self.failures.iter().cloned().chain([error.to_string()]).collect();
            OpenError::NoCandidate { reasons }
        })
    }

    /// Whether there may be more addresses.
    pub(super) fn is_asking(&self) -> bool {
        !self.open.is_empty()
    }

    /// Gives the session what comes late. `limits`: what it may use of metered paths.
    pub(super) async fn follow(mut self, session: Weak<Shared>, mut end: End, limits: Quotas) {
        loop {
            let addresses = tokio::select! {
                () = end.come() => return,
                addresses = self.next() => addresses,
            };
            let Some(session) = session.upgrade() else { return };
            let Some(addresses) = addresses else {
                return session.await_candidates(false);
            };
            // Of these alone: the others have their candidates.
            self.machine.addresses = addresses;
            if let Ok(mut plan) = self.document.plan(&self.machine) {
                plan.limit(&limits);
                session.add_candidates(plan.candidates);
            }
        }
    }

    /// The addresses that the next answer gives a name; none after the last answer.
    async fn next(&mut self) -> Option<BTreeMap<String, Vec<IpAddr>>> {
        let answers = self.answers.as_mut().filter(|_| !self.open.is_empty())?;
        let Some(Answer { host, result, .. }) = answers.next().await else {
            self.open.clear();
            return None;
        };
        if let Some(open) = self.open.get_mut(&host) {
            *open = open.saturating_sub(1);
        }
        self.open.retain(|_, open| *open > 0);
        Some(match result {
            Ok(records) => BTreeMap::from([(host, ordered(records.addresses))]),
            Err(error) => {
                let error = error.to_string();
                if !self.failures.contains(&error) {
                    self.failures.push(error);
                }
                BTreeMap::new()
            }
        })
    }
}
