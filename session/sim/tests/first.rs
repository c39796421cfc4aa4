//! A transfer over two links, and what becomes of it when one is cut.

use std::time::Duration;

use hawser_session::Config;
use hawser_session::scheduler::RoundRobin;
use hawser_session_sim::{Fault, Link, Report, Side, Transfer, World, WorldConfig};

fn run(faults: Vec<(Duration, usize, Fault)>, from: Side) -> Report {
    let ms = Duration::from_millis;
    let config = WorldConfig {
        links: vec![Link::new(20.0, ms(10)), Link::new(20.0, ms(10))],
        handshakes: vec![2, 1],
        session: Config::default(),
        faults,
        transfers: vec![Transfer { from, bytes: 4 << 20, at: Duration::ZERO, read_rate: 0 }],
        seed: 1,
        until: Duration::from_secs(60),
    };
    World::new(config, || Box::new(RoundRobin::default())).run()
}

#[test]
fn two_links_carry_nearly_twice_as_much() {
    let report = run(vec![], Side::Client);
    println!("{report:?}");
    assert!(report.done);
    assert!(report.finished[0].unwrap() < Duration::from_millis(1100), "{:?}", report.finished);
}

#[test]
fn a_link_that_goes_silent_costs_a_gap_and_no_byte() {
    for from in [Side::Client, Side::Server] {
        let report = run(vec![(Duration::from_millis(400), 0, Fault::Silent)], from);
        println!("{report:?}");
        assert!(report.done);
    }
}
