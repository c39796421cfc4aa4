//! Two hosts of an emulated network on this machine, without root, and a transfer whose link is silent for a
//! while.
//!
//! ```console
//! $ cargo run -p hawser --features lab --example lab
//! 1048576 bytes arrived after 2.1 s; the link lost 38 frames
//! ```

use std::error::Error;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use hawser::lab::spec::Spec;
use hawser::lab::{Direction, Lab, enter_user_namespace};

const NETWORK: &str = r#"
host = [{ name = "client" }, { name = "server" }]
[[link]]
name = "wifi"
between = ["client", "server"]
both = { rate = "20Mbit/s", delay = "15ms", loss = "1%" }
"#;
const BYTES: usize = 1 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    // A process must enter its namespace before it starts a thread.
    enter_user_namespace()?;
    let lab = Lab::up(&Spec::parse(NETWORK)?)?;
    let (client, server) = (lab.host("client")?, lab.host("server")?);
    let address = server.ipv4().ok_or("the server has an address of IPv4")?;
    // A socket belongs to the host that opened it.
    let listener = server.run(|| TcpListener::bind("0.0.0.0:80"))??;
    let begin = Instant::now();
    let sender = thread::spawn(move || listener.accept()?.0.write_all(&vec![7; BYTES]));
    let mut stream = client.run(|| TcpStream::connect((address, 80)))??;
    let wifi = lab.link("wifi")?;
    wifi.silence(true)?;
    thread::sleep(Duration::from_millis(300));
    wifi.silence(false)?;
    let mut received = Vec::new();
    stream.read_to_end(&mut received)?;
    sender.join().map_err(|_| "the sender panicked")??;
    let mut lost = 0;
    for direction in [Direction::Forward, Direction::Backward] {
        lost += wifi.statistics(direction)?.lost.values().sum::<u64>();
    }
    println!(
        "{} bytes arrived after {:.1?}; the link lost {lost} frames",
        received.len(),
        begin.elapsed()
    );
    Ok(())
}
