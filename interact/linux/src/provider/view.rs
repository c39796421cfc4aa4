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

/// How long the state of a flow is taken for what it was: less than a round trip of any network.
const FRESH: Duration = Duration::from_micros(200);
/// Until it is tried again to steer a flow that could not be.
const RETRY: Duration = Duration::from_secs(1);
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
    }

    /// Lets act what was set in this turn; `failed` is called with flows of which the kernel did not take it.
    pub(super) fn commit(&mut self, mut failed: impl FnMut(u64, &str)) {
        let View {
            kernel,
            set,
            unwilling,
            now,
            ..
        } = self;
        // Each flow was reported, so there is no more to the result.
        let _ = kernel.commit(|flow, error| {
            let held = set.len();
            set.retain(|(of, _), _| *of != flow);
            if set.len() == held {
                // Given back, which the end of the lease does as well.
                return;
            }
            let why = error.to_string();
            failed(flow, &why);
            make_room(unwilling, *now);
            unwilling.insert(flow, (*now, Refusal::Unable(why)));
        });
    }

    /// Asks the kernel for a flow, unless that was a moment ago.
    fn ask<T>(&self, flow: u64, read: impl FnOnce(&Flow) -> T) -> Option<T> {
        let mut asked = self.asked.borrow_mut();
        if let Some((at, flow)) = asked.get(&flow)
            && self.now - *at < FRESH
        {
            return Some(read(flow));
        }
        let fresh = self.diagnostics.borrow_mut().probe(flow).ok()?;
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

    /// Stages what a subscriber wants. A flow that another congestion control runs is given
    /// ours first, for as long as something of it is leased.
    fn stage(&mut self, flow: u64, which: Variable, value: u64, lease: Duration) -> Result<(), Refusal> {
        if let Some((at, why)) = self.unwilling.get(&flow) {
            if self.now - *at < RETRY {
                return Err(why.clone());
            }
            self.unwilling.remove(&flow);
        }
        let mut staged = self.kernel.stage(flow, which, value, lease);
        if matches!(staged, Err(KernelError::NotOurs { .. })) {
            let own = crate::own_namespace().unwrap_or_default();
            if let Some(other) = self
                .ask(flow, |flow| flow.namespace)
                .filter(|other| *other != own)
            {
                return Err(Refusal::Unable(format!(
                    "the flow is in another network namespace ({other}, this is {own}): a `hawser kernel` that \
                     runs there can give it our congestion control"
                )));
            }
            let adopted = self.kernel.adopt(flow);
            let failed = adopted.is_err();
            staged = adopted.and_then(|()| self.kernel.stage(flow, which, value, lease));
            if let (true, Err(error)) = (failed, &staged) {
                make_room(&mut self.unwilling, self.now);
                self.unwilling.insert(flow, (self.now, Refusal::unable(error)));
            }
        }
        staged.map_err(Refusal::unable)
    }
}

/// Where a flow is, and whose.
fn attributes(flow: &Flow, owners: &mut Owners) -> Vec<(&'static str, String)> {
    let mut all = vec![("namespace", flow.namespace.to_string())];
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
        let flows = self.diagnostics.borrow_mut().flows().unwrap_or_default();
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
