//! Addresses of the names in a document. A session begins with the first addresses that are usable, and is
//! given later ones as they arrive.
//!
//! Both address families of each name are queried at once. A session begins when it has a candidate and IPv6
//! addresses are known, or after a short delay if they are not (RFC 8305, 3). The queries are repeated while
//! no path leads to the server, because it may have moved. Invariant: a session gets each address once.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Weak;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tracing::debug;

use super::document::{ConnectionPlan, Document, PlanFacts};
use super::open_error::OpenError;
use super::shared::{EndWatcher, Quotas, Shared};
use crate::network_identity::{interfaces_to, ordered};
use hawser_race::resolve::{Answer, Answers, Config, ConfigError, Lookup, Resolver};

/// The time for which a session that could begin over IPv4 waits for IPv6 addresses (RFC 8305, 8: Resolution
/// Delay).
const DELAY: Duration = Duration::from_millis(50);

/// The time without a path after which names are queried again, and the longest pause between two rounds.
/// Each pause is twice as long as the one before.
const STALLED: Duration = Duration::from_secs(2);
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// A function that reads the resolver's configuration.
pub(super) type ConfigReader = fn() -> Result<Config, ConfigError>;

/// The queries for a document's names.
pub(super) struct NameQueries {
    source: ConfigReader,
    document: Document,
    machine: PlanFacts,
    answers: Option<Answers>,
    /// The number of unanswered queries for each name.
    open: BTreeMap<String, usize>,
    /// The addresses of each name that the session was given.
    given: BTreeMap<String, BTreeSet<IpAddr>>,
    /// The known reasons why names have no addresses.
    failures: Vec<String>,
}

impl NameQueries {
    /// Queries the addresses of each name in the document. A name that is an address needs no query.
    pub(super) fn ask(
        document: &Document,
        machine: PlanFacts,
        source: ConfigReader,
    ) -> Result<Self, OpenError> {
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

    /// Sends all queries. A name that is an address needs none.
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

    /// Returns the candidates as soon as the session can usefully begin with them.
    pub(super) async fn plan(&mut self) -> Result<ConnectionPlan, OpenError> {
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

    /// Asks the kernel which interfaces have routes to the addresses.
    fn find_routes(&mut self) {
        let PlanFacts { addresses, interfaces, routes, .. } = &mut self.machine;
        for &address in addresses.values().flatten() {
            routes
                .entry(address)
                .or_insert_with(|| interfaces_to(address, interfaces));
        }
    }

    /// Returns true if more addresses may arrive.
    pub(super) fn is_asking(&self) -> bool {
        !self.open.is_empty()
    }

    /// Gives the session addresses that arrive late, and new addresses while it has no path. `limits` bounds
    /// its use of metered paths. `is_stalled` is true while it has no path.
    pub(super) async fn follow(
        mut self,
        session: Weak<Shared>,
        mut end: EndWatcher,
        is_stalled: watch::Receiver<bool>,
        limits: Quotas,
    ) {
        tokio::select! {
            () = end.come() => {}
            _ = self.serve(&session, is_stalled, &limits) => {}
        }
    }

    /// Returns `None` when the session is gone.
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
                Err(error) => debug!(%error, "the server's name cannot be resolved again"),
            }
        }
    }

    /// Gives the session addresses that it does not have, until every query is answered.
    async fn give(&mut self, session: &Weak<Shared>, limits: &Quotas) -> Option<()> {
        while let Some(mut addresses) = self.next().await {
            for (name, addresses) in &mut addresses {
                let given = self.given.entry(name.clone()).or_default();
                addresses.retain(|address| given.insert(*address));
            }
            // Plans only the new addresses, because the others have their candidates.
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

    /// Returns the addresses that the next answer gives a name; `None` after the last answer.
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
