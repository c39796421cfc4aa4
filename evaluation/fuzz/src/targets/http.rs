//! Arbitrary bytes as the input of `hawser serve` from a client, and as the input of `hawser get` from a
//! server. No input causes a panic, and neither end waits after the other has closed. The server returns no
//! file outside the served folder. The client keeps no more of a response than it received.
//!
//! The first byte selects the direction.

use std::io::Write;
use std::sync::{Arc, OnceLock};

use crate::cli::http::{Exposure, Hosts, Root, get, serve_connection};
use hyper::Uri;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::runtime::{Builder, Runtime};

/// Text that no answer may contain: it lies beside the served folder.
const SECRET: &str = "beyond-the-root";

struct ServedFolder {
    runtime: Runtime,
    root: Arc<Root>,
    hosts: Arc<Hosts>,
    _folder: hawser_documents::temporary::Folder,
}

fn place() -> &'static ServedFolder {
    static PLACE: OnceLock<ServedFolder> = OnceLock::new();
    PLACE.get_or_init(|| {
        let folder = hawser_documents::temporary::Folder::new().expect("a folder");
        let root = folder.join("root");
        std::fs::create_dir(&root).expect("a folder");
        std::fs::File::create(root.join("a"))
            .and_then(|mut f| f.write_all(&[7; 300]))
            .expect("a file");
        std::fs::File::create(folder.join("secret"))
            .and_then(|mut f| f.write_all(SECRET.as_bytes()))
            .expect("a file");
        ServedFolder {
            runtime: Builder::new_current_thread()
                .enable_all()
                .start_paused(true)
                .build()
                .expect("a runtime"),
            root: Arc::new(Root::open(&root, Exposure::default()).expect("a folder")),
            hosts: Arc::new(Hosts::new([], ["a".to_owned()])),
            _folder: folder,
        }
    })
}

pub(crate) fn fuzz(data: &[u8]) {
    let [what, data @ ..] = data else { return };
    let place = place();
    match what % 2 {
        0 => place.runtime.block_on(serve(place, data)),
        _ => place.runtime.block_on(respond(data)),
    }
}

async fn serve(place: &ServedFolder, request: &[u8]) {
    let (mut client, server) = duplex(1 << 20);
    let serving = serve_connection(server, place.root.clone(), place.hosts.clone(), |served| {
        assert!((200..500).contains(&served.status), "{served:?}");
    });
    let asking = async {
        let _ = client.write_all(request).await;
        let _ = client.shutdown().await;
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer).await;
        answer
    };
    let (_, answer) = tokio::join!(serving, asking);
    let is_secret = answer
        .windows(SECRET.len())
        .any(|window| window == SECRET.as_bytes());
    assert!(!is_secret, "a file beyond the root");
}

async fn respond(response: &[u8]) {
    let (mut server, client) = duplex(1 << 20);
    let answering = async {
        let _ = server.write_all(response).await;
        let _ = server.shutdown().await;
        let mut request = Vec::new();
        let _ = server.read_to_end(&mut request).await;
    };
    let (mut stated, mut kept) = (None, 0);
    let sink = |data: &[u8]| {
        kept += data.len();
        Ok(())
    };
    let uri = Uri::from_static("http://a/a");
    let getting = get(
        client,
        &uri,
        |length| {
            stated = length;
            Ok(())
        },
        sink,
    );
    let (_, got) = tokio::join!(answering, getting);
    assert!(kept <= response.len(), "more than came");
    if let Ok(total) = got {
        assert_eq!(total, kept as u64);
        assert!(
            stated.is_none_or(|length| length == total),
            "{stated:?} were stated, {total} came"
        );
    }
}
