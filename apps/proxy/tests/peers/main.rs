//! The proxy with real peers on this host: curl, servers, and hostile clients.

mod datagrams;
mod forwarding;
mod hostile;
mod served_proxy;
mod stops;
mod tunnels;

use std::process::Output;

use hawser_testing::{Need, has};
use served_proxy::{ServedProxy, mirror, nobody};

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curl_asks_by_each_protocol() {
    let (stage, origin) = (ServedProxy::new().await, mirror().await);
    let port = origin.port();
    for (scheme, host, more) in [
        ("socks5", "127.0.0.1", vec![]),
        ("socks5h", "localhost", vec![]),
        ("http", "127.0.0.1", vec!["--proxytunnel"]),
        ("http", "localhost", vec!["--proxytunnel"]),
        ("http", "localhost", vec![]),
    ] {
        let url = format!("http://{host}:{port}/path?query");
        let mut arguments = vec![url.as_str()];
        arguments.extend(more.iter().copied());
        let output = stage.curl(scheme, &arguments).await;
        assert!(output.status.success(), "{scheme} {more:?}: {output:?}");
        let head = text(&output);
        assert!(
            head.starts_with("GET /path?query HTTP/1.1\r\n"),
            "{scheme}: {head}"
        );
        assert!(
            head.to_lowercase().contains(&format!("host: {host}:{port}")),
            "{head}"
        );
        let is_plain = scheme == "http" && more.is_empty();
        assert_eq!(
            head.to_lowercase().contains("via: 1.1 hawser"),
            is_plain,
            "{head}"
        );
        assert!(!head.to_lowercase().contains("proxy-connection"), "{head}");
    }
    let events = stage.events();
    assert_eq!(
        events.iter().filter(|name| *name == "won").count(),
        5,
        "{events:?}"
    );
}

/// RFC 9110, 7.6.1: hop-by-hop fields are not forwarded in either direction.
#[tokio::test]
async fn hop_by_hop_fields_are_not_forwarded() {
    let (stage, origin) = (ServedProxy::new().await, mirror().await);
    let url = format!("http://{origin}/");
    let fields = [
        "-H",
        "Connection: close, X-Mine",
        "-H",
        "X-Mine: 1",
        "-H",
        "TE: trailers",
        "-H",
        "X-Its: 3",
    ];
    let output = stage.curl("http", &[&["-i", &url][..], &fields].concat()).await;
    let all = text(&output).to_lowercase();
    let (answer, asked) = all.split_once("\r\n\r\n").expect("a head and a body");
    assert!(
        !asked.contains("x-mine") && !asked.contains("te:") && asked.contains("x-its: 3"),
        "{asked}"
    );
    assert!(
        !answer.contains("x-hop") && answer.contains("x-end: 2"),
        "{answer}"
    );
    assert!(answer.contains("via: 1.1 hawser"), "{answer}");
}

#[tokio::test]
async fn failures_have_their_codes() {
    let (stage, nobody) = (ServedProxy::new().await, nobody().await);
    let refused = format!("http://{nobody}/");
    // Curl's code 97 means that the proxy's handshake failed; curl prints the reply.
    let output = stage.curl("socks5h", &[&refused]).await;
    assert_eq!(output.status.code(), Some(97), "{output:?}");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("(5)"),
        "{output:?}"
    );
    let output = stage.curl("socks5h", &["http://nowhere.invalid/"]).await;
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("(4)"),
        "{output:?}"
    );
    let code = ["-o", "/dev/null", "-w", "%{http_code} %{http_connect}"];
    for (url, more, expected) in [
        (refused.as_str(), None, "502 000"),
        (refused.as_str(), Some("--proxytunnel"), "000 502"),
        ("http://nowhere.invalid/", None, "502 000"),
        ("http://nowhere.invalid:443/", Some("--proxytunnel"), "000 502"),
    ] {
        let output = stage
            .curl("http", &[&[url][..], &code, more.as_slice()].concat())
            .await;
        assert_eq!(text(&output), expected, "{url}: {output:?}");
    }
    let request = format!("GET {refused} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let answer = String::from_utf8(stage.exchange(request.as_bytes()).await).expect("text");
    assert!(
        answer.contains("proxy-status: hawser; error=connection_refused"),
        "{answer}"
    );
}

#[tokio::test]
async fn tls_passes_end_to_end() {
    if !has("tls_passes_end_to_end", &[Need::Openssl]) {
        return;
    }
    let stage = ServedProxy::new().await;
    let directory = hawser_documents::temporary::Folder::new().expect("a directory");
    let make = [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "1",
    ];
    let name = [
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=DNS:localhost",
    ];
    let files = ["-keyout", "key.pem", "-out", "certificate.pem"];
    let mut openssl = tokio::process::Command::new("openssl");
    openssl.args(make).args(name).args(files).current_dir(&directory);
    let made = openssl.output().await.expect("openssl starts");
    assert!(made.status.success(), "{made:?}");
    let port = nobody().await.port().to_string();
    let mut server = tokio::process::Command::new("openssl");
    server.args([
        "s_server",
        "-quiet",
        "-www",
        "-accept",
        &port,
        "-cert",
        "certificate.pem",
        "-key",
        "key.pem",
    ]);
    let server = server
        .current_dir(&directory)
        .stdin(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("openssl");
    let certificate = directory.join("certificate.pem");
    let certificate = certificate.to_str().expect("text");
    for scheme in ["http", "socks5h"] {
        let url = format!("https://localhost:{port}/");
        let patient = ["--retry", "20", "--retry-all-errors", "--retry-delay", "1"];
        let arguments = [&patient[..], &["--cacert", certificate, &url]].concat();
        let output = stage.curl(scheme, &arguments).await;
        assert!(text(&output).contains("s_server"), "{scheme}: {output:?}");
    }
    drop(server);
}
