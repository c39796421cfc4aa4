//! Calls from stack to stack: whole messages with a reply to each, many at a time. The same code runs over a
//! program that carries calls (`homa`), and over one that offers streams (`tcp`), where messages are framed
//! on connections.
//!
//! The server, and then the client, at both ends of a pair of Ethernet devices:
//!
//! ```console
//! # ip link add hawser0 type veth peer name hawser1 && ip link set hawser0 up && ip link set hawser1 up
//! # cargo run --example rpc -- homa packet:hawser0 10.9.0.1/24 &
//! # cargo run --example rpc -- homa packet:hawser1 10.9.0.2/24 10.9.0.1:7000
//! ```

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hawser::host::{self, StackSetup};
use hawser::{MessageOptions, Network, Request};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments).await? {
        Some(replies) => println!("{replies} bytes of replies"),
        None => println!("the server has ended"),
    }
    Ok(())
}

/// Runs the server without end, or the client, which returns the number of bytes in replies.
pub async fn run(arguments: &[String]) -> Result<Option<usize>, Box<dyn Error>> {
    let [program, device, own, server @ ..] = arguments else {
        return Err("usage: rpc PROGRAM DEVICE OWN-ADDRESS/LEN [SERVER:PORT]".into());
    };
    let own = host::parse_address(own)?;
    let program = hawser::programs::resolve(program, &[])?;
    let network = Network::start(host::open(program, &StackSetup::new(device.parse()?, own))?)?;
    let Some(server) = server.first() else {
        let socket = network.bind(SocketAddr::new(own.0, 7000))?;
        socket.serve(answer).await?;
        return Ok(None);
    };
    let server: SocketAddr = server.parse()?;
    let options = MessageOptions { deadline: Some(Duration::from_secs(10)), ..MessageOptions::default() };
    let socket = network.bind_with(SocketAddr::new(own.0, 0), &options)?;
    let mut calls = tokio::task::JoinSet::new();
    for size in [1, 32, 1_000, 100_000, 500_000] {
        let socket = socket.clone();
        calls.spawn(async move { socket.call(server, &vec![7; size]).await });
    }
    let mut replies = 0;
    while let Some(reply) = calls.join_next().await {
        replies += reply??.len();
    }
    Ok(Some(replies))
}

/// Replies to a request with its bytes twice.
async fn answer(request: Arc<Request>) -> Vec<u8> {
    request.message().repeat(2)
}
