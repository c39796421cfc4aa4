//! Bulk transfer between TCP in MTP, on both engines, and Linux's own TCP over TUN, in both directions.
//!
//! `cargo bench -p hawser-sockets --bench bulk` prints Mbit/s: minimum, median and maximum of five runs.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::thread;
use std::time::Instant;

use hawser_load::programs::{self, Engine};
use hawser_sockets::host::netns::enter_user_namespace;
use hawser_sockets::host::{self, DeviceSpec, StackSetup};
use hawser_sockets::{Endpoint, Handle};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

const BYTES: usize = 256 << 20;
const RUNS: usize = 5;

fn main() -> Result {
    if std::env::args().any(|a| a == "--list") {
        return Ok(());
    }
    enter_user_namespace()?;
    for engine in Engine::ALL {
        for (name, run) in [
            ("hawser sends", hawser_sends as fn(Engine) -> Result<f64>),
            ("linux sends", linux_sends),
        ] {
            let mut rates = (0..RUNS).map(|_| run(engine)).collect::<Result<Vec<f64>>>()?;
            rates.sort_by(f64::total_cmp);
            println!(
                "{engine:<8} {name:<14} {:.0} Mbit/s median of {RUNS} ({:.0} to {:.0})",
                rates[RUNS / 2],
                rates[0],
                rates[RUNS - 1]
            );
        }
    }
    Ok(())
}

/// Returns a stack on a fresh TUN device, connected to a listener of Linux.
fn connect(engine: Engine, listener: &TcpListener) -> Result<(Endpoint, Handle)> {
    let linux: IpAddr = [10, 9, 0, 1].into();
    let mut setup = StackSetup::new(DeviceSpec::Tun("hawser0".into()), ([10, 9, 0, 2].into(), 24));
    setup.kernel_addresses.push((linux, 24));
    let mut endpoint = host::open(programs::resolve_on(Some(engine), "tcp", &[])?, &setup)?;
    let connection = endpoint.connect(SocketAddr::new(linux, listener.local_addr()?.port()))?;
    while !endpoint.connected(connection)? {
        turn(&mut endpoint)?;
    }
    Ok((endpoint, connection))
}

fn turn(endpoint: &mut Endpoint) -> Result {
    if !endpoint.poll()? {
        endpoint.wait(None)?;
    }
    Ok(())
}

fn rate(begin: Instant) -> f64 {
    BYTES as f64 * 8.0 / 1e6 / begin.elapsed().as_secs_f64()
}

fn hawser_sends(engine: Engine) -> Result<f64> {
    let listener = TcpListener::bind("0.0.0.0:0")?;
    let watched = listener.try_clone()?;
    let linux = thread::spawn(move || -> std::io::Result<usize> {
        let (mut stream, _) = listener.accept()?;
        let (mut total, mut chunk) = (0, vec![0; 1 << 20]);
        loop {
            match stream.read(&mut chunk)? {
                0 => return Ok(total),
                n => total += n,
            }
        }
    });
    let (mut endpoint, connection) = connect(engine, &watched)?;
    let chunk = vec![7; 1 << 18];
    let (begin, mut sent) = (Instant::now(), 0);
    while sent < BYTES {
        match endpoint.write(connection, &chunk[..chunk.len().min(BYTES - sent)]) {
            Ok(n) => sent += n,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => turn(&mut endpoint)?,
            Err(error) => return Err(error.into()),
        }
    }
    endpoint.shutdown(connection);
    while !linux.is_finished() {
        endpoint.poll()?;
        endpoint.wait(Some(std::time::Duration::from_millis(1)))?;
    }
    let rate = rate(begin);
    assert_eq!(linux.join().map_err(|_| "the peer panicked")??, BYTES);
    Ok(rate)
}

fn linux_sends(engine: Engine) -> Result<f64> {
    let listener = TcpListener::bind("0.0.0.0:0")?;
    let watched = listener.try_clone()?;
    let linux = thread::spawn(move || -> std::io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        let chunk = vec![7; 1 << 18];
        (0..BYTES / chunk.len()).try_for_each(|_| stream.write_all(&chunk))
    });
    let (mut endpoint, connection) = connect(engine, &watched)?;
    let (begin, mut got, mut chunk) = (Instant::now(), 0, vec![0; 1 << 18]);
    loop {
        match endpoint.read(connection, &mut chunk) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => turn(&mut endpoint)?,
            Err(error) => return Err(error.into()),
        }
    }
    let rate = rate(begin);
    linux.join().map_err(|_| "the peer panicked")??;
    assert_eq!(got, BYTES);
    Ok(rate)
}
