//! The web server: the same pages over the kernel's TCP and over SCTP, with files of any size whose content
//! is computable.

use std::convert::Infallible;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;

use hawser::connect::listener::{ListenOptions, Listener};
use tokio::task::JoinSet;

use crate::exit::{Exit, Outcome};
use crate::session::runtime;

/// The TCP port of the web server, and the SCTP port within UDP.
pub(super) const PORT: u16 = 80;
/// The maximum size of a file, in MiB.
pub(super) const LARGEST_MIB: u32 = 1024;
/// The number of bytes generated at once.
const CHUNK: u64 = 64 * 1024;
/// The time in which a client must send a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// Word n of a file is n times this factor, modulo 2³² (Knuth's multiplicative hash).
const FACTOR: u32 = 2_654_435_761;
/// The check of a file's content, as a JavaScript function for a browser.
pub(super) const CHECK: &str = "content => { const words = new Uint32Array(content); \
    for (let n = 0; n < words.length; n++) if (words[n] !== Math.imul(n, 2654435761) >>> 0) return false; \
    return true; }";

const PAGE: &str = "<!doctype html><meta charset=utf-8><link rel=icon href=\"data:,\"><title>Files</title>\
    <body style=\"font:1.2em system-ui;margin:3em\"><h1>Files</h1><ul>\
    <li><a href=\"/1\">1 MiB</a><li><a href=\"/4\">4 MiB</a><li><a href=\"/16\">16 MiB</a>\
    <li><a href=\"/32\">32 MiB</a><li><a href=\"/64\">64 MiB</a></ul>";

/// Serves until killed, and prints a line when it listens.
pub(in super::super) fn run(addresses: &[IpAddr]) -> Outcome {
    // SCTP's paths are the IPv4 addresses: path A counts as one path, although it has both families.
    let paths: Vec<IpAddr> = addresses.iter().copied().filter(IpAddr::is_ipv4).collect();
    runtime()?.block_on(async {
        let plain = |address: IpAddr| Listener::open(&ListenOptions::plain((address, PORT).into()));
        let listeners = [
            plain(Ipv4Addr::UNSPECIFIED.into()).map_err(Exit::environment)?,
            plain(Ipv6Addr::UNSPECIFIED.into()).map_err(Exit::environment)?,
            Listener::sctp(&paths, PORT).map_err(Exit::environment)?,
        ];
        println!("{}", json!({ "event": "listening" }));
        std::io::stdout().flush().map_err(Exit::environment)?;
        let mut serving: JoinSet<()> = listeners.into_iter().map(serve).collect();
        while serving.join_next().await.is_some() {}
        Ok(())
    })
}

/// Serves every connection of a listener.
async fn serve(mut listener: Listener) {
    while let Some(incoming) = listener.accept().await {
        // One connection per request, because the transport is chosen anew for each.
        let serving = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .keep_alive(false)
            // A client that has finished sending may still wait for the answer.
            .half_close(true)
            .serve_connection(TokioIo::new(incoming.stream), service_fn(answer));
        tokio::spawn(serving);
    }
}

async fn answer<B>(request: Request<B>) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
    let path = request.uri().path().trim_start_matches('/');
    let (status, kind, body) = match path.parse::<u32>() {
        Ok(mib) if mib <= LARGEST_MIB => (
            StatusCode::OK,
            "application/octet-stream",
            FileBody::with_length(u64::from(mib) << 20).boxed(),
        ),
        _ if path.is_empty() => (
            StatusCode::OK,
            "text/html; charset=utf-8",
            Full::from(PAGE).boxed(),
        ),
        _ => (
            StatusCode::NOT_FOUND,
            "text/plain",
            Full::from("not found\n").boxed(),
        ),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("close"));
    Ok(response)
}

/// A file served as a body.
struct FileBody {
    at: u64,
    end: u64,
}

impl FileBody {
    fn with_length(bytes: u64) -> FileBody {
        FileBody { at: 0, end: bytes }
    }
}

/// Returns the content of a file between two offsets, which are multiples of four.
pub(super) fn content(from: u64, to: u64) -> Vec<u8> {
    // The index is reduced modulo 2³², like the product.
    (from / 4..to / 4)
        .flat_map(|index| (index as u32).wrapping_mul(FACTOR).to_le_bytes())
        .collect()
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = (self.at + CHUNK).min(self.end);
        if next == self.at {
            return Poll::Ready(None);
        }
        let piece = content(self.at, next);
        self.at = next;
        Poll::Ready(Some(Ok(Frame::data(piece.into()))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.end - self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by hand: 2654435761 = 0x9E3779B1, and twice that modulo 2³² is 0x3C6EF362.
    #[test]
    fn content_can_be_computed() {
        assert_eq!(
            content(0, 12),
            [0, 0, 0, 0, 0xb1, 0x79, 0x37, 0x9e, 0x62, 0xf3, 0x6e, 0x3c]
        );
        assert_eq!(content(4, 8), content(0, 12)[4..8]);
    }

    #[tokio::test]
    async fn a_body_has_its_declared_length() {
        let body = FileBody::with_length(3 << 20);
        assert_eq!(body.size_hint().exact(), Some(3 << 20));
        let all = match body.collect().await {
            Ok(all) => all.to_bytes(),
            Err(never) => match never {},
        };
        assert!(all == content(0, 3 << 20));
    }
}
