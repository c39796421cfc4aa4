//! A client's trust: the certificates of a file and those that they vouch for, or the pinned one.

use hawser_carriers::quic::{QuicEndpoint, QuicListener};
use hawser_session::document::{ConnectionPriority, Document, Transport};
use hawser_session::{AcceptorConfig, Identity, QuicOptions, Trust, open};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

use crate::{Folder, document, free, serve};

/// Makes a certificate as `openssl req -x509` does: self-signed, and declared an authority.
fn self_made(folder: &Folder, name: &str) -> Identity {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["localhost".into()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let made = params.self_signed(&key).unwrap();
    let (certificate, secret) = (
        folder.join(format!("{name}.pem")),
        folder.join(format!("{name}.key")),
    );
    std::fs::write(&certificate, made.pem()).unwrap();
    std::fs::write(&secret, key.serialize_pem()).unwrap();
    Identity::read(&certificate, &secret).unwrap()
}

async fn opens(document: &Document) -> Result<(), String> {
    let (session, _) = open(document).await.map_err(|error| error.to_string())?;
    session
        .opened()
        .await
        .map(drop)
        .map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_self_signed_certificate_is_trusted_if_listed_or_pinned() {
    let folder = Folder::new().expect("a folder");
    let (identity, other) = (self_made(&folder, "own"), self_made(&folder, "other"));
    let address = free();
    let _server = serve(address, identity.server(&[]).unwrap(), AcceptorConfig::default());
    let document = |file: &str| document(address, &folder.join(file), folder.join("state.json"));

    assert_eq!(opens(&document("own.pem")).await, Ok(()));
    let refused = opens(&document("other.pem")).await.unwrap_err();
    assert!(
        refused.contains("certificate"),
        "another of the same name: {refused}"
    );
    let mut misnamed = document("own.pem");
    misnamed.tls.name = Some("elsewhere".into());
    let refused = opens(&misnamed).await.unwrap_err();
    assert!(refused.contains("not valid for name"), "{refused}");

    let mut without = document("own.pem");
    without.tls.certificate = None;
    without.tls.name = None;
    for transport in [Transport::Tcp, Transport::Quic] {
        without.connections = vec![ConnectionPriority::new(transport)];
        let refused = opens(&without).await.unwrap_err();
        assert!(refused.contains("without the pin"), "{refused}");
    }
    let pinned = |digest| {
        let mut document = document("own.pem");
        (document.tls.certificate, document.tls.pin, document.tls.name) =
            (None, Some(digest), Some("elsewhere".into()));
        document
    };
    assert_eq!(
        opens(&pinned(identity.digest())).await,
        Ok(()),
        "a pin is for whatever name"
    );
    let refused = opens(&pinned(other.digest())).await.unwrap_err();
    assert!(refused.contains("certificate"), "{refused}");
}

/// RFC 9001, 4.8: over QUIC, a wrong certificate ends the handshake with a crypto error. It is reported as
/// over TCP, so that a race remembers security as the cause.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_certificate_over_quic_is_reported_as_such() {
    let folder = Folder::new().expect("a folder");
    let tls = self_made(&folder, "own").server(&[]).unwrap();
    let listener = QuicListener::open("127.0.0.1:0".parse().unwrap(), QuicOptions::default(), tls).unwrap();
    let address = listener.local().unwrap();
    let serving = tokio::spawn(async move { listener.accept().await.unwrap().accept().await.map(drop) });
    let endpoint = QuicEndpoint::open(address, None, QuicOptions::default()).unwrap();
    let other = Trust::Pin([0; 32]).client(&[]).unwrap();
    let refused = endpoint
        .connect(address, "localhost", other)
        .await
        .map(drop)
        .unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::InvalidData, "{refused}");
    let received = serving.await.unwrap().unwrap_err();
    assert_eq!(
        received.kind(),
        std::io::ErrorKind::InvalidData,
        "the server receives the alert: {received}"
    );
}
