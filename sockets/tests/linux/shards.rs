//! Several stacks on the queues of one device, which share their addresses and their connections.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hawser_sockets::{Endpoint, Network, Stream, host};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Builder;
use tokio::task::LocalSet;

use crate::testbed::{
    TIMEOUT, TestResult, Testbed, hawser_v4, hawser_v6, linux_listener, linux_v4, linux_v6,
};

const SHARDS: u16 = 3;
const CLIENTS: usize = 60;
/// The number of bytes that each connection carries in each direction.
const BYTES: usize = 100_000;

fn shards(stage: &Testbed, program: &str) -> TestResult<Vec<Endpoint>> {
    let program = hawser_load::programs::resolve(program, &[])?;
    Ok(host::open_shards(&program, stage.setup(), SHARDS)?)
}

/// Returns bytes that no other connection has.
fn pattern(number: usize) -> Vec<u8> {
    (0..BYTES)
        .map(|at| (at * 31 + number * 7 + at / 251) as u8)
        .collect()
}

/// Drives a shard in its own thread.
fn drive<T>(endpoint: Endpoint, act: impl AsyncFnOnce(Network) -> TestResult<T>) -> TestResult<T> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async { act(Network::start(endpoint)?).await })
}

async fn echo(mut stream: Stream) -> std::io::Result<()> {
    let mut buffer = vec![0; 16 << 10];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return stream.shutdown().await,
            len => stream.write_all(&buffer[..len]).await?,
        }
    }
}

/// Echoes received bytes until `ends` is set; returns the number of connections.
async fn serve(network: Network, at: [SocketAddr; 2], ends: &AtomicBool) -> TestResult<usize> {
    let [a, b] = at.map(|at| network.listen(at, 128));
    let (a, b) = (a?, b?);
    let mut served = 0;
    while !ends.load(Ordering::Acquire) {
        let stream = tokio::select! {
            stream = a.accept() => stream?,
            stream = b.accept() => stream?,
            () = tokio::time::sleep(Duration::from_millis(10)) => continue,
        };
        served += 1;
        tokio::task::spawn_local(echo(stream));
    }
    Ok(served)
}

/// Runs a client of Linux, and checks that its bytes come back.
fn exchange(to: SocketAddr, number: usize) -> TestResult {
    let mut stream = TcpStream::connect_timeout(&to, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let (sent, mut received) = (pattern(number), Vec::new());
    let mut writing = stream.try_clone()?;
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            writing.write_all(&sent)?;
            writing.shutdown(Shutdown::Write)
        });
        stream.read_to_end(&mut received)?;
        writer.join().expect("it writes")?;
        assert!(received == sent, "connection {number}: {} bytes", received.len());
        Ok(())
    })
}

/// Every shard gets connections, and each connection is complete.
pub(crate) fn linux_connects_to_all_shards(stage: &Testbed) -> TestResult {
    let at = [hawser_v4(), hawser_v6()].map(|ip| SocketAddr::new(ip, 7));
    let ends = &AtomicBool::new(false);
    let endpoints = shards(stage, "tcp")?;
    let served = thread::scope(|scope| {
        let servers = endpoints.into_iter().map(|endpoint| {
            scope.spawn(move || drive(endpoint, async |network| serve(network, at, ends).await))
        });
        let servers: Vec<_> = servers.collect();
        let clients = (0..CLIENTS).map(|number| scope.spawn(move || exchange(at[number % 2], number)));
        let clients: Vec<_> = clients.collect();
        let results: Vec<TestResult> = clients
            .into_iter()
            .map(|client| client.join().expect("no panic"))
            .collect();
        ends.store(true, Ordering::Release);
        let served = servers.into_iter().map(|server| server.join().expect("no panic"));
        let served: TestResult<Vec<usize>> = served.collect();
        results.into_iter().collect::<TestResult>().and(served)
    })?;
    assert_eq!(served.iter().sum::<usize>(), CLIENTS);
    assert!(served.iter().all(|served| *served > 0), "{served:?}");
    Ok(())
}

async fn call(network: &Network, to: SocketAddr, number: usize) -> TestResult {
    let stream = network.connect(to).await?;
    let (mut reading, mut writing) = tokio::io::split(stream);
    let (sent, mut received) = (pattern(number), Vec::new());
    let write = async {
        writing.write_all(&sent).await?;
        writing.shutdown().await
    };
    tokio::try_join!(write, reading.read_to_end(&mut received))?;
    assert!(received == sent, "connection {number}: {} bytes", received.len());
    Ok(())
}

/// Accepts the next connection within the usual timeout.
fn accepted(listener: &TcpListener) -> std::io::Result<TcpStream> {
    listener.set_nonblocking(true)?;
    let begin = Instant::now();
    let stream = loop {
        // The wait may end early, because `net_tap` has signals sent to its process.
        hawser_host::wait(listener.as_fd(), false, Some(TIMEOUT))?;
        match listener.accept() {
            Err(error) if error.kind() == ErrorKind::WouldBlock && begin.elapsed() < TIMEOUT => {}
            accepted => break accepted?.0,
        }
    };
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// Answers arrive at the shard that sent the request.
pub(crate) fn shards_connect_to_linux(stage: &Testbed) -> TestResult {
    call_linux(stage, linux_v4(), false)?;
    call_linux(stage, linux_v6(), false)
}

/// Packets in the queue of a shard that is gone reach the remaining shards.
pub(crate) fn queues_of_ended_shards_are_read(stage: &Testbed) -> TestResult {
    call_linux(stage, linux_v4(), true)
}

/// All shards open connections, either at once or each when those before it are gone.
fn call_linux(stage: &Testbed, like: IpAddr, in_turn: bool) -> TestResult {
    let endpoints = shards(stage, "tcp")?;
    let listener = linux_listener(like)?;
    let gone = &AtomicUsize::new(0);
    let to = SocketAddr::new(like, listener.local_addr()?.port());
    thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..10 * SHARDS {
                let mut stream = accepted(&listener)?;
                scope.spawn(move || std::io::copy(&mut stream.try_clone()?, &mut stream));
            }
            std::io::Result::Ok(())
        });
        let callers = endpoints.into_iter().enumerate().map(|(shard, endpoint)| {
            let calls = async move |network: Network| {
                while in_turn && gone.load(Ordering::Acquire) < shard {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                for number in 0..10 {
                    let call = call(&network, to, 10 * shard + number);
                    tokio::time::timeout(TIMEOUT, call).await??;
                }
                Ok(())
            };
            scope.spawn(move || {
                let called = drive(endpoint, calls);
                gone.fetch_add(1, Ordering::AcqRel);
                called
            })
        });
        let callers: Vec<_> = callers.collect();
        callers
            .into_iter()
            .try_for_each(|caller| caller.join().expect("no panic"))
    })
}

/// Only the first shard has the global context, and it answers connections of all shards.
pub(crate) fn a_global_context_is_one_for_all(stage: &Testbed) -> TestResult {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/linux/numbered.mtp");
    let mut endpoints = shards(stage, &program.to_string_lossy())?;
    let mut numbers = Vec::new();
    for round in 0..4 {
        for shard in 0..endpoints.len() {
            let to = SocketAddr::new(linux_v4(), 4000 + round);
            let handle = endpoints[shard].connect(to)?;
            let begin = Instant::now();
            while !endpoints[shard].connected(handle)? {
                assert!(begin.elapsed() < TIMEOUT, "shard {shard} got no number");
                for endpoint in &mut endpoints {
                    endpoint.poll()?;
                }
            }
            numbers.extend(endpoints[shard].observe(handle, "number"));
        }
    }
    let expected: Vec<u64> = (1..=4 * u64::from(SHARDS)).collect();
    assert_eq!(numbers, expected);
    assert_eq!(endpoints[0].lost_between_shards(), 0);
    Ok(())
}

/// A waiting shard is woken by an event of another shard.
pub(crate) fn a_shard_that_waits_is_woken(stage: &Testbed) -> TestResult {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/linux/numbered.mtp");
    let mut endpoints = shards(stage, &program.to_string_lossy())?;
    let mut first = endpoints.remove(0);
    let ends = &AtomicBool::new(false);
    let begin = Instant::now();
    thread::scope(|scope| {
        let waiting = scope.spawn(move || {
            while !ends.load(Ordering::Acquire) {
                while first.poll()? {}
                first.wait(Some(TIMEOUT))?;
            }
            TestResult::Ok(())
        });
        let asking = drive(endpoints.remove(0), async |network| {
            for round in 0..20 {
                let to = SocketAddr::new(linux_v4(), 4000 + round);
                tokio::time::timeout(TIMEOUT / 2, network.connect(to)).await??;
            }
            // One more connection, which is not answered, ends the wait.
            ends.store(true, Ordering::Release);
            let last = network.connect(SocketAddr::new(linux_v4(), 5000));
            let _ = tokio::time::timeout(Duration::from_millis(100), last).await;
            Ok(())
        });
        asking.and(waiting.join().expect("no panic"))
    })?;
    assert!(begin.elapsed() < TIMEOUT / 2, "{:?}", begin.elapsed());
    Ok(())
}

/// A program whose connections share state cannot run in shards, and the error names the state.
pub(crate) fn a_program_of_one_shard_is_refused(stage: &Testbed) -> TestResult {
    for (name, why) in [
        ("homa", "nic.messages"),
        ("quic-lite", "add_id"),
        ("ndp", "nic.urgent"),
    ] {
        let program = hawser_load::programs::resolve(name, &[])?;
        let refused = host::open_shards(&program, stage.setup(), SHARDS).err();
        let text = refused.map_or_else(String::new, |error| error.to_string());
        assert!(text.contains("one shard") && text.contains(why), "{name}: {text}");
        assert_eq!(host::open_shards(&program, stage.setup(), 1)?.len(), 1);
    }
    Ok(())
}
