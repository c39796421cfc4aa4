//! The credential of the proxy's users.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// A user and a password. Only their digest is kept.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    digest: [u8; 32],
}

/// A text that is not a valid credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadCredential {
    /// The text has no colon.
    #[error("the first line must be USER:PASSWORD")]
    NoColon,
    /// The user or the password is empty, or longer than SOCKS5 can carry (RFC 1929, 2).
    #[error("the user and the password must have 1 to 255 bytes each")]
    Length,
}

impl Credential {
    /// Parses the first line of a text as `USER:PASSWORD`. The user cannot contain a colon (RFC 7617, 2).
    ///
    /// # Errors
    /// Fails if the line does not have this form.
    pub fn parse(text: &str) -> Result<Credential, BadCredential> {
        let line = text.lines().next().unwrap_or_default();
        let (user, password) = line.split_once(':').ok_or(BadCredential::NoColon)?;
        let is_good = |part: &str| (1..=255).contains(&part.len());
        if !is_good(user) || !is_good(password) {
            return Err(BadCredential::Length);
        }
        Ok(Credential { digest: digest(user.as_bytes(), password.as_bytes()) })
    }

    /// Returns whether the given credential is correct, in constant time.
    pub(crate) fn admits(&self, user: &[u8], password: &[u8]) -> bool {
        let given = digest(user, password);
        let differing = self
            .digest
            .iter()
            .zip(given)
            .fold(0, |all, (own, given)| all | (own ^ given));
        differing == 0
    }

    /// Returns whether the value of a `Proxy-Authorization` field has the correct credential (RFC 7617).
    pub(crate) fn admits_header(&self, value: &[u8]) -> bool {
        let Some((scheme, rest)) = std::str::from_utf8(value)
            .ok()
            .and_then(|text| text.split_once(' '))
        else {
            return false;
        };
        let Ok(decoded) = STANDARD.decode(rest.trim()) else {
            return false;
        };
        let colon = decoded.iter().position(|byte| *byte == b':');
        scheme.eq_ignore_ascii_case("basic")
            && colon.is_some_and(|colon| self.admits(&decoded[..colon], &decoded[colon + 1..]))
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(..)")
    }
}

fn digest(user: &[u8], password: &[u8]) -> [u8; 32] {
    // The length distinguishes `a` and `bc` from `ab` and `c`.
    let length = (user.len() as u64).to_be_bytes();
    Sha256::new()
        .chain_update(length)
        .chain_update(user)
        .chain_update(password)
        .finalize()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7617, 2.
    #[test]
    fn basic_credentials_match_the_example_of_rfc_7617() {
        let one = Credential::parse("Aladdin:open sesame\nmore").expect("a credential");
        assert!(one.admits_header(b"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="));
        assert!(one.admits_header(b"basic  QWxhZGRpbjpvcGVuIHNlc2FtZQ=="));
        for other in [
            &b"Basic QWxhZGRpbjpvcGVuIHNlc2FtZg=="[..],
            b"Bearer QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
            b"Basic",
            b"Basic \xff",
            b"Basic QWxhZGRpbg==",
            b"",
        ] {
            assert!(!one.admits_header(other), "{other:?}");
        }
        assert!(one.admits(b"Aladdin", b"open sesame") && !one.admits(b"Aladdi", b"nopen sesame"));
    }

    #[test]
    fn malformed_credentials_are_rejected() {
        assert_eq!(Credential::parse("user"), Err(BadCredential::NoColon));
        assert_eq!(Credential::parse("user:"), Err(BadCredential::Length));
        assert_eq!(
            Credential::parse(&format!("{}:x", "u".repeat(256))),
            Err(BadCredential::Length)
        );
        assert!(
            Credential::parse("user:pass:word")
                .expect("one")
                .admits(b"user", b"pass:word")
        );
    }
}
