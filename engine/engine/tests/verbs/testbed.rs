//! Two hosts with their devices, and a cable between them.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use hawser_engine::net::InterfaceConfig;
use hawser_engine::program::Program;
use hawser_engine::verbs::{
    Access, CompletionQueue, ConnectionAttributes, Device, MemoryRegion, ProtectionDomain, QueuePair,
    QueuePairConfig,
};
use hawser_engine::wire::Wire;
use hawser_engine::{Stack, StackConfig};
use hawser_load::Engine;
use hawser_load::programs::resolve_on;
use hawser_time::Instant;

use crate::common::cable::{Cable, cable};

pub const START: Instant = Instant::from_nanos(1_000_000);
const END: Instant = Instant::from_nanos(60_000_000_000);
/// The size of each memory region, in bytes.
pub const SIZE: usize = 1 << 18;

pub fn address(host: usize) -> IpAddr {
    [10, 0, 0, host as u8 + 1].into()
}

pub fn program(engine: Engine) -> Arc<dyn Program> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../transports/roce/roce.mtp");
    let program = resolve_on(Some(engine), file.to_str().expect("a path in UTF-8"), &[]);
    program.unwrap_or_else(|error| panic!("{error}"))
}

/// A host, its end of the cable, and one queue pair.
pub struct Host {
    pub stack: Stack,
    end: Cable,
    pub device: Device,
    pub domain: ProtectionDomain,
    pub queue: CompletionQueue,
    pub pair: QueuePair,
    /// The memory for the host's own work.
    pub own: MemoryRegion,
    /// The memory for its peer.
    pub shared: MemoryRegion,
}

impl Host {
    fn new(program: &Arc<dyn Program>, number: usize, seed: u64, end: Cable) -> Host {
        let interface =
            InterfaceConfig { addresses: vec![(address(number), 24)], gateways: vec![], mtu: 1500 };
        let mut config = StackConfig::new(interface, 2 * seed + number as u64);
        config.limits.regions = 400;
        let stack = Stack::new(Arc::clone(program), config, end.caps());
        let mut stack = stack.expect("a good configuration");
        let mut device = Device::new(&stack, 100 * number as u32).expect("it has verbs");
        let domain = device.protection_domain();
        let queue = device.completion_queue();
        let pair = device.queue_pair(QueuePairConfig {
            domain,
            send_queue: queue,
            receive_queue: queue,
            signal_all: true,
        });
        let mut register = |access| {
            device
                .register(&mut stack, domain, SIZE, access)
                .expect("there is room")
        };
        let (own, shared) = (register(Access::LOCAL_WRITE), register(Access::ALL));
        device.to_init(pair).expect("it is new");
        Host { stack, end, device, domain, queue, pair, own, shared }
    }

    /// Does all work that is due; returns true if there was any.
    fn work(&mut self, now: Instant) -> bool {
        let mut busy = false;
        while self
            .stack
            .poll(now, &mut self.end)
            .expect("a cable does not fail")
        {
            busy = true;
        }
        while let Some((handle, notice)) = self.stack.next_notice() {
            busy = true;
            assert!(self.device.notice(handle, &notice), "{notice:?}");
        }
        busy
    }

    fn faults(&self) -> u64 {
        let c = self.stack.counters();
        c.asserts + c.dangling + c.duplicate_ids + c.clipped_sending + c.clipped_receiving + c.oversize
    }
}

/// Both hosts, connected, with packets of 1024 bytes whose numbers begin shortly before they wrap.
pub struct Testbed {
    pub hosts: [Host; 2],
    pub now: Instant,
}

impl Testbed {
    pub fn new(program: &Arc<dyn Program>, seed: u64, change: impl Fn(&mut ConnectionAttributes)) -> Testbed {
        let mut stage = Testbed::unconnected(program, seed);
        let hosts = &mut stage.hosts;
        for own in 0..2 {
            let peer = hosts[1 - own].pair.number();
            let mut connection = ConnectionAttributes {
                first_packet: 0xff_fff0 + own as u32,
                expected_packet: 0xff_fff0 + 1 - own as u32,
                access: Access::ALL,
                ..ConnectionAttributes::new(address(1 - own), peer)
            };
            change(&mut connection);
            let host = &mut hosts[own];
            let connected = host
                .device
                .connect(&mut host.stack, START, host.pair, &connection);
            connected.expect("it is possible");
        }
        stage
    }

    /// Creates both hosts, with queue pairs in the state INIT.
    pub fn unconnected(program: &Arc<dyn Program>, seed: u64) -> Testbed {
        let [a, b] = cable(0, seed);
        let hosts = [Host::new(program, 0, seed, a), Host::new(program, 1, seed, b)];
        Testbed { hosts, now: START }
    }

    /// Lets both hosts do all work that is due; returns true if there was any.
    fn work(&mut self) -> bool {
        let mut busy = false;
        for host in &mut self.hosts {
            busy |= host.work(self.now);
        }
        busy
    }

    /// Runs until a condition on the hosts holds; returns false if no more events follow.
    pub fn run(&mut self, mut until: impl FnMut(&mut [Host; 2], Instant) -> bool) -> bool {
        loop {
            while self.work() {}
            if until(&mut self.hosts, self.now) {
                return true;
            }
            if self.work() {
                continue;
            }
            let deadlines = self.hosts.iter().filter_map(|host| host.stack.next_deadline());
            match deadlines.min() {
                Some(next) if next < END => self.now = self.now.max(next),
                _ => return false,
            }
        }
    }

    pub fn assert_no_faults(&self) {
        for host in &self.hosts {
            assert_eq!(host.faults(), 0, "{:?}", host.stack.counters());
        }
    }
}
