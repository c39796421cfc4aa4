//! The flows of Linux's TCP as the bus reads and sets them.
//!
//! What is read comes with the records of the ring: to ask INET_DIAG costs as much as ten signals. What is
//! set is staged, and written once for each flow at the end of a batch.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::{Diagnostics, Flow, Kernel, KernelError, Owners, Record, State as Stood, Variable};
use hawser_bus::{FlowId, FlowInfo, Refusal, State, VariableId};
use hawser_time::Instant;
use tracing::warn;

/// How long the state of a flow is taken for what it was: less than a round trip of any network.
const FRESH: Duration = Duration::from_micros(200);
/// Until it is tried again to steer a flow that could not be.
const RETRY: Duration = Duration::from_secs(1);
/// The time that flows which are to get our congestion control wait for others after a visit to all sockets: one visit
/// serves all that have come meanwhile.
const GATHER: Duration = Duration::from_millis(20);
/// The most values that wait for a visit.
const WAITING: usize = 4_096;
/// The maximum number of flows of which something is remembered.
const REMEMBERED: usize = 4_096;

/// The kernel as a source sees it.
pub(super) struct View {
    pub(super) kernel: Kernel,
    /// The beginning of this turn.
    pub(super) now: Instant,
    /// The flow of the record that is being published, as it stood then.
    current: Option<(u64, Stood)>,
    /// Flows as their newest records have them.
    published: HashMap<u64, (Instant, Stood)>,
    diagnostics: RefCell<Diagnostics>,
    owners: RefCell<Owners>,
    /// Flows as INET_DIAG had them lately.
    asked: RefCell<HashMap<u64, (Instant, Flow)>>,
    /// What is held: in the kernel it acts at the next acknowledgement.
    set: BTreeMap<(u64, VariableId), u64>,
    /// Values of flows that another congestion control runs: they act once ours runs these.
    waiting: Vec<Waiting>,
    /// Flows that could not be given our congestion control, until [`View::commit`] reports them.
    refused: Vec<(u64, Refusal)>,
    /// The earliest moment of the next visit to all sockets.
    next_visit: Instant,
    /// Why a flow cannot be steered, and when that was found out: to try takes a visit to all sockets.
    unwilling: HashMap<u64, (Instant, Refusal)>,
    /// By variable: what the kernel lets be set.
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

    /// A record is being published: until [`View::end`] its flow is as it stood then.
    pub(super) fn begin(&mut self, record: &Record) {
        let Some(state) = record.state else { return };
        self.current = Some((record.flow, state));
        let time = Instant::from_nanos(record.time);
        // One that a filter has kept may be older than what was published before it.
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

    /// The flows that are held, and that our congestion control runs no more: this process stood still, and the
    /// programs heeded none of its leases meanwhile. They are held no longer.
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

    /// When [`View::commit`] has something to do, if nothing is set before.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        (!self.waiting.is_empty()).then_some(self.next_visit)
    }

    /// Lets act what was set in this turn; `failed` is called with flows of which the kernel did not take it.
    pub(super) fn commit(&mut self, mut failed: impl FnMut(u64, &str)) {
        if self.now >= self.next_visit {
            self.adopt_waiting();
        }
        let mut refused = std::mem::take(&mut self.refused);
        // Each flow is reported, so there is no more to the result.
        let _ = self
            .kernel
            .commit(|flow, error| refused.push((flow, Refusal::unable(error))));
        for (flow, why) in refused {
            let held = self.set.len();
            self.set.retain(|(of, _), _| *of != flow);
            if self.set.len() == held {
                // Given back, which the end of the lease does as well.
                continue;
            }
            failed(flow, &why.to_string());
            self.mark_unwilling(flow, why);
        }
    }

    /// Gives all flows that wait our congestion control, and stages what waits of them. Those of which that failed are
    /// in `refused`, each once.
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
        for Waiting { flow, which, value, lease } in waiting {
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

    /// Asks the kernel for a flow, unless that was a moment ago.
    fn ask<T>(&self, flow: u64, read: impl FnOnce(&Flow) -> T) -> Option<T> {
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
                warn!(flow, %error, "a flow cannot be read");
                return None;
            }
        };
        let published = read(&fresh);
        make_room(&mut asked, self.now);
        asked.insert(flow, (self.now, fresh));
        Some(published)
    }

    /// A flow as it stands, or stood a moment ago.
    fn stood(&self, flow: u64) -> Option<Stood> {
        match (self.current, self.published.get(&flow)) {
            (Some((of, state)), _) if of == flow => Some(state),
            (_, Some((at, state))) if self.now - *at < FRESH => Some(*state),
            _ => self.ask(flow, |flow| flow.state),
        }
    }

    /// Stages what a subscriber wants. A flow that another congestion control runs is given ours first, for as long as
    /// something of it is leased: at once, or by the next visit to all sockets where the last was a moment ago.
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
        self.waiting.push(Waiting { flow, which, value, lease });
        if self.now < self.next_visit && self.waiting.len() < WAITING {
            return Ok(());
        }
        self.adopt_waiting();
        match self.unwilling.get(&flow) {
            Some((_, why)) => Err(why.clone()),
            None => Ok(()),
        }
    }

    /// A flow of another network namespace is not met by a visit to the sockets of this one.
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

/// A value of a flow that another congestion control runs.
struct Waiting {
    flow: u64,
    which: Variable,
    value: u64,
    lease: Duration,
}

/// Where a flow is, and whose.
fn attributes(flow: &Flow, owners: &mut Owners) -> Vec<(&'static str, String)> {
    let mut all = vec![("namespace", flow.namespace.to_string())];
    if flow.interface != 0 {
        all.push(("interface", flow.interface.to_string()));
    }
    if let Some(process) = owners.of(flow.inode) {
        all.push(("pid", process.pid.to_string()));
        all.push(("command", process.command.clone()));
    }
    if let Some(path) = owners.group(flow.cgroup) {
        all.push(("cgroup", path.to_owned()));
    }
    all
}

/// Forgets what is not fresh, and everything where that does not help.
fn make_room<T>(of: &mut HashMap<u64, (Instant, T)>, now: Instant) {
    if of.len() < REMEMBERED {
        return;
    }
    of.retain(|_, (at, _)| now - *at < FRESH);
    if of.len() >= REMEMBERED {
        of.clear();
    }
}

impl State for View {
    fn read(&self, flow: FlowId, variable: VariableId) -> Option<u64> {
        if let Some(value) = self.set.get(&(flow.0, variable)) {
            return Some(*value);
        }
        self.stood(flow.0)?.values().get(usize::from(variable.0)).copied()
    }

    fn write(&mut self, _: FlowId, _: VariableId, _: u64) -> bool {
        // Only under a lease.
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
        let which = which.ok_or_else(|| Refusal::unable("the kernel does not let it be set"))?;
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
            warn!(%error, "flows cannot be listed");
            Vec::new()
        });
        flows.into_iter().map(|flow| FlowId(flow.cookie)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_bounded() {
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
