//! `examples/rdma_write.rs` between two stacks on a pair of Ethernet devices.

use std::process::ExitCode;
use std::thread;

use hawser::host::netns::{Namespace, Netlink};
use hawser_testing::{Test, TestResult, in_user_namespace, tests};

#[path = "../../examples/rdma_write.rs"]
#[allow(dead_code, unreachable_pub)]
mod example;

const TESTS: &[Test] = tests![the_example_writes_into_memory_of_another_stack];

fn main() -> ExitCode {
    in_user_namespace("examples/rdma_write.rs", TESTS)
}

fn the_example_writes_into_memory_of_another_stack() -> TestResult {
    Namespace::create()?.run(|| -> TestResult {
        let mut netlink = Netlink::open()?;
        netlink.bring_up("lo")?;
        netlink.add_veth("hawser0", "hawser1", &Namespace::current()?)?;
        netlink.bring_up("hawser0")?;
        netlink.bring_up("hawser1")?;
        let end = |arguments: &'static str| {
            let arguments: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
            move || example::run(&arguments).map_err(|error| error.to_string())
        };
        // The server binds its control port before it waits; until then the client is refused.
        let server = thread::spawn(end("packet:hawser0 10.9.0.1/24"));
        let client = end("packet:hawser1 10.9.0.2/24 10.9.0.1");
        let written = loop {
            match client() {
                Err(refused) if refused.contains("refused") && !server.is_finished() => thread::yield_now(),
                other => break other?,
            }
        };
        let arrived = server.join().map_err(|_| "the server panicked")??;
        assert_eq!((written, arrived), (100_000, 100_000));
        Ok(())
    })?
}
