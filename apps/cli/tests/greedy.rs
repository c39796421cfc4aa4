//! `hawser serve` with greedy clients. Some ask for a large file and do not read. Some send bodies that are
//! never read. Some take every connection and remain almost idle. Ten other clients keep their rate, and new
//! ones are served.
//!
//! `HAWSER_GREEDY` sets the number of greedy clients.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, ExitCode, Stdio};
use std::time::{Duration, Instant};

use hawser_documents::temporary::Folder;
use hawser_lab::{Lab, Spec};
use hawser_testing::{Need, Test, TestResult, has, in_user_namespace, tests};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

const TESTS: &[Test] = tests![
    clients_that_do_not_read_leave_others_their_rate,
    unread_request_bodies_leave_others_their_rate,
    idle_connections_make_room_for_newcomers,
    one_address_cannot_take_all_slots,
];

/// The default number of greedy clients.
const GREEDY: usize = 200;
/// The number of other clients.
const HONEST: usize = 10;
/// The size of each of their downloads, in bytes.
const BYTES: usize = 1 << 20;
/// The rounds of transfers with and without greedy clients. The best counts, because other processes use this
/// machine as well.
const ROUNDS: usize = 3;

/// `hawser serve` on a host in a lab of its own, over a link that is slower than this machine.
struct Served {
    lab: Lab,
    _server: Running,
    at: SocketAddr,
}

/// A process that is killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn main() -> ExitCode {
    let what = "hawser serve beside greedy clients";
    if !has(what, &[Need::Tun]) {
        return ExitCode::SUCCESS;
    }
    in_user_namespace(what, TESTS)
}

fn serve(folder: &Path, more: &[&str]) -> TestResult<Served> {
    std::fs::write(folder.join("file"), vec![7; BYTES])?;
    std::fs::File::create(folder.join("large"))?.set_len(1 << 30)?;
    let lab = Lab::up(&Spec::parse("host = [{ name = \"here\" }]")?)?;
    let mut command = lab.host("here")?.command(env!("CARGO_BIN_EXE_hawser"))?;
    command
        .arg("serve")
        .arg(folder)
        .args(["--dev", "tun:h0", "--kernel-addr", "10.9.0.1/24"]);
    command.args([
        "--addr",
        "10.9.0.2/24",
        "--faults",
        "rate=100Mbit/s,delay=5ms",
        "--backlog",
        "4096",
    ]);
    let server = Running(
        command
            .args(more)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?,
    );
    Ok(Served { lab, _server: server, at: SocketAddr::from(([10, 9, 0, 2], 80)) })
}

/// Runs clients on the server's host.
fn with_clients<F>(served: &Served, clients: impl FnOnce(SocketAddr) -> F + Send) -> TestResult
where
    F: Future<Output = TestResult>,
{
    let at = served.at;
    served.lab.host("here")?.run(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let begin = Instant::now();
            while load(at).await.is_err() {
                if begin.elapsed() > Duration::from_secs(20) {
                    return Err("the server does not come up".into());
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            clients(at).await
        })
    })?
}

fn greedy() -> TestResult<usize> {
    Ok(std::env::var("HAWSER_GREEDY").map_or(Ok(GREEDY), |text| text.parse())?)
}

fn clients_that_do_not_read_leave_others_their_rate() -> TestResult {
    keep_their_rate("GET /large HTTP/1.1\r\nHost: 10.9.0.2\r\n\r\n")
}

fn unread_request_bodies_leave_others_their_rate() -> TestResult {
    keep_their_rate("POST /large HTTP/1.1\r\nHost: 10.9.0.2\r\nContent-Length: 1073741824\r\n\r\n")
}

fn keep_their_rate(request: &str) -> TestResult {
    let (folder, count) = (Folder::new()?, greedy()?);
    let served = serve(&folder, &[])?;
    with_clients(&served, |at| async move {
        let before = best(at).await?;
        let mut held = Vec::new();
        for _ in 0..count {
            held.push(open(at, request).await?);
        }
        let beside = best(at).await?;
        drop(held);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let after = best(at).await?;
        let alone = before.min(after);
        let share = alone.as_secs_f64() / beside.as_secs_f64();
        println!(
            "  {count} clients: ten others {beside:.2?}, alone {before:.2?} and {after:.2?}: {share:.2}"
        );
        if share >= 0.9 {
            Ok(())
        } else {
            Err(format!("{beside:?} beside them, {alone:?} alone").into())
        }
    })
}

fn idle_connections_make_room_for_newcomers() -> TestResult {
    let folder = Folder::new()?;
    let served = serve(&folder, &["--max-connections", "50", "--max-per-network", "50"])?;
    with_clients(&served, |at| async move {
        let mut held = Vec::new();
        for number in 0..50 {
            let request = if number % 2 == 0 {
                "GET /large HTTP/1.1\r\nHost: 10.9.0.2\r\n\r\n"
            } else {
                ""
            };
            held.push(open(at, request).await?);
        }
        let begin = Instant::now();
        while let Err(error) = load(at).await {
            if begin.elapsed() > Duration::from_secs(15) {
                return Err(format!("no newcomer is served: {error}").into());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        println!(
            "  a newcomer is served {:.1?} after 50 that do nothing",
            begin.elapsed()
        );
        transfers(at).await.map(drop)
    })
}

/// Many connections from one address send slowly, so that each always makes progress.
fn one_address_cannot_take_all_slots() -> TestResult {
    const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 9, 0, 3));
    let folder = Folder::new()?;
    let served = serve(
        &folder,
        &["--max-connections", "40", "--kernel-addr", "10.9.0.3/24"],
    )?;
    with_clients(&served, |at| async move {
        let mut slow = JoinSet::new();
        for _ in 0..80 {
            slow.spawn(async move {
                loop {
                    // A client whose connection is reset reconnects.
                    let _ = ask_slowly(at).await;
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            });
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        let begin = Instant::now();
        for _ in 0..HONEST {
            load_from(OTHER, at).await?;
        }
        println!(
            "  ten downloads from another address take {:.2?}",
            begin.elapsed()
        );
        Ok(())
    })
}

/// Sends a request a byte at a time, without end.
async fn ask_slowly(at: SocketAddr) -> TestResult {
    let mut stream = TcpStream::connect(at).await?;
    stream
        .write_all(b"GET /file HTTP/1.1\r\nHost: 10.9.0.2\r\nX: ")
        .await?;
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        stream.write_all(b"x").await?;
    }
}

/// Opens a connection with a small receive buffer and sends a request. A request with a body continues until
/// its data is no longer accepted. The client then stays idle.
async fn open(at: SocketAddr, request: &str) -> TestResult<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4096)?;
    let mut stream = socket.connect(at).await?;
    stream.write_all(request.as_bytes()).await?;
    if request.starts_with("POST") {
        let chunk = vec![7; 1 << 20];
        // A server that closes has read all that it wants.
        while let Ok(Ok(_)) = tokio::time::timeout(Duration::from_millis(5), stream.write(&chunk)).await {}
    }
    Ok(stream)
}

/// Returns the shortest time of several rounds.
async fn best(at: SocketAddr) -> TestResult<Duration> {
    let mut best = transfers(at).await?;
    for _ in 1..ROUNDS {
        best = best.min(transfers(at).await?);
    }
    Ok(best)
}

/// Returns the time of the honest clients' concurrent downloads.
async fn transfers(at: SocketAddr) -> TestResult<Duration> {
    let begin = Instant::now();
    let mut clients = JoinSet::new();
    for _ in 0..HONEST {
        clients.spawn(load(at));
    }
    while let Some(client) = clients.join_next().await {
        client??;
    }
    Ok(begin.elapsed())
}

/// Downloads the small file within a minute.
async fn load(at: SocketAddr) -> TestResult {
    load_from(Ipv4Addr::UNSPECIFIED.into(), at).await
}

/// Downloads the small file from this source address.
async fn load_from(from: IpAddr, at: SocketAddr) -> TestResult {
    let all = async {
        let socket = TcpSocket::new_v4()?;
        socket.bind((from, 0).into())?;
        let mut stream = socket.connect(at).await?;
        stream
            .write_all(b"GET /file HTTP/1.1\r\nHost: 10.9.0.2\r\nConnection: close\r\n\r\n")
            .await?;
        let mut page = Vec::new();
        stream.read_to_end(&mut page).await?;
        if page.len() > BYTES {
            Ok(())
        } else {
            Err(format!("{} bytes came", page.len()).into())
        }
    };
    tokio::time::timeout(Duration::from_secs(60), all).await?
}
