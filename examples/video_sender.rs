//! A live video sender that adapts to its transport: it sends 25 frames a second, whose size follows the
//! signals of the connection. The frames are noise; the example shows the rate.
//!
//! ```console
//! $ nc -l 10.9.0.1 9000 > /dev/null &
//! # cargo run --example video_sender -- tun:hawser0 10.9.0.1/24 10.9.0.2/24 10.9.0.1:9000
//! # tc qdisc add dev hawser0 root netem rate 3mbit delay 25ms     # and see it follow
//! ```

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hawser::Network;
use hawser::host::{self, StackSetup};
use hawser::interact::twares::{Adapt, Dial, RateParams};
use hawser::interact::{Bus, Rights, Scope};
use tokio::io::AsyncWriteExt;
use tokio::time::{MissedTickBehavior, interval};

/// The number of frames in a second, and in a group of pictures, which begins with an I frame.
const FRAMES: u64 = 25;
/// The size of an I frame, in P frames.
const INTRA: u64 = 4;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [device, kernel, own, peer] = arguments.as_slice() else {
        return Err("usage: video_sender DEVICE KERNEL-ADDRESS/LEN OWN-ADDRESS/LEN PEER:PORT".into());
    };
    let peer: SocketAddr = peer.parse()?;
    let mut setup = StackSetup::new(device.parse()?, host::parse_address(own)?);
    setup.kernel_addresses.push(host::parse_address(kernel)?);
    let program = hawser::programs::resolve("tcp", &[])?;
    let network = Network::start(host::open(program, &setup)?)?;

    // The T-ware receives timeouts and losses at once, acknowledgements at most every 100 ms, and turns the
    // dial. It may read variables, but not set any.
    let bus = Bus::new();
    network.interact(&bus)?;
    let dial = Arc::new(Dial::default());
    let scope = Scope::Rule(format!("remote={} remote.port={}", peer.ip(), peer.port()).parse()?);
    let turned = Arc::clone(&dial);
    let _client = bus.attach("video", Rights::observer(), 0, move || {
        Box::new(Adapt::new(
            "tcp",
            scope.clone(),
            RateParams::default(),
            Arc::clone(&turned),
        ))
    })?;

    let mut stream = network.connect(peer).await?;
    let mut clock = interval(Duration::from_millis(1_000 / FRAMES));
    clock.set_missed_tick_behavior(MissedTickBehavior::Skip); // a late frame is skipped
    let mut written = 0;
    for number in 0u64.. {
        clock.tick().await;
        let rate = dial.rate();
        let frame = frame(number, rate);
        written += frame.len() as u64;
        dial.set_written(written);
        stream.write_all(&frame).await?;
        if number.is_multiple_of(FRAMES) {
            println!("{:4} s: {:5.2} Mbit/s", number / FRAMES, rate as f64 / 1e6);
        }
    }
    Ok(())
}

/// Makes frame `number` at `rate` bit/s: a group of pictures has the bytes of a second.
fn frame(number: u64, rate: u64) -> Vec<u8> {
    let weight = if number.is_multiple_of(FRAMES) { INTRA } else { 1 };
    let bytes = rate / 8 * weight / (INTRA + FRAMES - 1);
    vec![number as u8; bytes as usize]
}
