//! Clone: another Connection of the same group (RFC 9622, 7.4).

use std::sync::Arc;

use super::group::MAX_MEMBERS;
use super::{Connection, ConnectionState, establish};
use crate::taps::property::Action;
use crate::taps::{CloneError, EstablishmentError};
use crate::{Duplex, SharedStreams};

impl Connection {
    /// Makes another Connection of the same group. It is a further stream of the same transport connection if
    /// that has several streams. Otherwise it is a separate transport connection, established in the same way
    /// as this one. The new Connection reports [`super::ConnectionEvent::Ready`] when it is established.
    ///
    /// # Errors
    /// When this Connection is not established, when the group is full, or when there is no return path to
    /// the peer.
    pub fn clone_connection(&self) -> Result<Connection, CloneError> {
        let core = &self.sender.core;
        if core.lock().phase != ConnectionState::Established {
            return Err(CloneError::NotEstablished);
        }
        let group = Arc::clone(&core.group);
        if group.members().len() >= MAX_MEMBERS {
            return Err(CloneError::Limit(MAX_MEMBERS));
        }
        let streams = group.streams();
        if streams.is_none() && group.plan.action != Action::Initiate {
            return Err(CloneError::NoReturnPath);
        }
        let priority = core.lock().priority;
        let clone = Connection::member(&group);
        clone.sender.core.lock().priority = priority;
        let plan = Arc::clone(&group.plan);
        let connect = async move {
            match streams {
                Some(streams) => another(streams).await,
                None => crate::taps::establish::connect(&plan).await,
            }
        };
        tokio::spawn(establish(Arc::clone(&clone.sender.core), connect, None, false));
        Ok(clone)
    }
}

async fn another(streams: SharedStreams) -> Result<Box<dyn Duplex>, EstablishmentError> {
    streams
        .open()
        .await
        .map_err(|error| EstablishmentError::System(error.to_string()))
}
