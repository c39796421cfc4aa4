//! `examples/rpc.rs` between two stacks on a pair of Ethernet devices.

use std::process::ExitCode;
use std::time::Duration;

use hawser::host::netns::{Namespace, Netlink};
use hawser_testing::{TestResult, enter_namespace, run};

#[path = "../../examples/rpc.rs"]
#[allow(dead_code, unreachable_pub)]
mod example;

fn main() -> ExitCode {
    if !enter_namespace("examples/rpc.rs") {
        return ExitCode::SUCCESS;
    }
    let over = |program: &'static str| {
        let test = move || Namespace::create()?.run(|| calls(program))?;
        (format!("the_example_calls_over_{program}"), test)
    };
    run(["homa", "tcp"].into_iter().map(over))
}

fn calls(program: &str) -> TestResult {
    let mut netlink = Netlink::open()?;
    netlink.add_veth("hawser0", "hawser1", &Namespace::current()?)?;
    netlink.bring_up("hawser0")?;
    netlink.bring_up("hawser1")?;
    let arguments = |rest: &str| -> Vec<String> { rest.split(' ').map(str::to_owned).collect() };
    let server = arguments(&format!("{program} packet:hawser0 10.9.0.1/24"));
    let client = arguments(&format!("{program} packet:hawser1 10.9.0.2/24 10.9.0.1:7000"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let both = async {
        tokio::select! {
            ended = example::run(&server) => ended.map(|_| None),
            replies = async {
                tokio::time::sleep(Duration::from_millis(50)).await;
                example::run(&client).await
            } => replies,
        }
    };
    let replies = runtime.block_on(both).map_err(|error| error.to_string())?;
    assert_eq!(
        replies,
        Some(2 * (1 + 32 + 1_000 + 100_000 + 500_000)),
        "the client, before the server"
    );
    Ok(())
}
