//! Ten clients keep their rate beside Linux clients that request much and do not read, or that send data
//! which is not read.
//!
//! `HAWSER_GREEDY` sets the number of the latter. A stack's limits allow a connection to hold 4 MiB for
//! sending, and all together 512 MiB. Without shares 128 such clients would stop all others.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hawser_sockets::{Network, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::testbed::{TestResult, Testbed, hawser_v4};

/// The default number of clients that do not read or are not read from.
const GREEDY: usize = 200;
/// The number of other clients.
const HONEST: usize = 10;
/// The number of bytes that each of the other clients transfers.
const BYTES: usize = 1 << 20;
/// The line is slower than this machine, so that the processor time used by the greedy clients does not
/// matter.
const LINE: &str = "rate=100Mbit/s,delay=5ms";
/// The number of rounds of transfers; the best counts, because the machine has other load.
const ROUNDS: usize = 3;
/// A client's first byte, which requests bytes without end.
const SEND: u8 = b's';
/// A client's first byte, which requests that its bytes be read, up to an answer after [`BYTES`].
const READ: u8 = b'r';
/// A client's first byte, which requests that its bytes not be read.
const IGNORE: u8 = b'i';

pub(crate) fn clients_that_do_not_read_leave_others_their_rate(stage: &Testbed) -> TestResult {
    keep_their_rate(stage, SEND, SEND)
}

pub(crate) fn unread_request_bodies_leave_others_their_rate(stage: &Testbed) -> TestResult {
    keep_their_rate(stage, IGNORE, READ)
}

fn keep_their_rate(stage: &Testbed, greedy: u8, honest: u8) -> TestResult {
    if !stage.is_tun() {
        return Ok(()); // The stack is the same, and a packet socket's ring is not tested here.
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

/// Opens a client with a small buffer that makes its request and then does not read, or sends without end.
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

/// Waits until the number of bytes that the stack holds is stable.
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

/// Returns the shortest time of several rounds of transfers.
async fn best(at: SocketAddr, kind: u8) -> TestResult<Duration> {
    let mut best = transfers(at, kind).await?;
    for _ in 1..ROUNDS {
        best = best.min(transfers(at, kind).await?);
    }
    Ok(best)
}

/// Returns the duration of the honest clients' transfers, all at once.
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
