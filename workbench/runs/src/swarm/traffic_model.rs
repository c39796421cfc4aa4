//! Applications for programs that do not carry streams in both directions: the drawn traffic, as messages or
//! in one direction.

use hawser_sim::Volume;
use hawser_sim::rng::Rng;
use hawser_sim::scenario::units::{Share, Sizes, TimeSpan};
use hawser_sim::scenario::{ArrivalProcess, Bounds, Closing, Delivery, FlowSpec, MessagesSpec, Scenario};

use super::{EARLY, SwarmProgram, span};

/// The maximum number of messages in one flow.
const MESSAGES_MAX: u64 = 20_000;

/// The kind of data that a program carries. The default is a stream in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrafficModel {
    /// The delivery that it promises for messages; for a stream, that there are none.
    pub delivery: Delivery,
    /// The maximum length of a message, in bytes.
    pub longest: u64,
    /// True if it carries data only from client to server. Calls then have no replies, and only the opener of
    /// a stream sends.
    pub one_way: bool,
    /// The kind of its flows.
    pub kind: TrafficKind,
}

/// The kind of a program's flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrafficKind {
    /// Connections, each of which carries a stream or messages.
    #[default]
    Connections,
    /// Calls from endpoint to endpoint.
    Calls,
    /// Connections that have streams within them.
    Streams,
    /// Works of queue pairs.
    Works,
}

impl TrafficModel {
    /// The default for the maximum length of a message, in bytes: it fits one packet on every path.
    pub const LONGEST: u64 = 1000;

    /// Returns the data of flows of a kind.
    #[must_use]
    pub fn new(kind: TrafficKind) -> TrafficModel {
        let delivery = match kind {
            TrafficKind::Calls => Delivery::Messages,
            TrafficKind::Connections | TrafficKind::Streams | TrafficKind::Works => Delivery::Stream,
        };
        TrafficModel { delivery, longest: TrafficModel::LONGEST, one_way: false, kind }
    }
}

impl Default for TrafficModel {
    fn default() -> TrafficModel {
        TrafficModel::new(TrafficKind::Connections)
    }
}

/// Changes the flows of a scenario to data that the program carries.
pub(super) fn apply(scenario: &mut Scenario, subject: &SwarmProgram<'_>) {
    // A separate random stream, so that these draws do not shift any others.
    let rng = &mut Rng::new(scenario.seed, "swarm/carried");
    let carried = subject.carried;
    let Bounds { sent, time, .. } = scenario.bounds;
    let is_bounded = sent.is_some() || time.is_some();
    let link = &scenario.link[0];
    let is_lossless = link.both.queue_packets.is_none() && link.forward == link.backward;
    let line = link.both.rate.zip(link.both.delay);
    let line = line
        .map(|(rate, delay)| (rate.0, delay.0))
        .filter(|_| is_bounded && is_lossless);
    match carried.kind {
        TrafficKind::Connections => {}
        TrafficKind::Calls => {
            for flow in &mut scenario.flow {
                let messages = messages(flow, rng, carried, false);
                super::calls::apply(flow, &messages, rng, (carried.longest, carried.one_way));
            }
            return super::calls::finish(scenario);
        }
        TrafficKind::Streams => return super::streams::apply(scenario, rng, subject),
        TrafficKind::Works => return super::works::apply(scenario, rng),
    }
    for flow in &mut scenario.flow {
        if carried.delivery != Delivery::Stream {
            let messages = messages(flow, rng, carried, is_bounded);
            (flow.bulk, flow.request, flow.messages) = (None, None, Some(messages));
        }
        if carried.one_way {
            one_way(flow);
        }
        if carried.delivery == Delivery::Datagrams {
            datagrams(flow, rng, line);
        }
    }
    let Some(messages) = scenario.flow[0].messages.filter(|_| is_bounded) else {
        return;
    };
    let packets = messages.count * if messages.both_ways { 2 } else { 1 };
    let bounds =
        line.map(|line| super::themes::bounds((packets * messages.size.max, packets), line, subject));
    // Datagrams are sent at a pace, and so is traffic that was drawn for a link with cuts; neither has a
    // bound on time.
    let is_timed = time.is_some() && carried.delivery != Delivery::Datagrams && scenario.at.is_empty();
    scenario.bounds = bounds.map_or_else(Bounds::default, |bounds| Bounds {
        time: bounds.time.filter(|_| is_timed),
        ..bounds
    });
}

/// Draws messages with the same total of bytes as the drawn flow.
///
/// If costs have bounds, each message is at least half of the maximum size.
fn messages(flow: &FlowSpec, rng: &mut Rng, carried: TrafficModel, is_bounded: bool) -> MessagesSpec {
    let Volume { bytes, back, pause: interval } = flow.volume();
    let size = if is_bounded {
        Sizes { min: carried.longest.div_ceil(2), max: carried.longest }
    } else {
        let max = rng.between(1, carried.longest);
        Sizes { min: rng.between(1, max), max }
    };
    // The last message is due while the network still has faults. With pauses of hours, the count stays as
    // drawn.
    let max = match (flow.request, interval.0) {
        (Some(request), super::SECOND..) => request.count,
        (_, 0) => MESSAGES_MAX,
        (_, interval) => (EARLY / interval).clamp(1, MESSAGES_MAX),
    };
    MessagesSpec {
        count: (2 * bytes.max(1) / (size.min + size.max)).clamp(1, max),
        size,
        interval,
        both_ways: back > 0 && !carried.one_way,
        delivery: carried.delivery,
        may_lose: Share(1.0),
        arrivals: ArrivalProcess::Even,
    }
}

/// Paces datagrams. In a network without faults, the line can carry them at that pace, and none may be lost.
fn datagrams(flow: &mut FlowSpec, rng: &mut Rng, calm: Option<(u64, u64)>) {
    if flow.close == Closing::Both {
        flow.close = Closing::Client;
    }
    let Some(messages) = &mut flow.messages else {
        return;
    };
    if let Some((rate, _)) = calm {
        let bits = u128::from(messages.size.max + 100) * 8;
        messages.interval = TimeSpan((bits * 2 * 1_000_000_000 / u128::from(rate)) as u64);
        messages.may_lose = Share(0.0);
    } else if messages.interval.0 == 0 {
        messages.interval = span(rng, 1, 2 * super::MILLISECOND);
        messages.count = messages.count.min(EARLY / messages.interval.0);
    }
}

/// Removes the server's data, and lets the client close.
fn one_way(flow: &mut FlowSpec) {
    flow.one_way = true;
    flow.close = Closing::Client;
    if flow.request.is_some() {
        (flow.request, flow.bulk) = (None, Some(flow.volume().bulk()));
    }
    if let Some(bulk) = &mut flow.bulk {
        bulk.back.0 = 0;
        // A flow without any data would test nothing.
        bulk.bytes.0 = bulk.bytes.0.max(1);
    }
    if let Some(messages) = &mut flow.messages {
        messages.both_ways = false;
    }
}
