//! The transports that have selection properties (RFC 9622, 6.2): which transports there are is known here, and to
//! nobody above.

use std::sync::Arc;

use super::{ConfigError, Mtp, Quic, Sctp, Session, Tcp, Tls};
use hawser_carrier_mtp::MtpStack;

use crate::Transport;
use hawser_session_driver::Trust;

/// What candidates for one connection have to be.
#[derive(Clone, Debug)]
pub struct Selection {
    /// The name that the peer's certificate must have.
    pub name: String,
    /// Whom to trust; none: no protection at all.
    pub trust: Option<Trust>,
    /// Application protocols to agree on (RFC 7301), best first.
    pub protocols: Vec<String>,
    /// Whether transports that use several paths are of use.
    pub is_multipath: bool,
    /// Whether transports without several streams are of no use.
    pub is_multistreamed: bool,
    /// How several paths are used: `Handover`, `Interactive`, `Aggregate` (RFC 9622, 8.1.7).
    pub policy: &'static str,
    /// The interface to leave by; none where the system chooses.
    pub interface: Option<String>,
    /// Interfaces that several paths may leave by; with none the system chooses one.
    pub interfaces: Vec<String>,
    /// Stacks whose transports are of use as well.
    pub stacks: Vec<MtpStack>,
}

/// The transports that have these properties, those first that should win ties. What each has besides is in its
/// [`Transport::features`].
///
/// A session asks a peer that does not speak its protocol in vain, so that it is there only where it has
/// something to give: several paths, or several streams.
///
/// # Errors
/// The certificates of those to be trusted cannot be read; the name is none.
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
