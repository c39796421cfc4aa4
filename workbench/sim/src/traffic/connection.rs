//! A connection between two endpoints, for the kinds of traffic that need one.

use std::net::SocketAddr;

use hawser_time::Instant;

use super::{BuiltEnds, NewFlow};
use crate::app::streams::StreamsReport;
use crate::app::{
    Carries, Close, EndPlan, Endpoint, EndpointReport, FlowSide, Open, SIDES, Script, SharedListener,
};
use crate::build::{BuiltFlow, BuiltWorld, OwnScript, START};
use crate::end_status::{EndStanding, standing_of};
use crate::host::Host;
use crate::report::{DirectionReport, FlowReport, MessagesReport, Times, seconds};
use crate::rng::Rng;
use crate::scenario::{Closing, Connection, FlowEnd, FlowSpec, Opening, Scenario};

/// The scripts of the two ends of a connection, and the service promised to each end.
pub(crate) struct ConnectionScript {
    pub(crate) scripts: [Box<dyn Script>; 2],
    pub(crate) carries: [Carries; 2],
}

/// Returns the scripts of the two ends of a connection that carries a stream.
pub(super) fn talk<S: Script + 'static>(script: impl Fn(FlowSide) -> S) -> ConnectionScript {
    let scripts = SIDES.map(|side| -> Box<dyn Script> { Box::new(script(side)) });
    ConnectionScript { scripts, carries: Default::default() }
}

/// Returns the random numbers from which the sizes of a connection's messages are drawn.
pub(super) fn sizes_rng(seed: u64, label: &str) -> Rng {
    Rng::new(seed, &format!("{label}/sizes"))
}

/// Adds the ends of a connection, and of the connections that follow it, to their hosts. `talks` makes the
/// scripts of each from its start and the label of its random numbers.
pub(super) fn add(
    built: &mut BuiltWorld,
    new: &NewFlow<'_>,
    connection: &Connection,
    talks: &dyn Fn(Instant, &str) -> ConnectionScript,
    own: &mut OwnScript<'_>,
) {
    let NewFlow { scenario, number, flow, app, seed } = *new;
    let start = new.start(connection);
    let opens = opens(flow, connection);
    let mut before = None;
    for round in 0..=flow.again {
        let label = match round {
            0 => format!("flow/{number}.{}", connection.number),
            _ => format!("flow/{number}.{}/{round}", connection.number),
        };
        let ConnectionScript { scripts, carries } = talks(start, &label);
        let mut ends = [(0, 0); 2];
        for ((side, script), carries) in SIDES.into_iter().zip(scripts).zip(carries) {
            let i = side as usize;
            let has_no_end = matches!(carries, Carries::Datagrams { .. } | Carries::Streams(_));
            let plan = EndPlan {
                flow: built.flows.len(),
                open: opens[i],
                at: start,
                after: before.map(|ends: [(usize, usize); 2]| ends[i].1),
                close: close(flow.close, side),
                abort_after: flow
                    .abort
                    .filter(|abort| (abort.by == FlowEnd::Client) == (side == FlowSide::Client))
                    .map(|abort| abort.after.0),
                refusals: flow.refusals,
                ends: scenario.linger.0 > 0,
                sees_end: !(has_no_end || flow.one_way && side == FlowSide::Client),
                carries,
                read_rate: flow.read_rate.map(|rate| rate.0 / 8),
                read_stop: flow.read_stop.into(),
                buffers: [flow.send_buffer, flow.receive_buffer].map(|size| size.map(|size| size.0)),
                seed,
                outgoing: format!("{label}/{side:?}"),
                incoming: format!("{label}/{:?}", side.other()),
                script: own(number, side, start).unwrap_or(script),
                side,
            };
            let host = connection.hosts[i];
            ends[i] = (host, built.host_mut(host).add_endpoint(Endpoint::new(plan)));
        }
        before = Some(ends);
        built.flows.push(BuiltFlow {
            flow: number,
            app,
            port: connection.server.port(),
            client: connection.client,
            start,
            ends: Box::new(Endpoints(ends)),
        });
    }
}

/// Returns how the client and the server open a flow. A simultaneous open needs a port that the other end
/// knows. A flow that is reopened takes the same port again. A shared listener tells its clients apart by
/// their addresses.
fn opens(flow: &FlowSpec, connection: &Connection) -> [Open; 2] {
    let Connection { client, server, .. } = *connection;
    let connect = |remote: SocketAddr, local| Open::Connect { remote, local };
    let own = Some(client).filter(|client| client.port() > 0);
    match flow.open {
        Opening::Both => [connect(server, own), connect(client, Some(server))],
        Opening::Client => {
            let shared = (connection.sharing > 1)
                .then_some(SharedListener { client, count: connection.sharing as u32 });
            [connect(server, own), Open::Listen(server, shared)]
        }
        Opening::Nobody => [connect(server, own), Open::Absent],
    }
}

fn close(closing: Closing, side: FlowSide) -> Close {
    match (closing, side) {
        (Closing::Client, FlowSide::Client) | (Closing::Server, FlowSide::Server) => Close::WhenDone,
        (Closing::Client, FlowSide::Server) | (Closing::Server, FlowSide::Client) => Close::AfterPeer,
        (Closing::Both, _) => Close::WhenSent,
        (Closing::Never, _) => Close::Never,
    }
}

/// The host and the number of the client's endpoint, and of the server's.
struct Endpoints([(usize, usize); 2]);

impl Endpoints {
    /// Returns both hosts, each with its endpoint, the client's first.
    fn both<'a>(&self, built: &'a BuiltWorld) -> [(&'a Host, &'a Endpoint); 2] {
        self.0.map(|(host, number)| {
            let host = built.host(host);
            (host, host.endpoint(number))
        })
    }
}

impl BuiltEnds for Endpoints {
    fn report(&self, scenario: &Scenario, built: &BuiltWorld, flow: &BuiltFlow) -> FlowReport {
        let [(_, client), (_, server)] = self.both(built);
        let cuts = [client.is_cut(), server.is_cut()];
        let (client, server) = (client.report(cuts[1]), server.report(cuts[0]));
        let forward = direction(&client, &server, flow.start);
        let backward = direction(&server, &client, flow.start);
        let mut failures = Vec::new();
        for (side, end) in [("client", &client), ("server", &server)] {
            failures.extend(end.faults.iter().map(|fault| format!("{side}: {fault}")));
        }
        for (arrow, direction) in [("forward", &forward), ("backward", &backward)] {
            if !direction.sha256_ok && failures.is_empty() && cuts == [false, false] {
                failures.push(format!("{arrow}: what was received is not what was sent"));
            }
        }
        let both = client.retransmissions.into_iter().chain(server.retransmissions);
        let names = self.0.map(|(host, _)| scenario.host[host].name.clone());
        FlowReport {
            client_port: Some(flow.client.port()).filter(|port| *port > 0),
            connect_seconds: client.connected_at.map(|at| seconds(at - flow.start)),
            retransmissions: both.reduce(|a, b| a.saturating_add(b)),
            srtt_seconds: client.srtt.map(std::time::Duration::from_nanos).map(seconds),
            times: Times::from_durations(client.times.into_iter().chain(server.times).collect()),
            ..flow.report(names, [forward, backward], failures)
        }
    }

    fn standings(&self, built: &BuiltWorld, ok: bool) -> Option<Box<[EndStanding; 2]>> {
        let both = self.both(built);
        if ok && both.iter().all(|(_, endpoint)| endpoint.is_closed()) {
            return None;
        }
        let of = |(host, end): (&Host, &Endpoint), side| EndStanding {
            failed: end.failed_at().map(|at| seconds(at - START)),
            ..standing_of(host, end.handle(), end.application(), side)
        };
        Some(Box::new([of(both[0], "client"), of(both[1], "server")]))
    }

    fn received(&self, built: &BuiltWorld) -> [u64; 2] {
        let [client, server] = self.both(built).map(|(_, end)| end.received());
        [server, client]
    }

    fn value_of(&self, built: &BuiltWorld, field: &str) -> Option<u64> {
        let [(host, client), _] = self.both(built);
        client.value_of(host.stack(), field)
    }

    fn endpoints(&self) -> Option<[(usize, usize); 2]> {
        Some(self.0)
    }
}

fn direction(sender: &EndpointReport, receiver: &EndpointReport, start: Instant) -> DirectionReport {
    DirectionReport {
        sha256: receiver.received_sha256.clone(),
        sha256_ok: receiver.received_ok || receiver.received_sha256 == sender.sent_sha256,
        messages: sender
            .messages
            .zip(receiver.messages)
            .map(|([sent, _], [_, received])| MessagesReport { sent: sent.done, received: received.done }),
        streams: sender
            .streams
            .zip(receiver.streams)
            .map(|([sent, _], [_, received])| StreamsReport {
                sent: sent.sent,
                stopped: sent.stopped,
                ..received
            }),
        ..DirectionReport::new(receiver.received, start, receiver.received_at)
    }
}
