//! Leases at both bounds of the variables that TCP lets be modified. The effect of a lease on a connection
//! ends with it.

use std::sync::Arc;
use std::time::Duration;

use hawser_bus::{Access, Bus, FlowId, Modification, Rights, SourceFlow, VariableId};
use hawser_engine::Handle;
use hawser_time::Instant;

use crate::bench::{MS, NEWRENO, SECOND};
use crate::testbed::{Link, Testbed};

const LEASE: u64 = 400 * MS;
/// The longest time, in nanoseconds, until a connection has its rate back.
const BACK: u64 = SECOND;

/// An endless transfer, and the bus of its sender.
struct Transfer {
    stage: Testbed,
    client: Handle,
    server: Handle,
    read: u64,
}

impl Transfer {
    fn run(&mut self, time: u64) -> u64 {
        let (client, server, before) = (self.client, self.server, self.read);
        let (data, mut room, read) = ([7; 65_536], [0; 65_536], &mut self.read);
        self.stage.run(time, |stage| {
            let now = Instant::from_nanos(stage.now);
            while stage.stacks[1].send(now, client, &data).expect("open") > 0 {}
            loop {
                match stage.stacks[0].recv(now, server, &mut room).expect("open") {
                    0 => break,
                    n => *read += n as u64,
                }
            }
        });
        self.read - before
    }
}

/// Returns the bytes of a second before a lease, and of a second that begins a second after its end.
fn rates(link: Link, params: &[&str], name: &str, bound: fn((u64, u64)) -> u64) -> (u64, u64) {
    let mut stage = Testbed::over(link, params);
    let bus = Bus::new();
    let schema = Arc::new(hawser_engine::schema(stage.stacks[1].module()).expect("a schema"));
    let id = schema.variable(name).expect("TCP has it");
    let Access::Modifiable { min, max } = schema.variables()[usize::from(id.0)].access else {
        panic!("{name} is modifiable")
    };
    let source = bus.source(schema, None);
    let on = source.id();
    stage.stacks[1].interact(source);
    stage.listen(80);
    let client = stage.connect(80);
    stage.run(500 * MS, |_| {});
    let server = *stage.accepted().last().expect("accepted");
    let mut transfer = Transfer { stage, client, server, read: 0 };
    transfer.run(2 * SECOND);
    let before = transfer.run(SECOND);

    let subscriber = bus.join("bounds", Rights::all(), 1).expect("it may");
    let asked = subscriber.flows(on).expect("there is the source");
    transfer.run(MS);
    let flows = asked.wait(Duration::from_secs(1)).expect("it answers");
    let flow: FlowId = flows.iter().find(|(_, info)| info.kind == "conn").expect("the connection").0;
    let set = Some((bound((min, max)), Duration::from_nanos(LEASE)));
    let modification = Modification { target: SourceFlow { source: on, flow }, variable: VariableId(id.0), set };
    let answer = subscriber.modify(&modification, 1).expect("there is the source");
    transfer.run(LEASE);
    answer.wait(Duration::from_secs(1)).expect("it answers").expect("it may");
    transfer.run(BACK);
    (before, transfer.run(SECOND))
}

/// Half of the rate suffices: a window above the path's capacity overruns the queue, and repair takes a part
/// of the second.
#[test]
fn after_a_lease_at_a_bound_a_connection_has_its_rate_back() {
    let link = Link { byte_time: 1000, delay: 20 * MS, queue: 50 * MS, lost: 0 };
    for params in [&["MIN_RTO=200ms"][..], &["MIN_RTO=200ms", NEWRENO]] {
        for name in ["tcp.conn.cc.cwnd", "tcp.conn.cc.ssthresh"] {
            let bounds: [fn((u64, u64)) -> u64; 2] = [|(min, _)| min, |(_, max)| max];
            for bound in bounds {
                let (before, after) = rates(link, params, name, bound);
                println!("{params:?} {name}: {before} before, {after} after");
                assert!(after * 2 >= before, "{params:?} {name}: {before} before, {after} after");
            }
        }
    }
}
