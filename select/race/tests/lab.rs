//! Names in a lab: the real resolver against a real server, whose answers and delays are scripted.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // Names are looked up in networks, in real time.

use std::net::IpAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use hawser_lab::{Lab, Spec};
use hawser_race::resolve::{Answer, Config, Lookup, Question, ResolveError, ResolvedRecords, Resolver};

use hawser_testing::{Test, TestResult, in_user_namespace, tests};

const TESTS: &[Test] = tests![
    each_question_is_answered_separately,
    services_are_sorted_by_priority,
    services_of_one_priority_take_turns,
    aliases_are_followed,
    aliases_in_a_circle_are_named,
    failures_have_their_class,
    the_hosts_file_is_honoured,
    the_search_list_is_honoured,
    addresses_and_this_host_need_no_server,
    questions_leave_from_their_address,
    dropping_a_lookup_cancels_its_queries,
];

const FILE: &str = r#"
    host = [{ name = "client" }, { name = "server" }]
    link = [{ between = ["client", "server"] }]
    [[dns]]
    name = "www.example"
    addresses = ["server", "192.0.2.7"]
    ipv4 = { delay = "200ms" }
    ipv6 = { answer = "silence" }
    https = { delay = "30ms" }
    services = [
        { priority = 2, target = "backup.example", alpn = ["h2"], port = 8443 },
        { priority = 1, alpn = ["h3", "h2"], hints = ["server"] },
    ]
    [[dns]]
    name = "even.example"
    services = [{ target = "a.example" }, { target = "b.example" }, { priority = 2, target = "c.example" }]
    [[dns]]
    name = "alias.example"
    services = [{ priority = 0, target = "pool.example" }]
    [[dns]]
    name = "pool.example"
    addresses = ["server"]
    services = [{ alpn = ["h3"] }]
    [[dns]]
    name = "bare.example"
    services = [{ priority = 0, target = "quiet.example" }]
    [[dns]]
    name = "round.example"
    services = [{ priority = 0, target = "round.example" }]
    [[dns]]
    name = "quiet.example"
    addresses = ["192.0.2.9"]
    [[dns]]
    name = "broken.example"
    ipv4 = { answer = "failure" }
    ipv6 = { answer = "refused" }
    https = { answer = "silence" }
    [[dns]]
    name = "_8443._https.www.example"
    services = [{ alpn = ["h2"] }]
"#;

/// The configuration of the lab's hosts, with shorter timeouts.
const IMPATIENT: &str = "nameserver 127.0.0.53\noptions timeout:1 attempts:1\n";

fn main() -> ExitCode {
    in_user_namespace("names in a lab", TESTS)
}

/// Runs `work` in the client of the lab.
fn in_client(work: impl AsyncFnOnce() -> TestResult + Send) -> TestResult {
    let lab = Lab::up(&Spec::parse(FILE)?)?;
    lab.host("client")?.run(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(work())
    })?
}

/// Returns all answers, in the order of arrival.
async fn all(resolver: &Resolver, lookup: &Lookup) -> Vec<Answer> {
    let (mut answers, mut all) = (resolver.lookup(lookup), Vec::new());
    while let Some(answer) = answers.next().await {
        all.push(answer);
    }
    all
}

async fn only(
    resolver: &Resolver,
    name: &str,
    question: Question,
) -> TestResult<Result<ResolvedRecords, ResolveError>> {
    let answers = all(resolver, &Lookup::https(name, 443)?.only(&[question])).await;
    assert_eq!(answers.len(), 1, "{name}");
    Ok(answers.into_iter().next().ok_or("no answer")?.result)
}

fn texts(records: &ResolvedRecords) -> Vec<String> {
    records.addresses.iter().map(ToString::to_string).collect()
}

fn each_question_is_answered_separately() -> TestResult {
    in_client(async || {
        let resolver = Resolver::new(&Config::system()?)?;
        let start = Instant::now();
        let mut answers = resolver.lookup(&Lookup::https("www.example", 443)?);
        let first = answers.next().await.ok_or("no answer")?;
        assert_eq!(first.question, Question::Service);
        assert!(
            (30..150).contains(&start.elapsed().as_millis()),
            "{:?}",
            start.elapsed()
        );
        let second = answers.next().await.ok_or("no second answer")?;
        assert_eq!(second.question, Question::Ipv4);
        assert!(
            (200..400).contains(&start.elapsed().as_millis()),
            "{:?}",
            start.elapsed()
        );
        let records = second.result?;
        let mut addresses = texts(&records);
        addresses.sort();
        assert_eq!(addresses, ["10.77.0.2", "192.0.2.7"]);
        assert!(
            records.lives_for <= Duration::from_secs(1),
            "the script's answers are not kept"
        );
        let third = tokio::time::timeout(Duration::from_millis(300), answers.next()).await;
        assert!(third.is_err(), "IPv6 gives no answer: {third:?}");
        Ok(())
    })
}

/// RFC 9460, 2.4.1: in 64 lookups, each of two records comes first at least once; the probability of a
/// failure by chance is 2^-63.
fn services_of_one_priority_take_turns() -> TestResult {
    in_client(async || {
        let resolver = Resolver::new(&Config::system()?)?;
        let mut firsts = std::collections::BTreeSet::new();
        for _ in 0..64 {
            let records = only(&resolver, "even.example", Question::Service).await??;
            let targets: Vec<String> = records
                .services
                .services
                .into_iter()
                .map(|one| one.target)
                .collect();
            assert_eq!(targets[2], "c.example.");
            firsts.insert(targets[0].clone());
        }
        assert_eq!(firsts.len(), 2, "{firsts:?}");
        Ok(())
    })
}

fn services_are_sorted_by_priority() -> TestResult {
    in_client(async || {
        let resolver = Resolver::new(&Config::system()?)?;
        let services = only(&resolver, "www.example", Question::Service).await??.services;
        assert_eq!(services.alias, None);
        let [first, second] = &services.services[..] else {
            return Err(format!("{services:?}").into());
        };
        assert_eq!(
            (first.priority, first.target.as_str(), first.port),
            (1, "www.example.", None)
        );
        assert_eq!(first.alpn, ["h3", "h2"]);
        let hints: Vec<String> = first.hints().map(|ip| ip.to_string()).collect();
        assert_eq!(hints, ["fd77::2", "10.77.0.2"]);
        assert_eq!(
            (second.priority, second.target.as_str(), second.port),
            (2, "backup.example.", Some(8443))
        );
        let other = all(
            &resolver,
            &Lookup::https("www.example", 8443)?.only(&[Question::Service]),
        )
        .await;
        let records = other.into_iter().next().ok_or("no answer")?.result?;
        assert_eq!(
            records.services.services[0].alpn,
            ["h2"],
            "RFC 9460, 9.1: another port has another name"
        );
        Ok(())
    })
}

fn aliases_are_followed() -> TestResult {
    in_client(async || {
        let resolver = Resolver::new(&Config::system()?)?;
        let services = only(&resolver, "alias.example", Question::Service)
            .await??
            .services;
        assert_eq!(services.alias.as_deref(), Some("pool.example."));
        assert_eq!(services.services[0].target, "pool.example.");
        let bare = only(&resolver, "bare.example", Question::Service)
            .await??
            .services;
        assert_eq!(
            (bare.alias.as_deref(), bare.services.len()),
            (Some("quiet.example."), 0)
        );
        let start = Instant::now();
        let round = only(&resolver, "round.example", Question::Service)
            .await?
            .expect_err("it has no end");
        assert!(
            round.to_string().ends_with(": round.example. → round.example."),
            "{round}"
        );
        assert!(start.elapsed() < Duration::from_secs(1));
        Ok(())
    })
}

/// Serves names that are aliases of one another, in the wire format of RFC 1035, 4.1: `a.loop` is an alias of
/// `b.loop`, and any other name of `a.loop`.
fn serve_circle(socket: &std::net::UdpSocket) {
    let mut buffer = [0; 512];
    while let Ok((length, from)) = socket.recv_from(&mut buffer) {
        let question = &buffer[12..length];
        let end = question.iter().position(|byte| *byte == 0).unwrap_or_default() + 5;
        let target: &[u8] = if question.starts_with(b"\x01a") {
            b"\x01b\x04loop\0"
        } else {
            b"\x01a\x04loop\0"
        };
        let header = [buffer[0], buffer[1], 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
        let record = b"\xc0\x0c\0\x05\0\x01\0\0\0\0\0\x08";
        let answer = [&header[..], &question[..end], record, target].concat();
        let _ = socket.send_to(&answer, from);
    }
}

/// RFC 1034, 3.6.2: "CNAME chains should be followed and CNAME loops signalled as an error".
fn aliases_in_a_circle_are_named() -> TestResult {
    in_client(async || {
        let socket = std::net::UdpSocket::bind("127.0.0.9:53")?;
        std::thread::spawn(move || serve_circle(&socket));
        let resolver = Resolver::new(&Config::parse(
            "nameserver 127.0.0.9\noptions timeout:1 attempts:1\n",
            "",
        )?)?;
        for (name, question) in [("a.loop", Question::Ipv4), ("b.loop", Question::Ipv6)] {
            let error = only(&resolver, name, question)
                .await?
                .expect_err("it has no end")
                .to_string();
            let is_circle = error.contains("a.loop. → b.loop. → a.loop.")
                || error.contains("b.loop. → a.loop. → b.loop.");
            assert!(is_circle && error.contains(name), "{error}");
        }
        Ok(())
    })
}

fn failures_have_their_class() -> TestResult {
    in_client(async || {
        let resolver = Resolver::new(&Config::parse(IMPATIENT, "")?)?;
        let cases = [
            (
                "nowhere.example",
                Question::Ipv4,
                "the name `nowhere.example` does not exist",
            ),
            (
                "quiet.example",
                Question::Ipv6,
                "`quiet.example` has no IPv6 addresses",
            ),
            (
                "quiet.example",
                Question::Service,
                "`quiet.example` has no service records",
            ),
            ("x.invalid", Question::Ipv4, "the name `invalid` does not exist"),
        ];
        for (name, question, expected) in cases {
            let error = only(&resolver, name, question).await?.expect_err(name);
            assert_eq!(error.to_string(), expected);
        }
        let failed = only(&resolver, "broken.example", Question::Ipv4)
            .await?
            .expect_err("it fails");
        assert!(matches!(failed, ResolveError::Server { .. }), "{failed:?}");
        let refused = only(&resolver, "broken.example", Question::Ipv6)
            .await?
            .expect_err("it refuses");
        assert!(matches!(refused, ResolveError::Server { .. }), "{refused:?}");
        let start = Instant::now();
        let unanswered = only(&resolver, "broken.example", Question::Service)
            .await?
            .expect_err("it does not answer");
        assert!(
            matches!(unanswered, ResolveError::Timeout { .. }),
            "{unanswered:?}"
        );
        let took = start.elapsed();
        assert!(
            took >= Duration::from_millis(900) && took < Duration::from_millis(1900),
            "{took:?}: one attempt"
        );
        Ok(())
    })
}

fn the_hosts_file_is_honoured() -> TestResult {
    in_client(async || {
        let resolver = Resolver::new(&Config::system()?)?;
        let start = Instant::now();
        assert_eq!(
            texts(&only(&resolver, "server", Question::Ipv4).await??),
            ["10.77.0.2"]
        );
        assert_eq!(
            texts(&only(&resolver, "server", Question::Ipv6).await??),
            ["fd77::2"]
        );
        let none = only(&resolver, "server", Question::Service)
            .await?
            .expect_err("a file has no services");
        assert!(matches!(none, ResolveError::NoRecord { .. }), "{none:?}");
        assert!(
            start.elapsed() < Duration::from_millis(500),
            "{:?}",
            start.elapsed()
        );
        // A name with one family in the file has no address of the other.
        let one = Resolver::new(&Config::parse(IMPATIENT, "192.0.2.1 www.example\n")?)?;
        assert_eq!(
            texts(&only(&one, "WWW.example", Question::Ipv4).await??),
            ["192.0.2.1"]
        );
        assert!(only(&one, "www.example", Question::Ipv6).await?.is_err());
        Ok(())
    })
}

fn the_search_list_is_honoured() -> TestResult {
    in_client(async || {
        let text = format!("search nothing.example example\n{IMPATIENT}");
        let resolver = Resolver::new(&Config::parse(&text, "")?)?;
        assert_eq!(
            texts(&only(&resolver, "quiet", Question::Ipv4).await??),
            ["192.0.2.9"]
        );
        let absolute = only(&resolver, "quiet.", Question::Ipv4).await?;
        assert!(
            matches!(absolute, Err(ResolveError::NoSuchName { .. })),
            "{absolute:?}"
        );
        Ok(())
    })
}

fn addresses_and_this_host_need_no_server() -> TestResult {
    in_client(async || {
        let resolver = Resolver::new(&Config::parse("nameserver 192.0.2.254\n", "")?)?;
        for (host, question, expected) in [
            ("192.0.2.1", Question::Ipv4, Some("192.0.2.1")),
            ("192.0.2.1", Question::Ipv6, None),
            ("[2001:db8::1]", Question::Ipv6, Some("2001:db8::1")),
            ("localhost", Question::Ipv4, Some("127.0.0.1")),
            ("www.localhost", Question::Ipv6, Some("::1")),
            ("localhost", Question::Service, None),
        ] {
            let found = only(&resolver, host, question).await?;
            assert_eq!(
                found.ok().map(|records| texts(&records)),
                expected.map(|one| vec![one.to_owned()]),
                "{host}"
            );
        }
        Ok(())
    })
}

fn questions_leave_from_their_address() -> TestResult {
    in_client(async || {
        let config = Config::parse(IMPATIENT, "")?;
        let local = Resolver::new(&config.clone().from_source(IpAddr::from([127, 0, 0, 7]))?)?;
        assert_eq!(
            texts(&only(&local, "quiet.example", Question::Ipv4).await??),
            ["192.0.2.9"]
        );
        let strange = Resolver::new(&config.from_source(IpAddr::from([203, 0, 113, 1]))?)?;
        let error = only(&strange, "quiet.example", Question::Ipv4)
            .await?
            .expect_err("nobody has that address");
        assert!(
            matches!(error, ResolveError::Other { .. } | ResolveError::Timeout { .. }),
            "{error:?}"
        );
        Ok(())
    })
}

fn dropping_a_lookup_cancels_its_queries() -> TestResult {
    in_client(async || {
        let resolver = Resolver::new(&Config::system()?)?;
        let lookup = Lookup::addresses("www.example")?.only(&[Question::Ipv6]);
        let answers = resolver.lookup(&lookup);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(sockets()?, 1, "one question under way");
        drop(answers);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(sockets()?, 0, "nobody asks any more");
        // Lingering questions continue for the given time, and no longer.
        resolver.lookup(&lookup).linger(Duration::from_millis(100));
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(sockets()?, 1);
        tokio::time::sleep(Duration::from_millis(150)).await;
        assert_eq!(sockets()?, 0);
        Ok(())
    })
}

/// Counts the UDP sockets of this host that send queries: the server's own socket has port 53 as its local
/// port.
fn sockets() -> TestResult<usize> {
    let table = std::fs::read_to_string("/proc/thread-self/net/udp")?;
    let local = |line: &str| line.split_whitespace().nth(1).map(str::to_owned);
    Ok(table
        .lines()
        .skip(1)
        .filter_map(local)
        .filter(|address| !address.ends_with(":0035"))
        .count())
}
