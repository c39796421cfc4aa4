//! Plans: copies of a Preconnection at the time at which a Connection or a Listener is begun.

use std::sync::Arc;

use tokio::sync::OnceCell;

use super::property::{Action, TransportProperties};
use super::{Framer, LocalEndpoint, RemoteEndpoint, SecurityParameters};
use crate::Racer;
use hawser_session::MtpStack;

/// A Preconnection as it was at that time.
#[derive(Clone, Debug)]
pub(super) struct ConnectionPlan {
    pub(super) action: Action,
    pub(super) locals: Vec<LocalEndpoint>,
    pub(super) remotes: Vec<RemoteEndpoint>,
    pub(super) properties: TransportProperties,
    pub(super) security: SecurityParameters,
    pub(super) framers: Vec<Arc<dyn Framer>>,
    /// True if successful Sends are reported, too.
    pub(super) reports_sent: bool,
    pub(super) racer: Arc<OnceCell<Racer>>,
    /// Stacks whose transports written in MTP are additional candidates.
    pub(super) stacks: Vec<MtpStack>,
}
