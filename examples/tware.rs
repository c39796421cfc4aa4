//! A T-ware written by hand, which caps the congestion window of every TCP connection. The same source code
//! runs in the loop, in a thread, and in another process.
//!
//! ```console
//! $ cargo run --example tware -- loop           # a transfer in the simulator, without it and with it
//! $ cargo run --example tware -- thread         # the same from a thread of its own
//! $ cargo run --example tware -- "$XDG_RUNTIME_DIR/hawser/interact.sock"    # what runs with --interact
//! ```

use std::collections::HashMap;
use std::error::Error;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use hawser::interact::{
    Bus, Client, Hands, Remote, Rights, Schema, Signal, SourceId, Subscription, Tware, VariableId,
    run_in_thread,
};
use hawser::runs::{RunSample, SampleRequest, Scenario, run_steered};

/// The largest window, in bytes.
const CAP: u64 = 40_000;
/// The time for which a cap holds if the T-ware does not renew it.
const LEASE: Duration = Duration::from_secs(1);

/// The number of the window variable at each source.
#[derive(Default)]
struct Cap(HashMap<SourceId, VariableId>);

impl Tware for Cap {
    fn subscriptions(&self) -> Vec<Subscription> {
        vec![
            Subscription::new(["*tcp.acked"]).with([".conn.cc.cwnd"]),
            Subscription::new(["*tcp.recovery_began", "*tcp.timeout"]),
        ]
    }

    fn begin(&mut self, source: SourceId, schema: &Schema) {
        let name = format!("{}.conn.cc.cwnd", schema.provider());
        self.0
            .extend(schema.variable(&name).map(|window| (source, window)));
    }

    fn signal(&mut self, subscription: usize, signal: &Signal<'_>, hands: &mut Hands) {
        let target = signal.target();
        let Some(&window) = self.0.get(&target.source) else {
            return;
        };
        match (subscription, signal.variables()) {
            (0, [bytes]) if *bytes >= CAP => hands.modify(target, window, CAP, LEASE),
            // The congestion control makes the window smaller, and the cap must not keep it large.
            (1, _) => hands.release(target, window),
            _ => {}
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let place = std::env::args().nth(1).ok_or("usage: tware loop|thread|SOCKET")?;
    let bus = Bus::new();
    match place.as_str() {
        "loop" => {
            println!("without a T-ware: {}", transfer(&bus)?);
            let _subscriber = bus.attach("cap", Rights::all(), 1, || Box::new(Cap::default()))?;
            println!("in the loop:      {}", transfer(&bus)?);
        }
        "thread" => {
            println!("without a T-ware: {}", transfer(&bus)?);
            let cap = Box::new(Cap::default());
            let _running = run_in_thread(&bus, "cap", Rights::all(), 1, 1024, cap)?;
            println!("in a thread:      {}", transfer(&bus)?);
        }
        socket => steer(Path::new(socket))?,
    }
    Ok(())
}

/// Steers the transports of another process, until that process ends.
fn steer(socket: &Path) -> Result<(), Box<dyn Error>> {
    let client = Client::connect(socket, "cap", 1)?;
    println!("windows in process {} are at most {CAP} bytes", client.process());
    let mut remote = Remote::new(client, Box::new(Cap::default()), Some(1024))?;
    loop {
        let (begin, mut signals) = (Instant::now(), 0);
        while begin.elapsed() < Duration::from_secs(1) {
            signals += remote.turn(Duration::from_millis(100))?;
        }
        println!("{signals} signals");
    }
}

/// Twenty seconds of virtual time. Without a cap the window fills the path and its queue.
const SCENARIO: &str = r#"
    name = "a transfer under a T-ware"
    duration = "20s"
    program = "tcp"
    host = [{ name = "sender" }, { name = "receiver" }]
    [[link]]
    between = ["sender", "receiver"]
    both = { rate = "20Mbit/s", delay = "20ms", queue = "64KiB" }
    [[flow]]
    from = "sender"
    to = "receiver"
    bulk = { bytes = "64MiB" }
"#;

/// Runs the scenario with the sender on the bus; returns the resulting rate and window.
fn transfer(bus: &Bus) -> Result<String, Box<dyn Error>> {
    let (mut received, mut largest, mut seconds) = (0, 0_u64, 0.0);
    let mut reported = |moment: &RunSample| {
        let flow = &moment.flows[0];
        received = flow.received[0];
        seconds = moment.at.as_secs_f64();
        // The window grows in the first second, which is therefore left out.
        if seconds > 1.0 {
            largest = largest.max(flow.values[0].unwrap_or_default());
        }
        // Virtual time is much faster than a thread, which receives in real time, so the simulation waits a
        // little.
        sleep(Duration::from_millis(1));
    };
    let watch = SampleRequest {
        every: Duration::from_millis(10),
        fields: &["cc.cwnd"],
        reported: &mut reported,
    };
    // There is more data than can be sent in the time, which the report counts as a failure.
    run_steered(&Scenario::parse(SCENARIO)?, None, watch, bus, &["sender"])?;
    let rate = received as f64 * 8.0 / seconds / 1e6;
    Ok(format!("{rate:.1} Mbit/s, a window of at most {largest} bytes"))
}
