//! The roaming story: `hawser send` and `hawser recv` in a lab whose links come and go.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::net::IpAddr;
use std::path::Path;
use std::process::{ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hawser::lab::{Lab, LinkReport, Spec, enter_user_namespace};
use serde_json::{Value, json};

use super::directory::Directory;
use super::environment::digest;
use super::picture;
use crate::exit::{Exit, Outcome};

const LAB: &str = include_str!("roaming.toml");
/// The size of the file, chosen so that its transfer outlasts the story.
const BYTES: u64 = 50_000_000;
/// The carriers of the phone: Linux's TCP, QUIC, and TCP written in MTP, which is a host of its own on the
/// dock's cable.
const OVER: &str = "tcp:wlan0,quic:wwan0,mtp-tcp:eth0";
const STACK: [&str; 6] = [
    "--dev",
    "packet:eth0",
    "--addr",
    "10.77.2.9/24",
    "--router",
    "10.77.2.2",
];
/// The duration of one mark in the picture.
const MARK: Duration = Duration::from_millis(125);

/// Plays the story, with a bar per path on a terminal and a picture of both links at the end.
pub(super) fn run(as_json: bool) -> Outcome {
    // This must happen before any thread is started.
    enter_user_namespace().map_err(Exit::environment)?;
    let directory = Directory::new()?;
    play(&directory, as_json)
}

fn play(directory: &Path, as_json: bool) -> Outcome {
    let spec = Spec::parse(LAB).map_err(Exit::failed)?;
    let lab = Lab::up(&spec).map_err(Exit::environment)?;
    let (original, copy) = (directory.join("original"), directory.join("copy"));
    write_random(&original).map_err(Exit::environment)?;
    let address = lab.host("server").ok().and_then(|host| host.ipv4());
    let address = address.ok_or_else(|| Exit::environment("the server has no address"))?;
    let (_server, invitation) = serve(&lab, &original)?;
    if !as_json {
        introduce(address, &invitation);
    }
    let mut download = download(&lab, address, &invitation, &copy, as_json)?;
    let began = Instant::now();
    let mut client = ChildProcess(download.spawn().map_err(Exit::environment)?);
    let (status, samples) = watch(&lab, &mut client)?;
    let seconds = began.elapsed().as_secs_f64();
    let same = status.success() && digest(&original).ok() == digest(&copy).ok();
    let links = rates(&lab, &samples);
    if as_json {
        let result = client.0.stdout.take().and_then(last_line);
        let mbits: serde_json::Map<String, Value> = links
            .into_iter()
            .map(|(name, rates)| (name, json!(rates)))
            .collect();
        println!(
            "{}",
            json!({
                "same": same, "seconds": seconds, "bytes": BYTES, "mark_seconds": MARK.as_secs_f64(),
                "mbit_per_second": mbits, "received": result,
            })
        );
    } else {
        show(&links);
        let verdict = match same {
            true => "every one the same",
            false => "and not the same",
        };
        println!("{BYTES} bytes in {seconds:.1} s, {verdict}");
    }
    match same {
        true => Ok(()),
        false => Err(Exit::failed("the download is not what was sent")),
    }
}

/// Prepares this command on a host of the lab.
fn hawser_on(lab: &Lab, host: &str) -> Result<Command, Exit> {
    let hawser = std::env::current_exe().map_err(Exit::environment)?;
    lab.host(host)
        .and_then(|host| host.command(&hawser))
        .map_err(Exit::environment)
}

/// Starts `hawser send` on the server.
fn serve(lab: &Lab, file: &Path) -> Result<(ChildProcess, ServerCredentials), Exit> {
    let mut server = hawser_on(lab, "server")?;
    server
        .arg("send")
        .arg(file)
        .arg("--json")
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut server = ChildProcess(server.spawn().map_err(Exit::environment)?);
    let invitation = ServerCredentials::read(&mut server)?;
    Ok((server, invitation))
}

/// Prints an introduction to the story.
fn introduce(address: IpAddr, ServerCredentials { pin, code }: &ServerCredentials) {
    println!();
    println!(
        "A phone downloads {} MB over a dock and WiFi, gains the mobile network, loses the dock, then WiFi:",
        BYTES / 1_000_000
    );
    println!("  server$ hawser send FILE");
    println!(
        "  phone$  hawser recv {address} --over {OVER} --pin {}… --code {code} \\",
        &pin[..8]
    );
    println!("            {}", STACK.join(" "));
    println!();
}

/// Runs `hawser recv` on the phone.
fn download(
    lab: &Lab,
    address: IpAddr,
    ServerCredentials { pin, code }: &ServerCredentials,
    copy: &Path,
    as_json: bool,
) -> Result<Command, Exit> {
    let mut client = hawser_on(lab, "phone")?;
    client.args(["recv", &address.to_string(), "--over", OVER]);
    client
        .args(["--pin", pin, "--code", code, "-o"])
        .arg(copy)
        .args(STACK);
    if as_json {
        client.arg("--json").stdout(Stdio::piped());
    }
    Ok(client)
}

/// Plays the lab's timeline and samples its links until the client has ended.
fn watch(lab: &Lab, client: &mut ChildProcess) -> Result<(ExitStatus, Vec<Vec<LinkReport>>), Exit> {
    let (stop, mut samples) = (AtomicBool::new(false), Vec::new());
    let status = std::thread::scope(|scope| {
        let watching = scope.spawn(|| lab.watch(MARK, &stop, |links| samples.push(links)));
        scope.spawn(|| lab.play(&stop, |_| {}));
        let status = client.0.wait();
        stop.store(true, Ordering::Relaxed);
        watching
            .join()
            .map_err(|_| Exit::environment("the lab's watch ended early"))?
            .map_err(Exit::environment)?;
        status.map_err(Exit::environment)
    })?;
    Ok((status, samples))
}

/// Computes the rate of each link towards the phone, in Mbit/s, between consecutive samples.
fn rates(lab: &Lab, samples: &[Vec<LinkReport>]) -> Vec<(String, Vec<f64>)> {
    let of_link = |name: &str| {
        let rate = |pair: &[Vec<LinkReport>]| {
            let find = |all: &[LinkReport]| all.iter().find(|one| one.link == name).cloned();
            let (before, after) = (find(&pair[0])?, find(&pair[1])?);
            Some(after.backward.bits_per_second_since(&before.backward) / 1e6)
        };
        samples.windows(2).filter_map(rate).collect()
    };
    lab.links()
        .map(|link| (link.name().to_owned(), of_link(link.name())))
        .collect()
}

/// Returns the last JSON value that a child has printed.
fn last_line(output: ChildStdout) -> Option<Value> {
    BufReader::new(output)
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| serde_json::from_str::<Value>(&line).ok())
        .last()
}

/// Draws the rates of the links, in steps of an eighth of the maximum.
fn show(links: &[(String, Vec<f64>)]) {
    const MAX_MBIT: f64 = 40.0;
    const INDENT: usize = 8;
    println!();
    for (name, rates) in links {
        println!("{name:INDENT$}{}", picture::marks(rates, MAX_MBIT));
    }
    let marks = links.iter().map(|(_, rates)| rates.len()).max().unwrap_or(0);
    println!("{}", picture::axis(marks, MARK, INDENT));
}

/// Writes a file of random bytes, which cannot be compressed on the way.
fn write_random(path: &Path) -> io::Result<()> {
    let mut random = File::open("/dev/urandom")?.take(BYTES);
    io::copy(&mut random, &mut File::create(path)?).map(drop)
}

/// The data that a client needs: the pin of the server's certificate, and its one-time code.
struct ServerCredentials {
    pin: String,
    code: String,
}

impl ServerCredentials {
    /// Reads the invitation from the first line that the server prints.
    fn read(server: &mut ChildProcess) -> Result<ServerCredentials, Exit> {
        let failed = || Exit::environment("`hawser send` did not print how to call it");
        let output = server.0.stdout.take().ok_or_else(failed)?;
        let mut line = String::new();
        let mut output = BufReader::new(output);
        output.read_line(&mut line).map_err(Exit::environment)?;
        let listening: Value = serde_json::from_str(&line).map_err(|_| failed())?;
        // Further output is drained, so that it does not fill the pipe.
        std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        let text = |key: &str| listening[key].as_str().map(str::to_owned).ok_or_else(failed);
        Ok(ServerCredentials { pin: text("pin")?, code: text("code")? })
    }
}

/// A child process that is killed when dropped.
struct ChildProcess(std::process::Child);

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
