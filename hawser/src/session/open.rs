//! From a document to a session: names, interfaces, certificates, the path manager.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use hawser_session::scheduler::by_name;

use super::client::{ClientConfig, connect};
use super::document::{Document, Interface, Machine, Plan, Warning};
use super::handle::Session;
use super::network::{Network, speaks_mptcp};
use super::trust::Trust;

/// Begins the session that the document asks for. It is usable at once; what this machine cannot
/// honour is told.
///
/// # Errors
/// The server's name has no address, no way to it is left, or its certificates cannot be read.
pub async fn open(document: &Document) -> io::Result<(Session, Vec<Warning>)> {
    let network = Network::open().await?;
    let Plan { ways, warnings } = plan(document, network.interfaces()).await?;
    let tls = match document.is_secure() {
        true => Some((trust(document).client(&document.fallback)?, name(document))),
        false => None,
    };
    let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidInput, what);
    let scheduler = by_name(&document.scheduler)
        .ok_or_else(|| invalid(format!("no scheduler {:?}", document.scheduler)))?;
    let session = connect(ClientConfig {
        session: document.session.clone(),
        name: document.session_id,
        scheduler,
        ways,
        tls,
    })?;
    tokio::spawn(super::manager::watch(Arc::downgrade(&session.shared), network));
    Ok((session, warnings))
}

async fn plan(document: &Document, interfaces: Vec<Interface>) -> io::Result<Plan> {
    let mut addresses = BTreeMap::new();
    for name in document.names() {
        let found = tokio::net::lookup_host((name.as_str(), document.port)).await;
        let found = found.map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))?;
        let mut found: Vec<_> = found.map(|address| address.ip()).collect();
        found.dedup();
        addresses.insert(name, found);
    }
    let machine = Machine { interfaces, mptcp: speaks_mptcp(), addresses };
    document.plan(&machine).map_err(|error| io::Error::new(io::ErrorKind::NotFound, error))
}

fn trust(document: &Document) -> Trust {
    match (&document.tls.pin, &document.tls.certificate) {
        (Some(pin), _) => Trust::Pin(*pin),
        (None, Some(path)) => Trust::File(path.clone()),
        (None, None) => Trust::System,
    }
}

fn name(document: &Document) -> String {
    document.tls.name.clone().unwrap_or_else(|| document.host.clone())
}
