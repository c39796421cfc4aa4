//! Security parameters (RFC 9622, 6.3).
//!
//! By default a peer must authenticate itself under TLS 1.3, by the system's trust store. Less protection
//! must be requested explicitly.

use std::fmt;
use std::sync::Arc;

use hawser_race::Security;
use hawser_session::{Identity, Trust};

/// The authentication of peers, and of this side to them.
#[derive(Clone)]
pub struct SecurityParameters {
    pub(super) mode: Mode,
    pub(super) trust: Trust,
    pub(super) identity: Option<Arc<Identity>>,
    pub(super) alpn: Vec<String>,
    pub(super) server_name: Option<String>,
}

/// The required protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Required,
    Opportunistic,
    Disabled,
}

impl Default for SecurityParameters {
    fn default() -> SecurityParameters {
        SecurityParameters {
            mode: Mode::Required,
            trust: Trust::System,
            identity: None,
            alpn: Vec::new(),
            server_name: None,
        }
    }
}

impl fmt::Debug for SecurityParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecurityParameters")
            .field("mode", &self.mode)
            .field("trust", &self.trust)
            .field("alpn", &self.alpn)
            .finish_non_exhaustive()
    }
}

impl SecurityParameters {
    /// Requires TLS 1.3 with peers whose certificates the system trusts.
    #[must_use]
    pub fn new() -> SecurityParameters {
        SecurityParameters::default()
    }

    /// Disables protection (NewDisabledSecurityParameters).
    #[must_use]
    pub fn disabled() -> SecurityParameters {
        SecurityParameters { mode: Mode::Disabled, ..SecurityParameters::default() }
    }

    /// Requests unauthenticated protection if the peer supports it, and otherwise none
    /// (NewOpportunisticSecurityParameters). It does not protect against an attacker on the path.
    #[must_use]
    pub fn opportunistic() -> SecurityParameters {
        SecurityParameters {
            mode: Mode::Opportunistic,
            trust: Trust::Anyone,
            ..SecurityParameters::default()
        }
    }

    /// Sets the trust for peers' certificates.
    #[must_use]
    pub fn with_trust(mut self, trust: Trust) -> SecurityParameters {
        self.trust = trust;
        self
    }

    /// Sets the one certificate that the peer must have, by its SHA-256 (pinnedServerCertificate).
    #[must_use]
    pub fn with_pinned_server_certificate(self, sha256: [u8; 32]) -> SecurityParameters {
        self.with_trust(Trust::Pin(sha256))
    }

    /// Sets the local certificate, for listening (serverCertificate).
    #[must_use]
    pub fn with_server_certificate(mut self, identity: Identity) -> SecurityParameters {
        self.identity = Some(Arc::new(identity));
        self
    }

    /// Sets the application protocols to negotiate, best first (alpn, RFC 7301). If there is none, transports
    /// that need one are not candidates.
    #[must_use]
    pub fn with_alpn<'a>(mut self, protocols: impl IntoIterator<Item = &'a str>) -> SecurityParameters {
        self.alpn = protocols.into_iter().map(str::to_owned).collect();
        self
    }

    /// Sets the name that the peer's certificate must have, if that differs from its host name.
    #[must_use]
    pub fn with_server_name(mut self, name: &str) -> SecurityParameters {
        self.server_name = Some(name.to_owned());
        self
    }

    /// Returns the minimum protection of each candidate.
    pub(super) fn min_security(&self) -> Security {
        match self.mode {
            Mode::Required if self.trust == Trust::Anyone => Security::Encrypted,
            Mode::Required => Security::Authenticated,
            Mode::Opportunistic => Security::Encrypted,
            Mode::Disabled => Security::None,
        }
    }
}
