//! `hawser get URL`: downloads a file with HTTP over a transport program.

use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hawser::Network;
use hyper::Uri;
use serde_json::json;

use crate::device::{DeviceArgs, runtime};
use crate::exit::{Exit, Outcome};
use crate::http::{self, GetError};
use crate::interrupt::Interrupts;
use crate::progress;
use crate::session::{PartialFile, is_harmless};

/// The time in which the end of a connection must reach the server. The command does not wait for a server
/// that keeps its own end open.
const PARTING: Duration = Duration::from_millis(200);

/// Download a file over HTTP, over a transport program instead of the TCP of the kernel
///
///   hawser get http://10.9.0.1:8000/file -o file \
///     --dev tun:hawser0 --kernel-addr 10.9.0.1/24 --addr 10.9.0.2/24
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// http://HOST[:PORT]/PATH; the host is a name or an address
    #[arg(value_parser = parse_url)]
    url: Uri,
    /// The output file; `-` is standard output. By default its name is the last part of the path
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Print the result as a JSON object and show no progress
    #[arg(long)]
    json: bool,
    /// End with an error after this number of seconds
    #[arg(long, default_value_t = 600)]
    max_time: u64,
    #[command(flatten)]
    device: DeviceArgs,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let output = destination(args)?;
    let remote = resolve(&args.url, &args.device)?;
    args.device.refuse_own(remote.ip())?;
    runtime()?.block_on(async {
        let begin = Instant::now();
        // Signals are handled only once the program has been read. Until then they end the command at once.
        let network = args.device.start()?;
        let limits = Limits { interrupts: Interrupts::new()?, seconds: args.max_time, begin };
        download(args, &output, remote, network, &limits).await
    })
}

/// The signals and the timeout that end a download early.
struct Limits {
    interrupts: Interrupts,
    seconds: u64,
    begin: Instant,
}

impl Limits {
    /// Runs `work` until it completes, or a signal or the timeout ends it.
    async fn end<T>(&self, work: impl Future<Output = Result<T, Exit>>) -> Result<T, Exit> {
        let left = Duration::from_secs(self.seconds).saturating_sub(self.begin.elapsed());
        let late = |_| {
            Exit::network(format!(
                "the download took longer than {} s (--max-time)",
                self.seconds
            ))
        };
        let limited = async { tokio::time::timeout(left, work).await.map_err(late)? };
        self.interrupts.end(limited).await
    }
}

async fn download(
    args: &Args,
    path: &Path,
    remote: SocketAddr,
    network: Network,
    limits: &Limits,
) -> Outcome {
    let begin = Instant::now();
    let connecting = async {
        let stream = network.connect(remote).await;
        stream.map_err(|e| Exit::network(format!("cannot connect to {remote}: {e}")))
    };
    let stream = limits.end(connecting).await?;
    let connect = begin.elapsed();
    let probe = stream.probe();
    let bar = progress::bytes(true, "", None);
    // The output is created only after a successful answer. Until then an existing file stays.
    let going = std::cell::RefCell::new((bar, None));
    let quiet = args.json;
    let mut state = None;
    let got = http::get(
        stream,
        &args.url,
        |total| {
            *going.borrow_mut() = (
                progress::bytes(quiet, args.url.path(), total),
                Some(Output::open(path)?),
            );
            Ok(())
        },
        |bytes| {
            let (bar, output) = &mut *going.borrow_mut();
            bar.inc(bytes.len() as u64);
            state = probe
                .observe("retransmissions")
                .zip(probe.observe("srtt"))
                .or(state);
            output
                .as_mut()
                .map_or(Ok(()), |output: &mut Output| output.writer.write_all(bytes))
        },
    );
    let got = async {
        got.await.map_err(|error| match error {
            GetError::Sink(why) => Exit::environment(format!("cannot write {}: {why}", path.display())),
            other => Exit::network(other),
        })
    };
    let total = match limits.end(got).await {
        Ok(total) => total,
        Err(exit) => {
            // The connection was dropped, and the server must be notified.
            network.drained(0, PARTING).await;
            return Err(exit);
        }
    };
    let (bar, output) = going.into_inner();
    if let Some(output) = output {
        output.keep(path)?;
    }
    let took = begin.elapsed();
    bar.finish();
    if args.json {
        let seconds = took.as_secs_f64();
        println!(
            "{}",
            json!({
                "url": args.url.to_string(), "engine": args.device.engine().name(), "remote": remote.to_string(), "bytes": total, "seconds": seconds,
                "connect_seconds": connect.as_secs_f64(), "bits_per_second": total as f64 * 8.0 / seconds,
                "retransmissions": state.map(|s| s.0), "srtt_ns": state.map(|s| s.1),
            })
        );
    }
    network.drained(0, PARTING).await;
    Ok(())
}

fn parse_url(text: &str) -> Result<Uri, String> {
    if let Some((scheme, _)) = text.split_once("://").filter(|(scheme, _)| *scheme != "http") {
        return Err(format!("hawser get supports http:// only, not {scheme}://"));
    }
    let url: Uri = text
        .parse()
        .map_err(|e| format!("{e}; write http://HOST[:PORT]/PATH"))?;
    match url.scheme_str() {
        Some("http") => Ok(url),
        _ => Err("write http://HOST[:PORT]/PATH".to_owned()),
    }
}

/// Returns the path of the download: the given one, or the last segment of the URL's path.
fn destination(args: &Args) -> Result<PathBuf, Exit> {
    let Some(path) = &args.output else {
        return file_name(args.url.path());
    };
    if path.as_os_str() == "-" && args.json {
        return Err(Exit::usage(
            "standard output cannot take both the download and --json",
        ));
    }
    Ok(path.clone())
}

fn file_name(path: &str) -> Result<PathBuf, Exit> {
    let last = path.rsplit('/').next().unwrap_or_default();
    let name = percent_encoding::percent_decode_str(last).decode_utf8_lossy();
    match name.as_ref() {
        "" | "." | ".." => Err(Exit::usage("the URL names no file; name the output file with -o")),
        name if name.contains('/') || !is_harmless(name) => Err(Exit::usage(format!(
            "`{last}` is not a file name; name the output file with -o"
        ))),
        name => Ok(PathBuf::from(name)),
    }
}

/// The output of a download. A file is renamed to its path when it is complete, so that an older file stays
/// until then.
struct Output {
    writer: Box<dyn Write>,
    part: Option<PartialFile>,
}

impl Output {
    fn open(path: &Path) -> io::Result<Output> {
        if path.as_os_str() == "-" {
            return Ok(Output { writer: Box::new(io::stdout()), part: None });
        }
        let (file, part) = match is_written_to(path) {
            true => (File::create(path)?, None),
            // A link stays, and the file that it points to is replaced.
            false => PartialFile::create(&path.canonicalize().unwrap_or_else(|_| path.to_owned()), true)
                .map(|(file, part)| (file, Some(part)))?,
        };
        Ok(Output { writer: Box::new(io::BufWriter::with_capacity(1 << 20, file)), part })
    }

    fn keep(mut self, path: &Path) -> Outcome {
        let full = |why| Exit::environment(format!("cannot write {}: {why}", path.display()));
        self.writer.flush().map_err(full)?;
        self.part.map_or(Ok(()), |mut part| part.keep())
    }
}

/// Returns whether a path cannot be replaced by a regular file: a pipe, a device, or an open descriptor.
fn is_written_to(path: &Path) -> bool {
    let is_special = std::fs::metadata(path).is_ok_and(|there| !there.is_file());
    is_special || path.starts_with("/dev") || path.starts_with("/proc")
}

/// Resolves the URL's host, preferring an address of a family that the stack has.
fn resolve(url: &Uri, device: &DeviceArgs) -> Result<SocketAddr, Exit> {
    let host = url
        .host()
        .ok_or_else(|| Exit::usage(format!("{url} names no host")))?;
    let port = url.port_u16().unwrap_or(80);
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, port));
    }
    let found: Vec<SocketAddr> = (bare, port)
        .to_socket_addrs()
        .map_err(|e| Exit::network(format!("cannot resolve {bare}: {e}")))?
        .collect();
    let usable = found.iter().find(|a| {
        device
            .address(Some(a.ip()))
            .is_some_and(|own| own.is_ipv4() == a.is_ipv4())
    });
    usable
        .or(found.first())
        .copied()
        .ok_or_else(|| Exit::network(format!("{bare} has no address")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_http_and_names_a_host() {
        assert!(parse_url("http://[fd09::1]:8000/a%20b").is_ok());
        assert!(parse_url("https://10.9.0.1/x").unwrap_err().contains("not https"));
        for wrong in [
            "nums",
            "/nums",
            "10.9.0.1:8000/nums",
            "http://",
            "http://10.9.0.1/a b",
        ] {
            assert!(parse_url(wrong).unwrap_err().contains("write http://"), "{wrong}");
        }
    }

    #[test]
    fn a_file_is_named_after_the_last_part_of_the_path() {
        let name = |path| file_name(path).ok();
        assert_eq!(name("/a/b.txt"), Some("b.txt".into()));
        assert_eq!(name("/with%20spaces"), Some("with spaces".into()));
        for none in [
            "/",
            "/a/",
            "/..",
            "/%2e%2e",
            "/..%2fx",
            "/a%00b",
            "/.bashrc",
            "/-rf",
            "/a%E2%80%AEb",
        ] {
            assert_eq!(name(none), None, "{none}");
        }
    }
}
