//! The options of the policy that chooses the transports to race.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hawser::connect::knowledge::{Knowledge, KnowledgeError, KnowledgeEvent, Settings as Known, StoreError};
use hawser::connect::policy::Folders;
use hawser::connect::transports::Transports;
use hawser::connect::{Destination, Policies};
use hawser::session::relay::Gateway;
use hawser_proxy::Learner;
use serde_json::json;

use crate::exit::Exit;

/// The interval at which the proxy checks for a new session with the gateway.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// The options that select a policy and its knowledge.
#[derive(clap::Args)]
pub(super) struct PolicyArgs {
    /// Let a policy choose the candidates of races, by the profile of this name, as `defaults` or
    /// `low_latency` (docs/policy.md)
    #[arg(long, value_name = "NAME", conflicts_with = "over")]
    policy: Option<String>,
    /// The folder of profiles and policies; by default those that come with Hawser
    #[arg(long, value_name = "DIR", requires = "policy")]
    pib: Option<PathBuf>,
    /// A folder with further nodes of the CIB (docs/knowledge.md)
    #[arg(long, value_name = "DIR", requires = "policy")]
    cib: Option<PathBuf>,
    /// The file that stores learnt knowledge when this process ends
    #[arg(long, value_name = "FILE", requires = "policy")]
    store: Option<PathBuf>,
}

/// A policy and the knowledge that it uses.
pub(super) struct Chooser {
    pub(super) knowledge: Knowledge,
    pub(super) policies: Policies,
}

impl PolicyArgs {
    /// Opens the policy, if one was named. It must be called within a runtime.
    pub(super) async fn chooser(
        &self,
        transports: Transports,
        gateway: Option<Gateway>,
        json: bool,
    ) -> Result<Option<Chooser>, Exit> {
        let Some(profile) = &self.policy else {
            return Ok(None);
        };
        let opened = Knowledge::open(Known {
            folders: Folders { pib: self.pib.clone(), cib: self.cib.clone() },
            store: self.store.clone(),
            bus: hawser::interact::process_bus(),
            options: Policies::options(),
        });
        let knowledge = opened.await.map_err(|error| match error {
            KnowledgeError::Files(_) | KnowledgeError::Store(StoreError::Foreign { .. }) => {
                Exit::input(error)
            }
            _ => Exit::environment(error),
        })?;
        let policies = Policies::new(knowledge.manager(), profile, transports)
            .map_err(|error| Exit::usage(format!("--policy: {error}")))?;
        if json {
            tokio::spawn(report_events(knowledge.clone()));
        }
        if let Some(gateway) = gateway {
            tokio::spawn(follow(knowledge.clone(), gateway));
        }
        Ok(Some(Chooser { knowledge, policies }))
    }
}

impl Chooser {
    /// Returns the observer that learns from each race.
    pub(super) fn learner(&self) -> Learner {
        let knowledge = self.knowledge.clone();
        Arc::new(move |destination: &Destination| knowledge.watcher_to(destination))
    }
}

/// Prints errors of files and stores for the life of the process. Without JSON, the log contains them.
async fn report_events(knowledge: Knowledge) {
    let mut events = knowledge.events();
    drop(knowledge);
    while let Some(event) = events.next().await {
        let lines: Vec<String> = match event {
            KnowledgeEvent::Refused(errors) => errors.iter().map(ToString::to_string).collect(),
            KnowledgeEvent::Trouble(trouble) => vec![trouble.to_string()],
            _ => continue,
        };
        for why in lines {
            println!("{}", json!({ "event": "policy", "why": why }));
        }
    }
}

/// Learns from the measurements of the sessions with the gateway.
async fn follow(knowledge: Knowledge, gateway: Gateway) {
    let mut last = None;
    loop {
        if let Some(session) = gateway.session().await
            && let Ok(id) = session.opened().await
            && last.replace(id) != Some(id)
        {
            knowledge.follow(&session);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
