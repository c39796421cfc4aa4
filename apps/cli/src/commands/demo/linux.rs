//! The Linux side of the demo: curl, and an HTTP server on the kernel's TCP.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Instant;

use hawser::host::linux_tcp::{self, TcpInfo};

use super::environment::Family;
use crate::exit::Exit;
use crate::http::{Exposure, Hosts, Root, serve_connection};

/// The congestion control of Linux when it sends.
const CONGESTION: &str = "cubic";

/// Fails if curl is missing.
pub(super) fn require_curl() -> Result<(), Exit> {
    match Command::new("curl").arg("--version").output() {
        Ok(output) if output.status.success() => Ok(()),
        _ => Err(Exit::environment(
            "curl is missing; install it with: apt-get install curl",
        )),
    }
}

/// Downloads with curl. Returns the duration in seconds, or curl's error message.
pub(super) fn curl(url: &str, to: &Path) -> Result<f64, String> {
    let begin = Instant::now();
    let output = Command::new("curl")
        .args([
            "--silent",
            "--show-error",
            "--fail",
            "--globoff",
            "--noproxy",
            "*",
            "--max-time",
            "120",
            "-o",
        ])
        .arg(to)
        .arg(url)
        .output()
        .map_err(|e| e.to_string())?;
    match output.status.success() {
        true => Ok(begin.elapsed().as_secs_f64()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

/// An HTTP file server on the kernel's TCP, which serves one connection in a thread.
pub(super) struct HttpServer {
    port: u16,
    done: mpsc::Receiver<Option<TcpInfo>>,
}

impl HttpServer {
    /// Listens on a free port on all addresses of a family, including those added later.
    pub(super) fn start(family: Family, root: &Path) -> Result<HttpServer, Exit> {
        let address: IpAddr = match family {
            Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
            Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
        };
        let listener = std::net::TcpListener::bind(SocketAddr::new(address, 0))
            .map_err(|e| Exit::environment(format!("cannot listen on {address}: {e}")))?;
        linux_tcp::set_congestion_control(&listener, CONGESTION)
            .map_err(|e| Exit::environment(format!("Linux does not give us {CONGESTION}: {e}")))?;
        let port = listener.local_addr().map_err(Exit::environment)?.port();
        let (served, done) = mpsc::channel();
        let root = Arc::new(root.to_owned());
        std::thread::spawn(move || {
            let _ = served.send(serve_one(listener, root).ok());
        });
        Ok(HttpServer { port, done })
    }

    /// The port on which it listens.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Waits for the end of the connection, and returns Linux's statistics of it.
    pub(super) fn finish(self) -> Option<TcpInfo> {
        self.done
            .recv_timeout(std::time::Duration::from_secs(5))
            .ok()
            .flatten()
    }
}

fn serve_one(listener: std::net::TcpListener, root: Arc<PathBuf>) -> std::io::Result<TcpInfo> {
    let (stream, _) = listener.accept()?;
    let watched = stream.try_clone()?;
    stream.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::from_std(stream)?;
        let hosts = Arc::new(Hosts::new([stream.local_addr()?.ip()], []));
        let root = Arc::new(Root::open(&root, Exposure::default())?);
        serve_connection(stream, root, hosts, |_| {})
            .await
            .map_err(std::io::Error::other)
    })?;
    linux_tcp::info(&watched)
}
