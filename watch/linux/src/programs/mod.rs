//! The eBPF programs of this crate: loading, attaching, and the maps for communication with them.
//!
//! Only [`Programs::load`] needs privilege: later calls use file descriptors that it opened. All programs are
//! detached when the value is dropped.

mod heartbeat;
mod libbpf_output;
mod needs;

use std::io::Read;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use libbpf_rs::{
    ErrorKind, Iter, Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject, RingBuffer,
    RingBufferBuilder,
};
use parking_lot::Mutex;
use rustix::event::{Timespec, epoll};

use crate::abi::{
    Operation, RawAdoption, RawChoices, RawLease, RawOfSubscription, RawRecord, RawRequest, RawSettings,
    RawStanding, SUBSCRIPTIONS,
};
use crate::hook::{HOOKS, Hook, Hooks};
use crate::{KernelError, Missing, Options};
use heartbeat::Heartbeat;

/// The compiled programs.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hawser.bpf.o"));
/// The map of the congestion control. Its name lies behind five pointers in `struct tcp_congestion_ops` of
/// `bpf/kernel.bpf.h`.
const CONGESTION_CONTROL: &str = "hawser";
const NAME_AT: usize = 5 * size_of::<usize>();
/// The maximum number of records taken from the ring at a time.
const BATCH: usize = 512;

/// Returns the obstacle to loading, if any, and the hooks that the kernel would provide.
pub(crate) fn survey(options: &Options) -> Result<(Option<Missing>, Option<Hooks>), KernelError> {
    let (hooks, no_types) = missing(needs::hooks(options))?;
    let (_, no_hooks) = missing(hooks.map_or(Ok(()), |hooks| needs::check(options, hooks)))?;
    let (_, no_cgroup) = missing(options.cgroup.as_deref().map(needs::cgroup).transpose())?;
    let (_, no_privilege) = missing(needs::privilege())?;
    Ok((no_types.or(no_hooks).or(no_cgroup).or(no_privilege), hooks))
}

/// Separates the result of a query from the requirement that it found missing.
fn missing<T>(looked: Result<T, KernelError>) -> Result<(Option<T>, Option<Missing>), KernelError> {
    match looked {
        Ok(found) => Ok((Some(found), None)),
        Err(KernelError::Missing(missing)) => Ok((None, Some(missing))),
        Err(error) => Err(error),
    }
}

/// The loaded programs.
pub(crate) struct Programs {
    /// Dropped first, so that a program that is removed from the kernel no longer holds a flow.
    heartbeat: Heartbeat,
    object: Object,
    /// The attached programs, by the number of the hook.
    attached: [Option<Link>; HOOKS],
    available: Hooks,
    ring: RingBuffer<'static>,
    batch: Arc<Mutex<Vec<RawRecord>>>,
    epoll: OwnedFd,
    settings: MapHandle,
    lost: MapHandle,
    losses: MapHandle,
    leases: MapHandle,
    standings: MapHandle,
    requests: MapHandle,
    adoptions: MapHandle,
}

impl Programs {
    /// Loads the programs and attaches those that are always attached.
    ///
    /// # Errors
    /// When something is missing, the name of the congestion control is taken, or the kernel refuses.
    pub(crate) fn load(options: &Options) -> Result<Self, KernelError> {
        let cgroup = options.cgroup.as_deref().map(needs::cgroup).transpose()?;
        needs::privilege()?;
        let available = needs::hooks(options)?;
        needs::check(options, available)?;
        let object = libbpf_output::capture(|| open(options, available)?.load())?;
        let map = |name| map_of(&object, name);
        let batch = Arc::new(Mutex::new(Vec::with_capacity(BATCH)));
        let events = map("ring")?;
        let ring = ring(&events, &batch).map_err(|error| libbpf("read the ring", &error))?;
        let programs = Self {
            heartbeat: Heartbeat::start({
                let heartbeat = map(".data.heartbeat")?;
                move |time| update(&heartbeat, &0_u32, &time)
            })?,
            attached: [const { None }; HOOKS],
            available,
            ring,
            batch,
            epoll: watch(events.as_fd())?,
            settings: map(".data.settings")?,
            lost: map(".bss.lost")?,
            losses: map("losses")?,
            leases: map("leases")?,
            standings: map("standings")?,
            requests: map("requests")?,
            adoptions: map("adoptions")?,
            object,
        };
        programs.begin(cgroup, options)
    }

    fn begin(mut self, cgroup: Option<OwnedFd>, options: &Options) -> Result<Self, KernelError> {
        self.attach(Hook::State)?;
        if self.available.has(Hook::Reach) {
            self.attach(Hook::Reach)?;
        }
        if let Some(name) = &options.congestion_control {
            self.register(name)?;
        }
        if let Some(cgroup) = cgroup {
            let link = self.program(Hook::InCgroup)?.attach_cgroup(cgroup.as_raw_fd());
            self.attached[Hook::InCgroup as usize] =
                Some(link.map_err(|error| libbpf("attach to the cgroup", &error))?);
        }
        Ok(self)
    }

    /// Returns the hooks to which programs can be attached here.
    pub(crate) fn available(&self) -> Hooks {
        self.available
    }

    /// Attaches the programs of `wanted` that are not attached; detaches the others. Hooks that are always
    /// attached stay. Returns true when a program was attached.
    pub(crate) fn attach_only(&mut self, wanted: Hooks) -> Result<bool, KernelError> {
        let mut more = false;
        for hook in Hook::ON_DEMAND {
            let attached = self.attached[hook as usize].is_some();
            if wanted.has(hook) && !attached {
                self.attach(hook)?;
                more = true;
            } else if !wanted.has(hook) && attached {
                self.attached[hook as usize] = None;
            }
        }
        Ok(more)
    }

    fn attach(&mut self, hook: Hook) -> Result<(), KernelError> {
        let link = self.program(hook)?.attach();
        self.attached[hook as usize] = Some(link.map_err(|error| libbpf("attach an eBPF program", &error))?);
        Ok(())
    }

    fn register(&mut self, name: &str) -> Result<(), KernelError> {
        let mut maps = self.object.maps_mut();
        let map = maps.find(|map| map.name() == CONGESTION_CONTROL);
        let link = map.ok_or(Missing::CongestionControl)?.attach_struct_ops();
        self.attached[Hook::CongestionControl as usize] = Some(link.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => KernelError::NameTaken(name.to_owned()),
            _ => libbpf("register the congestion control", &error),
        })?);
        Ok(())
    }

    fn program(&self, hook: Hook) -> Result<libbpf_rs::ProgramMut<'_>, KernelError> {
        let program = self
            .object
            .progs_mut()
            .find(|program| program.name() == hook.program());
        Ok(program.ok_or(Missing::Hook(hook.place()))?)
    }

    /// Returns a descriptor that is readable when there are records to take.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Waits until the descriptor is readable, and resets its readiness.
    pub(crate) fn wait(&self, timeout: Option<&Timespec>) -> rustix::io::Result<()> {
        let mut events = [MaybeUninit::uninit(); 2];
        epoll::wait(&self.epoll, &mut events, timeout).map(drop)
    }

    /// Adds a descriptor that ends the wait each time that it becomes readable.
    pub(crate) fn wake_by(&self, other: BorrowedFd<'_>) -> Result<(), KernelError> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&self.epoll, other, epoll::EventData::new_u64(1), flags)
            .map_err(|error| KernelError::system("watch a descriptor", error))
    }

    /// Takes up to a batch of records; returns true when there may be more.
    pub(crate) fn take(&self, mut each: impl FnMut(&RawRecord)) -> Result<bool, KernelError> {
        let taken = self.ring.consume_raw_n(BATCH);
        if taken < 0 {
            let error = std::io::Error::from_raw_os_error(-taken);
            return Err(KernelError::system("read the ring", error));
        }
        let mut batch = self.batch.lock();
        batch.drain(..).for_each(|record| each(&record));
        Ok(taken as usize >= BATCH)
    }

    /// Writes the subscriptions for the programs.
    pub(crate) fn write_settings(&self, settings: &RawSettings) -> Result<(), KernelError> {
        update(&self.settings, &0_u32, settings)
    }

    /// Returns whether a sign of life was late since the last call.
    pub(crate) fn was_late(&self) -> bool {
        self.heartbeat.was_late()
    }

    /// Returns the number of records of each subscription that found the ring full.
    pub(crate) fn lost(&self) -> Result<[u64; SUBSCRIPTIONS], KernelError> {
        Ok(lookup(&self.lost, &0_u32)?.unwrap_or_default())
    }

    /// Returns the number of records of one flow that one subscription lost.
    pub(crate) fn lost_of(&self, flow: u64, place: u16) -> Result<u64, KernelError> {
        let key = RawOfSubscription { flow, subscription: u32::from(place), unused: 0 };
        Ok(lookup(&self.losses, &key)?.unwrap_or_default())
    }

    /// Writes a flow's lease to the map that the programs read.
    pub(crate) fn write_lease(&self, lease: &RawLease) -> Result<(), KernelError> {
        update(&self.leases, &lease.flow, &lease.sealed())
    }

    /// Removes a flow's lease; the programs may have done so already.
    pub(crate) fn drop_lease(&self, flow: u64) -> Result<(), KernelError> {
        match self.leases.delete(&flow.to_ne_bytes()) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(libbpf("end a lease", &error)),
            _ => Ok(()),
        }
    }

    /// Returns the counts of a flow's leases.
    pub(crate) fn standing(&self, flow: u64) -> Result<RawStanding, KernelError> {
        Ok(lookup(&self.standings, &flow)?.unwrap_or_default())
    }

    /// Gives flows our congestion control by one visit to all sockets of the calling thread's network
    /// namespace. Returns the outcome for each flow.
    pub(crate) fn adopt(&mut self, flows: &[u64]) -> Result<Vec<RawAdoption>, KernelError> {
        for flow in flows {
            update(&self.adoptions, flow, &RawAdoption::default())?;
        }
        let visited = self.carry_out(&RawRequest { what: Operation::Adopt as u32, ..RawRequest::default() });
        let outcomes = flows.iter().map(|flow| {
            let outcome = lookup(&self.adoptions, flow)?.unwrap_or_default();
            // An entry that stays is overwritten when it is needed again.
            let _ = self.adoptions.delete(&flow.to_ne_bytes());
            Ok(outcome)
        });
        let outcomes = outcomes.collect();
        visited.and(outcomes)
    }

    /// Carries out a request on the socket that it names, in the calling thread's network namespace.
    pub(crate) fn carry_out(&mut self, request: &RawRequest) -> Result<RawRequest, KernelError> {
        let link = self.attached[Hook::Reach as usize].as_ref();
        let link = link.ok_or(Missing::Hook(Hook::Reach.place()))?;
        update(&self.requests, &0_u32, request)?;
        let mut sockets = Iter::new(link).map_err(|error| libbpf("visit the sockets", &error))?;
        // The program writes no output: reading to the end makes it visit all sockets.
        let mut nothing = [0; 64];
        loop {
            match sockets.read(&mut nothing) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => return Err(KernelError::system("visit the sockets", error)),
            }
        }
        Ok(lookup(&self.requests, &0_u32)?.unwrap_or_default())
    }
}

fn open(options: &Options, available: Hooks) -> libbpf_rs::Result<OpenObject> {
    let mut object = ObjectBuilder::default().name("hawser")?.open_memory(OBJECT)?;
    for mut program in object.progs_mut() {
        let hook = Hook::ALL
            .into_iter()
            .find(|hook| program.name() == hook.program());
        if let Some(hook) = hook {
            program.set_autoload(available.has(hook));
        }
    }
    let mut name = [0; 16];
    let wanted = options
        .congestion_control
        .as_deref()
        .unwrap_or_default()
        .as_bytes();
    name[..wanted.len()].copy_from_slice(wanted);
    let choices = RawChoices {
        congestion_control: name,
        marked_only: options.marked_only.into(),
        adopt: options.adopt.into(),
        unused: [0; 2],
        network: if options.own_namespace { namespace() } else { 0 },
    };
    for mut map in object.maps_mut() {
        match map.name().to_str().unwrap_or_default() {
            "ring" => map.set_max_entries(options.ring_bytes)?,
            "gates" => map.set_max_entries(options.gates)?,
            "leases" | "standings" | "losses" | "departures" => map.set_max_entries(options.flows)?,
            ".rodata.choices" => map.set_initial_value(bytemuck::bytes_of(&choices))?,
            CONGESTION_CONTROL if options.congestion_control.is_none() => map.set_autocreate(false)?,
            CONGESTION_CONTROL => {
                let table = map.initial_value_mut().unwrap_or_default();
                if let Some(place) = table.get_mut(NAME_AT..NAME_AT + name.len()) {
                    place.copy_from_slice(&name);
                }
            }
            _ => {}
        }
    }
    Ok(object)
}

/// Returns the inode number of the calling thread's network namespace, by which the programs identify it.
/// Returns 0, which stands for all namespaces, if there is no /proc.
fn namespace() -> u32 {
    let known = std::fs::metadata("/proc/thread-self/ns/net");
    known
        .ok()
        .and_then(|known| u32::try_from(known.ino()).ok())
        .unwrap_or(0)
}

fn map_of(object: &Object, name: &str) -> Result<MapHandle, KernelError> {
    let map = object.maps().find(|map| map.name() == name);
    let map = map.ok_or_else(|| KernelError::NoMap(name.to_owned()))?;
    MapHandle::try_from(&map).map_err(|error| libbpf("open a map", &error))
}

/// Makes the reader of the ring, which puts whole records into `batch`.
fn ring(events: &MapHandle, batch: &Arc<Mutex<Vec<RawRecord>>>) -> libbpf_rs::Result<RingBuffer<'static>> {
    let batch = Arc::clone(batch);
    let mut builder = RingBufferBuilder::new();
    builder.add(events, move |bytes| {
        if let Ok(record) = bytemuck::try_pod_read_unaligned(bytes) {
            batch.lock().push(record);
        }
        0
    })?;
    builder.build()
}

/// Makes a descriptor that is readable from a wake-up until the next wait. It is edge-triggered, because with
/// a level trigger a ring that is not empty would keep a reader awake that asked to be woken rarely.
fn watch(ring: BorrowedFd<'_>) -> Result<OwnedFd, KernelError> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
        .map_err(|error| KernelError::system("create an epoll descriptor", error))?;
    let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
    epoll::add(&epoll, ring, epoll::EventData::new_u64(0), flags)
        .map_err(|error| KernelError::system("watch the ring", error))?;
    Ok(epoll)
}

fn update<V: bytemuck::NoUninit>(
    map: &MapHandle,
    key: &impl bytemuck::NoUninit,
    value: &V,
) -> Result<(), KernelError> {
    map.update(bytemuck::bytes_of(key), bytemuck::bytes_of(value), MapFlags::ANY)
        .map_err(|error| libbpf("write a map", &error))
}

fn lookup<V: bytemuck::AnyBitPattern>(
    map: &MapHandle,
    key: &impl bytemuck::NoUninit,
) -> Result<Option<V>, KernelError> {
    let bytes = map
        .lookup(bytemuck::bytes_of(key), MapFlags::ANY)
        .map_err(|error| libbpf("read a map", &error))?;
    Ok(bytes.and_then(|bytes| bytemuck::try_pod_read_unaligned(&bytes).ok()))
}

fn libbpf(doing: &'static str, error: &libbpf_rs::Error) -> KernelError {
    KernelError::Libbpf { doing, why: format!("{error:#}") }
}

#[cfg(test)]
mod tests {
    use libbpf_rs::btf::types::Struct;
    use libbpf_rs::btf::{Btf, HasSize};

    use super::*;
    use crate::abi::{RawStanding, RawState, RawSubscription};

    #[test]
    fn struct_layouts_match_the_ebpf_programs() {
        let types = Btf::from_raw("hawser", OBJECT)
            .expect("it is an object")
            .expect("it has types");
        for (name, size) in [
            ("tcp_state", size_of::<RawState>()),
            ("record", size_of::<RawRecord>()),
            ("subscription", size_of::<RawSubscription>()),
            ("settings", size_of::<RawSettings>()),
            ("choices", size_of::<RawChoices>()),
            ("of_subscription", size_of::<RawOfSubscription>()),
            ("lease", size_of::<RawLease>()),
            ("standing", size_of::<RawStanding>()),
            ("request", size_of::<RawRequest>()),
            ("adoption", size_of::<RawAdoption>()),
        ] {
            let there = types.type_by_name::<Struct<'_>>(name).map(|found| found.size());
            assert_eq!(there, Some(size), "{name}");
        }
    }

    #[test]
    fn every_hook_has_its_program() {
        let object = ObjectBuilder::default()
            .open_memory(OBJECT)
            .expect("it is an object");
        for hook in Hook::ALL {
            let found = object.progs().any(|program| program.name() == hook.program());
            assert!(found, "{}", hook.program());
        }
        let mut maps = object.maps();
        let table = maps
            .find(|map| map.name() == CONGESTION_CONTROL)
            .expect("it is there");
        let name = &table.initial_value().expect("it has a value")[NAME_AT..];
        assert!(name.starts_with(b"hawser\0"), "the name lies elsewhere");
    }
}
