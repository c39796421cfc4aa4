//! Preconnections: requirements that are stated before a Connection is begun (RFC 9622, 6).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::OnceCell;

use super::plan::ConnectionPlan;
use super::property::{Action, Property, PropertyValue, TransportProperties};
use super::{
    Connection, EstablishmentError, Framer, Listener, LocalEndpoint, MessageContext, PropertyError,
    RemoteEndpoint, SecurityParameters, establish, listener,
};
use crate::{Duplex, Racer};
use hawser_session::MtpStack;

/// The requirements on Connections. Clones may be changed independently. A Connection has the values that the
/// Preconnection had when the Connection was begun, and later changes do not affect it.
///
/// Preconnections that were cloned from one another share their knowledge of the network.
#[derive(Clone, Debug, Default)]
pub struct Preconnection {
    locals: Vec<LocalEndpoint>,
    remotes: Vec<RemoteEndpoint>,
    properties: TransportProperties,
    security: SecurityParameters,
    framers: Vec<Arc<dyn Framer>>,
    reports_sent: bool,
    racer: Arc<OnceCell<Racer>>,
    stacks: Vec<MtpStack>,
}

impl Preconnection {
    /// Makes a Preconnection without endpoints, with default properties.
    #[must_use]
    pub fn new(security: SecurityParameters) -> Preconnection {
        Preconnection { security, ..Preconnection::default() }
    }

    /// Replaces its security parameters.
    #[must_use]
    pub fn with_security(mut self, security: SecurityParameters) -> Preconnection {
        self.security = security;
        self
    }

    /// Adds a local endpoint.
    #[must_use]
    pub fn with_local(mut self, endpoint: impl Into<LocalEndpoint>) -> Preconnection {
        self.locals.push(endpoint.into());
        self
    }

    /// Adds a remote endpoint.
    #[must_use]
    pub fn with_remote(mut self, endpoint: impl Into<RemoteEndpoint>) -> Preconnection {
        self.remotes.push(endpoint.into());
        self
    }

    /// Replaces its properties.
    #[must_use]
    pub fn with_properties(mut self, properties: TransportProperties) -> Preconnection {
        self.properties = properties;
        self
    }

    /// Adds a framer, nearest to the messages.
    #[must_use]
    pub fn with_framer(mut self, framer: impl Framer + 'static) -> Preconnection {
        self.framers.push(Arc::new(framer));
        self
    }

    /// Also reports each Send that succeeds ([`super::ConnectionEvent::Sent`]), and not only those that fail.
    /// The events have to be taken: `send` waits while 1,024 of them are queued.
    #[must_use]
    pub fn with_sent_events(mut self) -> Preconnection {
        self.reports_sent = true;
        self
    }

    /// Uses the knowledge of this racer, instead of a racer of its own.
    #[must_use]
    pub fn with_racer(mut self, racer: Racer) -> Preconnection {
        self.racer = Arc::new(OnceCell::new_with(Some(racer)));
        self
    }

    /// Adds the transport that this stack runs, written in MTP, to the candidates.
    #[must_use]
    pub fn with_stack(mut self, stack: MtpStack) -> Preconnection {
        self.stacks.push(stack);
        self
    }

    /// AddRemote: adds a remote endpoint.
    pub fn add_remote(&mut self, endpoint: impl Into<RemoteEndpoint>) -> &mut Preconnection {
        self.remotes.push(endpoint.into());
        self
    }

    /// Adds a local endpoint.
    pub fn add_local(&mut self, endpoint: impl Into<LocalEndpoint>) -> &mut Preconnection {
        self.locals.push(endpoint.into());
        self
    }

    /// AddFramer: adds a framer, the first to see sent data.
    pub fn add_framer(&mut self, framer: impl Framer + 'static) -> &mut Preconnection {
        self.framers.push(Arc::new(framer));
        self
    }

    /// Returns its properties.
    #[must_use]
    pub fn properties(&self) -> &TransportProperties {
        &self.properties
    }

    /// Returns its properties, for changes.
    pub fn properties_mut(&mut self) -> &mut TransportProperties {
        &mut self.properties
    }

    /// Chooses a property's value.
    ///
    /// # Errors
    /// When the property has no such value, or is read-only.
    pub fn set_property(
        &mut self,
        property: Property,
        value: impl Into<PropertyValue>,
    ) -> Result<&mut Preconnection, PropertyError> {
        self.properties.set(property, value)?;
        Ok(self)
    }

    /// Resolve: returns the endpoints that a Connection would connect from and to, each with an address (RFC
    /// 9622, 7.3). Behind a NAT, only this host's own addresses are reported.
    ///
    /// # Errors
    /// When an endpoint has too few identifiers, or its name has no address.
    pub async fn resolve(&self) -> Result<(Vec<LocalEndpoint>, Vec<RemoteEndpoint>), EstablishmentError> {
        establish::resolve(&self.plan(Action::Initiate)).await
    }

    /// Initiate: begins a Connection to a remote endpoint. The call returns at once, and
    /// [`super::ConnectionEvent::Ready`] reports the establishment; messages may be sent before. It must be
    /// called within a tokio runtime with time and I/O.
    ///
    /// # Errors
    /// When the requirements contradict each other, or cannot be fulfilled here whatever the peer does.
    pub fn initiate(&self) -> Result<Connection, EstablishmentError> {
        self.begin(None, None)
    }

    /// Does the same as [`Preconnection::initiate`], with a time limit for establishment.
    ///
    /// # Errors
    /// As [`Preconnection::initiate`].
    pub fn initiate_within(&self, timeout: Duration) -> Result<Connection, EstablishmentError> {
        self.begin(Some(timeout), None)
    }

    /// InitiateWithSend: begins a Connection with its first message. If it is not established, there is no
    /// event for the message.
    ///
    /// # Errors
    /// As [`Preconnection::initiate`].
    pub fn initiate_with_send(
        &self,
        message: impl Into<Bytes>,
        context: &MessageContext,
        timeout: Option<Duration>,
    ) -> Result<Connection, EstablishmentError> {
        self.begin(timeout, Some((message.into(), context.clone())))
    }

    /// Begins a Connection over the stream that the future yields, such as one of a session
    /// ([`crate::transports::session_stream`]), in place of a race. Endpoints, and properties that select a
    /// transport, have no effect. The call returns at once, as [`Preconnection::initiate`] does.
    pub fn initiate_over(
        &self,
        stream: impl Future<Output = Result<Box<dyn Duplex>, EstablishmentError>> + Send + 'static,
        timeout: Option<Duration>,
    ) -> Connection {
        Connection::initiate(&self.plan(Action::Initiate), stream, timeout, None)
    }

    fn begin(
        &self,
        timeout: Option<Duration>,
        first: Option<(Bytes, MessageContext)>,
    ) -> Result<Connection, EstablishmentError> {
        let plan = self.plan(Action::Initiate);
        establish::check(&plan)?;
        let own = Arc::clone(&plan);
        let connect = async move { establish::connect(&own).await };
        Ok(Connection::initiate(&plan, connect, timeout, first))
    }

    /// Listen: accepts Connections that peers begin. The Listener is ready when this returns.
    ///
    /// # Errors
    /// When the requirements contradict each other, or an address cannot be listened on.
    pub async fn listen(&self) -> Result<Listener, EstablishmentError> {
        listener::open(self.plan(Action::Listen)).await
    }

    /// Returns a copy of its present values.
    pub(super) fn plan(&self, action: Action) -> Arc<ConnectionPlan> {
        let Preconnection {
            locals,
            remotes,
            properties,
            security,
            framers,
            reports_sent,
            racer,
            stacks,
        } = self.clone();
        // Cached knowledge of other Connections must not be used, nor new knowledge be left to them (8.1.10).
        let racer = if properties.is_true(Property::IsolateSession) {
            Arc::default()
        } else {
            racer
        };
        Arc::new(ConnectionPlan {
            action,
            locals,
            remotes,
            properties,
            security,
            framers,
            reports_sent,
            racer,
            stacks,
        })
    }
}
