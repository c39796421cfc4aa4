//! The transports over which a download can be requested, with a proxy for each.

use std::sync::Arc;

use hawser::connect::Policies;
use hawser::connect::policy::document::{self, Format};
use hawser::connect::policy::{Manager, PolicyStage, builtin};
use hawser::connect::transports::Transports;
use hawser::session::document::{Document, Format as DocumentFormat, StatePlace};
use hawser::session::relay::{Gateway, Token};
use hawser_proxy::Choice;
use parking_lot::Mutex;

use crate::exit::Exit;

/// The policy of the first setup, in addition to those shipped with Hawser.
const PROFILE: &str = include_str!("browser.profile.toml");

/// A choice of transports for a download, with a proxy of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DownloadSetup {
    pub(super) id: &'static str,
    pub(super) name: &'static str,
    /// The carriers of the session, one for each path; `None` if a policy chooses transports.
    carriers: Option<[&'static str; 2]>,
    /// The port of its proxy on the client.
    pub(super) port: u16,
}

/// All setups, in the order of their proxies' ports.
pub(super) const SETUPS: [DownloadSetup; 4] = [
    DownloadSetup {
        id: "policy",
        name: "SCTP or TCP, by policy",
        carriers: None,
        port: 1080,
    },
    DownloadSetup {
        id: "tcp-tcp",
        name: "session, TCP + TCP",
        carriers: Some(["tcp", "tcp"]),
        port: 1081,
    },
    DownloadSetup {
        id: "tcp-quic",
        name: "session, TCP + QUIC",
        carriers: Some(["tcp", "quic"]),
        port: 1082,
    },
    DownloadSetup {
        id: "quic-quic",
        name: "session, QUIC + QUIC",
        carriers: Some(["quic", "quic"]),
        port: 1083,
    },
];

/// The interfaces of the client, one for each path.
const INTERFACES: [&str; 2] = ["wlan0", "wwan0"];

/// The address of the gateway, its certificate, and the token for it.
pub(super) struct GatewayAccess {
    /// `ADDRESS:PORT`.
    pub(super) address: String,
    /// The SHA-256 of the certificate.
    pub(super) pin: String,
    pub(super) token: Token,
}

impl DownloadSetup {
    /// Returns the index of the setup with this id.
    pub(super) fn numbered(id: &str) -> Option<usize> {
        SETUPS.iter().position(|setup| setup.id == id)
    }

    /// The index in [`SETUPS`].
    pub(super) fn number(&self) -> usize {
        usize::from(self.port - SETUPS[0].port)
    }

    /// Returns the transports that the proxy races.
    pub(super) fn choice(&self, access: &GatewayAccess) -> Result<Choice, Exit> {
        let Some(carriers) = self.carriers else {
            return by_policy();
        };
        let mut text = format!(
            "remote_host = \"{}\"\n[ssl_config]\npin = \"{}\"\n",
            access.address, access.pin
        );
        for (transport, interface) in carriers.iter().zip(INTERFACES) {
            text += &format!(
                "[[connection_priority]]\ntransport = \"{transport}\"\ninterfaces = \"{interface}\"\n"
            );
        }
        let mut document = Document::parse(&text, DocumentFormat::Toml)
            .map_err(|errors| Exit::failed(format!("the session of {}: {errors:?}", self.id)))?;
        document.state = StatePlace::Nowhere;
        let transports = Transports::new().with_gateway(Gateway::new(document, access.token.clone()));
        let transport = transports.parse("gateway", 0).map_err(Exit::failed)?;
        Ok(Choice::Always([transport].into()))
    }
}

/// Chooses by the policies shipped with Hawser and by `PROFILE`.
fn by_policy() -> Result<Choice, Exit> {
    let mut manager = Manager::new(Policies::options());
    let mut pib = builtin::pib(manager.names_mut()).map_err(Exit::failed)?;
    let profile = document::policies(
        PROFILE,
        Format::Toml,
        "browser",
        Some(PolicyStage::Profile),
        manager.names_mut(),
    );
    let profile =
        profile.map_err(|diagnostics| Exit::failed(format!("browser.profile.toml: {diagnostics:?}")))?;
    for policy in profile.value {
        pib.insert(policy).map_err(Exit::failed)?;
    }
    let names = manager.names().clone();
    manager
        .replace(names, pib, Vec::new(), 0.0)
        .map_err(Exit::failed)?;
    let manager = Arc::new(Mutex::new(manager));
    Policies::new(manager, "reliable", Transports::new())
        .map(Choice::ByPolicy)
        .map_err(Exit::failed)
}
