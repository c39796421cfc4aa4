//! Addresses of the names in a document: a session begins with the first that lead somewhere, and is given
//! those that come later.
//!
//! Both families of each name are asked for at once. A session begins when there is a candidate and
//! IPv6 addresses are known, or a while after that if they are not (RFC 8305, 3). The questions are asked again
//! while no path leads to the server: it may have moved. Invariant: a session gets each address once.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Weak;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tracing::debug;

use super::document::{Document, Machine, Plan};
use super::open_error::OpenError;
use super::shared::{End, Quotas, Shared};
use crate::surroundings::{interfaces_to, ordered};
use hawser_resolve::{Answer, Answers, Config, ConfigError, Lookup, Resolver};

/// How long a session that could begin over IPv4 waits for IPv6 addresses (RFC 8305, 8: Resolution Delay).
const DELAY: Duration = Duration::from_millis(50);

/// The time for which a session has no path before its names are asked for again, and the most that it waits between two
/// times: each pause is twice as long as the one before.
const STALLED: Duration = Duration::from_secs(2);
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// Reads how names are resolved.
pub(super) type Source = fn() -> Result<Config, ConfigError>;

/// The questions about a document's names.
pub(super) struct Names {
    source: Source,
    document: Document,
    machine: Machine,
    answers: Option<Answers>,
    /// How many questions about a name have no answer yet.
    open: BTreeMap<String, usize>,
    /// The addresses of each name that the session was given.
    given: BTreeMap<String, BTreeSet<IpAddr>>,
    /// Why names have no addresses, as far as that is known.
    failures: Vec<String>,
}

impl Names {
    /// Asks for the addresses of each name in the document. Those that are addresses need no answer.
    pub(super) fn ask(document: &Document, machine: Machine, source: Source) -> Result<Self, OpenError> {
        let mut names = Self {
            source,
            document: document.clone(),
            machine,
            answers: None,
            open: BTreeMap::new(),
            given: BTreeMap::new(),
            failures: Vec::new(),
        };
        names.ask_all()?;
        Ok(names)
    }

    /// Asks all questions. Names that are addresses have none.
    fn ask_all(&mut self) -> Result<(), OpenError> {
        let mut resolver = None;
        self.answers = None;
        for name in self.document.names() {
            if let Ok(address) = name.parse() {
                self.machine.addresses.insert(name, vec![address]);
                continue;
            }
            let resolver = match &mut resolver {
                Some(resolver) => resolver,
                none => none.insert(Resolver::new(&(self.source)()?)?),
            };
            let lookup = Lookup::addresses(&name)?;
            match &mut self.answers {
                Some(answers) => answers.also(resolver, &lookup),
                none => *none = Some(resolver.lookup(&lookup)),
            }
            self.open.insert(name, lookup.questions().len());
        }
        Ok(())
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
            self.find_routes();
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
        for (name, addresses) in &self.machine.addresses {
            self.given.entry(name.clone()).or_default().extend(addresses);
        }
        self.find_routes();
        self.machine.awaited = self.open.keys().cloned().collect();
        self.document.plan(&self.machine).map_err(|error| {
            let reasons = self.failures.iter().cloned().chain([error.to_string()]).collect();
            OpenError::NoCandidate { reasons }
        })
    }

    /// Asks the kernel over which interfaces routes lead to the addresses.
    fn find_routes(&mut self) {
        let Machine { addresses, interfaces, routes, .. } = &mut self.machine;
        for &address in addresses.values().flatten() {
            routes
                .entry(address)
                .or_insert_with(|| interfaces_to(address, interfaces));
        }
    }

    /// Whether there may be more addresses.
    pub(super) fn is_asking(&self) -> bool {
        !self.open.is_empty()
    }

    /// Gives the session what comes late, and the addresses that are new when it has no path any more. `limits`:
    /// what it may use of metered paths. `is_stalled`: whether it has no path.
    pub(super) async fn follow(
        mut self,
        session: Weak<Shared>,
        mut end: End,
        is_stalled: watch::Receiver<bool>,
        limits: Quotas,
    ) {
        tokio::select! {
            () = end.come() => {}
            _ = self.serve(&session, is_stalled, &limits) => {}
        }
    }

    /// None: the session is gone.
    async fn serve(
        &mut self,
        session: &Weak<Shared>,
        mut is_stalled: watch::Receiver<bool>,
        limits: &Quotas,
    ) -> Option<()> {
        self.give(session, limits).await?;
        let mut pause = STALLED;
        loop {
            is_stalled.wait_for(|stalled| *stalled).await.ok()?;
            if timeout(pause, is_stalled.wait_for(|stalled| !stalled))
                .await
                .is_ok()
            {
                pause = STALLED;
                continue;
            }
            pause = (2 * pause).min(MAX_PAUSE);
            match self.ask_all() {
                Ok(()) => self.give(session, limits).await?,
                Err(error) => debug!(%error, "the server's name cannot be asked for again"),
            }
        }
    }

    /// Gives the session the addresses that it does not have, until every question is answered.
    async fn give(&mut self, session: &Weak<Shared>, limits: &Quotas) -> Option<()> {
        while let Some(mut addresses) = self.next().await {
            for (name, addresses) in &mut addresses {
                let given = self.given.entry(name.clone()).or_default();
                addresses.retain(|address| given.insert(*address));
            }
            // Of these alone: the others have their candidates.
            self.machine.addresses = addresses;
            self.find_routes();
            if let Ok(mut plan) = self.document.plan(&self.machine) {
                plan.limit(limits);
                session.upgrade()?.add_candidates(plan.candidates);
            }
        }
        session.upgrade()?.await_candidates(false);
        Some(())
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
