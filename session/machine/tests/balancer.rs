//! A balancer leads a join to another server. The client tries the addresses that ACCEPT named, one after the
//! other, and then the balancer again if all of them fail.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use hawser_session_machine::scheduler::{Scheduler, by_name};
use hawser_session_machine::{
    Acceptor, AcceptorConfig, Candidate, CarrierDecision, CarrierId, Config, Instruction, Loss, Opening,
    Refusal, Session,
};
use hawser_time::Instant;

const NOW: Instant = Instant::after(Duration::from_secs(1));

fn scheduler() -> Box<dyn Scheduler> {
    by_name("ecf").expect("it comes with Hawser")
}

/// Returns the bytes that the client sends and the carriers that it requests.
fn take(client: &mut Session) -> (Bytes, Vec<(u32, usize)>) {
    let (mut sent, mut asked) = (Vec::new(), Vec::new());
    while let Some(instruction) = client.poll() {
        match instruction {
            Instruction::Connect { carrier, candidate, .. } => asked.push((carrier.0, candidate)),
            Instruction::Send { head, body, .. } => {
                sent.extend_from_slice(&head);
                sent.extend_from_slice(&body);
            }
            Instruction::Close { .. } | Instruction::Notify(_) => {}
        }
    }
    (sent.into(), asked)
}

fn lost() -> Loss {
    Loss::Transport("nobody is there".into())
}

#[test]
fn a_misdirected_join_goes_to_the_address_of_accept() {
    let own: [SocketAddr; 2] = ["192.0.2.7:1".parse().unwrap(), "[2001:db8::7]:2".parse().unwrap()];
    // Neither address is usable.
    let mut named = vec!["0.0.0.0:9".parse().unwrap(), "192.0.2.9:0".parse().unwrap()];
    named.extend(own);
    let mut right: Acceptor<u8> = Acceptor::new(AcceptorConfig {
        server: 7,
        addresses: named,
        name: "seven.example".into(),
        ..AcceptorConfig::default()
    });
    let mut wrong: Acceptor<u8> = Acceptor::new(AcceptorConfig { server: 8, ..AcceptorConfig::default() });
    let config = Config {
        opening: Opening::Parallel,
        candidates: vec![Candidate::new(0), Candidate::new(1)],
        ..Config::default()
    };
    let mut client = Session::client(config, scheduler(), [3; 16], NOW);
    assert_eq!(take(&mut client).1, [(0, 0), (1, 1)]);
    client.connected(CarrierId(0), Some([7; 32]), NOW);
    right.accepted(0, Some([7; 32]), [1; 28], NOW).expect("a place");
    let hello = take(&mut client).0;
    let CarrierDecision::Begin { answer, .. } = right.received(0, hello, scheduler, NOW) else {
        panic!()
    };
    client.received(CarrierId(0), answer, NOW);
    take(&mut client);

    // The second carrier reaches the other server.
    assert_eq!(client.home_of(CarrierId(1)), None);
    client.connected(CarrierId(1), Some([8; 32]), NOW);
    wrong.accepted(0, Some([8; 32]), [1; 28], NOW).expect("a place");
    let CarrierDecision::Refuse { refusal, answer } = wrong.received(0, take(&mut client).0, scheduler, NOW)
    else {
        panic!("it belongs elsewhere");
    };
    assert_eq!(
        (refusal, wrong.refused(), wrong.sessions()),
        (Refusal::WrongServer, 1, 0)
    );
    client.received(CarrierId(1), answer, NOW);
    assert_eq!(client.counters().astray, 1);

    // The carrier is tried anew at once, at the first address and then at the second.
    assert_eq!(take(&mut client).1, [(2, 1)]);
    assert_eq!(client.home_of(CarrierId(2)), Some((own[0], "seven.example")));
    client.lost(CarrierId(2), lost(), NOW);
    assert_eq!(take(&mut client).1, [(3, 1)]);
    assert_eq!(client.home_of(CarrierId(3)), Some((own[1], "seven.example")));
    client.connected(CarrierId(3), Some([9; 32]), NOW);
    right.accepted(1, Some([9; 32]), [1; 28], NOW).expect("a place");
    let verdict = right.received(1, take(&mut client).0, scheduler, NOW);
    let CarrierDecision::Join { carrier: CarrierId(3), answer, .. } = verdict else {
        panic!("{verdict:?}")
    };
    client.received(CarrierId(3), answer, NOW);
    assert_eq!(client.paths().count(), 2);

    // The address that worked before is tried first, and after it the balancer.
    client.lost(CarrierId(3), lost(), NOW);
    assert_eq!(take(&mut client).1, [(4, 1)]);
    assert_eq!(client.home_of(CarrierId(4)), Some((own[1], "seven.example")));
    client.lost(CarrierId(4), lost(), NOW);
    assert_eq!(take(&mut client).1, [], "it rests");
    let later = NOW + Duration::from_secs(1);
    client.timeout(later);
    assert_eq!(take(&mut client).1, [(5, 1)]);
    assert_eq!(client.home_of(CarrierId(5)), None);
}
