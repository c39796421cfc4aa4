//! Proofs that a carrier belongs to a session. The formulas are those of `docs/session-protocol.md`, "JOIN
//! and JOINED".

use hkdf::Hkdf;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::segment::SessionId;

/// Bytes that a carrier's TLS 1.3 exports under the label `EXPORTER-hawser-session`.
pub type Exporter = [u8; 32];

/// The secret that only both sides of a session know.
#[derive(Clone)]
pub(crate) struct Secret([u8; 32]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// Derives the secret from the first carrier's exporter and the bytes of HELLO and ACCEPT.
    pub(crate) fn secured(exporter: &Exporter, hello: &[u8], accept: &[u8]) -> Self {
        let salt = Sha256::new().chain_update(hello).chain_update(accept).finalize();
        let mut secret = [0; 32];
        Hkdf::<Sha256>::new(Some(&salt), exporter)
            .expand(b"hawser session 1", &mut secret)
            .expect("32 bytes are within HKDF's limit");
        Self(secret)
    }

    /// Returns the secret of an insecure session.
    pub(crate) fn insecure(session: SessionId) -> Self {
        Self(
            Sha256::new()
                .chain_update(b"hawser insecure 1")
                .chain_update(session.0)
                .finalize()
                .into(),
        )
    }

    /// Returns the client's proof. `binding` is the exporter of the joining carrier, or the server's
    /// challenge.
    pub(crate) fn join(&self, binding: &[u8], session: SessionId, backup: bool, number: u32) -> [u8; 32] {
        self.mac(b"join", binding, session, backup, number)
    }

    /// Returns the server's proof.
    pub(crate) fn joined(&self, binding: &[u8], session: SessionId, backup: bool, number: u32) -> [u8; 24] {
        let whole = self.mac(b"joined", binding, session, backup, number);
        let mut short = [0; 24];
        short.copy_from_slice(&whole[..24]);
        short
    }

    /// Derives key material for a protocol above the session, as RFC 8446, 7.5 defines it for a connection.
    pub(crate) fn export(&self, label: &[u8]) -> Exporter {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(b"export");
        mac.update(label);
        mac.finalize().into_bytes().into()
    }

    fn mac(&self, label: &[u8], binding: &[u8], session: SessionId, backup: bool, number: u32) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(label);
        mac.update(binding);
        mac.update(&session.0);
        mac.update(&u32::from(backup).to_be_bytes());
        mac.update(&number.to_be_bytes());
        mac.finalize().into_bytes().into()
    }
}

/// Returns true if two proofs are equal. The time does not depend on the position of a difference.
pub(crate) fn same(left: &[u8], right: &[u8]) -> bool {
    left.ct_eq(right).into()
}
