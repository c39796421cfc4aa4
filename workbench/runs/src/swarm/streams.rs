//! Streams within connections, for programs that have them: as many bytes as were drawn for a flow.

use hawser_sim::Volume;
use hawser_sim::rng::Rng;
use hawser_sim::scenario::units::{Share, Sizes, TimeSpan};
use hawser_sim::scenario::{Bounds, Closing, FlowSpec, Openers, Opening, Scenario, StreamsSpec};

use super::{Ability, SECOND, SwarmProgram};

/// The maximum number of streams that an end opens: more than programs allow at once.
const STREAMS_MAX: u64 = 250;
/// The maximum time for which readers do not read. Programs of streams end idle connections, many of them
/// after 30 seconds.
const STOP_MAX: TimeSpan = TimeSpan(20 * SECOND);

/// Changes all flows of a scenario.
pub(super) fn apply(scenario: &mut Scenario, rng: &mut Rng, subject: &SwarmProgram<'_>) {
    if let Some(port) = subject.udp_port {
        one_port(&mut scenario.flow, port);
    }
    for flow in &mut scenario.flow {
        change(flow, rng, subject);
    }
    // The drawn bounds hold for flows of one stream, not for many streams.
    scenario.bounds = Bounds { notice: scenario.bounds.notice, ..Bounds::default() };
}

/// Keeps one flow, at the program's UDP port: both ends of a connection use that port, so there can be only
/// one flow.
fn one_port(flows: &mut Vec<FlowSpec>, port: u16) {
    flows.truncate(1);
    for flow in flows {
        (flow.port, flow.client_port) = (Some(port), Some(port));
    }
}

fn change(flow: &mut FlowSpec, rng: &mut Rng, subject: &SwarmProgram<'_>) {
    // Pauses between exchanges do not apply to streams.
    let Volume { bytes, back, .. } = flow.volume();
    let count = match rng.below(8) {
        0 => rng.between(50, STREAMS_MAX),
        1 => 1,
        _ => rng.between(2, 30),
    };
    let opened_by = match rng.below(4) {
        0 if subject.abilities.has(Ability::Handshake) => Openers::Server,
        1 if subject.abilities.has(Ability::Handshake) => Openers::Both,
        _ => Openers::Client,
    };
    let ends = if opened_by == Openers::Both { 2 } else { 1 };
    let sizes = |bytes: u64| Sizes { min: 0, max: 2 * bytes / (count * ends) };
    let (there, reverse) = match opened_by {
        Openers::Server => (back, bytes),
        Openers::Client | Openers::Both => (bytes, back),
    };
    let mut share = |often: f64, max: f64| {
        let is_some = rng.chance(often);
        let share = (rng.fraction() * max * 100.0).round() / 100.0;
        Share(if is_some { share } else { 0.0 })
    };
    let one_way = share(0.5, 1.0);
    let (reset, stop) = (share(0.5, 0.4), share(0.5, 0.4));
    let streams = StreamsSpec {
        back: Some(sizes(reverse)),
        opened_by,
        concurrent: match rng.below(3) {
            0 => 1,
            1 => rng.between(2, 10),
            _ => rng.between(10, STREAMS_MAX),
        },
        one_way: if subject.carried.one_way {
            Share(1.0)
        } else {
            one_way
        },
        reset,
        stop,
        ..StreamsSpec::new(count, sizes(there))
    };
    *flow = FlowSpec {
        open: match flow.open {
            Opening::Nobody => Opening::Nobody,
            Opening::Client | Opening::Both => Opening::Client,
        },
        close: match flow.close {
            Closing::Server => Closing::Server,
            Closing::Client | Closing::Both | Closing::Never => Closing::Client,
        },
        one_way: false,
        bulk: None,
        request: None,
        messages: None,
        streams: Some(streams),
        read_stop: flow.read_stop.min(STOP_MAX),
        spacing: TimeSpan(0),
        ..flow.clone()
    };
}
