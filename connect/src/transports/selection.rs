//! Selects transports by selection properties (RFC 9622, 6.2), so that callers need not name transports.

use std::sync::Arc;

use super::{ConfigError, Mtp, Quic, Sctp, Session, Tcp, Tls};
use hawser_carriers::mtp::MtpStack;

use crate::Transport;
use hawser_session::Trust;

/// The requirements on candidates for one connection.
#[derive(Clone, Debug)]
pub struct Selection {
    /// The name that the peer's certificate must have.
    pub name: String,
    /// The trust for peers' certificates; `None`: no protection at all.
    pub trust: Option<Trust>,
    /// The application protocols to negotiate (RFC 7301), best first.
    pub protocols: Vec<String>,
    /// True if transports that use several paths are useful.
    pub is_multipath: bool,
    /// True if transports without several streams are excluded.
    pub is_multistreamed: bool,
    /// The use of several paths: `Handover`, `Interactive`, `Aggregate` (RFC 9622, 8.1.7).
    pub policy: &'static str,
    /// The local interface; `None` if the system chooses.
    pub interface: Option<String>,
    /// The interfaces that several paths may use; if empty, the system chooses one.
    pub interfaces: Vec<String>,
    /// Stacks whose transports are also offered.
    pub stacks: Vec<MtpStack>,
}

/// Returns the transports with these properties, those that should win ties first. Each transport's other
/// properties are in its [`Transport::features`].
///
/// A session fails with a peer that does not speak its protocol. It is therefore included only if it offers
/// an advantage: several paths, or several streams.
///
/// # Errors
/// When the certificates to be trusted cannot be read, or the name is not valid.
pub fn transports_for(selection: &Selection) -> Result<Vec<Arc<dyn Transport>>, ConfigError> {
    let Selection { interface, name, protocols, .. } = selection;
    let by = || interface.clone();
    let is_meant = |stack: &&MtpStack| interface.as_deref().is_none_or(|name| name == stack.interface());
    let stacks = || {
        selection
            .stacks
            .iter()
            .filter(is_meant)
            .map(|stack| Mtp::new(stack.clone(), 0))
    };
    let Some(trust) = &selection.trust else {
        let tcp = |is_multipath| Tcp { is_multipath, interface: by(), ..Tcp::default() };
        let mut transports: Vec<Arc<dyn Transport>> = vec![Arc::new(tcp(false)), Arc::new(tcp(true))];
        if selection.is_multipath && interface.is_none() {
            transports.push(Arc::new(Sctp::default()));
        }
        transports.extend(stacks().map(|transport| Arc::new(transport) as Arc<dyn Transport>));
        return Ok(transports);
    };
    let mut transports: Vec<Arc<dyn Transport>> = Vec::new();
    if selection.is_multipath || selection.is_multistreamed {
        let session = Session::new(trust, name)?.by(by()).beside(&selection.stacks);
        if selection.is_multipath {
            let own = by().map(|one| vec![one]);
            let interfaces = own.as_ref().unwrap_or(&selection.interfaces);
            transports.push(Arc::new(
                session.clone().over(interfaces, selection.policy == "Handover"),
            ));
        }
        transports.push(Arc::new(session));
    }
    if !protocols.is_empty() {
        transports.push(Arc::new(Quic::new(trust, name, protocols)?.by(by())));
    }
    let tls = Tls::new(trust, name, protocols)?.by(by());
    transports.push(Arc::new(tls.clone()));
    transports.push(Arc::new(tls.over_several_paths()));
    for transport in stacks() {
        transports.push(Arc::new(transport.with_tls(trust, name, protocols)?));
    }
    Ok(transports)
}
