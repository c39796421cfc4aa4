//! QUIC on networks that lose, delay and reorder packets, compared with the line's rate.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hawser_carriers::quic::{Congestion, QuicEndpoint, QuicListener, QuicOptions};
use hawser_carriers::{Carrier, send};
use hawser_lab::{Direction, HostHandle, Lab, Spec};
use hawser_testing::{Test, TestResult, in_user_namespace, is_long, tests};
use socket2::SockRef;

const TESTS: &[Test] = tests![
    overtaken_packets_do_not_count_as_lost,
    losses_do_not_stop_quic,
    quic_shares_a_queue_with_tcp,
];

/// The tests of `--long`: every congestion controller on every line, printed.
const LONG: &[Test] = tests![congestion_controllers_are_compared,];

fn main() -> ExitCode {
    in_user_namespace("QUIC in labs", if is_long() { LONG } else { TESTS })
}

/// A line of 20 Mbit/s with these rules in both directions.
struct Line {
    name: &'static str,
    rules: &'static str,
}

const RATE: f64 = 20e6;
const CLEAN: Line = Line { name: "20 ms", rules: "delay = \"10ms\", queue = 100_000" };
const DEEP: Line = Line {
    name: "20 ms, a queue of 400 ms",
    rules: "delay = \"10ms\", queue = 1_000_000",
};
const OVERTAKEN: Line = Line {
    name: "20 ms, 10 % 20 ms late",
    rules: "delay = \"10ms\", queue = 100_000, reorder = \"10%\", hold = \"20ms\"",
};
const LOSSY: Line = Line {
    name: "50 ms, 1 % lost",
    rules: "delay = \"25ms\", queue = 125_000, loss = \"1%\"",
};
const FAR: Line = Line {
    name: "180 ms, 0.5 % lost",
    rules: "delay = \"90ms\", queue = 450_000, loss = \"0.5%\"",
};
const BAD: Line = Line {
    name: "50 ms, 2 % lost",
    rules: "delay = \"25ms\", queue = 125_000, loss = \"2%\"",
};

/// The rates of one measurement, in bits per second.
#[derive(Clone, Copy, Debug)]
struct Rates {
    quic: f64,
    /// The rate of a TCP connection (CUBIC) beside it.
    tcp: f64,
    /// The mean queueing delay, in seconds.
    queue: f64,
}

/// Returns TLS configurations with a certificate for `server`.
fn identity() -> TestResult<(Arc<rustls::ServerConfig>, Arc<rustls::ClientConfig>)> {
    let made = rcgen::generate_simple_self_signed(vec!["server".into()])?;
    let chain = vec![made.cert.der().clone()];
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der())?;
    let provider = || Arc::new(rustls::crypto::ring::default_provider());
    let versions = &[&rustls::version::TLS13];
    let server = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(versions)?
        .with_no_client_auth()
        .with_single_cert(chain.clone(), key)?;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(chain[0].clone())?;
    let client = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(versions)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok((Arc::new(server), Arc::new(client)))
}

/// Runs the work of one host to its end, in a runtime of its own.
fn within<T>(host: &HostHandle, work: impl Future<Output = TestResult<T>>) -> TestResult<T> {
    host.enter()?;
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(work)
}

/// Measures the rates of a connection for `lasts`, from its beginning, with or without a TCP connection
/// beside it.
fn measure(line: &Line, congestion: Congestion, beside: bool, lasts: Duration) -> TestResult<Rates> {
    let Line { rules, .. } = line;
    let text = format!(
        "host = [{{ name = \"client\" }}, {{ name = \"server\" }}]\n[[link]]\nname = \"line\"\n\
         between = [\"client\", \"server\"]\nthrough = \"cell\"\nboth = {{ rate = \"20Mbit/s\", {rules} }}\n"
    );
    let lab = Lab::up(&Spec::parse(&text)?)?;
    let (tls, trusts) = identity()?;
    let (client, server) = (lab.host("client")?.handle(), lab.host("server")?.handle());
    let to = lab.host("server")?.ipv4().ok_or("no address")?;
    let (over, tcp) = (AtomicBool::new(false), AtomicU64::new(0));
    let options = || QuicOptions { congestion, ..QuicOptions::default() };
    let listener = lab
        .host("server")?
        .run(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 5001)))??;
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| {
            within(&server, async {
                let listener = QuicListener::open(([0, 0, 0, 0], 4433).into(), options(), tls.clone())?;
                let mut carrier = listener.accept().await.ok_or("no connection")?.accept().await?;
                carrier.admit();
                let chunk = Bytes::from(vec![7; 65_536]);
                let mut queue = VecDeque::new();
                while !over.load(Ordering::Relaxed) {
                    if queue.is_empty() {
                        queue.push_back(chunk.clone());
                    }
                    // The session does the same: it reads the transport's window each time.
                    carrier.statistics();
                    let writing = poll_fn(|cx| carrier.poll_write(cx, &mut queue));
                    if let Ok(Err(_)) = tokio::time::timeout(Duration::from_millis(100), writing).await {
                        break;
                    }
                }
                Ok(())
            })
        });
        if beside {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept()?;
                SockRef::from(&stream).set_tcp_congestion(b"cubic")?;
                while !over.load(Ordering::Relaxed) {
                    stream.write_all(&[7; 16_384])?;
                }
                TestResult::Ok(())
            });
            let (client, over, tcp) = (&client, &over, &tcp);
            scope.spawn(move || {
                client.enter()?;
                let mut stream = TcpStream::connect((to, 5001))?;
                let mut room = [0; 65_536];
                while !over.load(Ordering::Relaxed) {
                    tcp.fetch_add(stream.read(&mut room)? as u64, Ordering::Relaxed);
                }
                TestResult::Ok(())
            });
        }
        let loading = scope.spawn(|| {
            let came = within(&client, async {
                let peer = SocketAddr::new(to, 4433);
                tokio::time::sleep(Duration::from_millis(100)).await;
                let endpoint = QuicEndpoint::open(peer, None, options())?;
                let mut carrier = endpoint.connect(peer, "server", trusts.clone()).await?;
                send(&mut carrier, &mut VecDeque::from([Bytes::from_static(b"?")])).await?;
                let begin = Instant::now();
                let mut came = 0;
                while begin.elapsed() < lasts {
                    let reading = poll_fn(|cx| carrier.poll_read(cx));
                    let left = lasts.saturating_sub(begin.elapsed());
                    match tokio::time::timeout(left, reading).await {
                        Ok(bytes) => came += bytes?.len(),
                        Err(_) => break,
                    }
                }
                Ok(came as f64 * 8.0 / begin.elapsed().as_secs_f64())
            });
            over.store(true, Ordering::Relaxed);
            came
        });
        let (mut waiting, mut samples) = (0.0, 0.0);
        while !loading.is_finished() {
            let queued = lab.link("line")?.statistics(Direction::Backward)?.queued_bytes;
            (waiting, samples) = (waiting + queued as f64 * 8.0 / RATE, samples + 1.0);
            std::thread::sleep(Duration::from_millis(20));
        }
        let quic = loading.join().map_err(|_| "the client panicked")??;
        let tcp = tcp.load(Ordering::Relaxed) as f64 * 8.0 / lasts.as_secs_f64();
        serving.join().map_err(|_| "the server panicked")??;
        Ok(Rates { quic, tcp, queue: waiting / f64::max(samples, 1.0) })
    })
}

fn congestion_controllers_are_compared() -> TestResult {
    for line in [LOSSY, BAD, FAR, CLEAN, DEEP, OVERTAKEN] {
        for beside in [false, true] {
            if beside && !matches!(line.name, "20 ms" | "20 ms, a queue of 400 ms") {
                continue;
            }
            let mut row = format!(
                "  {:<26} {:<11}",
                line.name,
                if beside { "beside TCP" } else { "alone" }
            );
            for congestion in [Congestion::Cubic, Congestion::Tolerant, Congestion::Bbr] {
                let mut all = Vec::new();
                for _ in 0..3 {
                    all.push(measure(&line, congestion, beside, Duration::from_secs(6))?);
                }
                all.sort_by(|a, b| a.quic.total_cmp(&b.quic));
                let Rates { quic, tcp, queue } = all[1];
                row += &format!(
                    "  {congestion:?} {:4.1} Mbit/s, TCP {:4.1}, {:3.0} ms wait",
                    quic / 1e6,
                    tcp / 1e6,
                    queue * 1e3
                );
            }
            println!("{row}");
        }
    }
    Ok(())
}

/// Checks that the default controller carries at least this share of the line's rate.
fn carries(line: &Line, share: f64) -> TestResult {
    let rates = measure(line, Congestion::default(), false, Duration::from_secs(6))?;
    println!(
        "  {}: {:.1} of {:.0} Mbit/s",
        line.name,
        rates.quic / 1e6,
        RATE / 1e6
    );
    if rates.quic >= share * RATE {
        Ok(())
    } else {
        Err(format!("{}: {rates:?}", line.name).into())
    }
}

fn overtaken_packets_do_not_count_as_lost() -> TestResult {
    carries(&OVERTAKEN, 0.6)
}

fn losses_do_not_stop_quic() -> TestResult {
    carries(&LOSSY, 0.25)?;
    carries(&FAR, 0.3)
}

/// TCP beside it keeps at least half of an equal share, which BBR does not leave it, and both continue.
/// QUIC's part of a queue that TCP fills from the beginning varies from 3 to 6 Mbit/s, also with plain CUBIC.
fn quic_shares_a_queue_with_tcp() -> TestResult {
    let rates = measure(&CLEAN, Congestion::default(), true, Duration::from_secs(6))?;
    println!("  {rates:?}");
    let is_shared = rates.tcp >= 0.25 * RATE && rates.quic >= 0.1 * RATE;
    if is_shared {
        Ok(())
    } else {
        Err(format!("{rates:?}").into())
    }
}
