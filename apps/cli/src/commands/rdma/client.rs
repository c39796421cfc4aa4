//! `hawser rdma write`, `read`, `send`, `atomic`.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use hawser::Endpoint;
use hawser::verbs::{
    Access, CompletionQueue, ConnectionAttributes, MAX_INLINE, MemoryRegion, QueuePair, QueuePairConfig,
    Remote, SendRequest, Slice, Status, VerbsError, WorkCompletion, WorkOperation,
};
use hdrhistogram::Histogram;
use serde_json::json;

use super::control::{self, ClientRequest, RdmaOperation, ServerAnswer};
use super::{Client, SLEEP, failed};
use crate::exit::{Exit, Outcome};
use crate::progress;

/// The maximum time that the histogram resolves: an hour, in nanoseconds.
const LONGEST: u64 = 3_600_000_000_000;
/// The maximum time until a server answers. The server may have to fill 64 MiB first.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The reported quantiles.
const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

/// Returns the byte at an offset of the test pattern, which fills memory to be read and data to be written.
fn pattern(at: usize) -> u8 {
    (at * 7 + at / 251) as u8
}

/// Returns the first `len` bytes of the pattern.
pub(super) fn patterned(len: usize) -> Vec<u8> {
    (0..len).map(pattern).collect()
}

/// A connected client.
struct RdmaClient<'a> {
    args: &'a Client,
    kind: RdmaOperation,
    pair: QueuePair,
    queue: CompletionQueue,
    memory: MemoryRegion,
    key: u32,
    /// The server keeps its end while this connection is open.
    _control: TcpStream,
}

pub(super) fn run(args: &Client, kind: RdmaOperation) -> Outcome {
    let mut endpoint = args.device.endpoint()?;
    endpoint.verbs().map_err(|error| failed(&error))?;
    let size = if kind == RdmaOperation::Atomic {
        8
    } else {
        args.size
    };
    let work = begin(args, kind, size, &mut endpoint)?;
    let (histogram, took) = work.all(&mut endpoint)?;
    work.verify(&mut endpoint)?;
    report(args, kind, size, &histogram, took);
    Ok(())
}

/// Negotiates with the server and connects.
fn begin<'a>(
    args: &'a Client,
    kind: RdmaOperation,
    size: u32,
    endpoint: &mut Endpoint,
) -> Result<RdmaClient<'a>, Exit> {
    let at = args.control;
    let gone = |error: std::io::Error| Exit::network(format!("the server at {at} does not answer: {error}"));
    let own = args.device.address(None);
    let own = own.ok_or_else(|| Exit::usage("the command needs an address: --addr"))?;
    let mut verbs = endpoint.verbs().map_err(|error| failed(&error))?;
    verbs.check_mtu(args.mtu, own).map_err(|error| failed(&error))?;
    let mut control = TcpStream::connect_timeout(&at, TIMEOUT).map_err(gone)?;
    let (domain, queue) = (verbs.protection_domain(), verbs.completion_queue());
    let memory = verbs.register(domain, size as usize, Access::LOCAL_WRITE);
    let memory = memory.map_err(|error| failed(&error))?;
    if kind != RdmaOperation::Read {
        memory.write(0, &patterned(size as usize));
    }
    let pair = verbs.queue_pair(QueuePairConfig {
        domain,
        send_queue: queue,
        receive_queue: queue,
        signal_all: true,
    });
    verbs.to_init(pair).map_err(|error| failed(&error))?;
    let hello = ClientRequest {
        kind,
        size,
        depth: args.depth,
        mtu: args.mtu,
        address: own,
        pair: pair.number(),
        first_packet: 0,
    };
    control::put(&mut control, &hello).map_err(gone)?;
    let answer = match control::take(&control, TIMEOUT).map_err(gone)? {
        ServerAnswer::Served(terms) => terms,
        ServerAnswer::Refused(why) => {
            return Err(Exit::network(format!(
                "the server at {at} refuses this client: {why}"
            )));
        }
    };
    args.device.refuse_own(answer.address)?;
    let connection = ConnectionAttributes {
        expected_packet: answer.first_packet,
        mtu: args.mtu,
        ..ConnectionAttributes::new(answer.address, answer.pair)
    };
    let mut verbs = endpoint.verbs().map_err(|error| failed(&error))?;
    verbs.connect(pair, &connection).map_err(|error| failed(&error))?;
    Ok(RdmaClient { args, kind, pair, queue, memory, key: answer.key, _control: control })
}

impl RdmaClient<'_> {
    fn request(&self, id: u64) -> SendRequest {
        let len = self.memory.region().len() as u64;
        let (remote, local) = (Remote { key: self.key, at: 0 }, self.memory.slice(0, len));
        let operation = match self.kind {
            RdmaOperation::Write => WorkOperation::Write(remote),
            RdmaOperation::Read => WorkOperation::Read(remote),
            RdmaOperation::Send => WorkOperation::Send,
            RdmaOperation::Atomic => WorkOperation::FetchAdd { remote, add: 1 },
        };
        match self.kind {
            RdmaOperation::Write | RdmaOperation::Send if len <= MAX_INLINE as u64 => {
                SendRequest::inline(id, operation, &self.memory.region().bytes())
            }
            _ => SendRequest::new(id, operation, local),
        }
    }

    /// Performs all work requests. Returns the histogram of their times, and the total time.
    fn all(&self, endpoint: &mut Endpoint) -> Result<(Histogram<u64>, Duration), Exit> {
        let count = self.args.count;
        let bar = progress::count(self.args.json, self.kind.name(), count);
        let mut histogram = Histogram::new_with_bounds(1, LONGEST, 3).map_err(Exit::environment)?;
        let mut posted_at = vec![Instant::now(); self.args.depth as usize];
        let (mut posted, mut done) = (0, 0);
        let (begin, mut shown) = (Instant::now(), Instant::now());
        while done < count {
            let mut verbs = endpoint.verbs().map_err(|error| failed(&error))?;
            while posted < count && posted - done < u64::from(self.args.depth) {
                posted_at[(posted % u64::from(self.args.depth)) as usize] = Instant::now();
                match verbs.post_send(self.pair, &self.request(posted)) {
                    Ok(()) => posted += 1,
                    Err(VerbsError::Full) => break,
                    Err(error) => return Err(failed(&error)),
                }
            }
            let mut is_busy = endpoint.poll().map_err(Exit::environment)?;
            let mut verbs = endpoint.verbs().map_err(|error| failed(&error))?;
            while let Some(completion) = verbs.poll(self.queue) {
                self.check(&completion)?;
                let began = posted_at[(done % u64::from(self.args.depth)) as usize];
                let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
                histogram.saturating_record(took);
                done += 1;
                is_busy = true;
            }
            if shown.elapsed() > SLEEP {
                shown = Instant::now();
                bar.set_position(done);
            }
            if !is_busy && !self.args.spin {
                endpoint.wait(Some(SLEEP)).map_err(Exit::environment)?;
            }
        }
        bar.finish_and_clear();
        Ok((histogram, begin.elapsed()))
    }

    fn check(&self, completion: &WorkCompletion) -> Outcome {
        match completion.status {
            Status::Success => Ok(()),
            status => Err(Exit::network(format!(
                "work request {} failed: {status}",
                completion.id
            ))),
        }
    }

    /// Compares the server's memory with its expected content.
    fn verify(&self, endpoint: &mut Endpoint) -> Outcome {
        let len = self.memory.region().len();
        let expected: Vec<u8> = match self.kind {
            RdmaOperation::Atomic => self.args.count.to_ne_bytes().to_vec(),
            _ => patterned(len),
        };
        if self.kind != RdmaOperation::Read {
            self.memory.write(0, &vec![0; len]);
            let local = Slice { key: self.memory.key(), at: 0, len: len as u64 };
            let request = SendRequest::new(0, WorkOperation::Read(Remote { key: self.key, at: 0 }), local);
            let mut verbs = endpoint.verbs().map_err(|error| failed(&error))?;
            verbs
                .post_send(self.pair, &request)
                .map_err(|error| failed(&error))?;
            loop {
                let is_busy = endpoint.poll().map_err(Exit::environment)?;
                let mut verbs = endpoint.verbs().map_err(|error| failed(&error))?;
                if let Some(completion) = verbs.poll(self.queue) {
                    self.check(&completion)?;
                    break;
                }
                if !is_busy {
                    endpoint.wait(Some(SLEEP)).map_err(Exit::environment)?;
                }
            }
        }
        if self.memory.region().bytes()[..] == expected[..] {
            Ok(())
        } else {
            Err(Exit::failed("the server's memory differs from the data written"))
        }
    }
}

fn report(args: &Client, kind: RdmaOperation, size: u32, histogram: &Histogram<u64>, took: Duration) {
    let seconds = took.as_secs_f64();
    let count = histogram.len();
    let rate = count as f64 / seconds;
    let gbit = rate * f64::from(size) * 8.0 / 1e9;
    if args.json {
        let mut latency: serde_json::Map<String, serde_json::Value> = QUANTILES
            .iter()
            .map(|(name, quantile)| ((*name).to_owned(), histogram.value_at_quantile(*quantile).into()))
            .collect();
        latency.insert("min".to_owned(), histogram.min().into());
        latency.insert("max".to_owned(), histogram.max().into());
        let result = json!({
            "operation": kind.name(),
            "program": args.device.program(),
            "engine": args.device.engine().name(),
            "size": size,
            "depth": args.depth,
            "mtu": args.mtu,
            "spin": args.spin,
            "count": count,
            "seconds": seconds,
            "per_second": rate,
            "gbit_per_second": gbit,
            "latency_ns": latency,
        });
        println!("{result}");
        return;
    }
    println!(
        "{count} times {} of {size} bytes in {seconds:.2} s: {rate:.0} a second, {gbit:.3} Gbit/s",
        kind.name()
    );
    let micros = |nanos: u64| format!("{:.1} µs", nanos as f64 / 1e3);
    println!("  {:<8}{:>12}", "min", micros(histogram.min()));
    for (name, quantile) in QUANTILES {
        println!("  {name:<8}{:>12}", micros(histogram.value_at_quantile(quantile)));
    }
    println!("  {:<8}{:>12}", "max", micros(histogram.max()));
}
