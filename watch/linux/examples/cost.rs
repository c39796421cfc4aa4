//! Measures the cost of watching Linux's TCP: a transfer of 200 Mbit/s between two namespaces, watched by
//! several means for five seconds each.
//!
//! `cargo run -p hawser-linux --features ebpf --example cost`, as root. The times of the programs are the
//! kernel's own (`kernel.bpf_stats_enabled`, which itself adds some 20 ns to each run). The reader's time is
//! the CPU time of its thread. Both depend on the machine.

use std::error::Error;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use hawser_lab::{Lab, Spec};
use hawser_linux::{Filter, FlowEvent, Kernel, Options, Variable};
use rustix::net::sockopt;

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const LAB: &str = r#"
host = [{ name = "client" }, { name = "server" }]
[[link]]
name = "path"
between = ["client", "server"]
both = { rate = "200Mbit/s", delay = "5ms", queue = "500kB" }
"#;
const SWITCH: &str = "/proc/sys/kernel/bpf_stats_enabled";
const CONGESTION_CONTROL: &str = "hawser_cost";
const TIME: Duration = Duration::from_secs(5);
const TEN_MILLIS: Duration = Duration::from_millis(10);

fn main() -> Outcome {
    let before = fs::read_to_string(SWITCH)?;
    fs::write(SWITCH, "1")?;
    let result = measure();
    fs::write(SWITCH, before.trim())?;
    result
}

fn measure() -> Outcome {
    let lab = Lab::up(&Spec::parse(LAB)?)?;
    let mut kernel = Kernel::load(&Options {
        congestion_control: Some(CONGESTION_CONTROL.to_owned()),
        ..Options::default()
    })?;
    println!(
        "{:<44}{:>10}{:>10}{:>9}  programs: runs a second, ns each",
        "", "events/s", "wakes/s", "CPU"
    );
    for congestion_control in ["reno", CONGESTION_CONTROL] {
        let flow = start(&lab, congestion_control)?;
        std::thread::sleep(Duration::from_secs(2));
        let open = Filter { flow: Some(flow), ..Filter::default() };
        let cases = [
            ("nothing is subscribed to", None, Duration::ZERO, false),
            ("every ACK, woken at once", Some(open), Duration::ZERO, false),
            ("every ACK, woken every 10 ms", Some(open), TEN_MILLIS, false),
            (
                "the last of each 10 ms",
                Some(Filter { interval: TEN_MILLIS, ..open }),
                Duration::ZERO,
                false,
            ),
            (
                "the last of each 10 ms, and modify",
                Some(Filter { interval: TEN_MILLIS, ..open }),
                Duration::ZERO,
                true,
            ),
        ];
        for (name, filter, wake, modify) in cases {
            if modify && congestion_control != CONGESTION_CONTROL {
                continue;
            }
            println!(
                "{:<44}{}",
                format!("{congestion_control}: {name}"),
                watch(&mut kernel, filter, wake, modify)?
            );
        }
    }
    Ok(())
}

/// Starts a flow that does not end.
fn start(lab: &Lab, congestion_control: &str) -> Outcome<u64> {
    let listener = lab.host("server")?.run(|| TcpListener::bind("0.0.0.0:0"))??;
    let address = lab.host("server")?.ipv4().ok_or("no address")?;
    let to = SocketAddr::new(address, listener.local_addr()?.port());
    let mut stream = lab.host("client")?.run(|| TcpStream::connect(to))??;
    sockopt::set_tcp_congestion(&stream, congestion_control)?;
    let cookie = sockopt::socket_cookie(&stream)?;
    let (mut accepted, _) = listener.accept()?;
    std::thread::spawn(move || {
        let mut room = vec![0; 1 << 18];
        while accepted.read(&mut room).is_ok_and(|length| length > 0) {}
    });
    std::thread::spawn(move || while stream.write_all(&[7; 1 << 16]).is_ok() {});
    Ok(cookie)
}

fn watch(kernel: &mut Kernel, filter: Option<Filter>, wake: Duration, modify: bool) -> Outcome<String> {
    kernel.set_wake(wake)?;
    let subscription = filter
        .map(|filter| kernel.subscribe(FlowEvent::Acked, filter))
        .transpose()?;
    let (runs, cpu, begin) = (programs(), cpu_time()?, Instant::now());
    let (mut events, mut wakes) = (0, 0);
    while begin.elapsed() < TIME {
        let mut last = None;
        events += kernel.poll(Some(Duration::from_secs(1)), |record| last = Some(*record))?;
        wakes += 1;
        if let Some(record) = last.filter(|_| modify) {
            // The lease keeps the present window, because only the means are measured.
            kernel.modify(
                record.flow,
                Variable::Cwnd,
                record.values[2].max(100_000),
                Duration::from_secs(1),
            )?;
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    let used = cpu_time()? - cpu;
    let mut line = format!(
        "{:>10.0}{:>10.0}{:>8.2}%  ",
        events as f64 / seconds,
        wakes as f64 / seconds,
        used.as_secs_f64() / seconds * 100.0
    );
    for (id, name, time, count) in programs() {
        // Other processes on the machine may have programs of the same names.
        let (time_before, count_before) = runs
            .iter()
            .find(|run| run.0 == id)
            .map_or((0, 0), |run| (run.2, run.3));
        let (time, count) = (time - time_before.min(time), count - count_before.min(count));
        if count > 0 {
            line += &format!("{name} {:.0}, {} ns; ", count as f64 / seconds, time / count);
        }
    }
    if let Some(id) = subscription {
        kernel.unsubscribe(id)?;
    }
    Ok(line)
}

/// Returns number, name, nanoseconds and runs of each of our programs.
fn programs() -> Vec<(u32, String, u64, u64)> {
    let ours = ["segment_arrived", "decide"];
    let all = libbpf_rs::query::ProgInfoIter::default();
    let named = all.map(|program| {
        let name = program.name.to_string_lossy().into_owned();
        (program.id, name, program.run_time_ns, program.run_cnt)
    });
    named
        .filter(|program| ours.iter().any(|name| name.starts_with(&program.1)))
        .collect()
}

/// Returns the CPU time of this thread.
fn cpu_time() -> Outcome<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(Duration::from_nanos(
        text.split(' ').next().ok_or("no time")?.parse()?,
    ))
}
