//! Runs a scenario and reports the result.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use hawser_engine::Stack;
use hawser_engine::net::DropReason;
use hawser_engine::wire::Medium;
use hawser_time::{Instant, nanos};

use crate::build::{BuiltFlow, BuiltWorld, OwnScript, Resolve, RunError, START, build};
use crate::device::Device;
use crate::frame::Frame;
use crate::host::Host;
use crate::link::Pipe;
use crate::link::depths::{Depths, Window};
use crate::link::pause::Pauses;
use crate::pcap;
use crate::report::{
    FlowReport, HostReport, LinkReport, PauseReport, QueueReport, Report, SwitchReport, seconds,
};
use crate::scenario::units::TimeSpan;
use crate::scenario::{Opening, OperationalState, Scenario};
use crate::slowdown;
use crate::switch::Switch;
use crate::traffic::calls;
use crate::watch::SampleRequest;
use crate::wire_watcher::Watchers;
use crate::world::{StopReason, Watcher};

/// The maximum number of packet kinds shown when packets circulate without progress.
const KINDS_SHOWN: usize = 4;

/// Receives each host's name and stack.
pub type StackVisitor = Box<dyn FnMut(&str, &mut Stack)>;

/// The part of a run for which queue depths are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DepthsOf {
    /// The start of the recording, counted from the start of the run.
    pub from: Duration,
    /// The end of the recording, counted from the start of the run.
    pub to: Duration,
    /// The maximum number of time intervals.
    pub spans: usize,
}

/// The maximum number of time intervals in a report if the scenario asks for queue depths.
pub const DEPTH_SPANS: usize = 512;

impl DepthsOf {
    fn asked(scenario: &Scenario) -> Option<DepthsOf> {
        scenario.queue_depths.then_some(DepthsOf {
            from: Duration::ZERO,
            to: Duration::MAX,
            spans: DEPTH_SPANS,
        })
    }

    pub(crate) fn recorder(self) -> Depths {
        let after = |span: Duration| START.plus_nanos(nanos(span).min(u64::MAX - START.as_nanos()));
        let window = Window { from: after(self.from), to: after(self.to), spans: self.spans };
        Depths::new(START, window)
    }
}

/// Options for a run of a scenario.
#[derive(Default)]
pub struct Options<'a> {
    /// A seed that replaces the scenario's.
    pub seed: Option<u64>,
    /// The maximum number of events, as [`Report::events`] counts them; a run with more has failed. 0 means
    /// no limit.
    pub events_max: u64,
    /// A writer that receives every frame as it was sent, in pcap format. A buffered writer is faster.
    pub pcap: Option<Box<dyn Write>>,
    /// Receives the elapsed share of the duration, 0 to 1, from time to time.
    pub progress: Option<&'a mut dyn FnMut(f64)>,
    /// Receives samples from time to time. Sampling does not change the run.
    pub watch: Option<SampleRequest<'a>>,
    /// Receives each host's name and stack before the run begins, so that the caller can put the stack on a
    /// bus. It also receives the new stack of a host that was down and comes up.
    pub stacks: Option<StackVisitor>,
    /// Receives the fate of every packet.
    pub packets: Option<Watcher>,
    /// The part of the run for which queue depths are recorded, and the number of intervals, in place of the
    /// scenario's setting.
    pub depths: Option<DepthsOf>,
    /// Applications that replace the scenario's.
    pub scripts: Option<&'a mut OwnScript<'a>>,
}

/// Runs a scenario to its end: until all flows are done and, if it lingers, closed; or until its time is up.
///
/// The same scenario, seed and program give the same report.
///
/// # Errors
/// Returns an error if the scenario cannot be run at all. Failures within a run are in the report.
pub fn run(scenario: &Scenario, resolve: Resolve<'_>, mut options: Options<'_>) -> Result<Report, RunError> {
    let (progress, watch) = (options.progress.take(), options.watch.take());
    let events_max = options.events_max;
    let mut run = Run::begin(scenario, resolve, options)?;
    let duration = Duration::from(scenario.duration);
    let mut ignore = |_: f64| {};
    let notify = progress.unwrap_or(&mut ignore);
    let mut progress = |now: Instant| notify((now - START).div_duration_f64(duration).min(1.0));
    if let Some(watch) = watch {
        let end = watch.run(&mut run.built, run.until, &mut progress);
        run.ended(end);
    }
    run.go_on(|events, at| {
        if events.is_multiple_of(4096) {
            progress(at);
        }
        events_max > 0 && events >= events_max
    });
    if run.end.is_none() {
        run.failures
            .push(format!("more than {events_max} events, the limit of this run"));
    }
    let slowdown = if scenario.slowdown {
        slowdown::slowdown(scenario, run.seed, &run.calls(), resolve)?
    } else {
        None
    };
    Ok(Report { slowdown, ..run.report() })
}

/// A run of a scenario that its owner drives entry by entry. The events are the same as in [`run`].
pub struct Run {
    scenario: Scenario,
    seed: u64,
    built: BuiltWorld,
    watchers: Option<Watchers>,
    failures: Vec<String>,
    phase: Phase,
    /// The end of the current phase: the scenario's duration, the time to linger, or the time to forget.
    until: Instant,
    end: Option<StopReason>,
}

/// The condition that a run waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// All flows are done.
    Flows,
    /// All connections are closed.
    Lingering,
    /// All state of the connections is gone.
    Forgetting,
}

impl Run {
    /// Builds the world. It ignores the options for samples and progress, which `run` serves.
    ///
    /// # Errors
    /// Returns an error if the scenario cannot be run at all.
    pub fn begin(scenario: &Scenario, resolve: Resolve<'_>, options: Options<'_>) -> Result<Run, RunError> {
        let seed = options.seed.unwrap_or(scenario.seed);
        let depths = options.depths.or_else(|| DepthsOf::asked(scenario));
        let depths = depths.map(DepthsOf::recorder);
        let (watched, show) = ((seed, depths), options.stacks);
        let mut built = match options.scripts {
            Some(own) => build(scenario, watched, resolve, show, own)?,
            None => build(scenario, watched, resolve, show, &mut |_, _, _| None)?,
        };
        let mut failures = Vec::new();
        if let Some(out) = options.pcap {
            match pcap::PcapWriter::new(out, Medium::Ip, Duration::ZERO) {
                Ok(pcap) => built.world.capture(pcap),
                Err(error) => failures.push(format!("the capture cannot be written: {error}")),
            }
        }
        let watchers = Watchers::new(scenario, seed, resolve)?;
        let numbers = scenario.node_numbers();
        let ends = built
            .pipes
            .iter()
            .map(|(_, _, to)| numbers.get(to.as_str()).copied().unwrap_or(0));
        let packets = match &watchers {
            Some(watchers) => Some(watchers.seeing(ends.collect(), options.packets)),
            None => options.packets,
        };
        if let Some(watcher) = packets {
            built.world.watch(watcher);
        }
        built.world.limit_idle(scenario.idle_packets);
        Ok(Run {
            scenario: scenario.clone(),
            seed,
            built,
            watchers,
            failures,
            until: START + scenario.duration.into(),
            phase: Phase::Flows,
            end: None,
        })
    }

    /// Processes the next event. Returns false when the run is over.
    pub fn step(&mut self) -> bool {
        self.go_on(|_, _| true);
        self.end.is_none()
    }

    /// Returns the virtual time since the start.
    #[must_use]
    pub fn time(&self) -> Duration {
        self.built.world.now() - START
    }

    /// Returns the report of the run so far.
    #[must_use]
    pub fn report(mut self) -> Report {
        let end = self.end.unwrap_or(StopReason::Paused);
        if let Err(error) = self.built.world.finish_capture() {
            self.failures
                .push(format!("the capture cannot be written: {error}"));
        }
        if end == StopReason::Stalled {
            let remedy = "two hosts answer each other without delay: give their link a `delay`";
            self.failures.push(remedy.into());
        }
        if end == StopReason::NoProgress {
            let round = went_round(self.scenario.idle_packets, self.built.world.idle_frames());
            self.failures.push(round);
        }
        self.failures
            .extend(self.watchers.iter().flat_map(Watchers::failures));
        report(&self.scenario, self.seed, &self.built, end, self.failures)
    }

    /// Runs to the end.
    pub(crate) fn finish(&mut self) {
        self.go_on(|_, _| false);
    }

    /// Returns the calls that are done.
    pub(crate) fn calls(&self) -> Vec<crate::app::calls::Call> {
        let mut all = Vec::new();
        for flow in &self.built.flows {
            all.extend(flow.ends.calls(flow.flow));
        }
        all
    }

    /// Continues until `pause` returns true, or to the end. After each event, `pause` receives the number of
    /// events so far and the time.
    pub fn go_on(&mut self, mut pause: impl FnMut(u64, Instant) -> bool) {
        while self.end.is_none() {
            let is_done = match self.phase {
                Phase::Flows => Host::is_finished,
                Phase::Lingering => Host::is_closed,
                Phase::Forgetting => Host::is_empty,
            };
            let met = |device: &Device| device.host().is_none_or(is_done);
            let end = self.built.world.run_with_pauses(self.until, met, &mut pause);
            if end == StopReason::Paused {
                return;
            }
            self.ended(end);
        }
    }

    /// Ends a phase and begins the next one: lingering, then forgetting, if the scenario asks for them.
    fn ended(&mut self, end: StopReason) {
        let (linger, forget) = (self.scenario.linger, self.scenario.forget);
        if self.phase == Phase::Lingering && end != StopReason::Met {
            self.failures
                .push(format!("not all connections closed within {linger}"));
        }
        if self.phase == Phase::Forgetting {
            let leaks = self.built.hosts().filter_map(|host| leak(host, forget));
            self.failures.extend(leaks);
        }
        let next = match self.phase {
            Phase::Flows if linger.0 > 0 => Some((Phase::Lingering, linger)),
            Phase::Flows | Phase::Lingering if forget.0 > 0 => Some((Phase::Forgetting, forget)),
            Phase::Flows | Phase::Lingering | Phase::Forgetting => None,
        };
        match next {
            Some((phase, span)) if end == StopReason::Met => {
                self.phase = phase;
                self.until = self.built.world.now() + span.into();
            }
            // In the last phase any end counts as met: the leaks are already among the failures.
            _ if self.phase == Phase::Forgetting => self.end = Some(StopReason::Met),
            _ => self.end = Some(end),
        }
    }
}

/// Describes the circulating packets: the kinds that were most frequent among the last frames.
fn went_round(limit: u64, last: &[Frame]) -> String {
    let mut kinds = BTreeMap::<String, usize>::new();
    last.iter()
        .for_each(|frame| *kinds.entry(frame.summary()).or_default() += 1);
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let kinds = kinds
        .iter()
        .take(KINDS_SHOWN)
        .map(|(kind, count)| format!("\n    {count} x {kind}"));
    format!(
        "{limit} packets were sent and no byte was delivered (idle_packets); of the last {}:{}",
        last.len(),
        kinds.collect::<String>()
    )
}

/// Describes the state that a host still holds for connections that have all closed.
fn leak(host: &Host, after: TimeSpan) -> Option<String> {
    let (contexts, (sending, receiving)) = (host.leaked_contexts(), host.stack().held_bytes());
    (!host.is_empty()).then(|| {
        format!(
            "host {}: {contexts} contexts of connections are left {after} after all have closed, {sending} bytes to \
             send and {receiving} received",
            host.name().escape_debug()
        )
    })
}

/// Returns one failure for each bound that the run exceeded.
fn check_bounds(scenario: &Scenario, flows: &[FlowReport], links: &[LinkReport]) -> Vec<String> {
    let bounds = &scenario.bounds;
    let mut failures = Vec::new();
    let hosts = scenario.host_numbers();
    let is_host = |name: &str| hosts.contains_key(name);
    let sent: u64 = links
        .iter()
        .filter(|link| is_host(&link.from))
        .map(|link| link.sent_bytes)
        .sum();
    let delivered: u64 = flows
        .iter()
        .map(|flow| flow.forward.bytes + flow.backward.bytes)
        .sum();
    if let Some(bound) = bounds.sent.filter(|bound| sent > bound.0) {
        failures.push(format!(
            "{sent} bytes were sent to deliver {delivered}; the limit is {} (bounds.sent)",
            bound.0
        ));
    }
    let Some(bound) = bounds.time else {
        return failures;
    };
    for flow in flows {
        let last = [&flow.forward, &flow.backward].map(|direction| direction.seconds.unwrap_or(0.0));
        let last = last[0].max(last[1]);
        if last > Duration::from(bound).as_secs_f64() {
            let number = flow.flow;
            failures.push(format!(
                "flow {number} took {last:.6} s; the limit is {bound} (bounds.time)"
            ));
        }
    }
    failures
}

/// Returns the connections that noticed too late, or not at all, that their peer was gone.
fn late_notices(scenario: &Scenario, built: &BuiltWorld) -> Vec<String> {
    let Some(bound) = scenario.bounds.notice else {
        return Vec::new();
    };
    let mut failures = Vec::new();
    for (number, flow) in built.flows.iter().enumerate() {
        for (end, side) in [(0, "client"), (1, "server")] {
            let Some((gone_at, why, idle)) = peer_gone(scenario, built, flow, 1 - end) else {
                continue;
            };
            let Some(ends) = flow.ends.endpoints() else {
                continue;
            };
            let (host, endpoint) = ends[end];
            let late = match built.host(host).endpoint(endpoint).gave_up(idle) {
                None => continue,
                Some(None) => "has not failed".to_owned(),
                Some(Some(at)) if at > gone_at + bound.into() => {
                    format!("failed after {:.6} s", seconds(at - gone_at))
                }
                Some(Some(_)) => continue,
            };
            failures.push(format!(
                "flow {number}: {why}, and the {side} {late}; the limit is {bound} (bounds.notice)"
            ));
        }
    }
    failures
}

/// Returns the time at which an end of a flow went away, and the reason. The flag is true if the other end
/// must notice even with no data to send.
fn peer_gone(
    scenario: &Scenario,
    built: &BuiltWorld,
    flow: &BuiltFlow,
    end: usize,
) -> Option<(Instant, &'static str, bool)> {
    let (number, endpoint) = flow.ends.endpoints()?[end];
    let endpoint = built.host(number).endpoint(endpoint);
    if let Some(at) = endpoint.aborted_at() {
        return Some((at, "its peer has aborted", true));
    }
    if scenario.flow[flow.flow].open == Opening::Nobody {
        return (end == 1).then_some((flow.start, "no listener exists", true));
    }
    let host = &scenario.host[number].name;
    let changes = scenario.at.iter().filter(|at| at.host.as_ref() == Some(host));
    let up = changes
        .max_by_key(|at| at.time)
        .filter(|at| at.state == Some(OperationalState::Up));
    let at = START + up?.time.into();
    endpoint
        .is_cut()
        .then_some((at, "its peer's host has restarted without state", false))
}

fn report(
    scenario: &Scenario,
    seed: u64,
    built: &BuiltWorld,
    end: StopReason,
    mut failures: Vec<String>,
) -> Report {
    let world = &built.world;
    let mut flows: Vec<FlowReport> = built
        .flows
        .iter()
        .map(|flow| flow.ends.report(scenario, built, flow))
        .collect();
    for flow in &flows {
        let FlowReport { flow: number, app, from, to, port, .. } = flow;
        let (from, to) = (from.escape_debug(), to.escape_debug());
        let named = |fault| format!("flow {number} ({app} {from} -> {to}:{port}): {fault}");
        failures.extend(flow.failures.iter().map(named));
    }
    for host in built.hosts() {
        failures.extend(calls::failures(host));
        failures.extend(
            host_faults(host)
                .into_iter()
                .map(|fault| format!("host {}: {fault}", host.name().escape_debug())),
        );
    }
    let links: Vec<LinkReport> = built
        .pipes
        .iter()
        .enumerate()
        .map(|(i, names)| LinkReport {
            pauses: world.pauses(i).iter().map(pause_report).collect(),
            ..link_report(names, world.pipe(i), world.now())
        })
        .collect();
    failures.extend(check_bounds(scenario, &flows, &links));
    failures.extend(late_notices(scenario, built));
    if !failures.is_empty() {
        for (flow, built_flow) in flows.iter_mut().zip(&built.flows) {
            flow.ends = built_flow.ends.standings(built, flow.ok);
        }
    }
    Report {
        name: scenario.name.clone(),
        seed,
        program: scenario.program.clone(),
        engine: built.engines.clone(),
        ok: failures.is_empty(),
        failures,
        end: match end {
            StopReason::Met => "done",
            StopReason::Time => "time",
            StopReason::Idle => "idle",
            StopReason::Stalled => "stalled",
            StopReason::NoProgress => "no-progress",
            StopReason::Paused => "paused",
        },
        seconds: seconds(world.now() - START),
        events: world.events(),
        trace_hash: format!("{:016x}", world.trace().hash()),
        flows,
        slowdown: None,
        links,
        switches: world
            .nodes()
            .filter_map(Device::switch)
            .map(switch_report)
            .collect(),
        hosts: built.hosts().map(host_report).collect(),
    }
}

fn link_report((link, from, to): &(String, String, String), pipe: &Pipe, now: Instant) -> LinkReport {
    let counters = pipe.counters();
    let stages: Vec<_> = pipe.stage_counters().collect();
    let stage = |name: &str| {
        stages
            .iter()
            .find(|s| s.name == name)
            .copied()
            .unwrap_or_default()
    };
    let causes = stages.iter().map(|s| (s.name, s.dropped));
    let causes = causes.chain([("down", counters.down), ("overflow", counters.overflow)]);
    LinkReport {
        link: link.clone(),
        from: from.clone(),
        to: to.clone(),
        sent: counters.sent,
        sent_bytes: counters.sent_bytes,
        delivered: counters.delivered,
        delivered_bytes: counters.delivered_bytes,
        dropped: causes.filter(|(_, count)| *count > 0).collect(),
        marked: stage("queue").changed,
        trimmed: pipe.trimmed(),
        returned: counters.returned,
        queue: pipe.depth().map(|depth| QueueReport {
            max_bytes: depth.max_bytes,
            max_packets: depth.max_packets,
            mean_bytes: depth.byte_nanos as f64 / now.nanos_since(START).max(1) as f64,
        }),
        queue_depths: pipe.depths(now),
        pauses: Vec::new(),
        corrupted: stage("corrupt").changed,
        duplicated: stage("duplicate").copied,
        reordered: stage("reorder").delayed,
        up: pipe.is_up(),
        under_way: pipe.under_way(),
    }
}

fn pause_report(pauses: &Pauses) -> PauseReport {
    PauseReport {
        priority: pauses.priority,
        pauses: pauses.count,
        seconds: pauses.nanos as f64 / 1e9,
        is_paused: pauses.is_paused,
        max_bytes: pauses.max_bytes,
        lost: pauses.lost,
    }
}

fn switch_report(switch: &Switch) -> SwitchReport {
    SwitchReport {
        switch: switch.name().to_owned(),
        forwarded: switch.forwarded(),
        dropped: switch.dropped().clone(),
    }
}

fn host_report(host: &Host) -> HostReport {
    let rows = host
        .stack()
        .counters()
        .rows()
        .map(|(name, count)| (name.to_owned(), count));
    let interface = host.stack().interface_counters();
    let drops = DropReason::ALL
        .iter()
        .map(|r| (format!("interface_{}", r.label()), interface.dropped(*r)));
    let (no_route, overflow) = host.lost();
    let more = [
        ("no_route".to_owned(), no_route),
        ("inbox_overflow".to_owned(), overflow),
        ("unexpected_connections".to_owned(), host.unexpected_connections()),
    ];
    let all = rows.chain(drops).chain(more);
    let counters: BTreeMap<String, u64> = all.filter(|(_, count)| *count > 0).collect();
    HostReport { host: host.name().to_owned(), counters }
}

/// Returns the faults of a host that must not occur in any run.
fn host_faults(host: &Host) -> Vec<String> {
    let mut faults: Vec<String> = host.failure().map(ToString::to_string).into_iter().collect();
    let asserts = host.stack().counters().asserts;
    if asserts > 0 {
        let text = host.stack().last_assert().unwrap_or("unknown");
        faults.push(format!(
            "{asserts} asserts of the program failed, the last one `{text}`"
        ));
    }
    faults
}
