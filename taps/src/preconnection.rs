//! Preconnections: what is wanted, before anything is done (RFC 9622, 6).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::OnceCell;

use super::plan::Plan;
use super::property::{Action, Property, TransportProperties, Value};
use super::{
    Connection, EstablishmentError, Framer, Listener, LocalEndpoint, MessageContext, PropertyError,
    RemoteEndpoint, SecurityParameters, establish, listener,
};
use hawser_connect::Racer;
use hawser_session_driver::MtpStack;

/// What is wanted of Connections. Clones may be changed apart; every Connection has what the
/// Preconnection was when it was begun, and no later change reaches it.
///
/// Preconnections that were cloned from one another share what was learnt of the network.
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
    /// One without endpoints, with default properties.
    #[must_use]
    pub fn new(security: SecurityParameters) -> Preconnection {
        Preconnection { security, ..Preconnection::default() }
    }

    /// With another local endpoint.
    #[must_use]
    pub fn with_local(mut self, endpoint: impl Into<LocalEndpoint>) -> Preconnection {
        self.locals.push(endpoint.into());
        self
    }

    /// With another remote endpoint.
    #[must_use]
    pub fn with_remote(mut self, endpoint: impl Into<RemoteEndpoint>) -> Preconnection {
        self.remotes.push(endpoint.into());
        self
    }

    /// With these properties instead of those that it had.
    #[must_use]
    pub fn with_properties(mut self, properties: TransportProperties) -> Preconnection {
        self.properties = properties;
        self
    }

    /// With another framer, nearest to the messages.
    #[must_use]
    pub fn with_framer(mut self, framer: impl Framer + 'static) -> Preconnection {
        self.framers.push(Arc::new(framer));
        self
    }

    /// With an event for each Send that succeeds ([`super::Event::Sent`]), and not only for those that do
    /// not. The events have to be taken: `send` waits while 1,024 of them have not been.
    #[must_use]
    pub fn with_sent_events(mut self) -> Preconnection {
        self.reports_sent = true;
        self
    }

    /// With what this racer knows, instead of one of its own.
    #[must_use]
    pub fn with_racer(mut self, racer: Racer) -> Preconnection {
        self.racer = Arc::new(OnceCell::new_with(Some(racer)));
        self
    }

    /// With the transport that this stack runs among the candidates: one that is written in MTP.
    #[must_use]
    pub fn with_stack(mut self, stack: MtpStack) -> Preconnection {
        self.stacks.push(stack);
        self
    }

    /// AddRemote: another remote endpoint.
    pub fn add_remote(&mut self, endpoint: impl Into<RemoteEndpoint>) -> &mut Preconnection {
        self.remotes.push(endpoint.into());
        self
    }

    /// Another local endpoint.
    pub fn add_local(&mut self, endpoint: impl Into<LocalEndpoint>) -> &mut Preconnection {
        self.locals.push(endpoint.into());
        self
    }

    /// AddFramer: another framer, the first to see what is sent.
    pub fn add_framer(&mut self, framer: impl Framer + 'static) -> &mut Preconnection {
        self.framers.push(Arc::new(framer));
        self
    }

    /// Its properties.
    #[must_use]
    pub fn properties(&self) -> &TransportProperties {
        &self.properties
    }

    /// Its properties, to be changed.
    pub fn properties_mut(&mut self) -> &mut TransportProperties {
        &mut self.properties
    }

    /// Chooses a property's value.
    ///
    /// # Errors
    /// The property has no such value, or is read-only.
    pub fn set_property(
        &mut self,
        property: Property,
        value: impl Into<Value>,
    ) -> Result<&mut Preconnection, PropertyError> {
        self.properties.set(property, value)?;
        Ok(self)
    }

    /// Resolve: the endpoints that a Connection would connect from and to, each with an address (RFC
    /// 9622, 7.3). Behind translators only what this host itself knows is reported.
    ///
    /// # Errors
    /// An endpoint states too little, or its name has no address.
    pub async fn resolve(&self) -> Result<(Vec<LocalEndpoint>, Vec<RemoteEndpoint>), EstablishmentError> {
        establish::resolve(&self.plan(Action::Initiate)).await
    }

    /// Initiate: a Connection to a remote endpoint. It is returned at once, and reports
    /// [`super::Event::Ready`] when it is there; messages may be sent before. Call it within a runtime of
    /// tokio with time and I/O.
    ///
    /// # Errors
    /// What is wanted contradicts itself, or cannot be had here whatever the peer does.
    pub fn initiate(&self) -> Result<Connection, EstablishmentError> {
        self.begin(None, None)
    }

    /// The same, given up after `timeout`.
    ///
    /// # Errors
    /// As [`Preconnection::initiate`].
    pub fn initiate_within(&self, timeout: Duration) -> Result<Connection, EstablishmentError> {
        self.begin(Some(timeout), None)
    }

    /// InitiateWithSend: a Connection with its first message. If it is not established, there is no
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

    fn begin(
        &self,
        timeout: Option<Duration>,
        first: Option<(Bytes, MessageContext)>,
    ) -> Result<Connection, EstablishmentError> {
        let plan = self.plan(Action::Initiate);
        establish::check(&plan)?;
        Ok(Connection::initiate(&plan, timeout, first))
    }

    /// Listen: Connections that peers begin. The Listener is there when this returns.
    ///
    /// # Errors
    /// What is wanted contradicts itself, or an address cannot be listened on.
    pub async fn listen(&self) -> Result<Listener, EstablishmentError> {
        listener::open(self.plan(Action::Listen)).await
    }

    /// What it is now.
    pub(super) fn plan(&self, action: Action) -> Arc<Plan> {
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
        // Nothing that was learnt by others is to be used, nor to be left to them (8.1.10).
        let racer = if properties.is_true(Property::IsolateSession) {
            Arc::default()
        } else {
            racer
        };
        Arc::new(Plan {
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
