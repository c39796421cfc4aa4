//! The kernel's TCP: loading, subscriptions and modifications in one type.

use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::io::Errno;

use crate::capability::{self, Capability};
use crate::leases::Leases;
use crate::options::Options;
use crate::programs::{self, Programs};
use crate::subscriptions::Subscriptions;
use crate::{EventRecord, Filter, FlowEvent, KernelError, LeaseCounts, Missing, SubscriptionId, Variable};

impl Options {
    fn check(&self) -> Result<(), KernelError> {
        let wrong = |what, value, must| Err(KernelError::Option { what, value, must });
        if !self.ring_bytes.is_power_of_two() || !(4096..=1 << 30).contains(&self.ring_bytes) {
            return wrong(
                "ring_bytes",
                self.ring_bytes.into(),
                "a power of two from 4096 to 2^30",
            );
        }
        for (what, value) in [("flows", self.flows), ("gates", self.gates)] {
            if !(1..=1 << 20).contains(&value) {
                return wrong(what, value.into(), "1 to 1048576");
            }
        }
        if self.cgroup.is_none() && (self.marked_only || self.adopt) {
            return Err(Missing::NoCgroup.into());
        }
        match &self.congestion_control {
            Some(name) if !is_name(name) => Err(KernelError::Name(name.clone())),
            None if self.adopt => Err(Missing::NoCongestionControl.into()),
            Some(_) | None => Ok(()),
        }
    }
}

/// Returns whether the kernel accepts a text as the name of a congestion control.
pub(crate) fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.';
    (1..=15).contains(&name.len()) && name.bytes().all(plain)
}

/// Linux's TCP with our programs attached. All programs are detached when it is dropped. Adopted flows get
/// back their earlier congestion control. Flows for which our congestion control was selected in another way
/// keep it, under its own congestion controller, until they end.
pub struct Kernel {
    pub(crate) programs: Programs,
    pub(crate) congestion_control: Option<String>,
    subscriptions: Subscriptions,
    pub(crate) leases: Leases,
    /// Flows that were given our congestion control for the time of their leases.
    pub(crate) adopted: HashSet<u64>,
    /// The maximum number of adopted flows that are remembered.
    pub(crate) max_adopted: usize,
    /// True if the ring may hold more records, because the last read stopped early.
    more: bool,
}

impl Kernel {
    /// Loads and attaches the programs. This takes CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN in the initial user
    /// namespace; later calls take no privilege.
    ///
    /// # Errors
    /// [`KernelError::Missing`] for a requirement that the machine or the process does not meet,
    /// [`KernelError::NameTaken`], [`KernelError::Option`], [`KernelError::Name`], [`KernelError::Refused`].
    pub fn load(options: &Options) -> Result<Self, KernelError> {
        options.check()?;
        let programs = Programs::load(options)?;
        let subscriptions = Subscriptions::new(options.wake, options.ring_bytes);
        programs.write_settings(subscriptions.settings())?;
        Ok(Self {
            programs,
            congestion_control: options.congestion_control.clone(),
            subscriptions,
            leases: Leases::new(options.flows as usize),
            adopted: HashSet::new(),
            max_adopted: options.flows as usize,
            more: false,
        })
    }

    /// Returns the capabilities of this machine, event by event and variable by variable.
    #[must_use]
    pub fn capabilities(&self) -> Vec<Capability> {
        let loaded = capability::load(None);
        [loaded]
            .into_iter()
            .chain(capability::table(self.programs.available()))
            .collect()
    }

    /// Returns the capabilities without loading, which takes no privilege. They say whether this process
    /// could load, and what the kernel would then provide, as far as it describes itself.
    ///
    /// # Errors
    /// [`KernelError::Option`], [`KernelError::Name`], [`KernelError::System`].
    pub fn survey(options: &Options) -> Result<Vec<Capability>, KernelError> {
        options.check()?;
        let (missing, hooks) = programs::survey(options)?;
        let table = hooks.map(capability::table).unwrap_or_default();
        Ok([capability::load(missing)].into_iter().chain(table).collect())
    }

    /// Subscribes to an event. The first subscription attaches the programs that watch for the event.
    ///
    /// # Errors
    /// [`KernelError::Event`] when the event is not available here; [`KernelError::Subscriptions`].
    pub fn subscribe(&mut self, event: FlowEvent, filter: Filter) -> Result<SubscriptionId, KernelError> {
        capability::event(event, self.programs.available())
            .map_err(|why| KernelError::Event { event, why })?;
        let id = self
            .subscriptions
            .prepare(event, filter, &self.programs.lost()?)?;
        self.programs.write_settings(self.subscriptions.settings())?;
        self.subscriptions.enable(id)?;
        if let Err(error) = self.apply() {
            // A program could not be attached, so the subscription's slot is freed.
            let _ = self.unsubscribe(id);
            return Err(error);
        }
        Ok(id)
    }

    /// Changes a subscription's filter while it runs. A running interval is kept to its end.
    ///
    /// # Errors
    /// [`KernelError::NoSubscription`].
    pub fn change(&mut self, id: SubscriptionId, filter: Filter) -> Result<(), KernelError> {
        self.subscriptions.change(id, filter)?;
        self.programs.write_settings(self.subscriptions.settings())
    }

    /// Ends a subscription; queued records are no longer delivered.
    ///
    /// # Errors
    /// [`KernelError::NoSubscription`].
    pub fn unsubscribe(&mut self, id: SubscriptionId) -> Result<(), KernelError> {
        self.subscriptions.disable(id)?;
        self.apply()
    }

    /// Returns whether this process has shown no sign of life for a long time since the last call. The
    /// programs in the kernel may then have ignored its leases.
    #[must_use]
    pub fn was_frozen(&self) -> bool {
        self.programs.was_late()
    }

    /// Changes the time that records may wait before the reader is woken; see [`Options::wake`].
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_wake(&mut self, wake: Duration) -> Result<(), KernelError> {
        self.subscriptions.set_wake(wake);
        self.programs.write_settings(self.subscriptions.settings())
    }

    /// Attaches exactly the hooks that the subscriptions need, and writes the subscriptions for the programs.
    fn apply(&mut self) -> Result<(), KernelError> {
        let wanted = self.subscriptions.hooks();
        self.programs.write_settings(self.subscriptions.settings())?;
        if self.programs.attach_only(wanted)? {
            self.subscriptions.new_epoch();
            self.programs.write_settings(self.subscriptions.settings())?;
        }
        Ok(())
    }

    /// Waits until there are records, for at most `timeout` (`None`: for ever), and passes all of them to
    /// `each`, in the order of delivery. Returns their number.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn poll(
        &mut self,
        timeout: Option<Duration>,
        mut each: impl FnMut(&EventRecord),
    ) -> Result<usize, KernelError> {
        let until = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            self.wait(until)?;
            let count = self.take(&mut each)?;
            let over = until.is_some_and(|until| Instant::now() >= until);
            if count > 0 || (over && !self.more) {
                return Ok(count);
            }
        }
    }

    /// Waits on the descriptor, unless the ring has more records already.
    fn wait(&mut self, until: Option<Instant>) -> Result<(), KernelError> {
        self.sleep(until.map(|until| until.saturating_duration_since(Instant::now())))
    }

    /// Adds a descriptor that ends [`Kernel::sleep`] each time that it becomes readable; it need not be read
    /// for that. It is removed when it is closed.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn wake_by(&mut self, other: BorrowedFd<'_>) -> Result<(), KernelError> {
        self.programs.wake_by(other)
    }

    /// Sleeps until the reader is woken ([`Options::wake`], [`Kernel::wake_by`]), for at most `timeout`
    /// (`None`: for ever). Returns at once when [`Kernel::take`] has left records. It is one system call.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn sleep(&mut self, timeout: Option<Duration>) -> Result<(), KernelError> {
        let timeout = if self.more { Some(Duration::ZERO) } else { timeout };
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        match self.programs.wait(timeout.as_ref()) {
            Ok(()) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(KernelError::system("wait for the ring", error)),
        }
    }

    /// Passes the queued records to `each`, in the order of delivery, up to a batch; returns their number. It
    /// makes no system call.
    ///
    /// # Errors
    /// When the ring cannot be read.
    pub fn take(&mut self, mut each: impl FnMut(&EventRecord)) -> Result<usize, KernelError> {
        let mut count = 0;
        let subscriptions = &self.subscriptions;
        let deliver = |raw: &_| {
            if let Some(record) = subscriptions.record(raw) {
                count += 1;
                each(&record);
            }
        };
        self.more = self.programs.take(deliver)?;
        Ok(count)
    }

    /// Returns the number of records of a subscription that found the ring full so far.
    ///
    /// # Errors
    /// [`KernelError::NoSubscription`].
    pub fn lost(&self, id: SubscriptionId) -> Result<u64, KernelError> {
        self.subscriptions.check(id)?;
        Ok(self.programs.lost()?[usize::from(id.place)] - self.subscriptions.lost_before(id))
    }

    /// Returns the number of these lost records that belong to one flow. Losses of flows long ago may be
    /// forgotten.
    ///
    /// # Errors
    /// [`KernelError::NoSubscription`].
    pub fn lost_of(&self, id: SubscriptionId, flow: u64) -> Result<u64, KernelError> {
        self.subscriptions.check(id)?;
        self.programs.lost_of(flow, id.place)
    }

    /// Sets a variable of a flow for the length of the lease; it takes effect at the flow's next ACK. A
    /// repeated call before the lease is over extends it without a gap. Each variable has a lease of its own.
    ///
    /// # Errors
    /// [`KernelError::NoLease`] for an empty lease, or one longer than [`crate::MAX_LEASE`];
    /// [`KernelError::Value`]; [`KernelError::Leases`]; [`KernelError::Variable`] when our congestion control
    /// was not loaded; [`KernelError::NotOurs`] when the flow uses another one, or has ended.
    pub fn modify(
        &mut self,
        flow: u64,
        variable: Variable,
        value: u64,
        lease: Duration,
    ) -> Result<(), KernelError> {
        self.stage(flow, variable, value, lease)?;
        self.commit(|_, _| {})
    }

    /// Prepares the same modification without effect. [`Kernel::commit`] then publishes all staged
    /// modifications of a flow to the programs at once. The lease begins now.
    ///
    /// # Errors
    /// As [`Kernel::modify`].
    pub fn stage(
        &mut self,
        flow: u64,
        variable: Variable,
        value: u64,
        lease: Duration,
    ) -> Result<(), KernelError> {
        if self.congestion_control.is_none() {
            return Err(KernelError::Variable { variable, why: Missing::NoCongestionControl });
        }
        if !self.leases.is_staged(flow) {
            self.check_ours(flow)?;
        }
        for flow in self.leases.grant(flow, variable, value, lease)? {
            // A lease that is over has no effect; if its entry cannot be removed, it disappears with its
            // flow.
            let _ = self.programs.drop_lease(flow);
        }
        Ok(())
    }

    /// Checks that our congestion control runs a flow. An adopted flow may just have been given back.
    pub(crate) fn check_ours(&self, flow: u64) -> Result<(), KernelError> {
        if self.programs.standing(flow)?.ours != 0 {
            return Ok(());
        }
        Err(KernelError::NotOurs { flow, ours: self.congestion_control.clone().unwrap_or_default() })
    }

    /// Stages that one variable goes back to the flow's own congestion controller before its lease is over.
    pub fn give_back(&mut self, flow: u64, variable: Variable) {
        self.leases.give_back(flow, variable);
    }

    /// Publishes all staged modifications, which take effect from each flow's next ACK on. `failed` is called
    /// with flows whose leases could not be written.
    ///
    /// # Errors
    /// The last error passed to `failed`.
    pub fn commit(&mut self, mut failed: impl FnMut(u64, &KernelError)) -> Result<(), KernelError> {
        let (mut result, mut ended) = (Ok(()), false);
        while let Some((flow, whole)) = self.leases.next_staged() {
            let written = match &whole {
                Some(lease) => self
                    .programs
                    .write_lease(lease)
                    .and_then(|()| self.check_ours(flow)),
                None => {
                    ended |= self.adopted.remove(&flow);
                    self.programs.drop_lease(flow)
                }
            };
            if let Err(error) = written {
                self.leases.forget(flow);
                failed(flow, &error);
                result = Err(error);
            }
        }
        if ended {
            // Flows in another network namespace, or that cannot be visited, are put back at their next ACK.
            let _ = self.put_back();
        }
        result
    }

    /// Forgets the leases of a flow that our congestion control no longer runs.
    pub(crate) fn forget(&mut self, flow: u64) {
        self.leases.forget(flow);
        self.adopted.remove(&flow);
        // If the lease is already gone, it is over.
        let _ = self.programs.drop_lease(flow);
    }

    /// Gives a flow back to its own congestion controller before its leases are over.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn release(&mut self, flow: u64) -> Result<(), KernelError> {
        self.leases.forget(flow);
        self.programs.drop_lease(flow)?;
        if self.adopted.remove(&flow) {
            self.put_back()?;
        }
        Ok(())
    }

    /// Returns the counts of a flow's leases.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn standing(&self, flow: u64) -> Result<LeaseCounts, KernelError> {
        let raw = self.programs.standing(flow)?;
        Ok(LeaseCounts { granted: raw.granted, fallbacks: raw.fallbacks })
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        if self.adopted.is_empty() {
            return;
        }
        for flow in std::mem::take(&mut self.adopted) {
            // If this fails, the programs, which the flows keep, do it at the end of the lease.
            let _ = self.programs.drop_lease(flow);
        }
        let _ = self.put_back();
    }
}

impl AsFd for Kernel {
    /// Readable when [`Kernel::poll`] would not wait.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.programs.descriptor()
    }
}
