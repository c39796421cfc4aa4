//! The state of one client, and the parts common to its requests of either protocol.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use hawser::connect::{
    ChosenCandidate, ConnectError, Connected, Description, Destination, PolicyError, RaceReport, Racer,
    ReportCallback, Request, Transport,
};
use tokio::sync::{Notify, watch};

use crate::event::{Protocol, ProxyEvent, ProxyEventContent, ServerEvent};
use crate::relay::Relayed;
use crate::{Choice, Settings};

/// The state that all clients share.
pub(crate) struct ProxyState {
    pub(crate) settings: Settings,
    pub(crate) racer: Racer,
    pub(crate) requests: AtomicU64,
}

/// Transports, and the ranking that chose them if a policy does.
type Chosen = (Arc<[Arc<dyn Transport>]>, Option<Vec<ChosenCandidate>>);

impl ProxyState {
    /// Logs an event as text and reports it to the observer.
    pub(crate) fn publish(&self, request: Option<u64>, what: ServerEvent) {
        match what {
            ServerEvent::Full { .. } => tracing::warn!("{what}"),
            ServerEvent::Listening { .. } | ServerEvent::Stopping { .. } => tracing::info!("{what}"),
            _ => tracing::debug!(request, "{what}"),
        }
        if let Some(observer) = &self.settings.observer {
            observer(ProxyEvent { request, what: ProxyEventContent::Own(what) });
        }
    }

    /// Returns the transports to a destination, and the ranking that chose them if a policy does.
    pub(crate) fn transports(&self, destination: &Destination) -> Result<Chosen, PolicyError> {
        Ok(match &self.settings.choice {
            Choice::Always(transports) => (Arc::clone(transports), None),
            Choice::ByPolicy(policies) => {
                let chosen = policies.choose(destination)?;
                (chosen.transports, Some(chosen.candidates))
            }
        })
    }
}

#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) front: Arc<ProxyState>,
    pub(crate) address: SocketAddr,
    /// Becomes true when the proxy stops.
    pub(crate) stopping: watch::Receiver<bool>,
    /// Notified when the client has made a permitted request.
    pub(crate) admitted: Arc<Notify>,
}

impl Client {
    pub(crate) fn rejected(&self, why: impl Into<String>) {
        self.front.publish(
            None,
            ServerEvent::Rejected { client: self.address, why: why.into() },
        );
    }

    /// Assigns a number to a request and reports it.
    pub(crate) fn asked(&self, protocol: Protocol, destination: &Destination) -> ParsedRequest {
        self.admitted.notify_one();
        let number = self.front.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let destination = destination.to_string();
        self.front.publish(
            Some(number),
            ServerEvent::Asked { client: self.address, protocol, destination },
        );
        ParsedRequest { front: Arc::clone(&self.front), number }
    }
}

/// A parsed request.
pub(crate) struct ParsedRequest {
    pub(crate) front: Arc<ProxyState>,
    pub(crate) number: u64,
}

impl ParsedRequest {
    /// Races for the request's destination. Dropping the future cancels the race.
    pub(crate) async fn race(&self, destination: Destination) -> Result<Connected, Box<ConnectError>> {
        let settings = &self.front.settings;
        let transports = match self.front.transports(&destination) {
            Ok((transports, ranked)) => {
                ranked
                    .into_iter()
                    .for_each(|candidates| self.publish(ServerEvent::Ranked { candidates }));
                transports
            }
            Err(error) => return Err(Box::new(ConnectError::not_chosen(destination, &error))),
        };
        let request = Request {
            transports,
            profile: settings.profile.clone(),
            deadline: settings.deadline,
            watcher: self.watcher(&destination),
            ..Request::to(destination)
        };
        self.front.racer.connect(request).await
    }

    fn watcher(&self, destination: &Destination) -> Option<ReportCallback> {
        let number = self.number;
        let settings = &self.front.settings;
        let learner = settings.learner.as_ref().map(|learner| learner(destination));
        let observer = settings.observer.clone();
        if observer.is_none() {
            return learner;
        }
        Some(Arc::new(move |report: RaceReport| {
            if let Some(learner) = &learner {
                learner(report.clone());
            }
            if let Some(observer) = &observer {
                observer(ProxyEvent { request: Some(number), what: ProxyEventContent::Race(report) });
            }
        }))
    }

    pub(crate) fn publish(&self, what: ServerEvent) {
        self.front.publish(Some(self.number), what);
    }

    pub(crate) fn closed(&self, candidate: Description, relayed: Relayed, began: Instant) {
        let Relayed { sent, received, error } = relayed;
        let (seconds, error) = (
            began.elapsed().as_secs_f64(),
            error.map(|error| error.to_string()),
        );
        self.publish(ServerEvent::Closed { candidate, sent, received, seconds, error });
    }
}
