//! RFC 9622 where paths matter: two links between a client and a server.

use std::future::Future;
use std::net::IpAddr;
use std::process::ExitCode;
use std::time::Duration;

use hawser_connect::taps::{
    ConnectionEvent, LengthPrefix, LocalEndpoint, Preconnection, Preference, Property, RemoteEndpoint,
    SecurityParameters,
};
use hawser_lab::{Direction, Lab, Spec};
use hawser_session::Identity;
use hawser_session::document::Stack;
use hawser_sockets::host::{StackSetup, parse_address};

use hawser_testing::{Test, TestResult, in_user_namespace, tests};

const TESTS: &[Test] = tests![
    several_paths_carry_one_connection,
    a_connection_uses_a_transport_written_in_mtp,
    paths_are_preferred_and_prohibited,
    a_peer_that_stops_answering_times_out,
];

const FILE: &str = r#"
    host = [{ name = "client" }, { name = "server" }]
    [[link]]
    name = "wifi"
    between = ["client", "server"]
    interfaces = ["wlan0", "eth0"]
    both = { rate = "20Mbit/s", queue = "100kB", delay = "5ms" }
    [[link]]
    name = "wired"
    between = ["client", "server"]
    interfaces = ["eth0", "eth1"]
    both = { rate = "20Mbit/s", queue = "100kB", delay = "5ms" }
"#;

const PORT: u16 = 4_433;
const MESSAGE: usize = 4_000_000;

fn main() -> ExitCode {
    in_user_namespace("RFC 9622's words in a lab", TESTS)
}

/// Returns the server's address on the first link.
fn address(lab: &Lab) -> TestResult<IpAddr> {
    Ok(lab.host("server")?.ipv4().ok_or("the server has no IPv4")?)
}

/// Runs a future on a host.
fn on<T: Send>(lab: &Lab, host: &str, work: impl Future<Output = TestResult<T>> + Send) -> TestResult<T> {
    lab.host(host)?.run(|| -> TestResult<T> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        runtime.block_on(work)
    })?
}

/// Returns the number of bytes that a link carried from the client.
fn carried(lab: &Lab, link: &str) -> TestResult<u64> {
    Ok(lab.link(link)?.statistics(Direction::Forward)?.delivered_bytes)
}

fn framed(security: SecurityParameters) -> Preconnection {
    Preconnection::new(security).with_framer(LengthPrefix::new(8 << 20))
}

/// Takes one Connection and reads all its bytes, then answers with their number.
async fn serve(wanted: Preconnection, ready: std::sync::mpsc::Sender<()>) -> TestResult {
    let mut listener = wanted
        .with_local(LocalEndpoint::new().with_port(PORT))
        .listen()
        .await?;
    ready.send(())?;
    let mut server = listener.accept().await.ok_or("it has stopped")?;
    let mut count = 0;
    loop {
        let received = server.receive().await?;
        count += received.data().len();
        if received.is_end_of_message() {
            break;
        }
    }
    server.send(count.to_string()).await?;
    // The client reports the end.
    let _ = server.receive().await;
    Ok(())
}

/// Runs a server of `has`, and `client` meanwhile.
fn beside(lab: &Lab, has: Preconnection, client: impl FnOnce() -> TestResult) -> TestResult {
    let (ready, is_ready) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let serving = scope.spawn(move || on(lab, "server", serve(has, ready)));
        is_ready
            .recv_timeout(Duration::from_secs(10))
            .map_err(|_| "the server does not begin")?;
        let result = client();
        match serving.join().map_err(|_| "the server panicked")? {
            Ok(()) => result,
            Err(error) => result.and(Err(error)),
        }
    })
}

/// `multipath` Active and `multipathPolicy` Aggregate: each of two equal links carries at least a quarter of
/// one message.
fn several_paths_carry_one_connection() -> TestResult {
    let lab = Lab::up(&Spec::parse(FILE)?)?;
    let identity = Identity::generate(vec!["localhost".into()])?;
    let trusts = SecurityParameters::new()
        .with_pinned_server_certificate(identity.digest())
        .with_server_name("localhost");
    let has = framed(trusts.clone().with_server_certificate(identity));
    let mut wants = framed(trusts).with_remote(
        RemoteEndpoint::new()
            .with_ip_address(address(&lab)?)
            .with_port(PORT),
    );
    wants
        .set_property(Property::Multipath, "Active")?
        .set_property(Property::MultipathPolicy, "Aggregate")?;
    let client = async {
        let mut client = wants.initiate()?;
        client.established().await?;
        assert_eq!(client.transport(), "session");
        client.send(vec![7; MESSAGE]).await?;
        assert_eq!(client.receive().await?.data(), &MESSAGE.to_string());
        client.close();
        let mut paths = 0;
        while let Some(event) = client.next_event().await {
            paths +=
                usize::from(matches!(&event, ConnectionEvent::PathChange(what) if what.ends_with("in use")));
        }
        assert!(paths >= 2, "{paths} paths were reported");
        Ok(())
    };
    beside(&lab, has, || on(&lab, "client", client))?;
    let (wifi, wired) = (carried(&lab, "wifi")?, carried(&lab, "wired")?);
    assert!(wifi.min(wired) > MESSAGE as u64 / 4, "{wifi} and {wired} bytes");
    Ok(())
}

/// A stack's transport is a candidate like any other: alone if the endpoint names it, and as a path of a
/// session that uses every path.
fn a_connection_uses_a_transport_written_in_mtp() -> TestResult {
    let lab = Lab::up(&Spec::parse(FILE)?)?;
    for (multipath, transport) in [("Disabled", "tls/mtp-tcp"), ("Active", "session")] {
        let identity = Identity::generate(vec!["localhost".into()])?;
        let trusts = SecurityParameters::new()
            .with_pinned_server_certificate(identity.digest())
            .with_server_name("localhost");
        let has = framed(trusts.clone().with_server_certificate(identity));
        let there = RemoteEndpoint::new()
            .with_ip_address(address(&lab)?)
            .with_port(PORT);
        let wants = framed(trusts).with_remote(there.with_protocol(transport));
        // The kernel has the address 10.77.0.1 there.
        let setup = StackSetup::new("packet:wlan0".parse()?, parse_address("10.77.0.9/24")?);
        let described = Stack { program: "tcp".into(), params: Vec::new(), engine: None, setup };
        let client = async {
            let stack = described.start()?;
            let mut wants = wants.with_stack(stack.clone());
            wants.set_property(Property::Multipath, multipath)?;
            let mut client = wants.initiate()?;
            client.established().await?;
            client.send(vec![7; MESSAGE]).await?;
            assert_eq!(client.receive().await?.data(), &MESSAGE.to_string());
            let frames = stack
                .network()
                .inspect(|endpoint| endpoint.counters().frames_sent);
            if multipath == "Disabled" {
                assert_eq!(client.transport(), "mtp-tcp");
                assert!(frames as usize > MESSAGE / 65_536, "{frames} frames by the stack");
            }
            client.close();
            let mut paths = 0;
            while let Some(event) = client.next_event().await {
                paths += usize::from(
                    matches!(&event, ConnectionEvent::PathChange(what) if what.ends_with("in use")),
                );
            }
            if multipath == "Active" {
                // It completes the handshake and joins the session; the link has no more capacity for it than
                // for the kernel's TCP.
                assert!(
                    paths == 3 && frames > 4,
                    "{paths} paths, {frames} frames by the stack"
                );
            }
            Ok(())
        };
        beside(&lab, has, || on(&lab, "client", client))?;
    }
    Ok(())
}

/// RFC 9622, 6.2.11: by type, and by name.
fn paths_are_preferred_and_prohibited() -> TestResult {
    for (name, preference) in [("Wi-Fi", Preference::Prohibit), ("eth0", Preference::Prefer)] {
        let lab = Lab::up(&Spec::parse(FILE)?)?;
        let there = RemoteEndpoint::new()
            .with_ip_address(address(&lab)?)
            .with_port(PORT);
        let mut wants = framed(SecurityParameters::disabled()).with_remote(there);
        wants
            .properties_mut()
            .interface(name, preference)
            .interface("lo", Preference::Prohibit);
        let client = async {
            let mut client = wants.initiate()?;
            client.send(vec![7; MESSAGE / 4]).await?;
            assert_eq!(client.receive().await?.data(), &(MESSAGE / 4).to_string());
            Ok(())
        };
        beside(&lab, framed(SecurityParameters::disabled()), || {
            on(&lab, "client", client)
        })?;
        let (wifi, wired) = (carried(&lab, "wifi")?, carried(&lab, "wired")?);
        assert!(
            wired > MESSAGE as u64 / 4 && wifi < 10_000,
            "{name}: {wifi} and {wired} bytes"
        );
    }
    Ok(())
}

/// RFC 9622, 8.1.3: a Connection ends if data is not delivered within `connTimeout`.
fn a_peer_that_stops_answering_times_out() -> TestResult {
    let lab = Lab::up(&Spec::parse(FILE)?)?;
    let there = RemoteEndpoint::new()
        .with_ip_address(address(&lab)?)
        .with_port(PORT);
    let mut wants = framed(SecurityParameters::disabled()).with_remote(there);
    wants.set_property(Property::ConnTimeout, Duration::from_millis(700))?;
    let (lab, wants) = (&lab, &wants);
    let client = async {
        let mut client = wants.initiate()?;
        client.established().await?;
        for link in ["wifi", "wired"] {
            lab.link(link)?.silence(true)?;
        }
        let began = std::time::Instant::now();
        client.send(vec![7; 900_000]).await?;
        let mut last = None;
        while let Some(event) = client.next_event().await {
            last = Some(event);
        }
        let took = began.elapsed();
        assert!(
            matches!(last, Some(ConnectionEvent::ConnectionError(_))),
            "{last:?}"
        );
        assert!(
            (Duration::from_millis(600)..Duration::from_secs(4)).contains(&took),
            "{took:?}"
        );
        Ok(())
    };
    let (ready, is_ready) = std::sync::mpsc::channel();
    let listening = lab.host("server")?.run(move || {
        let listener = std::net::TcpListener::bind(("0.0.0.0", PORT));
        ready.send(()).map(|()| listener)
    })?;
    is_ready.recv_timeout(Duration::from_secs(10))?;
    let _listener = listening?;
    on(lab, "client", client)
}
