//! Security parameters (RFC 9622, 6.3).
//!
//! By default a peer must prove who it is, under TLS 1.3, to whoever the system trusts. Less is to be
//! asked for by name.

use std::fmt;
use std::sync::Arc;

use hawser_race::Security;
use hawser_session_driver::{Identity, Trust};

/// How peers prove who they are, and how one proves it to them.
#[derive(Clone)]
pub struct SecurityParameters {
    pub(super) mode: Mode,
    pub(super) trust: Trust,
    pub(super) identity: Option<Arc<Identity>>,
    pub(super) alpn: Vec<String>,
    pub(super) server_name: Option<String>,
}

/// How much protection there must be.
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
    /// TLS 1.3 with peers that the system's certificates vouch for.
    #[must_use]
    pub fn new() -> SecurityParameters {
        SecurityParameters::default()
    }

    /// No protection at all (NewDisabledSecurityParameters).
    #[must_use]
    pub fn disabled() -> SecurityParameters {
        SecurityParameters { mode: Mode::Disabled, ..SecurityParameters::default() }
    }

    /// Unauthenticated protection where the peer has it, else none
    /// (NewOpportunisticSecurityParameters). No defence against whoever sits on the path.
    #[must_use]
    pub fn opportunistic() -> SecurityParameters {
        SecurityParameters {
            mode: Mode::Opportunistic,
            trust: Trust::Anyone,
            ..SecurityParameters::default()
        }
    }

    /// Whom to trust.
    #[must_use]
    pub fn with_trust(mut self, trust: Trust) -> SecurityParameters {
        self.trust = trust;
        self
    }

    /// The one certificate that the peer must have, by its SHA-256 (pinnedServerCertificate).
    #[must_use]
    pub fn with_pinned_server_certificate(self, sha256: [u8; 32]) -> SecurityParameters {
        self.with_trust(Trust::Pin(sha256))
    }

    /// One's own certificate, for listening (serverCertificate).
    #[must_use]
    pub fn with_server_certificate(mut self, identity: Identity) -> SecurityParameters {
        self.identity = Some(Arc::new(identity));
        self
    }

    /// The application protocols to agree on, best first (alpn, RFC 7301). Transports that cannot do
    /// without one are no candidates where there is none.
    #[must_use]
    pub fn with_alpn<'a>(mut self, protocols: impl IntoIterator<Item = &'a str>) -> SecurityParameters {
        self.alpn = protocols.into_iter().map(str::to_owned).collect();
        self
    }

    /// The name that the peer's certificate must have, where that is not its host name.
    #[must_use]
    pub fn with_server_name(mut self, name: &str) -> SecurityParameters {
        self.server_name = Some(name.to_owned());
        self
    }

    /// The protection that each candidate has at least.
    pub(super) fn min_security(&self) -> Security {
        match self.mode {
            Mode::Required if self.trust == Trust::Anyone => Security::Encrypted,
            Mode::Required => Security::Authenticated,
            Mode::Opportunistic => Security::Encrypted,
            Mode::Disabled => Security::None,
        }
    }
}
