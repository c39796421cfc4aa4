//! The flows of Linux's TCP as the bus reads and sets them.
//!
//! Values that are read come with the records of the ring, because a query to INET_DIAG costs as much as ten
//! signals. Values that are set are staged, and written once for each flow at the end of a batch.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::{Diagnostics, EventRecord, FlowState as Stood, Kernel, KernelError, Owners, TcpFlow, Variable};
use hawser_bus::{FlowId, FlowInfo, ProviderState, Refusal, VariableId};
use hawser_time::Instant;
use tracing::warn;

/// The time for which a flow's state is reused: less than a round trip of most networks.
const FRESH: Duration = Duration::from_micros(200);
/// The time until a failed attempt to steer a flow is repeated.
const RETRY: Duration = Duration::from_secs(1);
/// The time after a visit to all sockets during which flows that are to get our congestion control are
/// gathered. One visit then serves all of them.
const GATHER: Duration = Duration::from_millis(20);
/// The maximum number of values that wait for a visit.
const WAITING: usize = 4_096;
/// The maximum number of flows whose state is remembered.
const REMEMBERED: usize = 4_096;

/// The kernel's TCP as the state of a source.
pub(super) struct View {
    pub(super) kernel: Kernel,
    /// The beginning of this turn.
    pub(super) now: Instant,
    /// The flow of the record that is being published, with its state at that time.
    current: Option<(u64, Stood)>,
    /// The states of flows according to their newest records.
    published: HashMap<u64, (Instant, Stood)>,
    diagnostics: RefCell<Diagnostics>,
    owners: RefCell<Owners>,
    /// Recent answers of INET_DIAG about flows.
    asked: RefCell<HashMap<u64, (Instant, TcpFlow)>>,
    /// The held values; in the kernel they take effect at the next acknowledgement.
    set: BTreeMap<(u64, VariableId), u64>,
    /// Values for flows that another congestion control runs. They take effect once ours runs these flows.
    waiting: Vec<DeferredValue>,
    /// Flows that could not be given our congestion control, until [`View::commit`] reports them.
    refused: Vec<(u64, Refusal)>,
    /// The earliest time of the next visit to all sockets.
    next_visit: Instant,
    /// The reasons why flows cannot be steered, with the time of the failure: an attempt takes a visit to all
    /// sockets.
    unwilling: HashMap<u64, (Instant, Refusal)>,
    /// The variables that the kernel lets be set, by their number.
    modifiable: [Option<Variable>; Stood::NAMES.len()],
}

impl View {
    pub(super) fn new(kernel: Kernel, diagnostics: Diagnostics) -> View {
        View {
            kernel,
            now: Instant::ORIGIN,
            current: None,
            published: HashMap::new(),
            diagnostics: RefCell::new(diagnostics),
            owners: RefCell::default(),
            asked: RefCell::default(),
            set: BTreeMap::new(),
            waiting: Vec::new(),
            refused: Vec::new(),
            next_visit: Instant::ORIGIN,
            unwilling: HashMap::new(),
            modifiable: Stood::NAMES.map(|name| Variable::ALL.into_iter().find(|v| v.name() == name)),
        }
    }

    /// Begins to publish a record: until [`View::end`] its flow has the state of the record.
    pub(super) fn begin(&mut self, record: &EventRecord) {
        let Some(state) = record.state else { return };
        self.current = Some((record.flow, state));
        let time = Instant::from_nanos(record.time);
        // A record that a filter has kept may be older than the one published before it.
        if self.published.get(&record.flow).is_none_or(|(at, _)| *at <= time) {
            make_room(&mut self.published, self.now);
            self.published.insert(record.flow, (time, state));
        }
    }

    /// The record has been published.
    pub(super) fn end(&mut self) {
        self.current = None;
    }

    /// A flow has ended.
    pub(super) fn forget(&mut self, flow: u64) {
        self.published.remove(&flow);
        self.asked.borrow_mut().remove(&flow);
        self.unwilling.remove(&flow);
        self.set.retain(|(of, _), _| *of != flow);
        self.waiting.retain(|waiting| waiting.flow != flow);
    }

    /// Returns the flows that are held although our congestion control no longer runs them. This process was
    /// frozen, and the programs ignored its leases in the meantime. The holds are ended.
    pub(super) fn take_lost(&mut self) -> Vec<(u64, String)> {
        let mut flows: Vec<u64> = self.set.keys().map(|(flow, _)| *flow).collect();
        flows.dedup();
        let waits = |flow: &u64| self.waiting.iter().any(|waiting| waiting.flow == *flow);
        flows.retain(|flow| !waits(flow));
        let lost: Vec<_> = flows
            .into_iter()
            .filter_map(|flow| Some((flow, self.kernel.check_ours(flow).err()?.to_string())))
            .collect();
        self.set
            .retain(|(of, _), _| lost.iter().all(|(flow, _)| flow != of));
        for (flow, _) in &lost {
            self.kernel.forget(*flow);
        }
        lost
    }

    /// Returns the time at which [`View::commit`] next has work, if no value is set before.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        (!self.waiting.is_empty()).then_some(self.next_visit)
    }

    /// Publishes the values set in this turn; `failed` is called with flows for which the kernel refused.
    pub(super) fn commit(&mut self, mut failed: impl FnMut(u64, &str)) {
        if self.now >= self.next_visit {
            self.adopt_waiting();
        }
        let mut refused = std::mem::take(&mut self.refused);
        // Each failed flow is reported by itself, so the result has no further information.
        let _ = self
            .kernel
            .commit(|flow, error| refused.push((flow, Refusal::unable(error))));
        for (flow, why) in refused {
            let held = self.set.len();
            self.set.retain(|(of, _), _| *of != flow);
            if self.set.len() == held {
                // The variable was given back, which is the same as the end of the lease.
                continue;
            }
            failed(flow, &why.to_string());
            self.mark_unwilling(flow, why);
        }
    }

    /// Gives our congestion control to all flows that wait for it, and stages their values. Flows for which
    /// this failed are in `refused`, each once.
    fn adopt_waiting(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        self.next_visit = self.now + GATHER;
        let waiting = std::mem::take(&mut self.waiting);
        let mut flows: Vec<u64> = waiting.iter().map(|waiting| waiting.flow).collect();
        flows.sort_unstable();
        flows.dedup();
        let mut refused: BTreeMap<u64, Refusal> = match self.kernel.adopt_all(&flows) {
            Ok(adopted) => flows
                .into_iter()
                .zip(adopted)
                .filter_map(|(flow, adopted)| Some((flow, Refusal::unable(adopted.err()?))))
                .collect(),
            Err(error) => flows
                .into_iter()
                .map(|flow| (flow, Refusal::unable(&error)))
                .collect(),
        };
        for DeferredValue { flow, which, value, lease } in waiting {
            if refused.contains_key(&flow) {
                continue;
            }
            if let Err(error) = self.kernel.stage(flow, which, value, lease) {
                refused.insert(flow, Refusal::unable(error));
            }
        }
        for (flow, why) in refused {
            self.mark_unwilling(flow, why.clone());
            self.refused.push((flow, why));
        }
    }

    fn mark_unwilling(&mut self, flow: u64, why: Refusal) {
        make_room(&mut self.unwilling, self.now);
        self.unwilling.insert(flow, (self.now, why));
    }

    /// Asks the kernel for a flow, or reuses a recent answer.
    fn ask<T>(&self, flow: u64, read: impl FnOnce(&TcpFlow) -> T) -> Option<T> {
        let mut asked = self.asked.borrow_mut();
        if let Some((at, flow)) = asked.get(&flow)
            && self.now - *at < FRESH
        {
            return Some(read(flow));
        }
        let fresh = match self.diagnostics.borrow_mut().probe(flow) {
            Ok(fresh) => fresh,
            Err(KernelError::NoFlow(_)) => return None,
            Err(error) => {
                warn!(flow, %error, "cannot read a flow");
                return None;
            }
        };
        let published = read(&fresh);
        make_room(&mut asked, self.now);
        asked.insert(flow, (self.now, fresh));
        Some(published)
    }

    /// Returns the present or a recent state of a flow.
    fn stood(&self, flow: u64) -> Option<Stood> {
        match (self.current, self.published.get(&flow)) {
            (Some((of, state)), _) if of == flow => Some(state),
            (_, Some((at, state))) if self.now - *at < FRESH => Some(*state),
            _ => self.ask(flow, |flow| flow.state),
        }
    }

    /// Stages a value for a subscriber. A flow that another congestion control runs is first given ours, for
    /// the time of its leases. That happens at once, or at the next visit to all sockets if the last was
    /// recent.
    fn stage(&mut self, flow: u64, which: Variable, value: u64, lease: Duration) -> Result<(), Refusal> {
        if let Some((at, why)) = self.unwilling.get(&flow) {
            if self.now - *at < RETRY {
                return Err(why.clone());
            }
            self.unwilling.remove(&flow);
        }
        match self.kernel.stage(flow, which, value, lease) {
            Err(KernelError::NotOurs { .. }) => {}
            staged => return staged.map_err(Refusal::unable),
        }
        self.is_within_reach(flow)?;
        self.waiting
            .retain(|waiting| (waiting.flow, waiting.which) != (flow, which));
        self.waiting.push(DeferredValue { flow, which, value, lease });
        if self.now < self.next_visit && self.waiting.len() < WAITING {
            return Ok(());
        }
        self.adopt_waiting();
        match self.unwilling.get(&flow) {
            Some((_, why)) => Err(why.clone()),
            None => Ok(()),
        }
    }

    /// Checks that a flow is in this network namespace: a visit to its sockets does not meet flows of
    /// another.
    fn is_within_reach(&self, flow: u64) -> Result<(), Refusal> {
        let own = crate::own_namespace().unwrap_or_default();
        match self.ask(flow, |flow| flow.namespace) {
            Some(other) if other != own => Err(Refusal::Unable(format!(
                "the flow is in another network namespace ({other}, this is {own}): a `hawser kernel` that runs \
                 there can give it our congestion control"
            ))),
            _ => Ok(()),
        }
    }
}

/// A value for a flow that another congestion control runs.
struct DeferredValue {
    flow: u64,
    which: Variable,
    value: u64,
    lease: Duration,
}

/// Returns the namespace, the interface, the process and the control group of a flow, as far as known.
fn attributes(flow: &TcpFlow, owners: &mut Owners) -> Vec<(&'static str, String)> {
    let mut all = vec![("namespace", flow.namespace.to_string())];
    if flow.interface != 0 {
        all.push(("interface", flow.interface.to_string()));
    }
    if let Some(process) = owners.find(flow.inode) {
        all.push(("pid", process.pid.to_string()));
        all.push(("command", process.command.clone()));
    }
    if let Some(path) = owners.group(flow.cgroup) {
        all.push(("cgroup", path.to_owned()));
    }
    all
}

/// Removes entries that are not fresh, or all entries if that is not enough.
fn make_room<T>(of: &mut HashMap<u64, (Instant, T)>, now: Instant) {
    if of.len() < REMEMBERED {
        return;
    }
    of.retain(|_, (at, _)| now - *at < FRESH);
    if of.len() >= REMEMBERED {
        of.clear();
    }
}

impl ProviderState for View {
    fn read(&self, flow: FlowId, variable: VariableId) -> Option<u64> {
        if let Some(value) = self.set.get(&(flow.0, variable)) {
            return Some(*value);
        }
        self.stood(flow.0)?.values().get(usize::from(variable.0)).copied()
    }

    fn write(&mut self, _: FlowId, _: VariableId, _: u64) -> bool {
        // The variable is set only under a lease.
        false
    }

    fn hold(
        &mut self,
        flow: FlowId,
        variable: VariableId,
        value: u64,
        lease: Duration,
    ) -> Result<(), Refusal> {
        let which = self.modifiable.get(usize::from(variable.0)).copied().flatten();
        let which = which.ok_or_else(|| Refusal::unable("the kernel does not permit setting it"))?;
        self.stage(flow.0, which, value, lease)?;
        self.set.insert((flow.0, variable), value);
        Ok(())
    }

    fn restore(&mut self, flow: FlowId, variable: VariableId, _: u64) {
        self.set.remove(&(flow.0, variable));
        if let Some(which) = self.modifiable.get(usize::from(variable.0)).copied().flatten() {
            self.waiting
                .retain(|waiting| (waiting.flow, waiting.which) != (flow.0, which));
            self.kernel.give_back(flow.0, which);
        }
    }

    fn info(&self, flow: FlowId) -> Option<FlowInfo> {
        self.ask(flow.0, |flow| FlowInfo {
            kind: "conn".to_owned(),
            local: Some(flow.local),
            remote: Some(flow.remote),
            label: flow.congestion_control.clone(),
            attributes: attributes(flow, &mut self.owners.borrow_mut()),
        })
    }

    fn flows(&self) -> Vec<FlowId> {
        let flows = self.diagnostics.borrow_mut().flows().unwrap_or_else(|error| {
            warn!(%error, "cannot list flows");
            Vec::new()
        });
        flows.into_iter().map(|flow| FlowId(flow.cookie)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remembered_flows_are_bounded() {
        let mut of: HashMap<u64, (Instant, ())> = (0..REMEMBERED as u64)
            .map(|n| (n, (Instant::from_nanos(n), ())))
            .collect();
        make_room(&mut of, Instant::from_nanos(9) + FRESH);
        assert_eq!(of.len(), REMEMBERED - 10, "what is not fresh goes");
        let mut all: HashMap<u64, (Instant, ())> = (0..REMEMBERED as u64)
            .map(|n| (n, (Instant::ORIGIN, ())))
            .collect();
        make_room(&mut all, Instant::from_nanos(1));
        assert!(all.is_empty(), "there was no other means");
    }
}
