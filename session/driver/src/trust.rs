//! Certificates: a client's trust, and a server's identity.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use data_encoding::HEXLOWER;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ParsedCertificate, VerifierBuilderError};
use rustls::{DigitallySignedStruct, RootCertStore, SignatureScheme};
use sha2::{Digest, Sha256};

/// The name of the session protocol in TLS's ALPN (RFC 7301).
pub const ALPN: &[u8] = b"hawser/1";

/// A server's certificate, with its key.
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// The certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// A file cannot be read, or is not PEM.
    #[error("{path}: {error}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The problem with it.
        error: pem::Error,
    },
    /// The file contains no certificate.
    #[error("{path}: the file contains no certificate", path = .0.display())]
    NoCertificate(PathBuf),
    /// The file contains certificates, but none that can be trusted.
    #[error("{path}: the file contains no usable certificate", path = .0.display())]
    Unusable(PathBuf),
    /// A certificate for these names cannot be generated.
    #[error(transparent)]
    Generate(#[from] rcgen::Error),
    /// The trusted certificates cannot be used for verification.
    #[error(transparent)]
    Verifier(#[from] VerifierBuilderError),
    /// TLS refuses them, for example because key and certificate do not match.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
}

impl TrustError {
    fn file(path: &Path) -> impl FnOnce(pem::Error) -> Self {
        let path = path.to_owned();
        |error| Self::File { path, error }
    }
}

impl From<TrustError> for io::Error {
    fn from(error: TrustError) -> Self {
        let kind = match &error {
            TrustError::File { .. } | TrustError::NoCertificate(_) | TrustError::Unusable(_) => {
                io::ErrorKind::InvalidData
            }
            TrustError::Generate(_) | TrustError::Verifier(_) | TrustError::Tls(_) => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

impl Identity {
    /// Generates a self-signed certificate for `names`. Clients need its
    /// [fingerprint](Identity::fingerprint).
    ///
    /// # Errors
    /// A name is invalid.
    pub fn generate(names: Vec<String>) -> Result<Self, TrustError> {
        let made = rcgen::generate_simple_self_signed(names)?;
        Ok(Self {
            chain: vec![made.cert.der().clone()],
            key: PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into()),
        })
    }

    /// Reads a certificate from PEM files.
    ///
    /// # Errors
    /// A file cannot be read, or contains no certificate or key.
    pub fn read(chain: &Path, key: &Path) -> Result<Self, TrustError> {
        Ok(Self {
            chain: certificates(chain)?,
            key: pem(key)
                .and_then(|text| PrivateKeyDer::from_pem_slice(&text))
                .map_err(TrustError::file(key))?,
        })
    }

    /// Returns the SHA-256 of the certificate, which a client [pins](Trust::Pin).
    pub fn digest(&self) -> [u8; 32] {
        // `generate` and `read` never leave the chain empty.
        self.chain
            .first()
            .map_or([0; 32], |certificate| Sha256::digest(certificate).into())
    }

    /// Returns the digest in hexadecimal digits.
    pub fn fingerprint(&self) -> String {
        HEXLOWER.encode(&self.digest())
    }

    /// Returns a server's TLS configuration with this certificate. `fallback` holds the application protocols
    /// that are offered to peers that do not speak Hawser.
    ///
    /// # Errors
    /// Key and certificate do not match.
    pub fn server(&self, fallback: &[String]) -> Result<Arc<rustls::ServerConfig>, TrustError> {
        let builder = rustls::ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?;
        let mut config = builder
            .with_no_client_auth()
            .with_single_cert(self.chain.clone(), self.key.clone_key())?;
        config.alpn_protocols = alpn(fallback);
        // HELLO and JOIN are never sent in 0-RTT data.
        config.max_early_data_size = 0;
        Ok(Arc::new(config))
    }
}

fn alpn(fallback: &[String]) -> Vec<Vec<u8>> {
    std::iter::once(ALPN.to_vec())
        .chain(fallback.iter().map(|name| name.clone().into_bytes()))
        .collect()
}

/// Reads a file of keys or certificates, which a document may name.
fn pem(path: &Path) -> Result<Vec<u8>, pem::Error> {
    hawser_documents::files::named_bytes(path, hawser_documents::files::DOCUMENT_MAX).map_err(pem::Error::Io)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TrustError> {
    let found =
        pem(path).and_then(|text| CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>());
    let found = found.map_err(TrustError::file(path))?;
    if found.is_empty() {
        Err(TrustError::NoCertificate(path.to_owned()))
    } else {
        Ok(found)
    }
}

/// The servers that a client trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Servers whose certificates these PEM certificates contain or vouch for.
    File(std::path::PathBuf),
    /// The server whose certificate has this SHA-256.
    Pin([u8; 32]),
    /// Servers whose certificates the system's trusted certificates vouch for.
    System,
    /// Any server. This protects against passive eavesdroppers, but not against an attacker on the path.
    Anyone,
}

impl Trust {
    /// Returns a client's TLS configuration with this trust. `fallback` holds the application protocols under
    /// which a server that does not speak Hawser is accepted.
    ///
    /// # Errors
    /// The file of certificates cannot be read, or the system has none.
    pub fn client(&self, fallback: &[String]) -> Result<Arc<rustls::ClientConfig>, TrustError> {
        let builder = rustls::ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?;
        let mut config = match self {
            Self::Pin(digest) => builder
                .dangerous()
                .with_custom_certificate_verifier(PeerVerifier::new(Good::Pinned(*digest)))
                .with_no_client_auth(),
            Self::File(path) => builder
                .dangerous()
                .with_custom_certificate_verifier(PeerVerifier::new(Good::listed(path)?))
                .with_no_client_auth(),
            Self::Anyone => builder
                .dangerous()
                .with_custom_certificate_verifier(PeerVerifier::new(Good::Any))
                .with_no_client_auth(),
            Self::System => {
                let path = Path::new("/etc/ssl/certs/ca-certificates.crt");
                builder
                    .with_root_certificates(roots(certificates(path)?, path)?)
                    .with_no_client_auth()
            }
        };
        config.alpn_protocols = alpn(fallback);
        Ok(Arc::new(config))
    }
}

fn roots(certificates: Vec<CertificateDer<'static>>, path: &Path) -> Result<RootCertStore, TrustError> {
    let mut roots = RootCertStore::empty();
    let (good, _) = roots.add_parsable_certificates(certificates);
    if good == 0 {
        Err(TrustError::Unusable(path.to_owned()))
    } else {
        Ok(roots)
    }
}

/// The criterion for a good certificate.
#[derive(Debug)]
enum Good {
    /// Every certificate is good; the server is not authenticated.
    Any,
    /// The certificate has this SHA-256, whatever its name and its signer.
    Pinned([u8; 32]),
    /// The certificate is in the file, or certificates in the file vouch for it. A certificate made by
    /// `openssl req -x509` declares itself an authority although it is meant for a server, so it is accepted
    /// as such. Its dates are not checked.
    Listed { own: Vec<CertificateDer<'static>>, others: Arc<WebPkiServerVerifier> },
}

impl Good {
    fn listed(path: &Path) -> Result<Self, TrustError> {
        let own = certificates(path)?;
        let roots = Arc::new(roots(own.clone(), path)?);
        let others = WebPkiServerVerifier::builder_with_provider(roots, provider()).build();
        Ok(Self::Listed { own, others: others? })
    }
}

/// A certificate verifier. Signatures are always verified.
#[derive(Debug)]
struct PeerVerifier {
    good: Good,
    algorithms: WebPkiSupportedAlgorithms,
}

impl PeerVerifier {
    fn new(good: Good) -> Arc<Self> {
        Arc::new(Self { good, algorithms: provider().signature_verification_algorithms })
    }
}

impl ServerCertVerifier for PeerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match &self.good {
            Good::Any => Ok(ServerCertVerified::assertion()),
            Good::Pinned(digest) if Sha256::digest(end_entity).as_slice() == digest => {
                Ok(ServerCertVerified::assertion())
            }
            Good::Pinned(_) => Err(rustls::CertificateError::ApplicationVerificationFailure.into()),
            Good::Listed { own, .. } if own.contains(end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            Good::Listed { others, .. } => {
                others.verify_server_cert(end_entity, intermediates, name, stapled, now)
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
