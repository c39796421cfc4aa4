//! How much of the sum each scheduler gets, over unequal links.

use std::time::Duration;

use hawser_session::Config;
use hawser_session::scheduler::by_name;
use hawser_session_sim::{Link, Report, Side, Transfer, World, WorldConfig};

fn run(scheduler: &'static str, links: Vec<Link>, bytes: u64) -> Report {
    let config = WorldConfig {
        handshakes: vec![2; links.len()],
        links,
        session: Config::default(),
        faults: vec![],
        transfers: vec![Transfer { from: Side::Client, bytes, at: Duration::ZERO, read_rate: 0 }],
        seed: 1,
        until: Duration::from_secs(300),
    };
    World::new(config, move || by_name(scheduler).unwrap()).run()
}

#[test]
fn shares_of_the_sum() {
    let ms = Duration::from_millis;
    let sets = [
        ("10+10 Mbit/s, 20+20 ms", vec![Link::new(10.0, ms(20)), Link::new(10.0, ms(20))]),
        ("30+10 Mbit/s, 2+100 ms", vec![Link::new(30.0, ms(2)), Link::new(10.0, ms(100))]),
        ("10+30 Mbit/s, 2+100 ms", vec![Link::new(10.0, ms(2)), Link::new(30.0, ms(100))]),
        (
            "200+150+50, 4+20+200",
            vec![Link::new(200.0, ms(4)), Link::new(150.0, ms(20)), Link::new(50.0, ms(200))],
        ),
    ];
    for (name, links) in sets {
        for size in [1_u64 << 20, 8 << 20, 64 << 20] {
            let alone: Vec<f64> = links
                .iter()
                .map(|link| run("ecf", vec![*link], size).finished[0].unwrap().as_secs_f64())
                .collect();
            let best = alone.iter().copied().fold(f64::INFINITY, f64::min);
            let sum: f64 = alone.iter().map(|time| size as f64 / time).sum();
            print!("{name} {:3} MiB best {best:.3}s:", size >> 20);
            for scheduler in
                ["rr", "lowest-latency", "top-latency:3", "weighted", "ecf", "blest", "redundant", "cheapest"]
            {
                let report = run(scheduler, links.clone(), size);
                let time = report.finished[0].map_or(f64::NAN, |time| time.as_secs_f64());
                print!(" {scheduler} {:.2}/{:.2}", size as f64 / time / sum, best / time);
            }
            println!();
        }
    }
}
