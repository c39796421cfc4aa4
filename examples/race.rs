//! Fetches a page by the first candidate that connects: every address of the name, in the order of Happy
//! Eyeballs (RFC 8305).
//!
//! ```console
//! $ cargo run -p hawser --features connect --example race -- localhost:8000
//! tcp to 127.0.0.1:8000 won after 1.2 ms
//! HTTP/1.0 200 OK
//! ```

use std::error::Error;

use hawser::connect::{Racer, Request};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let Some(server) = std::env::args().nth(1) else {
        return Err("usage: race HOST:PORT".into());
    };
    // One racer serves all requests of a process, because it remembers the outcomes of races.
    let racer = Racer::open().await?;
    let connected = racer.connect(Request::to(server.parse()?)).await?;
    println!("{} won after {:.1?}", connected.candidate, connected.took);
    let mut stream = BufReader::new(connected.stream);
    let request = format!("GET / HTTP/1.0\r\nHost: {server}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut status = String::new();
    stream.read_line(&mut status).await?;
    print!("{status}");
    Ok(())
}
