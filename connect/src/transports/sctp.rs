//! SCTP in UDP with concurrent multipath transfer: one association over all paths.

use std::net::SocketAddr;
use std::sync::Arc;

use hawser_carriers::sctp::{SctpOptions, SctpStack};

use crate::{AttemptError, Candidate, Features, Transport};
use hawser_race::resolve::ServiceRecord;
use hawser_session::PlainStream;

/// SCTP (RFC 9260) in UDP (RFC 6951). The peer sends its further addresses in the handshake, so that an
/// association to one of them runs over all. The routes determine the interfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sctp {
    /// Its class: 0 is the best.
    pub priority: u16,
    /// The options of associations.
    pub options: SctpOptions,
}

impl Transport for Sctp {
    fn to_address(&self, address: SocketAddr, service: Option<&ServiceRecord>) -> Vec<Candidate> {
        // The protocols that a record lists are over TCP or QUIC (RFC 9460, 7.1).
        if service.is_some_and(|service| service.no_default_alpn) {
            return Vec::new();
        }
        let connect =
            |transport: Arc<Sctp>, address| async move { connect(address, &transport.options).await };
        let candidate = Candidate::to_address(self, address, "sctp", None, connect);
        vec![Candidate { priority: self.priority, ..candidate }]
    }

    fn features(&self) -> Features {
        Features { multipath: true, ..Features::STREAM }
    }
}

async fn connect(address: SocketAddr, options: &SctpOptions) -> Result<PlainStream, AttemptError> {
    let attempt = async {
        let carrier = SctpStack::shared()
            .await?
            .connect(&[address], &[], options)
            .await?;
        Ok::<_, hawser_carriers::sctp::SctpError>(PlainStream::new(Box::new(carrier)))
    };
    attempt
        .await
        .map_err(|error| AttemptError::from(std::io::Error::from(error)))
}
