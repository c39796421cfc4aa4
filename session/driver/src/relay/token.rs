//! Tokens: a client's credential, and the digest that a gateway keeps of it.
//!
//! Invariants: a token is never printed (`Debug` hides it). A gateway keeps only its SHA-256, and compares
//! that in constant time.

use std::fmt;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

use crate::document::hex;

/// 32 random bytes that a client and its gateway share.
#[derive(Clone, PartialEq, Eq)]
pub struct Token([u8; Token::LENGTH]);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// A token file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// A system call failed.
    #[error("{path}: {error}", path = .0.display(), error = .1)]
    System(PathBuf, #[source] io::Error),
    /// Users other than the owner may read or write the file, which has this mode.
    #[error("{path}: other users can read this token (mode {mode:03o}); run chmod 600 on it", path = .0.display(), mode = .1)]
    Shared(PathBuf, u32),
    /// The file contains no token.
    #[error("{path}: a token is 64 hexadecimal digits", path = .0.display())]
    Malformed(PathBuf),
}

impl Token {
    /// The length of a token in bytes.
    pub const LENGTH: usize = 32;

    /// Creates a token from these bytes.
    #[must_use]
    pub fn new(bytes: [u8; Self::LENGTH]) -> Token {
        Token(bytes)
    }

    /// Generates a token from the system's random numbers.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn generate() -> Result<Token, getrandom::Error> {
        let mut bytes = [0; Self::LENGTH];
        getrandom::fill(&mut bytes)?;
        Ok(Token(bytes))
    }

    /// Returns the token's bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8; Self::LENGTH] {
        &self.0
    }

    /// Returns the digest that a gateway keeps.
    #[must_use]
    pub fn digest(&self) -> TokenDigest {
        TokenDigest(Sha256::digest(self.0).into())
    }

    /// Reads a token from a file: 64 hexadecimal digits, readable only by its owner.
    ///
    /// # Errors
    /// The file cannot be read, users other than its owner may read or write it, or it contains no token.
    pub fn read(path: &Path) -> Result<Token, TokenError> {
        let system = |error| TokenError::System(path.into(), error);
        let mode = std::fs::metadata(path).map_err(system)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(TokenError::Shared(path.into(), mode));
        }
        let text =
            hawser_documents::files::given(path, hawser_documents::files::DOCUMENT_MAX).map_err(system)?;
        let bytes = hex(text.trim());
        bytes.map(Token).ok_or_else(|| TokenError::Malformed(path.into()))
    }

    /// Writes the token to a new file that only its owner may read.
    ///
    /// # Errors
    /// The file already exists, or cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), TokenError> {
        let system = |error| TokenError::System(path.into(), error);
        let mut options = std::fs::OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(system)?;
        writeln!(file, "{}", HEXLOWER.encode(&self.0)).map_err(system)
    }
}

/// The SHA-256 of a token, with which the token is checked. It is not secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenDigest([u8; 32]);

/// The text is not a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the SHA-256 of a token is 64 hexadecimal digits")]
pub struct BadDigest;

impl TokenDigest {
    /// Returns the digest's bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl FromStr for TokenDigest {
    type Err = BadDigest;

    fn from_str(text: &str) -> Result<TokenDigest, BadDigest> {
        hex(text).map(TokenDigest).ok_or(BadDigest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_files_are_private_to_their_owner() {
        let folder = hawser_documents::temporary::Folder::new().expect("a folder");
        let path = folder.join("token");
        let token = Token::generate().expect("random numbers");
        token.write(&path).expect("a file");
        let mode = std::fs::metadata(&path).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(Token::read(&path).expect("a token"), token);
        assert!(token.write(&path).is_err(), "it would overwrite one");
        for mode in [0o640, 0o604, 0o620] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("the file");
            let error = Token::read(&path).expect_err("others may use it");
            assert!(matches!(error, TokenError::Shared(_, found) if found == mode));
            assert!(error.to_string().contains("chmod 600"), "{error}");
        }
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("the file");
        std::fs::write(&path, "0f").expect("the file");
        let error = Token::read(&path).expect_err("too short");
        assert!(matches!(error, TokenError::Malformed(_)), "{error}");
    }

    #[test]
    fn a_token_is_not_shown() {
        assert_eq!(format!("{:?}", Token::new([0xab; 32])), "Token(…)");
    }
}
