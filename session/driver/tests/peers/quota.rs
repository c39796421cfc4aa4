//! Quota bytes that one session has used are not available to the next one.

use std::net::SocketAddr;
use std::path::Path;

use hawser_session::document::{ConnectionPriority, Document, Period, Transport};
use hawser_session::{AcceptorConfig, Identity, OpenError, Opening, Server, StateError, open};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{Folder, certificate, free, serve};

const QUOTA: u64 = 400_000;

fn server(folder: &Folder) -> (Server, SocketAddr) {
    let (cert, key) = certificate(folder);
    let address = free();
    let tls = Identity::read(&cert, &key).unwrap().server(&[]).unwrap();
    (serve(address, tls, AcceptorConfig::default()), address)
}

/// Returns a document with a preferred metered path and a free path.
fn metered_and_free(address: SocketAddr, folder: &Folder) -> Document {
    let mut document = super::document(address, &folder.join("cert.pem"), folder.join("state/state.json"));
    let metered = ConnectionPriority {
        path: Some(0),
        quota: Some(QUOTA),
        ..ConnectionPriority::new(Transport::Tcp)
    };
    let free = ConnectionPriority {
        path: Some(1),
        interfaces: vec!["lo".into()],
        ..ConnectionPriority::new(Transport::Tcp)
    };
    document.connections = vec![metered, free];
    document.session.opening = Opening::Sequential;
    document
}

/// Sends `length` bytes, and returns the rest of the metered path's quota at the end.
async fn send(document: &Document, server: &Server, length: usize) -> u64 {
    let (client, _) = open(document).await.unwrap();
    let mut stream = client.open().unwrap();
    stream.write_all(&vec![7; length]).await.unwrap();
    stream.shutdown().await.unwrap();
    let accepted = server.accept().await.unwrap();
    let mut all = Vec::new();
    accepted
        .accept()
        .await
        .unwrap()
        .read_to_end(&mut all)
        .await
        .unwrap();
    assert_eq!(all.len(), length);
    drop(stream);
    client.close(0).await.unwrap();
    client.quotas()[&0]
}

/// Returns the rest of the metered path's quota when a session begins.
async fn left(document: &Document) -> u64 {
    let (client, _) = open(document).await.unwrap();
    let left = client.quotas()[&0];
    client.opened().await.unwrap();
    client.close(0).await.unwrap();
    left
}

/// The first carrier's opening segments may already have been counted.
fn is_about(left: u64, expected: u64) {
    assert!(
        (expected - 1_000..=expected).contains(&left),
        "{left}, not {expected}"
    );
}

fn used(file: &Path) -> u64 {
    let state: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    state["metered"]["any"]["used"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn used_quota_survives_a_restart() {
    let folder = Folder::new().expect("a folder");
    let (server, address) = server(&folder);
    let mut document = metered_and_free(address, &folder);
    let file = folder.join("state/state.json");

    // Only the metered path is used, so that it carries all data.
    let both = std::mem::take(&mut document.connections);
    document.connections = vec![both[0].clone()];
    let rest = send(&document, &server, 100_000).await;
    assert!(
        (280_000..=300_000).contains(&rest),
        "100 kB, a sixteenth, and headers: {rest}"
    );
    assert_eq!(
        used(&file),
        QUOTA - rest,
        "written before the session's end is reported"
    );
    is_about(left(&document).await, rest);
    server.accept().await.unwrap();

    // The quota is used up: the rest takes the other path, and the next session begins without this one.
    document.connections = both;
    assert_eq!(send(&document, &server, 2_000_000).await, 0);
    assert_eq!(used(&file), QUOTA);
    let (third, warnings) = open(&document).await.unwrap();
    assert!(
        warnings[0]
            .to_string()
            .starts_with("connection_priority[0].quota: 400000 bytes"),
        "{warnings:?}"
    );
    third.opened().await.unwrap();
    assert_eq!(third.paths().len(), 1);
    third.close(0).await.unwrap();
    document.connections.pop();
    let error = open(&document).await.map(drop).unwrap_err();
    assert!(matches!(error, OpenError::QuotaSpent { .. }), "{error}");

    // After an increase, the new quota less the used bytes remains. A new period begins with the whole quota.
    document.connections[0].quota = Some(QUOTA + 50_000);
    is_about(left(&document).await, 50_000);
    let mut state: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    state["metered"]["any"]["since"] = json!("2001-01-01");
    std::fs::write(&file, state.to_string()).unwrap();
    document.connections[0].period = Period::Month;
    is_about(left(&document).await, QUOTA + 50_000);
}

/// A session that went on without the file might exceed a spent quota.
#[tokio::test]
async fn a_damaged_file_is_an_error() {
    let folder = Folder::new().expect("a folder");
    certificate(&folder);
    let document = metered_and_free(free(), &folder);
    let file = folder.join("state/state.json");
    std::fs::create_dir_all(folder.join("state")).unwrap();
    let later = json!({ "version": 9, "metered": {}, "peers": {} }).to_string();
    for damaged in [
        "",
        "{\"version\": 1, \"metered\": {\"any\": {\"used\": -1",
        &later,
    ] {
        std::fs::write(&file, damaged).unwrap();
        let error = open(&document).await.map(drop).unwrap_err();
        let is_damaged = matches!(error, OpenError::State(StateError::Damaged { .. }));
        assert!(is_damaged, "{error}");
        assert!(error.to_string().contains("state.json is damaged"), "{error}");
        assert_eq!(
            std::fs::read_to_string(&file).unwrap(),
            damaged,
            "it is left as it is"
        );
    }
}
