//! The path manager, which notifies a session of changes to the interfaces below its carriers.
//!
//! When a link goes down, its carriers are taken out of use at once. When a link comes up or gets an address,
//! every resting path is tried at once. No other carrier is closed before its successor is available.

use std::net::IpAddr;
use std::sync::Weak;

use hawser_session_machine::CarrierId;
use tracing::debug;

use super::network::{InterfaceChange, Network};
use super::shared::{EndWatcher, Shared};

/// Runs until the session has ended. Then its socket is closed and the task ends.
pub(super) async fn watch(session: Weak<Shared>, mut end: EndWatcher, mut network: Network) {
    loop {
        let change = tokio::select! {
            () = end.come() => return,
            change = network.next() => change,
        };
        let (Some(change), Some(session)) = (change, session.upgrade()) else {
            return;
        };
        debug!(?change, "the network changed");
        match change {
            InterfaceChange::Up(name) => {
                set(&session, &network, |interface, _| interface == name, true);
                session.network_changed();
            }
            InterfaceChange::Down(name) => set(&session, &network, |interface, _| interface == name, false),
            InterfaceChange::AddressAdded(name, address) => {
                set(
                    &session,
                    &network,
                    |interface, local| interface == name && local == address,
                    true,
                );
                session.network_changed();
            }
            InterfaceChange::AddressRemoved(_, address) => {
                set(&session, &network, |_, local| local == address, false)
            }
        }
    }
}

/// Notifies the session of every carrier that `is_meant` selects by its interface and address.
fn set(session: &Shared, network: &Network, is_meant: impl Fn(&str, IpAddr) -> bool, is_up: bool) {
    let meant = |id: CarrierId, bound: Option<&str>, local: IpAddr| {
        let interface = bound.or_else(|| network.holder(local)).unwrap_or_default();
        is_meant(interface, local).then_some(id)
    };
    let carriers: Vec<CarrierId> = session
        .lock()
        .paths()
        .iter()
        .filter(|(_, path)| path.report.is_some())
        .filter_map(|(id, path)| {
            let description = &path.description;
            meant(*id, description.interface.as_deref(), description.local.ip())
        })
        .collect();
    carriers
        .into_iter()
        .for_each(|carrier| session.link(carrier, is_up));
}
