//! One end of an association, in a process of its own. It prints its results as `word=value`.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fastrand::Rng;
use hawser_carriers::Carrier;
use hawser_carriers::sctp::{ENCAPSULATION_PORT, SctpCarrier, SctpError, SctpOptions, SctpStack};
use hawser_testing::Log;
use sha2::{Digest, Sha256};

use crate::raw::{self, Raw};

/// The SCTP port of every server.
pub(crate) const PORT: u16 = 5_001;
/// The UDP port of a rogue server.
const ROGUE: u16 = 9_900;
const BLOCK: usize = 65_536;
/// The maximum time for sending in any test.
const LONGEST: Duration = Duration::from_secs(120);

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Returns true if the library is installed, without loading it.
pub(crate) fn has_library() -> bool {
    let known = std::process::Command::new("/sbin/ldconfig").arg("-p").output();
    known.is_ok_and(|known| String::from_utf8_lossy(&known.stdout).contains("libusrsctp.so.2"))
}

/// The arguments of the command line.
struct Words(HashMap<String, String>);

impl Words {
    fn number(&self, word: &str, otherwise: u64) -> Result<u64> {
        Ok(self.0.get(word).map_or(Ok(otherwise), |text| text.parse())?)
    }

    fn addresses(&self, word: &str) -> Result<Vec<IpAddr>> {
        let list = self.0.get(word).map(String::as_str).unwrap_or_default();
        Ok(list
            .split(',')
            .filter(|text| !text.is_empty())
            .map(str::parse)
            .collect::<std::result::Result<_, _>>()?)
    }

    fn options(&self) -> Result<SctpOptions> {
        Ok(SctpOptions {
            handshake_timeout: Duration::from_millis(self.number("handshake", 10_000)?),
            idle_timeout: Duration::from_millis(self.number("idle", 30_000)?),
            peer_udp_port: self.number("udp", ENCAPSULATION_PORT.into())? as u16,
            ..SctpOptions::default()
        })
    }
}

/// Runs `sink`, `send` or another of the roles below.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let words = arguments.iter().skip(1).filter_map(|word| word.split_once('='));
    let words = Words(words.map(|(word, value)| (word.into(), value.into())).collect());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime");
    let result = runtime.block_on(async {
        match arguments.first().map(String::as_str) {
            Some("sink") => sink(&words).await,
            // A hang is reported as a failure, so that the test ends.
            Some("send") => tokio::time::timeout(LONGEST, send(&words)).await?,
            Some("misuse") => misuse(&words).await,
            Some("attack") => attack(&words),
            Some("rogue") => rogue(&words),
            _ => Err("sink or send".into()),
        }
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("failed={error}");
            ExitCode::FAILURE
        }
    }
}

/// Accepts associations. At the end of each, answers with the number of received bytes and their SHA-256.
async fn sink(words: &Words) -> Result {
    let addresses = words.addresses("at")?;
    let stack = SctpStack::bind(&addresses, ENCAPSULATION_PORT)?;
    let listener = stack.listen(&addresses, PORT, words.options()?)?;
    let slow = Duration::from_millis(words.number("slow", 0)?);
    let aborts = words.number("abort", 0)?;
    println!("ready={:?}", listener.local());
    loop {
        // An association can be lost between its handshake and this call; the listener stays open.
        let Ok(mut carrier) = listener.accept().await else {
            continue;
        };
        tokio::spawn(async move {
            tokio::time::sleep(slow).await;
            if aborts > 0 {
                carrier.abort();
            } else if let Err(error) = answer(&mut carrier).await {
                println!("lost={error}");
            }
        });
    }
}

async fn answer(carrier: &mut SctpCarrier) -> io::Result<()> {
    let (count, digest) = read_all(carrier).await?;
    let reply = format!("{count}:{digest}");
    hawser_carriers::send(carrier, &mut VecDeque::from([Bytes::from(reply)])).await?;
    poll_fn(|cx| carrier.poll_finish(cx)).await
}

async fn read_all(carrier: &mut SctpCarrier) -> io::Result<(u64, String)> {
    let (mut count, mut digest) = (0, Sha256::new());
    loop {
        let bytes = poll_fn(|cx| carrier.poll_read(cx)).await?;
        if bytes.is_empty() {
            return Ok((count, hexadecimal(digest)));
        }
        count += bytes.len() as u64;
        digest.update(&bytes);
    }
}

/// Sends `bytes` over each of `count` associations at once, and checks the answers.
async fn send(words: &Words) -> Result {
    let log = Log::of_process();
    let stack = SctpStack::shared().await?;
    for rogue in words.addresses("after")? {
        meet(stack.clone(), rogue, words.options()?).await?;
    }
    let bytes = words.number("bytes", 0)?;
    let count = words.number("count", 1)?;
    let begin = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..count {
        let (from, options) = (words.addresses("from")?, words.options()?);
        let to: Vec<_> = words
            .addresses("to")?
            .into_iter()
            .map(|ip| SocketAddr::new(ip, PORT))
            .collect();
        let stack = stack.clone();
        tasks.spawn(async move { transfer(stack, &from, &to, &options, bytes, number).await });
    }
    let mut received = String::new();
    while let Some(result) = tasks.join_next().await {
        match result? {
            Ok(words) => received = words,
            Err(error) => {
                println!(
                    "error={:?} after={} why={error}",
                    error.kind(),
                    begin.elapsed().as_millis()
                );
                return Ok(());
            }
        }
    }
    println!(
        "ok={count} {received} log={}",
        log.lines().join(";").replace(' ', "_")
    );
    Ok(())
}

async fn transfer(
    stack: SctpStack,
    from: &[IpAddr],
    to: &[SocketAddr],
    options: &SctpOptions,
    bytes: u64,
    seed: u64,
) -> io::Result<String> {
    let mut carrier = stack.connect(to, from, options).await?;
    let begin = Instant::now();
    let connected = format!("{:?}", carrier.describe().peer);
    let (sent, accepted) = write_all(&mut carrier, bytes, seed).await?;
    poll_fn(|cx| carrier.poll_finish(cx)).await?;
    let statistics = carrier.statistics();
    let reply = read_reply(&mut carrier).await?;
    let micros = begin.elapsed().as_micros().max(1) as u64;
    let intact = reply == format!("{bytes}:{sent}") && (statistics.acked, statistics.in_flight) == (bytes, 0);
    let paths: Vec<String> = carrier
        .paths()
        .iter()
        .map(|path| {
            format!(
                "{}/{}/{}ms/{}",
                path.peer.ip(),
                path.active,
                path.srtt.as_millis(),
                path.window
            )
        })
        .collect();
    let events: Vec<String> = carrier
        .take_path_events()
        .iter()
        .map(|event| format!("{}:{:?}", event.peer.ip(), event.state))
        .collect();
    Ok(format!(
        "intact={intact} kbits={} accepted={accepted} half={} primary={connected} paths={} events={}",
        bytes * 8_000 / micros,
        carrier.half_closes(),
        paths.join(","),
        events.join(","),
    ))
}

/// Returns the digest of the sent data, and the number of bytes accepted in the first second.
async fn write_all(carrier: &mut SctpCarrier, bytes: u64, seed: u64) -> io::Result<(String, u64)> {
    let begin = Instant::now();
    let mut digest = Sha256::new();
    let (mut rng, mut left) = (Rng::with_seed(seed), bytes);
    let mut accepted = 0;
    while left > 0 {
        let block = block(&mut rng, left.min(BLOCK as u64) as usize);
        digest.update(&block);
        left -= block.len() as u64;
        hawser_carriers::send(carrier, &mut VecDeque::from([block])).await?;
        if begin.elapsed() < Duration::from_secs(1) {
            accepted = bytes - left;
        }
    }
    Ok((hexadecimal(digest), accepted))
}

async fn read_reply(carrier: &mut SctpCarrier) -> io::Result<String> {
    let mut reply = Vec::new();
    loop {
        let bytes = poll_fn(|cx| carrier.poll_read(cx)).await?;
        if bytes.is_empty() {
            return Ok(String::from_utf8_lossy(&reply).into_owned());
        }
        reply.extend(bytes);
    }
}

/// Connects to a rogue server, and gives its packets time to arrive.
async fn meet(stack: SctpStack, rogue: IpAddr, options: SctpOptions) -> Result {
    let options = SctpOptions { peer_udp_port: ROGUE, ..options };
    let carrier = stack
        .connect(&[SocketAddr::new(rogue, PORT)], &[], &options)
        .await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    drop(carrier);
    Ok(())
}

/// A parameter of unknown type with length 0.
const ENDLESS: [u8; 4] = [0x05, 0xd0, 0, 0];

/// Connects with hand-made packets, and sends INIT again from the same ports with a parameter of length 0.
fn attack(words: &Words) -> Result {
    let (at, to) = (words.addresses("at")?[0], words.addresses("to")?[0]);
    let to = SocketAddr::new(to, ENCAPSULATION_PORT);
    let mut raw = Raw::open(SocketAddr::new(at, 0), to, 7_000, PORT)?;
    raw.handshake()?;
    raw.send(0, &raw::init(raw::INIT, &ENDLESS))?;
    // A server that loops would no longer answer.
    std::thread::sleep(Duration::from_millis(200));
    println!("attacked");
    Ok(())
}

/// Accepts one association with hand-made packets, and sends it an INIT with tag 0 and a parameter of length
/// 0.
fn rogue(words: &Words) -> Result {
    let at = SocketAddr::new(words.addresses("at")?[0], ROGUE);
    let mut raw = Raw::open(at, at, PORT, 0)?;
    raw.wait_for_ever()?;
    println!("ready");
    raw.accept()?;
    raw.send(0, &raw::init(raw::INIT, &ENDLESS))?;
    std::thread::sleep(LONGEST);
    Ok(())
}

/// Makes invalid requests, and prints their errors.
async fn misuse(words: &Words) -> Result {
    let here = words.addresses("from")?;
    let taken = std::net::UdpSocket::bind(("0.0.0.0", 20_000))?;
    let first = SctpStack::open(Some(20_000)).err();
    drop(taken);
    let stack = SctpStack::open(Some(20_001))?;
    let second = SctpStack::open(Some(20_001)).err();
    let options = SctpOptions::default();
    let there = [SocketAddr::new(here[0], PORT)];
    let strange = stack
        .connect(&there, &["192.0.2.77".parse()?], &options)
        .await
        .err();
    let nowhere = stack.connect(&[], &[], &options).await.err();
    let ports = [there[0], SocketAddr::new(here[0], PORT + 1)];
    let unequal = stack.connect(&ports, &[], &options).await.err();
    let right = matches!(first, Some(SctpError::Port { port: 20_000, .. }))
        && matches!(second, Some(SctpError::Port { port: 20_001, .. }))
        && matches!(strange, Some(SctpError::Local { .. }))
        && matches!(
            (&nowhere, &unequal),
            (Some(SctpError::Addresses(_)), Some(SctpError::Addresses(_)))
        );
    println!("ok={right} errors={first:?} {second:?} {strange:?} {nowhere:?} {unequal:?}");
    Ok(())
}

fn block(rng: &mut Rng, length: usize) -> Bytes {
    let mut block = vec![0; length];
    rng.fill(&mut block);
    block.into()
}

fn hexadecimal(digest: Sha256) -> String {
    digest
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
