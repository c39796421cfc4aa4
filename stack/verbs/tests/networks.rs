//! Random networks: packets are lost, alone and in bursts, come twice, late, out of order and damaged; receivers have too
//! little memory posted. All work is done once and in order, and both engines send the same packets.
//!
//! `HAWSER_ROCE_NETWORKS` has the number of networks, 100 unless it is set; `HAWSER_ROCE_FIRST` the first one's seed.

use std::time::Duration;

use hawser_load::Engine;
use hawser_sim::link::Profile;
use hawser_verbs::Connection;

use super::stage::{Stage, program};
use super::work::run_on;

/// Works of each host.
const WORKS: u64 = 40;

fn number(name: &str, otherwise: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name} is no number: {text}")),
        Err(_) => otherwise,
    }
}

/// A link's faults; each of them in half of the networks.
fn network(random: &mut fastrand::Rng) -> Profile {
    let mut share = |limit: f64| if random.bool() { random.f64() * limit } else { 0.0 };
    let [loss, burst, corrupt, duplicate, reorder] = [0.03, 4.0, 0.02, 0.05, 0.1].map(&mut share);
    Profile {
        loss,
        burst: 1.0 + burst,
        corrupt,
        duplicate,
        reorder,
        hold: Duration::from_micros(random.u64(1..2_000)),
        delay: Duration::from_micros(random.u64(..500)),
        jitter: Duration::from_micros(random.u64(..50)),
        rate: random.bool().then(|| random.u64(10_000_000..1_000_000_000)),
        queue_packets: random.u64(20..1000),
        ecn_bytes: random.bool().then(|| random.u64(..20_000)),
        ..Profile::default()
    }
}

#[test]
fn all_work_is_done_once_in_random_networks() {
    let programs = [Engine::Interp, Engine::Native].map(program);
    let first = number("HAWSER_ROCE_FIRST", 1);
    for seed in first..first + number("HAWSER_ROCE_NETWORKS", 100) {
        let mut random = fastrand::Rng::with_seed(seed);
        let profile = network(&mut random);
        let (mtu, receives, rnr_timer) = (256 << random.u32(..3), random.u64(1..=8), random.u8(1..12));
        let reads = random.u8(1..=16);
        let change = |connection: &mut Connection| {
            *connection = Connection {
                mtu,
                rnr_timer,
                reads,
                timeout: Duration::from_millis(20),
                ..*connection
            };
        };
        let ran = programs.each_ref().map(|program| {
            let mut stage = Stage::over(program, profile.clone(), seed, change);
            run_on(&mut stage, seed, WORKS, receives);
            (stage.now, stage.packets)
        });
        assert!(ran[0] == ran[1], "seed {seed}: the engines differ");
    }
}
