//! A client of the socket in a separate process, which the tests start, and kill.
//!
//! `socket_subscriber holds SOCKET` holds a variable, `caps` runs a T-ware, `prints` connects and prints the
//! messages that it receives, or the kind of the error.

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use hawser_socket::{Client, run_remote};
use serde_json::json;

mod cap;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [does, socket] if does == "holds" => hold(Path::new(socket)),
        [does, socket] if does == "caps" => {
            let client = Client::connect(Path::new(socket), "cap", 1)?;
            Ok(run_remote(client, Box::new(cap::Cap(None)))?)
        }
        [does, socket] if does == "prints" => print(Path::new(socket)),
        _ => Err("usage: socket_subscriber holds|caps|prints SOCKET".into()),
    }
}

fn hold(socket: &Path) -> Result<(), Box<dyn Error>> {
    let mut client = Client::connect(socket, "holder", 1)?;
    client.ask(&json!({
        "modify": { "flow": "0:0", "variable": ".conn.cc.cwnd", "value": 99, "lease": "1min" }
    }))?;
    println!("holds");
    std::thread::sleep(Duration::from_secs(60));
    Ok(())
}

fn print(socket: &Path) -> Result<(), Box<dyn Error>> {
    match UnixStream::connect(socket) {
        Err(error) => println!("{:?}", error.kind()),
        Ok(stream) => {
            for line in BufReader::new(stream).lines() {
                println!("{}", line?);
            }
        }
    }
    Ok(())
}
