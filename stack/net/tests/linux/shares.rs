//! Linux's clients that ask for much and do not read, and that send what nobody reads: ten others keep their rate.
//!
//! `HAWSER_GREEDY` says how many there are. A stack's limits allow a connection to hold 4 MiB for sending, and 512
//! MiB all together; without shares 128 such clients stop everybody else.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hawser_net::{Network, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::stage::{Stage, TestResult, hawser_v4};

/// Clients that do not read, or are not read from, unless `HAWSER_GREEDY` says otherwise.
const GREEDY: usize = 200;
/// Everybody else.
const HONEST: usize = 10;
/// Bytes that each of those transfers.
const BYTES: usize = 1 << 20;
/// The line is slower than this machine, so that what the others leave of the processor does not matter.
const LINE: &str = "rate=100Mbit/s,delay=5ms";
/// How often the transfers are made; the best counts, since others use this machine as well.
const ROUNDS: usize = 3;
/// What a client asks for with its first byte: to be sent bytes without end.
const SEND: u8 = b's';
/// To be read from, up to an answer after [`BYTES`].
const READ: u8 = b'r';
/// Not to be read from.
const IGNORE: u8 = b'i';

pub(crate) fn clients_that_do_not_read_leave_others_their_rate(stage: &Stage) -> TestResult {
    keep_their_rate(stage, SEND, SEND)
}

pub(crate) fn bodies_that_nobody_reads_leave_others_their_rate(stage: &Stage) -> TestResult {
    keep_their_rate(stage, IGNORE, READ)
}

fn keep_their_rate(stage: &Stage, greedy: u8, honest: u8) -> TestResult {
    if !stage.is_tun() {
        return Ok(()); // The same stack; a packet socket's ring is no part of this.
    }
    let count = std::env::var("HAWSER_GREEDY").map_or(Ok(GREEDY), |text| text.parse())?;
    let stage = stage.with_faults(LINE, 1)?;
    let at = SocketAddr::new(hawser_v4(), 80);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let network = stage.network(&[])?;
        let listener = network.listen(at, 2 * count as u32)?;
        tokio::task::spawn_local(async move {
            while let Ok(stream) = listener.accept().await {
                tokio::task::spawn_local(serve(stream));
            }
        });
        let alone = best(at, honest).await?;
        let mut held = Vec::new();
        for _ in 0..count {
            held.push(open_greedy(at, greedy).await?);
        }
        settled(&network).await;
        let (sending, receiving) = network.inspect(|endpoint| endpoint.held_bytes());
        let beside = best(at, honest).await?;
        println!(
            "{count} that nobody reads hold {} MiB; ten others: {beside:.2?}, alone {alone:.2?}",
            (sending + receiving) >> 20
        );
        assert!(
            alone.as_secs_f64() >= 0.9 * beside.as_secs_f64(),
            "{beside:?} beside them, {alone:?} alone"
        );
        Ok(())
    })
}

async fn serve(mut stream: Stream) -> std::io::Result<()> {
    let chunk = vec![7; 1 << 16];
    match stream.read_u8().await? {
        SEND => loop {
            stream.write_all(&chunk).await?;
        },
        READ => {
            stream.read_exact(&mut vec![0; BYTES]).await?;
            stream.write_all(b"!").await
        }
        _ => std::future::pending().await,
    }
}

/// A client with a small buffer that asks and then does nothing, or sends without end.
async fn open_greedy(at: SocketAddr, kind: u8) -> TestResult<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4096)?;
    let mut stream = socket.connect(at).await?;
    stream.write_all(&[kind]).await?;
    if kind == IGNORE {
        let chunk = vec![7; 4 << 20];
        while let Ok(sent) = tokio::time::timeout(Duration::from_millis(1), stream.write(&chunk)).await {
            sent?;
        }
    }
    Ok(stream)
}

/// Waits until what the stack holds does not change any more.
async fn settled(network: &Network) {
    let mut before = (0, 0);
    for _ in 0..120 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let held = network.inspect(|endpoint| endpoint.held_bytes());
        if held == before {
            return;
        }
        before = held;
    }
}

/// The shortest time of several rounds of transfers.
async fn best(at: SocketAddr, kind: u8) -> TestResult<Duration> {
    let mut best = transfers(at, kind).await?;
    for _ in 1..ROUNDS {
        best = best.min(transfers(at, kind).await?);
    }
    Ok(best)
}

/// How long the honest clients' transfers take, all at once.
async fn transfers(at: SocketAddr, kind: u8) -> TestResult<Duration> {
    let begin = Instant::now();
    let mut clients = JoinSet::new();
    for _ in 0..HONEST {
        clients.spawn(async move {
            let mut stream = TcpStream::connect(at).await?;
            stream.write_all(&[kind]).await?;
            let mut room = vec![0; BYTES];
            if kind == READ {
                stream.write_all(&room).await?;
                stream.read_u8().await.map(drop)
            } else {
                stream.read_exact(&mut room).await.map(drop)
            }
        });
    }
    let all = async {
        while let Some(client) = clients.join_next().await {
            client??;
        }
        TestResult::Ok(begin.elapsed())
    };
    tokio::time::timeout(Duration::from_secs(60), all).await?
}
