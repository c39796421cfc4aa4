//! Tests of the event core with simple nodes.

use std::time::Duration;

use hawser_time::Instant;

use super::*;
use crate::frame::samples::plain;

/// A node that sends frames of given lengths at given times and records arriving frames. It may answer each
/// frame with one of the same length.
#[derive(Default)]
struct Toy {
    send: Vec<(Instant, usize)>,
    echo: bool,
    arrived: Vec<(Instant, usize)>,
    answers: usize,
}

impl Node for Toy {
    fn arrive(&mut self, now: Instant, frame: Frame) {
        self.arrived.push((now, frame.len()));
        self.answers += usize::from(self.echo);
    }

    fn run(&mut self, now: Instant, out: &mut Vec<(FrameExit, Frame)>, _trace: &mut Trace) {
        while self.send.first().is_some_and(|(at, _)| *at <= now) {
            out.push((FrameExit::Port(0), plain(self.send.remove(0).1)));
        }
        while self.answers > 0 {
            out.push((
                FrameExit::Port(0),
                plain(self.arrived[self.arrived.len() - self.answers].1),
            ));
            self.answers -= 1;
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.send.first().map(|(at, _)| *at)
    }

    fn progress(&self) -> u64 {
        0
    }
}

const fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

/// Returns the arrivals at a node, with times in nanoseconds.
fn arrived(toy: &Toy) -> Vec<(u64, usize)> {
    toy.arrived
        .iter()
        .map(|(at, len)| (at.as_nanos(), *len))
        .collect()
}

fn pair(a: Toy, b: Toy, profile: &Profile, seed: u64) -> World<Toy> {
    let mut world = World::new(at(0));
    let (a, b) = (world.add(a), world.add(b));
    world.connect(a, b, Pipe::new(profile, seed, "forward"));
    world.connect(b, a, Pipe::new(profile, seed, "backward"));
    world
}

fn sender(times: impl IntoIterator<Item = u64>) -> Toy {
    let send = times.into_iter().enumerate();
    let send = send.map(|(i, nanos)| (at(nanos), i + 1)).collect();
    Toy { send, ..Toy::default() }
}

#[test]
fn a_round_trip_takes_twice_the_delay() {
    let profile = Profile { delay: Duration::from_nanos(30), ..Profile::default() };
    let echo = Toy { echo: true, ..Toy::default() };
    let mut world = pair(sender([5, 5, 100]), echo, &profile, 1);
    assert_eq!(world.run(at(1000), |_| false, |_| {}), StopReason::Idle);
    assert_eq!(arrived(world.node(0)), [(65, 1), (65, 2), (160, 3)]);
    assert_eq!(world.now(), at(160));
}

#[test]
fn a_run_stops_at_its_time_and_can_continue() {
    let profile = Profile { delay: Duration::from_nanos(30), ..Profile::default() };
    let mut world = pair(sender([0, 50]), Toy::default(), &profile, 1);
    assert_eq!(world.run(at(40), |_| false, |_| {}), StopReason::Time);
    assert_eq!((world.now(), world.node(1).arrived.len()), (at(40), 1));
    let enough = |toy: &Toy| toy.send.is_empty() && (toy.arrived.len() == 2 || toy.arrived.is_empty());
    assert_eq!(world.run(at(100), enough, |_| {}), StopReason::Met);
    assert_eq!(arrived(world.node(1)), [(30, 1), (80, 2)]);
}

#[test]
fn changes_happen_at_their_time() {
    let profile = Profile { delay: Duration::from_nanos(5), ..Profile::default() };
    let mut world = pair(sender([10, 20, 30, 40]), Toy::default(), &profile, 1);
    world.schedule(at(22), 0, LinkChange::Up(false));
    world.schedule(at(35), 0, LinkChange::Up(true));
    world.schedule(
        at(36),
        0,
        LinkChange::Tune(Profile { delay: Duration::from_nanos(7), ..Profile::default() }),
    );
    world.run(at(1000), |_| false, |_| {});
    assert_eq!(arrived(world.node(1)), [(15, 1), (47, 4)]);
    assert_eq!(world.pipe(0).counters().down, 2);
}

#[test]
fn the_trace_depends_only_on_the_seed() {
    let profile = Profile {
        loss: 0.3,
        jitter: Duration::from_nanos(500),
        delay: Duration::from_nanos(10),
        ..Profile::default()
    };
    let hash = |seed| {
        let mut world = pair(
            sender((0..500).map(|i| i * 7)),
            Toy { echo: true, ..Toy::default() },
            &profile,
            seed,
        );
        world.run(at(1_000_000), |_| false, |_| {});
        (world.trace().hash(), world.trace().entries())
    };
    assert_eq!(hash(1), hash(1));
    assert_ne!(hash(1).0, hash(2).0);
}

#[test]
fn a_run_without_progress_of_time_is_stalled() {
    let echo = || Toy { echo: true, ..Toy::default() };
    let first = Toy { echo: true, ..sender([1]) };
    let mut world = pair(first, echo(), &Profile::default(), 1);
    assert_eq!(world.run(at(1000), |_| false, |_| {}), StopReason::Stalled);
}
