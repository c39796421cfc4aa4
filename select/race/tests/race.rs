//! A race with the answers of the real resolver and real sockets in a lab.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // Names are looked up in networks, in real time.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use hawser_lab::{Lab, Spec};
use hawser_race::resolve::{Answer, Config, Lookup, Resolver};
use hawser_race::{
    Action, Candidate, CandidateId, Event, Failure, Profile, Questions, Race, Request, ServiceParameters,
};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use hawser_testing::{Test, TestResult, in_user_namespace, tests};

const TESTS: &[Test] = tests![
    a_hint_connects_before_the_addresses_are_known,
    a_dead_family_costs_the_resolution_delay,
    an_unresponsive_address_costs_one_delay,
];

const FILE: &str = r#"
    host = [{ name = "client" }, { name = "server" }, { name = "sink" }]
    [[link]]
    between = ["client", "server"]
    [[link]]
    name = "hole"
    between = ["client", "sink"]
    both = { delay = "1ms" }
    [[dns]]
    name = "hint.example"
    addresses = ["server"]
    ipv4 = { delay = "400ms" }
    ipv6 = { answer = "silence" }
    https = { delay = "30ms" }
    services = [{ hints = ["server"] }]
    [[dns]]
    name = "old.example"
    addresses = ["server"]
    ipv6 = { answer = "silence" }
    https = { answer = "failure" }
    [[dns]]
    name = "swallowed.example"
    addresses = ["sink", "server"]
    https = { answer = "missing" }
    ipv6 = { answer = "missing" }
"#;

const PORT: u16 = 80;

fn main() -> ExitCode {
    in_user_namespace("races over names in a lab", TESTS)
}

/// Races to a name from the client; returns the address that won, and the time that it took.
fn race_to(name: &str, profile: Profile) -> TestResult<(SocketAddr, Duration)> {
    let lab = Lab::up(&Spec::parse(FILE)?)?;
    lab.link("hole")?.silence(true)?;
    // Only IPv4 is served: IPv6 is refused.
    let _listener = lab
        .host("server")?
        .run(|| std::net::TcpListener::bind(("0.0.0.0", PORT)))??;
    lab.host("client")?.run(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(drive(name, profile))
    })?
}

async fn drive(name: &str, profile: Profile) -> TestResult<(SocketAddr, Duration)> {
    let resolver = Resolver::new(&Config::system()?)?;
    let start = Instant::now();
    let now = || hawser_time::Instant::after(start.elapsed());
    let mut answers = resolver.lookup(&Lookup::https(name, 443)?);
    let mut race = Race::new(
        profile,
        Request::default(),
        Questions::ALL,
        hawser_time::Instant::ORIGIN,
    );
    let mut attempts: JoinSet<(CandidateId, io::Result<TcpStream>)> = JoinSet::new();
    let mut addresses: BTreeMap<CandidateId, SocketAddr> = BTreeMap::new();
    let (mut event, mut wake) = (Event::Wake, hawser_time::Instant::NEVER);
    loop {
        for action in race.on(event, now()) {
            match action {
                Action::Start(id) => {
                    let address = addresses[&id];
                    attempts.spawn(async move { (id, TcpStream::connect(address).await) });
                }
                Action::Won(id) => return Ok((addresses[&id], start.elapsed())),
                Action::AllFailed(defeat) => return Err(format!("{defeat:?}").into()),
                Action::Wake(at) => wake = at,
                Action::Cancel(_) | Action::Record(..) | Action::Probe(_) => {}
            }
        }
        let sleep = tokio::time::sleep(wake - now());
        event = tokio::select! {
            Some(answer) = answers.next() => reported(answer, &mut addresses),
            Some(Ok((id, result))) = attempts.join_next() => match result {
                Ok(_) => Event::Connected(id),
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Event::Failed(id, Failure::Refused),
                Err(_) => Event::Failed(id, Failure::Unreachable),
            },
            () = sleep => Event::Wake,
        };
    }
}

/// Converts an answer to candidates; hints are those of a service.
fn reported(answer: Answer, addresses: &mut BTreeMap<CandidateId, SocketAddr>) -> Event {
    let question = answer.question;
    let records = match answer.result {
        Ok(records) => records,
        Err(error) => {
            return Event::Missing { question, why: error.failure() };
        }
    };
    let mut candidate = |address: IpAddr, service: Option<ServiceParameters>| {
        let (id, to) = (
            CandidateId(addresses.len() as u32),
            SocketAddr::new(address, PORT),
        );
        addresses.insert(id, to);
        let mut made = Candidate::new(id, "tcp", to.to_string());
        made.service = service;
        made
    };
    let mut candidates = Vec::new();
    for service in &records.services.services {
        let described = ServiceParameters { priority: service.priority, is_choice: false };
        candidates.extend(service.hints().map(|address| candidate(address, Some(described))));
    }
    candidates.extend(
        records
            .addresses
            .into_iter()
            .map(|address| candidate(address, None)),
    );
    Event::Found { question: Some(question), candidates }
}

fn a_hint_connects_before_the_addresses_are_known() -> TestResult {
    let (address, took) = race_to("hint.example", Profile::VERSION3)?;
    assert!(
        address.is_ipv4(),
        "IPv6 is refused, and IPv4 follows at once: {address}"
    );
    assert!((30..200).contains(&took.as_millis()), "{took:?}: A takes 400 ms");
    Ok(())
}

fn a_dead_family_costs_the_resolution_delay() -> TestResult {
    let (address, took) = race_to("old.example", Profile::RFC8305)?;
    assert!(address.is_ipv4());
    assert!((50..200).contains(&took.as_millis()), "{took:?}");
    Ok(())
}

fn an_unresponsive_address_costs_one_delay() -> TestResult {
    let (address, took) = race_to("swallowed.example", Profile::RFC8305)?;
    assert!(address.is_ipv4());
    assert!((250..450).contains(&took.as_millis()), "{took:?}");
    Ok(())
}
