//! The page in a browser, and the protection of its server.
//!
//! `HAWSER_SCREENSHOTS=DIRECTORY` saves screenshots of the page: bright, dark and narrow.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use hawser::connect::{Description, Failure, RaceEvent, RaceReport};
use hawser_dashboard::browser::{Browser, Options, command};
use hawser_dashboard::{
    Candidate, Controls, Dashboard, Download, DownloadState, Feed, Path, Plan, Setup, Switch,
};
use hawser_testing::{Need, skip};
use parking_lot::Mutex;

const SOON: Duration = Duration::from_secs(10);

/// A served page, and the orders that its switches gave.
struct ServedPage {
    url: String,
    address: SocketAddr,
    feed: Feed,
    orders: Arc<Mutex<Vec<String>>>,
    _runtime: tokio::runtime::Runtime,
}

/// A network that carries out every order, except for one switch.
struct Network {
    feed: Feed,
    orders: Arc<Mutex<Vec<String>>>,
}

impl Controls for Network {
    fn switch(&self, id: &str, on: bool) -> Result<(), String> {
        self.orders.lock().push(format!("{id} {on}"));
        if id == "stuck" {
            return Err("this one is stuck".to_owned());
        }
        self.feed.switched(id, on);
        Ok(())
    }

    fn download(&self, setup: &str, mib: u32) -> Result<(), String> {
        self.orders.lock().push(format!("download {setup} {mib}"));
        Ok(())
    }
}

fn stage() -> ServedPage {
    let path = |id: &str, name: &str| Path { id: id.into(), name: name.into(), mbit_per_second: 10.0 };
    let feed = Feed::new(Plan {
        title: "A page under test".into(),
        about: "Two paths of 10 Mbit/s".into(),
        paths: vec![path("a", "Path A"), path("b", "Path B")],
        switches: vec![
            Switch::new("sctp", "SCTP", "UDP port 9899", true),
            Switch::new("stuck", "Stuck", "it never moves", true),
        ],
        setups: vec![Setup { id: "sctp".into(), name: "SCTP or TCP".into() }],
        sizes_mib: vec![1, 16],
        hints: vec!["curl --proxy socks5h://127.0.0.1:1080 http://server/1".into()],
    });
    let orders: Arc<Mutex<Vec<String>>> = Arc::default();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let network = Network { feed: feed.clone(), orders: Arc::clone(&orders) };
    let page = Dashboard::new(listener, feed.clone(), Arc::new(network)).expect("a page");
    let url = page.url();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime");
    runtime.spawn(page.serve(std::future::pending()));
    ServedPage { url, address, feed, orders, _runtime: runtime }
}

/// Sends a request. Returns the status code and the whole answer.
fn send(stage: &ServedPage, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(stage.address).expect("the server");
    stream.set_read_timeout(Some(SOON)).expect("a limit");
    stream.write_all(request.as_bytes()).expect("it is sent");
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    let code = answer
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .unwrap_or_default();
    (code, answer)
}

/// Returns the path of the page, including the token.
fn path(stage: &ServedPage) -> String {
    stage
        .url
        .strip_prefix(&format!("http://{}", stage.address))
        .expect("our address")
        .to_owned()
}

fn get(stage: &ServedPage, path: &str, host: &str, more: &str) -> u16 {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n");
    send(stage, &request).0
}

#[test]
fn a_request_without_the_token_is_refused() {
    let stage = stage();
    let (page, here) = (path(&stage), stage.address.to_string());
    assert_eq!(get(&stage, &page, &here, ""), 200);
    for wrong in [
        "/",
        "/state",
        "/events",
        "/style.css",
        "/0123456789abcdef0123456789abcdef/state",
    ] {
        assert_eq!(get(&stage, wrong, &here, ""), 403, "{wrong}");
    }
    assert_eq!(get(&stage, &page, "evil.example", ""), 421);
    assert_eq!(
        get(
            &stage,
            &format!("{page}state"),
            &here,
            "Origin: http://evil.example\r\n"
        ),
        403
    );
    assert_eq!(get(&stage, &format!("{page}nothing"), &here, ""), 404);
}

#[test]
fn newcomers_and_idle_clients_shut_no_client_out() {
    let stage = stage();
    let (page, here) = (path(&stage), stage.address.to_string());
    let silent: Vec<TcpStream> = (0..200)
        .map(|_| TcpStream::connect(stage.address).expect("the server"))
        .collect();
    assert_eq!(get(&stage, &page, &here, ""), 200);
    // A client that has shown the token keeps its place while newcomers come and go.
    let mut follows = TcpStream::connect(stage.address).expect("the server");
    follows.set_read_timeout(Some(SOON)).expect("a limit");
    let request = format!("GET {page}events HTTP/1.1\r\nHost: {here}\r\n\r\n");
    follows.write_all(request.as_bytes()).expect("it is sent");
    let mut first = [0; 4096];
    assert!(follows.read(&mut first).is_ok_and(|len| len > 0));
    let more: Vec<TcpStream> = (0..200)
        .map(|_| TcpStream::connect(stage.address).expect("the server"))
        .collect();
    stage.feed.switched("sctp", false);
    let mut next = String::new();
    while !next.contains("switch") && !next.contains("state") {
        let len = follows.read(&mut first).expect("an event");
        assert!(len > 0, "it was disconnected: {next}");
        next.push_str(&String::from_utf8_lossy(&first[..len]));
    }
    drop((silent, more));
}

/// RFC 9112, 9.6.
#[test]
fn a_client_that_ends_its_half_is_answered() {
    let stage = stage();
    let mut stream = TcpStream::connect(stage.address).expect("the server");
    let request = format!("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", path(&stage), stage.address);
    stream.write_all(request.as_bytes()).expect("it is sent");
    stream.shutdown(std::net::Shutdown::Write).expect("half an end");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[test]
fn commands_are_accepted_only_from_the_page() {
    let stage = stage();
    let page = path(&stage);
    let order = |host: &str, more: &str, what: &str, body: &str| {
        let request = format!(
            "POST {page}{what} HTTP/1.1\r\nHost: {host}\r\n{more}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        send(&stage, &request).0
    };
    let here = stage.address.to_string();
    let (json, body) = (
        "Content-Type: application/json\r\n",
        r#"{"id":"sctp","on":false}"#,
    );
    assert_eq!(order(&here, json, "switch", body), 200);
    let foreign = format!("{json}Origin: http://evil.example\r\n");
    assert_eq!(order(&here, &foreign, "switch", body), 403);
    assert_eq!(order("evil.example", json, "switch", body), 421);
    assert_eq!(order(&here, "Content-Type: text/plain\r\n", "switch", body), 415);
    assert_eq!(order(&here, json, "switch", r#"{"id":"other","on":false}"#), 404);
    assert_eq!(order(&here, json, "switch", r#"{"id":"sctp"}"#), 400);
    assert_eq!(order(&here, json, "switch", &" ".repeat(5_000)), 400);
    assert_eq!(
        order(&here, json, "download", r#"{"setup":"sctp","mib":64}"#),
        404
    );
    assert_eq!(
        order(&here, json, "download", r#"{"setup":"sctp","mib":16}"#),
        200
    );
    assert_eq!(*stage.orders.lock(), ["sctp false", "download sctp 16"]);
}

#[test]
fn the_dashboard_listens_only_on_loopback() {
    let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
    let feed = Feed::new(Plan::default());
    let network = Network { feed: feed.clone(), orders: Arc::default() };
    let error = Dashboard::new(listener, feed, Arc::new(network))
        .err()
        .expect("a refusal");
    assert!(error.to_string().contains("this host only"), "{error}");
}

/// Feeds an example of everything that the page can show.
fn play(feed: &Feed) {
    for step in 0..200 {
        let swing = f64::from(step % 40) / 40.0;
        feed.sample(&[9.4 - 0.4 * swing, if step > 90 { 9.3 } else { 0.0 }]);
    }
    let candidate = |transport: &str, remote: &str, interface: &str| Description {
        transport: transport.into(),
        remote: remote.into(),
        interface: interface.into(),
    };
    let report = |request: u64, ms: u64, what: RaceEvent| {
        feed.reported(request, &RaceReport { after: Duration::from_millis(ms), what });
    };
    let (sctp, tcp) = (
        candidate("sctp", "10.77.0.2:80", ""),
        candidate("tcp", "10.77.0.2:80", ""),
    );
    let six = candidate("tcp", "[fd77::2]:80", "wlan0");
    let started = |candidate: &Description, known: &'static str| RaceEvent::Started {
        candidate: candidate.clone(),
        known,
    };
    let won = |candidate: &Description, ms: u64| RaceEvent::Won {
        candidate: candidate.clone(),
        took: Duration::from_millis(ms),
    };
    let failed = RaceEvent::Failed {
        candidate: six.clone(),
        failure: Failure::Refused,
        why: "refused".into(),
    };
    let cancelled = RaceEvent::Cancelled { candidate: sctp.clone() };
    feed.asked(1, "server:80");
    report(1, 2, started(&sctp, "unknown"));
    report(1, 252, started(&six, "unknown"));
    report(1, 260, failed);
    report(1, 261, started(&tcp, "unknown"));
    report(1, 283, won(&tcp, 22));
    report(1, 283, cancelled);
    feed.closed(1, None);
    feed.asked(2, "server:80");
    report(2, 1, started(&sctp, "won"));
    report(2, 24, won(&sctp, 23));
    feed.ranked(vec![
        Candidate {
            name: "sctp to 10.77.0.2:80".into(),
            score: Some((4.0, 1.0)),
            why: vec!["multihoming".into(), "remembered: won".into()],
            chosen: true,
        },
        Candidate {
            name: "tcp to 10.77.0.2:80".into(),
            score: Some((2.0, 1.0)),
            why: Vec::new(),
            chosen: false,
        },
    ]);
    let mut done = Download::begun(1, "SCTP or TCP", 16 << 20);
    (done.seconds, done.state, done.transport) = (Some(7.1), DownloadState::Done, Some("sctp".into()));
    feed.download(done);
    feed.download(Download::begun(2, "SCTP or TCP", 32 << 20));
}

#[test]
fn a_browser_shows_the_page_and_switches_links() -> Result<(), Box<dyn std::error::Error>> {
    let Some(command) = command(|program| Ok::<_, std::io::Error>(Command::new(program)))? else {
        skip(
            Need::Chromium,
            "the page in a browser",
            "apt-get install chromium",
        );
        return Ok(());
    };
    let stage = stage();
    play(&stage.feed);
    let mut browser = Browser::launch(command, &Options::default())?;
    browser.navigate(&stage.url)?;
    browser.wait_until("document.querySelectorAll('.lane').length == 4", SOON)?;
    assert_eq!(browser.evaluate("document.title")?, "A page under test");
    let outcomes = "[...document.querySelectorAll('.lane i')].map(bar => bar.dataset.outcome).join()";
    assert_eq!(browser.evaluate(outcomes)?, "won,cancelled,failed,won");
    assert_eq!(
        browser.evaluate("document.querySelector('#rates b').textContent")?,
        "9.2"
    );
    assert_eq!(
        browser.evaluate("document.querySelector('#downloads .figure').textContent")?,
        "under way"
    );
    assert_eq!(
        browser.evaluate("document.querySelector('.u-wrap canvas').width > 300")?,
        true
    );
    // A switch moves only when the network has changed.
    let is = |id: &str, on: bool| format!("document.querySelector('[data-id={id}]').ariaChecked == '{on}'");
    browser.wait_until(&is("sctp", true), SOON)?;
    browser.evaluate("document.querySelector('[data-id=sctp]').click()")?;
    browser.wait_until(&is("sctp", false), SOON)?;
    browser.evaluate("document.querySelector('[data-id=stuck]').click()")?;
    browser.wait_until(
        "document.querySelector('#complaint').textContent == 'this one is stuck'",
        SOON,
    )?;
    assert_eq!(browser.evaluate(&is("stuck", true))?, true);
    browser.evaluate("document.querySelector('#order button').click()")?;
    browser.wait_until(&is("sctp", false), SOON)?;
    stage.feed.switched("sctp", true);
    browser.wait_until(&is("sctp", true), SOON)?;
    assert_eq!(
        *stage.orders.lock(),
        ["sctp false", "stuck false", "download sctp 1"]
    );
    // The provoked refusal is the only complaint.
    let unexpected: Vec<_> = browser
        .complaints()
        .iter()
        .filter(|one| !one.contains("409"))
        .collect();
    assert!(unexpected.is_empty(), "{unexpected:?}");
    if let Some(directory) = std::env::var_os("HAWSER_SCREENSHOTS").map(std::path::PathBuf::from) {
        browser.evaluate("document.querySelector('#complaint').hidden = true")?;
        std::fs::write(directory.join("bright.png"), browser.screenshot()?)?;
        browser.prefer("dark")?;
        std::fs::write(directory.join("dark.png"), browser.screenshot()?)?;
        browser.resize((390, 844), true)?;
        std::fs::write(directory.join("narrow.png"), browser.screenshot()?)?;
    }
    // The page must not be wider than a phone's screen.
    browser.resize((390, 844), true)?;
    browser.wait_until("document.documentElement.scrollWidth <= 390", SOON)?;
    Ok(())
}
