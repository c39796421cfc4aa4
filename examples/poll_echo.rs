//! An echo server without an async runtime: one loop, no threads, and no blocking call except `wait`.
//!
//! ```console
//! # cargo run --example poll_echo -- tun:hawser0 10.9.0.1/24 10.9.0.2/24
//! $ curl --data hello telnet://10.9.0.2:7      # or: nc 10.9.0.2 7
//! ```

use std::collections::HashMap;
use std::error::Error;
use std::io::ErrorKind;
use std::net::SocketAddr;

use hawser::host::{self, StackSetup};
use hawser::{Endpoint, Handle};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [device, kernel, own] = arguments.as_slice() else {
        return Err("usage: poll_echo DEVICE KERNEL-ADDRESS/LEN OWN-ADDRESS/LEN".into());
    };
    let own = host::parse_address(own)?;
    let mut setup = StackSetup::new(device.parse()?, own);
    setup.kernel_addresses.push(host::parse_address(kernel)?);
    let program = hawser::programs::resolve("tcp", &[])?;
    let mut endpoint = host::open(program, &setup)?;
    let listener = endpoint.listen(SocketAddr::new(own.0, 7), 16)?;

    // The bytes of each connection that were read and could not be written back yet.
    let mut connections: HashMap<Handle, Vec<u8>> = HashMap::new();
    loop {
        while endpoint.poll()? {}
        while let Ok(connection) = endpoint.accept(listener) {
            connections.insert(connection, Vec::new());
        }
        let mut progress = false;
        connections.retain(
            |&connection, pending| match echo(&mut endpoint, connection, pending) {
                Ok(moved) => {
                    progress |= moved;
                    true
                }
                Err(_) => {
                    endpoint.close(connection);
                    progress = true;
                    false
                }
            },
        );
        if !progress {
            endpoint.wait(None)?;
        }
    }
}

/// Moves as many bytes as possible. An error ends the connection, and so does the peer's end of file.
fn echo(endpoint: &mut Endpoint, connection: Handle, pending: &mut Vec<u8>) -> std::io::Result<bool> {
    let mut moved = false;
    if pending.is_empty() {
        let mut buffer = [0; 4096];
        match endpoint.read(connection, &mut buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => pending.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
        moved = true;
    }
    match endpoint.write(connection, pending) {
        Ok(n) => {
            pending.drain(..n);
            Ok(true)
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(moved),
        Err(error) => Err(error),
    }
}
