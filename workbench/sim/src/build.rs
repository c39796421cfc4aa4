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
use hawser_engine::{Stack, StackConfig, StackConfigError};
use hawser_time::Instant;

use crate::app::{FlowSide, Script};
use crate::device::Device;
use crate::host::Host;
use crate::link::depths::Depths;
use crate::link::nat::{NatDirection, Translator};
use crate::link::pause::Ingress;
use crate::link::queue::{Pool, Port};
use crate::link::{Pipe, Profile};
use crate::paths::{Graph, Towards};
use crate::report::{DirectionReport, FlowReport, seconds};
use crate::rng::Rng;
use crate::run::StackVisitor;
use crate::scenario::units::ParamValue;
use crate::scenario::{
    LinkSpec, OperationalState, Rules, Scenario, ScenarioError, ScheduledChange, Spray,
    SwitchSpec as ScenarioSwitch,
};
use crate::switch::{Directory, Spread, Switch};
use crate::traffic::{BuiltEnds, NewFlow, ProgramOffers, calls};
use crate::wire::SimWire;
use crate::world::{LinkChange, World};

/// The clock's value at a scenario's start. It is not 0, so that programs may use a time of 0 for "never".
pub const START: Instant = Instant::after(Duration::from_secs(1));

/// The caller's error for a program that it cannot provide.
pub type ResolveError = Box<dyn std::error::Error + Send + Sync>;

/// Finds a program by name and sets its params, each written as the language does: `RTO=200ms`.
pub type Resolve<'a> = &'a dyn Fn(&str, &[String]) -> Result<Arc<dyn Program>, ResolveError>;

/// Returns the caller's own application in place of the scenario's, or `None` to keep the scenario's. The
/// arguments are the flow's number in the scenario, the end, and the start time.
pub type OwnScript<'a> = dyn FnMut(usize, FlowSide, Instant) -> Option<Box<dyn Script>> + 'a;

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
        error: StackConfigError,
    },
}

/// A world, with the places of its parts.
pub(crate) struct BuiltWorld {
    /// The hosts, then the switches, in the scenario's order.
    pub(crate) world: World<Device>,
    /// One entry for each connection and for each calling host.
    pub(crate) flows: Vec<BuiltFlow>,
    /// One entry for each direction of each link: its name, from, to. The index is the pipe's number.
    pub(crate) pipes: Vec<(String, String, String)>,
    /// The engines that run the hosts' programs, each named once, separated by commas.
    pub(crate) engines: String,
}

impl BuiltWorld {
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

/// A connection in its world, or a host that makes calls.
pub(crate) struct BuiltFlow {
    /// The index of the scenario's flow.
    pub(crate) flow: usize,
    pub(crate) app: &'static str,
    pub(crate) port: u16,
    /// The client's address; its port is 0 if the client's stack chooses one.
    pub(crate) client: SocketAddr,
    pub(crate) start: Instant,
    pub(crate) ends: Box<dyn BuiltEnds>,
}

impl BuiltFlow {
    /// Reports the flow between two hosts, without what only some kinds of traffic know.
    pub(crate) fn report(
        &self,
        [from, to]: [String; 2],
        [forward, backward]: [DirectionReport; 2],
        failures: Vec<String>,
    ) -> FlowReport {
        FlowReport {
            flow: self.flow,
            app: self.app,
            from,
            to,
            port: self.port,
            client_port: None,
            start: seconds(self.start - START),
            connect_seconds: None,
            ok: failures.is_empty(),
            forward,
            backward,
            retransmissions: None,
            srtt_seconds: None,
            times: None,
            failures,
            ends: None,
        }
    }
}

/// Builds the world of a scenario. `show` receives the stack of a host each time the host boots; `depths`
/// records the depths of queues.
pub(crate) fn build(
    scenario: &Scenario,
    (seed, depths): (u64, Option<Depths>),
    resolve: Resolve<'_>,
    show: Option<StackVisitor>,
    own: &mut OwnScript<'_>,
) -> Result<BuiltWorld, RunError> {
    scenario.check()?;
    calls::check_files(scenario).map_err(|error| scenario.origin.place(error))?;
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
    let mut built = BuiltWorld { world, flows: Vec::new(), pipes, engines };
    add_flows(&mut built, scenario, seed, own)?;
    Ok(built)
}

/// A program by name, with the settings of its params.
type Instance = (String, Vec<String>);

/// The param that gives a program the rate of its host's link, in bits per second.
const LINK_RATE: &str = "LINK_RATE";

/// Returns true if a program has the param and the scenario does not set it.
fn asks_for_rate(program: &dyn Program, params: &BTreeMap<&String, ParamValue>) -> bool {
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
    show: Option<StackVisitor>,
) -> Result<String, RunError> {
    let show = show.map(|show| Rc::new(RefCell::new(show)));
    let rates = link_rates(scenario);
    let mut programs: BTreeMap<Instance, Arc<dyn Program>> = BTreeMap::new();
    let mut of_hosts: Vec<(&str, Arc<dyn Program>)> = Vec::new();
    for (number, host) in scenario.host.iter().enumerate() {
        let name = host.program.as_ref().unwrap_or(&scenario.program);
        let mut params: BTreeMap<&String, ParamValue> =
            scenario.params.iter().map(|(k, v)| (k, *v)).collect();
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
    let offers = |host: usize| {
        let (name, program) = &of_hosts[host];
        ProgramOffers { name, program: &**program }
    };
    check_offers(scenario, offers).map_err(|error| scenario.origin.place(error))?;
    let engines: BTreeSet<&str> = programs.values().map(|program| program.engine()).collect();
    Ok(engines.into_iter().collect::<Vec<_>>().join(", "))
}

/// Rejects flows that the programs of their hosts cannot carry.
fn check_offers<'a>(
    scenario: &Scenario,
    offers: impl Fn(usize) -> ProgramOffers<'a>,
) -> Result<(), ScenarioError> {
    let of_names = scenario.host_numbers();
    for (number, flow) in scenario.flow.iter().enumerate() {
        let hosts = flow.from.names().iter().chain(flow.to.names());
        let numbers: BTreeSet<usize> = hosts
            .filter_map(|name| of_names.get(name.as_str()).copied())
            .collect();
        let mut seen = BTreeSet::new();
        for offers in numbers.into_iter().map(&offers) {
            if seen.insert(offers.name) {
                let path = |key| format!("flow[{number}].{key}");
                let mut kinds = flow.kinds();
                kinds.try_for_each(|(key, kind)| kind.check_offer(&offers, &path(key)))?;
            }
        }
    }
    Ok(())
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
fn profile_of(switches: &BTreeMap<&str, &ScenarioSwitch>, link: &LinkSpec, is_backward: bool) -> Profile {
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
                    let nat = NatDirection::new(translator, is_out);
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
    let graph = Graph::from_scenario(scenario);
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
    let mut of_links = BTreeMap::<&str, Vec<&ScheduledChange>>::new();
    for at in &scenario.at {
        match (at.node(), at.state) {
            (Some(node), Some(state)) => {
                let number = numbers.get(node.as_str()).copied().unwrap_or(0);
                world.schedule_fall(START + at.time.into(), number, state == OperationalState::Up);
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
                    world.schedule(time, pipe, LinkChange::Up(state == OperationalState::Up));
                }
                let before = profile.clone();
                at.both.apply(&mut profile);
                of(&at.forward, &at.backward).apply(&mut profile);
                if profile != before {
                    world.schedule(time, pipe, LinkChange::Tune(profile.clone()));
                }
            }
        }
    }
}

fn add_flows(
    built: &mut BuiltWorld,
    scenario: &Scenario,
    seed: u64,
    own: &mut OwnScript<'_>,
) -> Result<(), RunError> {
    for ((number, flow), ends) in scenario.flow.iter().enumerate().zip(scenario.ends()?) {
        if let Some((app, traffic)) = flow.kinds().next() {
            let placed = NewFlow { scenario, number, flow, app, seed };
            traffic.add(built, &placed, ends, own);
        }
    }
    Ok(())
}
