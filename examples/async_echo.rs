//! An echo server on tokio: streams of a transport program are `AsyncRead + AsyncWrite`.
//!
//! ```console
//! # cargo run --example async_echo -- tun:hawser0 10.9.0.1/24 10.9.0.2/24
//! ```

use std::error::Error;
use std::net::SocketAddr;

use hawser::Network;
use hawser::host::{self, StackSetup};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [device, kernel, own] = arguments.as_slice() else {
        return Err("usage: async_echo DEVICE KERNEL-ADDRESS/LEN OWN-ADDRESS/LEN".into());
    };
    let own = host::parse_address(own)?;
    let mut setup = StackSetup::new(device.parse()?, own);
    setup.kernel_addresses.push(host::parse_address(kernel)?);
    let program = hawser::programs::resolve("tcp", &[])?;
    let network = Network::start(host::open(program, &setup)?)?;
    let listener = network.listen(SocketAddr::new(own.0, 7), 16)?;
    loop {
        let stream = listener.accept().await?;
        tokio::spawn(async move {
            let (mut from, mut to) = tokio::io::split(stream);
            tokio::io::copy(&mut from, &mut to).await
        });
    }
}
