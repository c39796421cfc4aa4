//! The clients of a gateway: a file with a line for each client, with its name and its token's SHA-256.
//!
//! Invariants: names are unique, and so are tokens. Looking up a client takes the same time whether or not
//! its token is known.

use std::fmt;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use subtle::{ConditionallySelectable, ConstantTimeEq};

use hawser::session::relay::{BadDigest, Token, TokenDigest};

/// The maximum number of clients in a file, and the maximum length of a name in bytes.
const MAX_CLIENTS: usize = 10_000;
const MAX_NAME_LENGTH: usize = 64;

/// The clients that may use a gateway.
#[derive(Clone, Debug, Default)]
pub struct Clients {
    all: Vec<(Arc<str>, TokenDigest)>,
}

/// A file of clients has an invalid line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct ClientsError {
    /// The line, counted from 1.
    pub line: usize,
    /// The reason as text.
    pub why: String,
}

/// A file of clients cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ClientsFileError {
    /// The system could not read it.
    #[error("{path}: {error}", path = .0.display(), error = .1)]
    System(PathBuf, #[source] io::Error),
    /// Users other than the owner may write it. The value is its mode.
    #[error("{path}: other users can add clients (mode {mode:03o}); run chmod go-w on it", path = .0.display(), mode = .1)]
    Writable(PathBuf, u32),
    /// Its text is invalid.
    #[error("{path}: {error}", path = .0.display(), error = .1)]
    Malformed(PathBuf, #[source] ClientsError),
}

impl Clients {
    /// Parses the text of a file: `NAME SHA256` on each line. Empty lines, and lines that begin with `#`, are
    /// skipped.
    ///
    /// # Errors
    /// Fails at the first invalid line.
    pub fn parse(text: &str) -> Result<Clients, ClientsError> {
        let mut all: Vec<(Arc<str>, TokenDigest)> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let bad = |why: &str| ClientsError { line: number + 1, why: why.to_owned() };
            let mut words = line.split_ascii_whitespace();
            let (Some(name), Some(digest), None) = (words.next(), words.next(), words.next()) else {
                return Err(bad(
                    "a client is a name and the SHA-256 of its token; `hawser gateway token` \
                                makes both",
                ));
            };
            let digest: TokenDigest = digest.parse().map_err(|why: BadDigest| bad(&why.to_string()))?;
            if name.len() > MAX_NAME_LENGTH {
                return Err(bad("a client's name has at most 64 bytes"));
            }
            if all.iter().any(|(other, _)| **other == *name) {
                return Err(bad(&format!("the client {name:?} is listed twice")));
            }
            if let Some((other, _)) = all.iter().find(|(_, theirs)| *theirs == digest) {
                return Err(bad(&format!("the client {other:?} has the same token")));
            }
            if all.len() == MAX_CLIENTS {
                return Err(bad("a gateway has at most 10000 clients"));
            }
            all.push((name.into(), digest));
        }
        Ok(Clients { all })
    }

    /// Reads a file. Only its owner may be able to write it, because its writer decides which clients are
    /// admitted.
    ///
    /// # Errors
    /// Fails if the file cannot be read, other users may write it, or it is invalid.
    pub fn read(path: &Path) -> Result<Clients, ClientsFileError> {
        let system = |error| ClientsFileError::System(path.into(), error);
        let mode = std::fs::metadata(path).map_err(system)?.permissions().mode() & 0o777;
        if mode & 0o022 != 0 {
            return Err(ClientsFileError::Writable(path.into(), mode));
        }
        let text =
            hawser_documents::files::given(path, hawser_documents::files::DOCUMENT_MAX).map_err(system)?;
        Clients::parse(&text).map_err(|error| ClientsFileError::Malformed(path.into(), error))
    }

    /// Formats the line of a client with this token.
    #[must_use]
    pub fn line(name: &str, token: &Token) -> String {
        format!("{name} {}", token.digest())
    }

    /// Returns the client with this token. All tokens are compared, each in constant time.
    #[must_use]
    pub fn find(&self, token: &Token) -> Option<Arc<str>> {
        let digest = token.digest();
        let mut found = u32::MAX;
        for (index, (_, own)) in (0_u32..).zip(&self.all) {
            found.conditional_assign(&index, own.bytes().ct_eq(digest.bytes()));
        }
        self.all
            .get(usize::try_from(found).ok()?)
            .map(|(name, _)| name.clone())
    }

    /// Returns the number of clients.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns whether there are no clients.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

impl fmt::Display for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.all.iter().map(|(name, _)| &**name).collect();
        f.write_str(&names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256 of 32 zero bytes, computed by sha256sum(1).
    const ZEROS: &str = "66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925";

    #[test]
    fn a_client_is_found_only_by_its_token() {
        let other = Clients::line("other", &Token::new([1; 32]));
        let clients = Clients::parse(&format!("# phones\n\nalice {ZEROS}\n {other} \n")).expect("two");
        assert_eq!((clients.len(), clients.to_string().as_str()), (2, "alice, other"));
        assert_eq!(clients.find(&Token::new([0; 32])).as_deref(), Some("alice"));
        assert_eq!(clients.find(&Token::new([1; 32])).as_deref(), Some("other"));
        assert_eq!(clients.find(&Token::new([2; 32])), None);
        assert_eq!(Clients::default().find(&Token::new([0; 32])), None);
        assert_eq!(
            Clients::line("alice", &Token::new([0; 32])),
            format!("alice {ZEROS}")
        );
    }

    #[test]
    fn a_wrong_line_is_named() {
        let wrong = [
            ("alice", 1, "a name and"),
            ("\n\nalice 0f", 3, "64 hexadecimal"),
            (&format!("alice {ZEROS} admin"), 1, "a name and"),
            (
                &format!("alice {ZEROS}\nalice {}", ZEROS.replace('6', "7")),
                2,
                "is listed twice",
            ),
            (
                &format!("alice {ZEROS}\nbob {ZEROS}"),
                2,
                "\"alice\" has the same",
            ),
            (&format!("{} {ZEROS}", "a".repeat(65)), 1, "64 bytes"),
        ];
        for (text, line, why) in wrong {
            let error = Clients::parse(text).expect_err(text);
            assert!(error.line == line && error.why.contains(why), "{text}: {error}");
        }
    }
}
