//! Builds a world from a scenario: hosts with their stacks, pipes, changes and applications.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hawser_engine::net::InterfaceConfig;
use hawser_engine::program::Program;
use hawser_engine::wire::Wire;
use hawser_engine::{ConfigError, Stack, StackConfig};
use hawser_time::Instant;

use crate::app::bulk::Bulk;
use crate::app::calls::Ledger;
use crate::app::messages::{Messages, Pace, Schedule};
use crate::app::payload::MessageSizes;
use crate::app::request::{Exchanges, Request};
use crate::app::streams::{Agreed, Settings};
use crate::app::{Carries, Close, Endpoint, Open, Plan, Script, Shared, Side};
use crate::calling;
use crate::device::Device;
use crate::host::Host;
use crate::link::depths::Depths;
use crate::link::nat::{Nat, Translator};
use crate::link::pause::Ingress;
use crate::link::queue::{Pool, Port};
use crate::link::{Pipe, Profile};
use crate::paths::{Graph, Towards};
use crate::rng::Rng;
use crate::run::Show;
use crate::scenario::units::{Sizes, Value};
use crate::scenario::{
    Arrivals, At, Calling, Closing, Connection, Delivery, End, Ends as FlowEnds, Flow, Link, Opening, Rules,
    Scenario, ScenarioError, Spray, State, Switch as ScenarioSwitch,
};
use crate::switch::{Directory, Spread, Switch};
use crate::wire::SimWire;
use crate::working;
use crate::world::{Change, World};

/// The clock's value at a scenario's start. It is not 0, so that programs may use a time of 0 for "never".
pub const START: Instant = Instant::after(Duration::from_secs(1));

/// The time for which a reader waits for datagrams after the last one was due.
const DATAGRAM_WAIT: Duration = Duration::from_secs(5);

const SIDES: [Side; 2] = [Side::Client, Side::Server];

/// The caller's error for a program that it cannot provide.
pub type ResolveError = Box<dyn std::error::Error + Send + Sync>;

/// Finds a program by name and sets its params, each written as the language does: `RTO=200ms`.
pub type Resolve<'a> = &'a dyn Fn(&str, &[String]) -> Result<Arc<dyn Program>, ResolveError>;

/// Returns the caller's own application in place of the scenario's, or `None` to keep the scenario's. The
/// arguments are the flow's number in the scenario, the end, and the start time.
pub type OwnScript<'a> = dyn FnMut(usize, Side, Instant) -> Option<Box<dyn Script>> + 'a;

/// A scenario could not be run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The scenario contradicts itself.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A program could not be found or loaded.
    #[error("program `{name}`: {error}")]
    Program {
        /// The program's name.
        name: String,
        /// The error that the caller's resolver returned.
        error: ResolveError,
    },
    /// A stack rejected its configuration or its program.
    #[error("host `{host}`: {error}")]
    Stack {
        /// The name of the host.
        host: String,
        /// The error in the configuration.
        error: ConfigError,
    },
}

/// A world, with the places of its parts.
pub(crate) struct Built {
    /// The hosts, then the switches, in the scenario's order.
    pub(crate) world: World<Device>,
    /// One entry for each connection and for each calling host.
    pub(crate) flows: Vec<BuiltFlow>,
    /// One entry for each direction of each link: its name, from, to. The index is the pipe's number.
    pub(crate) pipes: Vec<(String, String, String)>,
    /// The engines that run the hosts' programs, each named once, separated by commas.
    pub(crate) engines: String,
}

impl Built {
    /// The hosts, by number.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = &Host> {
        self.world.nodes().filter_map(Device::host)
    }

    pub(crate) fn host(&self, number: usize) -> &Host {
        let host = self.world.node(number).host();
        host.expect("the first nodes are the hosts")
    }

    /// Returns a host mutably, to be set up before the first run.
    pub(crate) fn host_mut(&mut self, number: usize) -> &mut Host {
        let host = self.world.node_mut(number).host_mut();
        host.expect("the first nodes are the hosts")
    }
}

/// The places of a flow's applications.
pub(crate) enum Ends {
    /// The host and endpoint number of the client's end of a connection, and of the server's.
    Connection([(usize, usize); 2]),
    /// A host that calls.
    Calls {
        /// The record of its calls.
        ledger: Rc<RefCell<Ledger>>,
        /// Its index among the callers of the flow.
        caller: usize,
        /// The host's number.
        host: usize,
        /// The hosts of the flow and the pairs that call.
        calling: Rc<Calling>,
        /// The number of the flow's application on each host.
        agents: Rc<BTreeMap<usize, usize>>,
    },
    /// The host and endpoint number of the client's end of a flow of works, and of the server's.
    Works([(usize, usize); 2]),
}

/// A connection in its world, or a host that makes calls.
pub(crate) struct BuiltFlow {
    /// The index of the scenario's flow.
    pub(crate) flow: usize,
    pub(crate) app: &'static str,
    pub(crate) port: u16,
    /// The client's address; its port is 0 if the client's stack chooses one.
    pub(crate) client: SocketAddr,
    pub(crate) start: Instant,
    pub(crate) ends: Ends,
}

/// Builds the world of a scenario. `show` receives the stack of a host each time the host boots; `depths`
/// records the depths of queues.
pub(crate) fn build(
    scenario: &Scenario,
    (seed, depths): (u64, Option<Depths>),
    resolve: Resolve<'_>,
    show: Option<Show>,
    own: &mut OwnScript<'_>,
) -> Result<Built, RunError> {
    scenario.check()?;
    calling::check_files(scenario).map_err(|error| scenario.origin.place(error))?;
    let mut world = World::new(START);
    let ports = ports(scenario, depths.as_ref());
    let engines = add_hosts(&mut world, scenario, (seed, &ports), resolve, show)?;
    for switch in &scenario.switch {
        let spread = match switch.spray {
            None => Spread::by_flow(seed, &switch.name),
            Some(Spray::Random) => Spread::at_random(seed, &switch.name),
            Some(Spray::RoundRobin) => Spread::RoundRobin(0),
        };
        world.add(Device::Switch(Switch::new(&switch.name, spread)));
    }
    let pipes = add_links(&mut world, scenario, (seed, &ports));
    add_routes(&mut world, scenario)?;
    add_changes(&mut world, scenario);
    let mut built = Built { world, flows: Vec::new(), pipes, engines };
    add_flows(&mut built, scenario, seed, own)?;
    Ok(built)
}

/// A program by name, with the settings of its params.
type Instance = (String, Vec<String>);

/// The param that gives a program the rate of its host's link, in bits per second.
const LINK_RATE: &str = "LINK_RATE";

/// Returns true if a program has the param and the scenario does not set it.
fn asks_for_rate(program: &dyn Program, params: &BTreeMap<&String, Value>) -> bool {
    let has = program
        .module()
        .params
        .iter()
        .any(|param| param.name == LINK_RATE);
    has && !params.keys().any(|param| *param == LINK_RATE)
}

/// Returns, for each host or switch by name, the largest rate at which a link brings packets to it.
fn link_rates(scenario: &Scenario) -> BTreeMap<&str, u64> {
    let mut rates = BTreeMap::new();
    for link in &scenario.link {
        for (towards, end) in [&link.backward, &link.forward].into_iter().zip(&link.between) {
            if let Some(rate) = towards.rate.or(link.both.rate) {
                let largest: &mut u64 = rates.entry(end.as_str()).or_default();
                *largest = rate.0.max(*largest);
            }
        }
    }
    rates
}

fn add_hosts(
    world: &mut World<Device>,
    scenario: &Scenario,
    (seed, ports): (u64, &[Port]),
    resolve: Resolve<'_>,
    show: Option<Show>,
) -> Result<String, RunError> {
    let show = show.map(|show| Rc::new(RefCell::new(show)));
    let rates = link_rates(scenario);
    let mut programs: BTreeMap<Instance, Arc<dyn Program>> = BTreeMap::new();
    let mut of_hosts: Vec<(&str, Arc<dyn Program>)> = Vec::new();
    for (number, host) in scenario.host.iter().enumerate() {
        let name = host.program.as_ref().unwrap_or(&scenario.program);
        let mut params: BTreeMap<&String, Value> = scenario.params.iter().map(|(k, v)| (k, *v)).collect();
        params.extend(host.params.iter().map(|(k, v)| (k, *v)));
        let settings: Vec<String> = params
            .iter()
            .map(|(param, value)| format!("{param}={value}"))
            .collect();
        let mut instance = |settings: Vec<String>| {
            let key = (name.clone(), settings);
            if let Some(program) = programs.get(&key) {
                return Ok(program.clone());
            }
            let program =
                resolve(&key.0, &key.1).map_err(|error| RunError::Program { name: name.clone(), error })?;
            programs.insert(key, program.clone());
            Ok::<_, RunError>(program)
        };
        let mut program = instance(settings.clone())?;
        let rate = rates.get(host.name.as_str());
        if let Some(rate) = rate.filter(|_| asks_for_rate(&*program, &params)) {
            program = instance([settings, vec![format!("{LINK_RATE}={rate}")]].concat())?;
        }
        of_hosts.push((name, program.clone()));
        let addresses = host.parsed_addresses(number)?;
        let interface = InterfaceConfig { addresses, gateways: Vec::new(), mtu: host.mtu };
        let (label, mtu, buffer) = (format!("host/{}", host.name), host.mtu, host.buffer);
        let device = host
            .device_queue
            .map(|limit| limit.0)
            .zip(ports[number].pool.clone());
        let (name, show) = (host.name.clone(), show.clone());
        let boot = move |life: u32| {
            let label = if life == 1 {
                label.clone()
            } else {
                format!("{label}/{life}")
            };
            let mut config = StackConfig::new(interface.clone(), Rng::new(seed, &label).bits());
            if let Some(buffer) = buffer {
                (config.limits.tx_bytes, config.limits.rx_bytes) = (buffer.0, buffer.0);
            }
            let wire = match &device {
                Some((limit, pool)) => SimWire::new(mtu).behind(Arc::clone(pool), *limit),
                None => SimWire::new(mtu),
            };
            let mut stack = Stack::new(program.clone(), config, wire.caps())?;
            if let Some(show) = &show {
                (show.borrow_mut())(&name, &mut stack);
            }
            Ok((stack, wire))
        };
        let host = Host::new(&host.name, Box::new(boot))
            .map_err(|error| RunError::Stack { host: host.name.clone(), error })?;
        world.add(Device::Host(Box::new(host)));
    }
    calling::check_offers(scenario, |host| (of_hosts[host].0, &*of_hosts[host].1))
        .map_err(|error| scenario.origin.place(error))?;
    let engines: BTreeSet<&str> = programs.values().map(|program| program.engine()).collect();
    Ok(engines.into_iter().collect::<Vec<_>>().join(", "))
}

/// Returns the queue settings for the ports of each node, in the order of nodes.
fn ports(scenario: &Scenario, depths: Option<&Depths>) -> Vec<Port> {
    let hosts = scenario.host.iter().map(|host| Port {
        priorities: host.priorities,
        // The pool has no limit: it only counts the bytes in the queues.
        pool: host.device_queue.map(|_| Arc::new(Pool::new(u64::MAX))),
        depths: depths.cloned(),
        ..Port::default()
    });
    let switches = scenario.switch.iter().map(|switch| Port {
        priorities: switch.priorities,
        trim_to: switch.trim_to.map(|to| to.0),
        return_to_sender: switch.return_to_sender,
        pool: switch
            .buffer
            .filter(|_| switch.shared)
            .map(|buffer| Arc::new(Pool::new(buffer.0))),
        ingress: switch
            .thresholds()
            .map(|thresholds| Arc::new(Ingress::new(thresholds))),
        depths: depths.cloned(),
    });
    hosts.chain(switches).collect()
}

/// Returns the initial profile of a link's direction, with the switch's values where the link sets none.
fn profile_of(switches: &BTreeMap<&str, &ScenarioSwitch>, link: &Link, is_backward: bool) -> Profile {
    let mut profile = Profile::default();
    let from = &link.between[usize::from(is_backward)];
    if let Some(switch) = switches.get(from.as_str()) {
        switch.apply(&mut profile);
    }
    link.both.apply(&mut profile);
    let own = if is_backward {
        &link.backward
    } else {
        &link.forward
    };
    own.apply(&mut profile);
    profile
}

fn switches(scenario: &Scenario) -> BTreeMap<&str, &ScenarioSwitch> {
    let switches = scenario.switch.iter();
    switches.map(|switch| (switch.name.as_str(), switch)).collect()
}

/// Adds two pipes for each link: pipe 2 · i leads forward, pipe 2 · i + 1 backward.
fn add_links(
    world: &mut World<Device>,
    scenario: &Scenario,
    (seed, ports): (u64, &[Port]),
) -> Vec<(String, String, String)> {
    let mut pipes = Vec::new();
    let (switches, numbers) = (switches(scenario), scenario.node_numbers());
    for link in &scenario.link {
        let label = link.label();
        let ends = [0, 1].map(|end| numbers.get(link.between[end].as_str()).copied().unwrap_or(0));
        let translator = link.nat.as_ref().map(|nat| {
            let rebinds = nat.rebind.iter().map(|at| START + (*at).into());
            Translator::new(rebinds.collect(), nat.moves)
        });
        for from in [0, 1] {
            let profile = profile_of(&switches, link, from == 1);
            let names = (&link.between[from], &link.between[1 - from]);
            let port = ports[ends[from]].clone();
            let of_pipe = format!("link/{label}/{}", names.0);
            let pipe = match &translator {
                None => Pipe::behind(port, &profile, seed, &of_pipe),
                Some(translator) => {
                    let is_out = link.inside() == Some(names.0);
                    let nat = Nat::new(translator, is_out);
                    Pipe::translated(port, &profile, seed, &of_pipe, (nat, is_out))
                }
            };
            world.connect(ends[from], ends[1 - from], pipe);
            world.node_mut(ends[from]).add_port();
            pipes.push((label.clone(), names.0.clone(), names.1.clone()));
        }
        let forward = pipes.len() - 2;
        for (pipe, back, to) in [(forward, forward + 1, ends[1]), (forward + 1, forward, ends[0])] {
            if let Some(ingress) = &ports[to].ingress {
                world.count_ingress(pipe, back, ingress);
            }
        }
    }
    pipes
}

/// Gives each node the ports that lead to each host.
fn add_routes(world: &mut World<Device>, scenario: &Scenario) -> Result<(), RunError> {
    let graph = Graph::of(scenario);
    let nodes = scenario.host.len() + scenario.switch.len();
    // A host with one link sends everything over it, so it needs no routes.
    let choosing: Vec<usize> = (0..nodes)
        .filter(|node| *node >= scenario.host.len() || graph.links(*node) > 1)
        .collect();
    // Hosts behind the same switch share their paths, so these are computed once.
    let mut towards: BTreeMap<usize, Towards> = BTreeMap::new();
    let mut known: Vec<(IpAddr, usize)> = Vec::new();
    for (to, host) in scenario.host.iter().enumerate() {
        let addresses = host.parsed_addresses(to)?;
        let addresses: Vec<IpAddr> = addresses.into_iter().map(|(address, _)| address).collect();
        let behind = graph.behind(to);
        let target = behind.map_or(to, |(switch, _)| switch);
        let paths = towards.entry(target).or_insert_with(|| graph.towards(target));
        for &node in &choosing {
            match behind {
                Some((switch, port)) if switch == node => {
                    world.node_mut(node).add_route(to, &addresses, &[port]);
                }
                _ => world.node_mut(node).add_route(to, &addresses, &paths.ports[node]),
            }
        }
        known.extend(addresses.into_iter().map(|address| (address, to)));
    }
    let directory: Arc<Directory> = Arc::new(known.into_iter().collect());
    for switch in 0..scenario.switch.len() {
        world
            .node_mut(scenario.host.len() + switch)
            .set_directory(&directory);
    }
    Ok(())
}

/// Computes the profile that each change leaves a direction with, and schedules it.
fn add_changes(world: &mut World<Device>, scenario: &Scenario) {
    let (switches, numbers) = (switches(scenario), scenario.node_numbers());
    let mut of_links = BTreeMap::<&str, Vec<&At>>::new();
    for at in &scenario.at {
        match (at.node(), at.state) {
            (Some(node), Some(state)) => {
                let number = numbers.get(node.as_str()).copied().unwrap_or(0);
                world.schedule_fall(START + at.time.into(), number, state == State::Up);
            }
            _ => of_links.entry(&at.link).or_default().push(at),
        }
    }
    for (i, link) in scenario.link.iter().enumerate() {
        let mut changes = of_links.remove(link.label().as_str()).unwrap_or_default();
        changes.sort_by_key(|at| at.time);
        for backward in [false, true] {
            let of = |forward, back| -> &Rules { if backward { back } else { forward } };
            let pipe = 2 * i + usize::from(backward);
            let mut profile = profile_of(&switches, link, backward);
            for at in &changes {
                let time = START + at.time.into();
                if let Some(state) = at.state {
                    world.schedule(time, pipe, Change::Up(state == State::Up));
                }
                let before = profile.clone();
                at.both.apply(&mut profile);
                of(&at.forward, &at.backward).apply(&mut profile);
                if profile != before {
                    world.schedule(time, pipe, Change::Tune(profile.clone()));
                }
            }
        }
    }
}

fn add_flows(
    built: &mut Built,
    scenario: &Scenario,
    seed: u64,
    own: &mut OwnScript<'_>,
) -> Result<(), RunError> {
    let ends = scenario.ends()?;
    for ((number, flow), ends) in scenario.flow.iter().enumerate().zip(ends) {
        let connections = match ends {
            FlowEnds::Calls(calling) => {
                calling::add(built, scenario, (number, flow), calling, seed);
                continue;
            }
            FlowEnds::Connections(connections) => connections,
        };
        for connection in &connections {
            match flow.works {
                Some(_) => working::add(built, flow, connection, seed),
                None => add_connection(built, scenario, connection, seed, own),
            }
        }
    }
    Ok(())
}

/// Adds the ends of a connection, and of the connections that follow it, to their hosts.
fn add_connection(
    built: &mut Built,
    scenario: &Scenario,
    connection: &Connection,
    seed: u64,
    own: &mut OwnScript<'_>,
) {
    let (number, flow) = (connection.flow, &scenario.flow[connection.flow]);
    let later = Duration::from(flow.spacing).saturating_mul(connection.place as u32);
    let start = START + flow.at.into() + later;
    let opens = opens(flow, connection);
    let mut before = None;
    for round in 0..=flow.again {
        let label = match round {
            0 => format!("flow/{number}.{}", connection.number),
            _ => format!("flow/{number}.{}/{round}", connection.number),
        };
        let (app, scripts, carries) = scripts(flow, start, seed, &label);
        let mut ends = [(0, 0); 2];
        for ((side, script), carries) in SIDES.into_iter().zip(scripts).zip(carries) {
            let i = side as usize;
            let is_lossy = matches!(carries, Carries::Datagrams { .. });
            let plan = Plan {
                flow: built.flows.len(),
                open: opens[i],
                at: start,
                after: before.map(|ends: [(usize, usize); 2]| ends[i].1),
                close: close(flow.close, side),
                abort_after: flow
                    .abort
                    .filter(|abort| (abort.by == End::Client) == (side == Side::Client))
                    .map(|abort| abort.after.0),
                refusals: flow.refusals,
                ends: scenario.linger.0 > 0,
                sees_end: !(is_lossy || flow.streams.is_some() || flow.one_way && side == Side::Client),
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
            ends: Ends::Connection(ends),
        });
    }
}

/// Returns how the client and the server open a flow. A simultaneous open needs a port that the other end
/// knows. A flow that is reopened takes the same port again. A shared listener tells its clients apart by
/// their addresses.
fn opens(flow: &Flow, connection: &Connection) -> [Open; 2] {
    let Connection { client, server, .. } = *connection;
    let connect = |remote, local| Open::Connect { remote, local };
    let own = Some(client).filter(|client| client.port() > 0);
    match flow.open {
        Opening::Both => [connect(server, own), connect(client, Some(server))],
        Opening::Client => {
            let shared =
                (connection.sharing > 1).then_some(Shared { client, count: connection.sharing as u32 });
            [connect(server, own), Open::Listen(server, shared)]
        }
        Opening::Nobody => [connect(server, own), Open::Absent],
    }
}

/// The name of an application, the scripts of its two ends, and the service promised to each end.
type Scripts = (&'static str, [Box<dyn Script>; 2], [Carries; 2]);

/// Returns the scripts of the two ends. [`Scenario::check`] made sure that there is exactly one application.
fn scripts(flow: &Flow, start: Instant, seed: u64, label: &str) -> Scripts {
    let mut rng = Rng::new(seed, &format!("{label}/sizes"));
    let bounds = |sizes: Sizes| (sizes.min, sizes.max);
    if let Some(request) = flow.request {
        let sizes = (bounds(request.size), bounds(request.response));
        let exchanges = Exchanges::draw(request.count, sizes.0, sizes.1, &mut rng);
        let end = |side| -> Box<dyn Script> {
            Box::new(Request::new(side, exchanges.clone(), request.think.into()))
        };
        return ("request", SIDES.map(end), Default::default());
    }
    if let Some(messages) = flow.messages {
        let back = if messages.both_ways { messages.count } else { 0 };
        let interval = messages.interval.into();
        let pace = match messages.arrivals {
            Arrivals::Even => Pace::Even(interval),
            Arrivals::Poisson => Pace::Poisson(interval),
        };
        let mut draw = |count| Schedule::draw(count, bounds(messages.size), pace, &mut rng);
        let (forward, backward) = (draw(messages.count), draw(back));
        let end = |side| -> Box<dyn Script> {
            Box::new(Messages::new(side, forward.clone(), backward.clone(), start))
        };
        let carries = match messages.delivery {
            Delivery::Stream => Default::default(),
            Delivery::Messages => [
                Carries::Messages(sizes_of(&forward, &backward)),
                Carries::Messages(sizes_of(&backward, &forward)),
            ],
            Delivery::Datagrams => {
                [(&forward, &backward), (&backward, &forward)].map(|(outgoing, incoming)| {
                    let sizes = sizes_of(outgoing, incoming);
                    Carries::Datagrams {
                        may_lose: (sizes.incoming.len() as f64 * messages.may_lose.0) as u64,
                        sizes,
                        until: forward.last_due(start) + DATAGRAM_WAIT,
                    }
                })
            }
        };
        return ("messages", SIDES.map(end), carries);
    }
    if let Some(streams) = flow.streams {
        let settings = Settings {
            counts: streams.counts(),
            size: bounds(streams.size),
            back: bounds(streams.back.unwrap_or(streams.size)),
            concurrent: streams.concurrent as usize,
            one_way: streams.one_way.0,
            reset: streams.reset.0,
            stop: streams.stop.0,
        };
        let agreed = Arc::new(Agreed::draw(&settings, seed, label));
        let end = |side| -> Box<dyn Script> { Box::new(Bulk::new(side, 0, 0)) };
        let carries = SIDES.map(|_| Carries::Streams(Arc::clone(&agreed)));
        return ("streams", SIDES.map(end), carries);
    }
    let (forward, backward) = flow.bulk.map_or((0, 0), |bulk| (bulk.bytes.0, bulk.back.0));
    let end = |side| -> Box<dyn Script> { Box::new(Bulk::new(side, forward, backward)) };
    ("bulk", SIDES.map(end), Default::default())
}

fn sizes_of(outgoing: &Schedule, incoming: &Schedule) -> MessageSizes {
    MessageSizes { outgoing: outgoing.sizes(), incoming: incoming.sizes() }
}

fn close(closing: Closing, side: Side) -> Close {
    match (closing, side) {
        (Closing::Client, Side::Client) | (Closing::Server, Side::Server) => Close::WhenDone,
        (Closing::Client, Side::Server) | (Closing::Server, Side::Client) => Close::AfterPeer,
        (Closing::Both, _) => Close::WhenSent,
        (Closing::Never, _) => Close::Never,
    }
}
