//! The proxy on broken networks: curl's answers and their timing.

use std::io::{Read, Write};
use std::process::{Command, ExitCode, Output};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hawser::connect::{Profile, Racer};
use hawser_lab::{Lab, Spec};
use hawser_proxy::{Choice, Proxy, ProxyEvent, Settings};
use parking_lot::Mutex;

use hawser_testing::{Need, Test, TestResult, has, in_user_namespace, tests};

const TESTS: &[Test] = tests![
    dead_ipv6_costs_one_delay,
    slow_names_cost_their_delay,
    every_profile_connects,
    failures_have_their_codes,
    a_blocked_transport_is_remembered,
    candidates_keep_to_their_interface,
    https_records_lead_to_other_endpoints,
    own_addresses_wait_for_the_endpoints_of_records,
    own_addresses_are_reached_where_every_endpoint_fails,
    ipv4_addresses_are_reached_by_a_translator,
    names_of_old_hosts_are_reached,
];

/// The sink drops everything, so its addresses are dead without an ICMP error. IPv6 addresses of the lab rank
/// after IPv4 (RFC 6724, 2.1: fc00::/7), unless they are known first.
const FILE: &str = r#"
    host = [{ name = "client" }, { name = "server" }, { name = "sink" }]
    [[link]]
    between = ["client", "server"]
    interfaces = ["wlan0", "eth0"]
    both = { delay = "5ms" }
    [[link]]
    name = "hole"
    between = ["client", "sink"]
    interfaces = ["wwan0", "eth0"]
    both = { delay = "1ms" }
    [[dns]]
    name = "plain.example"
    addresses = ["server"]
    ipv6 = { answer = "missing" }
    [[dns]]
    name = "dead6.example"
    addresses = ["SINK6", "10.77.0.2"]
    ipv4 = { delay = "20ms" }
    [[dns]]
    name = "two.example"
    addresses = ["sink", "10.77.0.2"]
    ipv6 = { answer = "missing" }
    [[dns]]
    name = "slow.example"
    addresses = ["server"]
    ipv4 = { delay = "300ms" }
    ipv6 = { answer = "silence" }
    [[dns]]
    name = "broken.example"
    ipv4 = { answer = "failure" }
    ipv6 = { answer = "failure" }
    [[dns]]
    name = "moved.example"
    addresses = ["sink"]
    ipv6 = { answer = "missing" }
    services = [
        { priority = 3, target = "pool.example", port = 8080 },
        { priority = 1, target = "gone.example", port = 8443 },
        { priority = 2, target = "pool.example", port = 8443 },
    ]
    [[dns]]
    name = "apex.example"
    services = [{ priority = 0, target = "pool.example" }]
    [[dns]]
    name = "quick.example"
    addresses = ["server"]
    ipv6 = { answer = "missing" }
    https = { delay = "15ms" }
    services = [
        { priority = 2, target = "pool.example", port = 8443 },
        { priority = 1, target = "pool.example", port = 8080, mandatory = 65000 },
    ]
    [[dns]]
    name = "quick-apex.example"
    addresses = ["server"]
    ipv6 = { answer = "missing" }
    services = [{ priority = 0, target = "far.example" }]
    [[dns]]
    name = "far.example"
    addresses = ["192.0.2.9"]
    ipv4 = { delay = "30ms" }
    ipv6 = { answer = "missing" }
    [[dns]]
    name = "dead-target.example"
    addresses = ["server"]
    ipv6 = { answer = "missing" }
    services = [{ target = "two-sinks.example" }]
    [[dns]]
    name = "two-sinks.example"
    addresses = ["sink"]
    ipv6 = { answer = "missing" }
    [[dns]]
    name = "refused-target.example"
    addresses = ["server"]
    ipv6 = { answer = "missing" }
    services = [{ target = "pool.example", port = 9999 }]
    [[dns]]
    name = "unknown-target.example"
    addresses = ["server"]
    ipv6 = { answer = "missing" }
    services = [{ target = "unregistered.example" }]
    [[dns]]
    name = "understood.example"
    addresses = ["server"]
    ipv6 = { answer = "missing" }
    services = [{ target = "pool.example", port = 8443, mandatory = 65000 }]
    [[dns]]
    name = "pool.example"
    addresses = ["server"]
    ipv6 = { answer = "missing" }
    [[dns]]
    name = "ipv4only.arpa"
    addresses = ["192.0.0.170", "192.0.0.171", "2001:db8:64::192.0.0.170", "2001:db8:64::192.0.0.171"]
    [[dns]]
    name = "four.example"
    addresses = ["192.0.2.1"]
    ipv6 = { answer = "missing" }
    [[dns]]
    name = "-under_score.example"
    addresses = ["server"]
    ipv6 = { answer = "missing" }
    [[dns]]
    name = "no-answer.example"
    addresses = ["sink"]
    ipv6 = { answer = "missing" }
"#;

const PORT: u16 = 8080;
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";

fn main() -> ExitCode {
    in_user_namespace("the proxy in a lab", TESTS)
}

/// A proxy at the client, an origin at the server, and the proxy's events.
struct ProxiedPath<'a> {
    lab: &'a Lab,
    reported: Arc<Mutex<Vec<ProxyEvent>>>,
}

impl ProxiedPath<'_> {
    fn curl(&self, scheme: &str, arguments: &[&str]) -> TestResult<(Output, Duration)> {
        let begin = Instant::now();
        let output = self.lab.host("client")?.run(|| {
            let mut curl = Command::new("curl");
            curl.args(["-sS", "--max-time", "20", "--noproxy", "", "--proxy"]);
            curl.arg(format!("{scheme}://127.0.0.1:1080"))
                .args(arguments)
                .output()
        })??;
        Ok((output, begin.elapsed()))
    }

    fn events(&self, name: &str) -> Vec<serde_json::Value> {
        let reported = self.reported.lock();
        let all = reported
            .iter()
            .filter_map(|event| serde_json::to_value(event).ok());
        all.filter(|event| event["event"] == name).collect()
    }
}

fn on_stage(settings: Settings, act: impl FnOnce(&ProxiedPath<'_>) -> TestResult) -> TestResult {
    on_prepared_stage(settings, |_| Ok(()), act)
}

/// Runs `act` in a lab that `prepare` has changed.
fn on_prepared_stage(
    settings: Settings,
    prepare: impl FnOnce(&Lab) -> TestResult,
    act: impl FnOnce(&ProxiedPath<'_>) -> TestResult,
) -> TestResult {
    let plain = Lab::up(&Spec::parse(&FILE.replace("SINK6", "sink"))?)?;
    let six = plain
        .host("sink")?
        .addresses()
        .iter()
        .find(|address| address.is_ipv6())
        .copied();
    drop(plain);
    let lab = Lab::up(&Spec::parse(
        &FILE.replace("SINK6", &six.ok_or("no IPv6")?.to_string()),
    )?)?;
    lab.link("hole")?.silence(true)?;
    for port in [PORT, 8443, 443] {
        let listener = lab
            .host("server")?
            .run(|| std::net::TcpListener::bind(("::", port)))??;
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(ANSWER);
            }
        });
    }
    prepare(&lab)?;
    let reported: Arc<Mutex<Vec<ProxyEvent>>> = Arc::default();
    let log = Arc::clone(&reported);
    let observer = Arc::new(move |event| log.lock().push(event));
    let settings = Settings { observer: Some(observer), ..settings };
    let (ready, is_ready) = std::sync::mpsc::channel();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    std::thread::scope(|scope| {
        let client = lab.host("client")?;
        let serving = scope.spawn(move || {
            client.run(|| -> TestResult {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()?;
                runtime.block_on(async {
                    let proxy = Proxy::bind(Racer::open().await?, settings).await?;
                    ready.send(())?;
                    proxy.serve(async { drop(stopped.await) }).await;
                    Ok(())
                })
            })?
        });
        let result = match is_ready.recv_timeout(Duration::from_secs(10)) {
            Ok(()) => act(&ProxiedPath { lab: &lab, reported }),
            Err(_) => Err("the proxy does not begin".into()),
        };
        drop(stop);
        serving.join().map_err(|_| "the proxy panicked")??;
        result
    })
}

/// Returns the time until the first race was won, in milliseconds.
fn won_after(place: &ProxiedPath<'_>) -> Result<f64, &'static str> {
    place.events("won")[0]["after_ms"].as_f64().ok_or("no time")
}

fn hello(output: &Output) {
    assert_eq!(output.stdout, b"hello", "{output:?}");
}

/// RFC 8305, 5: a Connection Attempt Delay of 250 ms, and a round trip of 10 ms. The rest allows for curl's
/// start and a busy machine.
fn dead_ipv6_costs_one_delay() -> TestResult {
    on_stage(Settings::default(), |place| {
        for scheme in ["socks5h", "http"] {
            let (output, took) = place.curl(scheme, &["http://dead6.example:8080/"])?;
            hello(&output);
            assert!(took < Duration::from_millis(900), "{scheme}: {took:?}");
        }
        let started = place.events("started");
        assert!(
            started[0]["remote"]
                .as_str()
                .is_some_and(|remote| remote.starts_with('[')),
            "{started:?}"
        );
        let after = won_after(place)?;
        assert!((250.0..450.0).contains(&after), "{after}");
        Ok(())
    })
}

/// The IPv4 answer takes 300 ms, and the IPv6 answer never comes. The Resolution Delay of 50 ms begins with
/// the first answer (RFC 8305, 3).
fn slow_names_cost_their_delay() -> TestResult {
    on_stage(Settings::default(), |place| {
        let (output, _) = place.curl("socks5h", &["http://slow.example:8080/"])?;
        hello(&output);
        let after = won_after(place)?;
        assert!((350.0..550.0).contains(&after), "{after}");
        Ok(())
    })
}

fn every_profile_connects() -> TestResult {
    for profile in Profile::ALL {
        on_stage(
            Settings { profile: profile.clone(), ..Settings::default() },
            |place| {
                for name in ["plain.example", "dead6.example"] {
                    let (output, took) = place.curl("socks5h", &[&format!("http://{name}:8080/")])?;
                    hello(&output);
                    assert!(
                        took < Duration::from_millis(1200),
                        "{}: {name}: {took:?}",
                        profile.name
                    );
                }
                Ok(())
            },
        )?;
    }
    Ok(())
}

fn failures_have_their_codes() -> TestResult {
    on_stage(
        Settings { deadline: Duration::from_secs(2), ..Settings::default() },
        |place| {
            for (url, reply, status) in [
                ("http://plain.example:81/", "(5)", "502"),
                ("http://missing.example/", "(4)", "502"),
                ("http://broken.example/", "(1)", "504"),
                ("http://no-answer.example/", "(6)", "504"),
                ("http://[2001:db8:dead::1]/", "(3)", "502"),
            ] {
                let (output, took) = place.curl("socks5h", &[url])?;
                let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(stderr.contains(reply), "{url}: {stderr}");
                assert!(took < Duration::from_secs(4), "{url}: {took:?}");
                let (output, _) = place.curl("http", &["-o", "/dev/null", "-w", "%{http_code}", url])?;
                assert_eq!(
                    String::from_utf8_lossy(&output.stdout),
                    status,
                    "{url}: {output:?}"
                );
            }
            Ok(())
        },
    )
}

/// The second race starts with the winner of the first, and has no delay.
fn a_blocked_transport_is_remembered() -> TestResult {
    on_stage(Settings::default(), |place| {
        for _ in 0..2 {
            hello(&place.curl("socks5h", &["http://two.example:8080/"])?.0);
        }
        let (started, won) = (place.events("started"), place.events("won"));
        let second: Vec<_> = started.iter().filter(|event| event["request"] == 2).collect();
        assert_eq!(second.len(), 1, "{second:?}");
        assert_eq!(second[0]["known"], "won");
        assert!(
            won[1]["after_ms"].as_f64().is_some_and(|after| after < 200.0),
            "{won:?}"
        );
        Ok(())
    })
}

fn candidates_keep_to_their_interface() -> TestResult {
    let over = |word| -> TestResult<Settings> {
        let transport = hawser::connect::transports::Transports::new().parse(word, 0)?;
        Ok(Settings {
            choice: Choice::Always([transport].into()),
            deadline: Duration::from_secs(1),
            ..Settings::default()
        })
    };
    on_stage(over("tcp:wlan0")?, |place| {
        hello(&place.curl("socks5h", &["http://plain.example:8080/"])?.0);
        assert_eq!(place.events("won")[0]["interface"], "wlan0");
        Ok(())
    })?;
    on_stage(over("tcp:wwan0")?, |place| {
        let (output, _) = place.curl("socks5h", &["http://plain.example:8080/"])?;
        assert!(!output.status.success(), "the other link does not lead there");
        Ok(())
    })?;
    on_stage(over("mptcp")?, |place| {
        hello(&place.curl("http", &["http://plain.example:8080/"])?.0);
        Ok(())
    })
}

/// RFC 9460, 2.4: the best of the answering endpoints by SvcPriority wins, and an alias uses the addresses of
/// its target.
fn https_records_lead_to_other_endpoints() -> TestResult {
    for profile in [Profile::VERSION3, Profile::RFC8305] {
        let name = profile.name.clone();
        on_stage(Settings { profile, ..Settings::default() }, |place| {
            for (url, endpoint) in [
                ("http://moved.example:443/", "10.77.0.2:8443"),
                ("http://apex.example:443/", "10.77.0.2:443"),
            ] {
                let (output, took) = place.curl("socks5h", &[url])?;
                hello(&output);
                let won = place.events("won");
                assert_eq!(
                    won.last().ok_or("nobody won")?["remote"],
                    endpoint,
                    "{name}: {url}"
                );
                assert!(took < Duration::from_millis(1200), "{name}: {url}: {took:?}");
            }
            // A tunnel to another port may be for any protocol.
            let (output, _) = place.curl("socks5h", &["http://pool.example:8080/"])?;
            hello(&output);
            Ok(())
        })?;
    }
    Ok(())
}

/// RFC 9460, 3 and 5.1: the name's own address resolves at once, before the record and the target's address,
/// and is not used. A record with an unknown mandatory parameter is ignored (8).
fn own_addresses_wait_for_the_endpoints_of_records() -> TestResult {
    for profile in [Profile::VERSION3, Profile::RFC8305, Profile::NEAT] {
        let name = profile.name.clone();
        let settings = Settings { profile, ..Settings::default() };
        let alias = |lab: &Lab| -> TestResult {
            for (host, address) in [
                ("server", "address add 192.0.2.9/32 dev lo"),
                ("client", "route add 192.0.2.9 via 10.77.0.2"),
            ] {
                let output = lab
                    .host(host)?
                    .run(|| Command::new("ip").args(address.split(' ')).output())??;
                assert!(output.status.success(), "ip {address}: {output:?}");
            }
            Ok(())
        };
        on_prepared_stage(settings, alias, |place| {
            for (url, endpoint) in [
                ("http://quick.example:443/", "10.77.0.2:8443"),
                ("http://quick-apex.example:443/", "192.0.2.9:443"),
                ("http://understood.example:443/", "10.77.0.2:443"),
            ] {
                // The second time uses the remembered outcome.
                for _ in 0..2 {
                    let (output, _) = place.curl("socks5h", &[url])?;
                    hello(&output);
                    let won = place.events("won");
                    let last = won.last().ok_or("no winner")?;
                    assert_eq!(last["remote"], endpoint, "{name}: {url}");
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// RFC 9460, 3: a client that can do without records uses the name's own addresses when the endpoints have
/// failed. This happens at once if they refuse or have no addresses, and after 2 s if they drop packets. If
/// the own addresses won before, it happens after 250 ms.
fn own_addresses_are_reached_where_every_endpoint_fails() -> TestResult {
    on_stage(Settings::default(), |place| {
        for (url, delay) in [
            ("http://dead-target.example:443/", 2000..3500),
            ("http://dead-target.example:443/", 250..1500),
            ("http://refused-target.example:443/", 0..1000),
            ("http://unknown-target.example:443/", 0..1000),
        ] {
            let (output, took) = place.curl("socks5h", &[url])?;
            hello(&output);
            let won = place.events("won");
            assert_eq!(won.last().ok_or("no winner")?["remote"], "10.77.0.2:443", "{url}");
            assert!(delay.contains(&took.as_millis()), "{url}: {took:?}");
        }
        Ok(())
    })
}

/// An IPv6-only network whose NAT64 has a prefix of its own (RFC 6052, 2.4; RFC 7050). The server has the
/// address to which the NAT64 would send.
fn ipv4_addresses_are_reached_by_a_translator() -> TestResult {
    if !has("ipv4_addresses_are_reached_by_a_translator", &[Need::Ip]) {
        return Ok(());
    }
    let ip = |lab: &Lab, host: &str, arguments: &str| -> TestResult {
        let output = lab
            .host(host)?
            .run(|| Command::new("ip").args(arguments.split(' ')).output())??;
        assert!(output.status.success(), "ip {arguments}: {output:?}");
        Ok(())
    };
    let prepare = |lab: &Lab| {
        ip(lab, "client", "-4 address flush dev wlan0")?;
        ip(lab, "client", "-4 address flush dev wwan0")?;
        ip(lab, "server", "-6 address add 2001:db8:64::c000:201/128 dev lo")?;
        let server = lab
            .host("server")?
            .addresses()
            .iter()
            .find(|address| address.is_ipv6())
            .copied();
        let server = server.ok_or("no IPv6")?;
        ip(lab, "client", &format!("-6 route add default via {server}"))
    };
    on_prepared_stage(Settings::default(), prepare, |place| {
        let (output, took) = place.curl("socks5h", &["http://192.0.2.1:8080/"])?;
        hello(&output);
        assert_eq!(place.events("won")[0]["remote"], "[2001:db8:64::c000:201]:8080");
        assert!(took < Duration::from_millis(900), "{took:?}");
        // RFC 8305, 7.2: the name's own address is dead, and the network does not synthesise an address for
        // it.
        let (output, took) = place.curl("socks5h", &["http://four.example:8080/"])?;
        hello(&output);
        assert_eq!(place.events("won")[1]["remote"], "[2001:db8:64::c000:201]:8080");
        assert!(took < Duration::from_millis(3500), "{took:?}");
        Ok(())
    })
}

/// RFC 2181, 11: any label may be looked up, even if it is not a valid host name.
fn names_of_old_hosts_are_reached() -> TestResult {
    on_stage(Settings::default(), |place| {
        for scheme in ["socks5h", "http"] {
            let (output, _) = place.curl(scheme, &["http://-under_score.example:8080/"])?;
            hello(&output);
        }
        Ok(())
    })
}
